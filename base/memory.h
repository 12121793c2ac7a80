#ifndef HEADRACE_BASE_MEMORY_H
#define HEADRACE_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Allocates `count` zeroed elements of `size_bytes` each; free() with memory_free. Fails with
 * STATUS_NO_MEMORY, on overflow of the product too. A count of 0 gives a valid pointer.
 * `ret_pointer` is the address of a pointer of any type: memory_alloc(n, sizeof *p, &p). */
struct status memory_alloc(size_t count, size_t size_bytes, void *ret_pointer);

/* Resizes `*pointer` (NULL is fine) to `count` elements; new bytes are not zeroed. On failure the
 * old block stays valid. */
struct status memory_resize(size_t count, size_t size_bytes, void *pointer);

/* Makes room for at least `count` elements, growing geometrically; *capacity is kept up to date. */
struct status memory_grow(size_t count, size_t size_bytes, void *pointer, size_t *capacity);

/* Makes room for `size_bytes` bytes, aligned to at least 64; what stood there is lost where the
 * block grows. *capacity_bytes is kept up to date; on failure it is 0 and the pointer NULL. */
struct status memory_reserve(size_t size_bytes, void *pointer, size_t *capacity_bytes);

/* The machine's memory, whoever uses it; 0 where the system does not say. */
uint64_t memory_installed_bytes(void);
/* What of it nobody uses, or only to keep files at hand (MemAvailable of /proc/meminfo); 0
 * likewise.
 */
uint64_t memory_available_bytes(void);

/* A zeroed block for tensors: aligned to 2 MiB where that pays, else 64 bytes, with huge pages
 * asked for, and every page touched. Free with memory_free. */
struct status memory_alloc_tensor(size_t size_bytes, void *ret_pointer);

/* Frees what the functions above returned; NULL is fine. */
void memory_free(void *pointer);
static inline void memory_free_scope(void *address_of_pointer)
{
    memory_free(*(void **)address_of_pointer);
}

/* A copy of a string on the heap. */
struct status string_copy(const char *text, char **ret_copy);

/* A printf-like string on the heap. */
struct status string_format(char **ret_text, const char *format, ...) PRINTF_LIKE(2, 3);

static inline bool size_multiply(uint64_t a, uint64_t b, uint64_t *ret_product)
{
    return !__builtin_mul_overflow(a, b, ret_product);
}

static inline bool size_add(uint64_t a, uint64_t b, uint64_t *ret_sum)
{
    return !__builtin_add_overflow(a, b, ret_sum);
}

/* Many small strings that live and die together. Pointers stay valid until arena_done. */
struct arena_block;
struct arena {
    struct arena_block *head;
};
void arena_done(struct arena *arena);
CLEANUP_VALUE(arena_done, struct arena)
struct status arena_copy(struct arena *arena, const char *bytes, size_t length,
                         const char **ret_string);

#endif
