#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t huge_page_bytes = (size_t)2 << 20;

static void pointer_store(void *address_of_pointer, void *value)
{
    memcpy(address_of_pointer, &value, sizeof value);
}

struct status memory_alloc(size_t count, size_t size_bytes, void *ret_pointer)
{
    size_t total_bytes;
    void *block = NULL;
    if (!__builtin_mul_overflow(count, size_bytes, &total_bytes))
        block = calloc(total_bytes ? total_bytes : 1, 1);
    if (!block)
        FAIL(STATUS_NO_MEMORY, "cannot allocate %zu elements of %zu bytes", count, size_bytes);
    pointer_store(ret_pointer, block);
    return OK;
}

struct status memory_resize(size_t count, size_t size_bytes, void *pointer)
{
    size_t total_bytes;
    void *block = NULL, *old;
    memcpy(&old, pointer, sizeof old);
    if (!__builtin_mul_overflow(count, size_bytes, &total_bytes))
        block = realloc(old, total_bytes ? total_bytes : 1);
    if (!block)
        FAIL(STATUS_NO_MEMORY, "cannot allocate %zu elements of %zu bytes", count, size_bytes);
    pointer_store(pointer, block);
    return OK;
}

struct status memory_grow(size_t count, size_t size_bytes, void *pointer, size_t *capacity)
{
    if (count <= *capacity)
        return OK;
    size_t grown = *capacity + *capacity / 2 + 16;
    if (grown < count)
        grown = count;
    TRY(memory_resize(grown, size_bytes, pointer));
    *capacity = grown;
    return OK;
}

uint64_t memory_installed_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}

uint64_t memory_available_bytes(void)
{
    static const char name[] = "MemAvailable:";
    char line[128];
    uint64_t bytes = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && !bytes && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            bytes = strtoull(line + strlen(name), NULL, 10) * 1024;
    if (file)
        fclose(file);
    return bytes;
}

struct status memory_alloc_tensor(size_t size_bytes, void *ret_pointer)
{
    size_t alignment = size_bytes >= huge_page_bytes ? huge_page_bytes : 64;
    size_t rounded = (size_bytes + alignment - 1) / alignment * alignment;
    if (rounded < size_bytes)
        FAIL(STATUS_NO_MEMORY, "cannot allocate %zu bytes", size_bytes);
    void *block = aligned_alloc(alignment, rounded ? rounded : alignment);
    if (!block)
        FAIL(STATUS_NO_MEMORY, "cannot allocate %zu bytes", size_bytes);
    if (alignment == huge_page_bytes)
        madvise(block, rounded, MADV_HUGEPAGE); /* a hint: refusal changes nothing */
    memset(block, 0, rounded ? rounded : alignment);
    pointer_store(ret_pointer, block);
    return OK;
}

struct status memory_reserve(size_t size_bytes, void *pointer, size_t *capacity_bytes)
{
    if (size_bytes <= *capacity_bytes)
        return OK;
    void *old;
    memcpy(&old, pointer, sizeof old);
    memory_free(old);
    pointer_store(pointer, NULL);
    *capacity_bytes = 0;
    TRY(memory_alloc_tensor(size_bytes, pointer));
    *capacity_bytes = size_bytes;
    return OK;
}

void memory_free(void *pointer)
{
    free(pointer);
}

struct status string_copy(const char *text, char **ret_copy)
{
    char *copy = strdup(text);
    if (!copy)
        FAIL(STATUS_NO_MEMORY, "cannot allocate %zu bytes", strlen(text) + 1);
    *ret_copy = copy;
    return OK;
}

struct status string_format(char **ret_text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        FAIL(STATUS_NO_MEMORY, "cannot allocate a string");
    *ret_text = text;
    return OK;
}

/* Arena: blocks of at least 64 KiB in a list, the newest first. */
struct arena_block {
    struct arena_block *next;
    size_t used_bytes;
    size_t capacity_bytes;
    char bytes[];
};

void arena_done(struct arena *arena)
{
    while (arena->head) {
        struct arena_block *next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
}

static struct status arena_add_block(struct arena *arena, size_t capacity_bytes)
{
    struct arena_block *block = malloc(sizeof *block + capacity_bytes);
    if (!block)
        FAIL(STATUS_NO_MEMORY, "cannot allocate %zu bytes", sizeof *block + capacity_bytes);
    block->next = arena->head;
    block->used_bytes = 0;
    block->capacity_bytes = capacity_bytes;
    arena->head = block;
    return OK;
}

struct status arena_copy(struct arena *arena, const char *bytes, size_t length,
                         const char **ret_string)
{
    const size_t block_bytes = 64 << 10;
    size_t needed = length + 1;
    if (!arena->head || arena->head->capacity_bytes - arena->head->used_bytes < needed)
        TRY(arena_add_block(arena, needed > block_bytes ? needed : block_bytes));
    char *copy = arena->head->bytes + arena->head->used_bytes;
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    arena->head->used_bytes += needed;
    *ret_string = copy;
    return OK;
}
