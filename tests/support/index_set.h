#ifndef HEADRACE_TESTS_SUPPORT_INDEX_SET_H
#define HEADRACE_TESTS_SUPPORT_INDEX_SET_H

/* Small data sets for the tests of indexes. */

#include "image/source.h"
#include "index/index.h"

/* A finished source of `count` records in `class_count` classes (n0000, n0001, …) over the file at
 * `path`, which is written: record i has i % 50 + 1 bytes of its own; every third has no CRC, every
 * second no size. */
struct source *index_set_make(const char *path, size_t count, size_t class_count);

/* The index at `path` as a source. */
struct source *index_set_open(const char *path);

/* Whether the index holds exactly the source's records, classes and bytes. Says the first
 * difference. */
int index_set_equal(struct index *index, const struct source *source);

#endif
