#ifndef HEADRACE_BASE_TEXT_LIST_H
#define HEADRACE_BASE_TEXT_LIST_H

/* Lists that people write: one entry a line. Line ends may be CR LF, a byte order mark at the
 * start, blank lines, spaces around an entry and lines that begin with # are passed over. */

#include <stddef.h>

#include "base/memory.h"
#include "base/scope.h"
#include "base/status.h"

struct text_line {
    const char *text;
    size_t number; /* in the file, from 1 */
};

struct text_list {
    struct text_line *items;
    size_t count, capacity;
    struct arena texts;
};

/* Reads a file of at most 1 GiB. Fails with STATUS_CORRUPT for a zero byte. */
struct status text_list_read(const char *path, struct text_list *ret_lines);
/* Adds an entry that has no file. */
struct status text_list_add(struct text_list *lines, const char *text);
/* The same from memory; `path` is for messages. */
struct status text_list_parse(const void *bytes, size_t length, const char *path,
                              struct text_list *ret_lines);
void text_list_done(struct text_list *lines);
CLEANUP_VALUE(text_list_done, struct text_list)

#endif
