#ifndef HEADRACE_PREP_OFFICIAL_H
#define HEADRACE_PREP_OFFICIAL_H

/* The files of ILSVRC2012 as published: what recognises a download, and what a message can compare
 * it with. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

enum official_role {
    OFFICIAL_TRAIN,
    OFFICIAL_VAL,
    OFFICIAL_DEVKIT,
    OFFICIAL_TEST,
    OFFICIAL_DOGS, /* the 120 dog classes of task 3: often fetched by mistake */
};

struct official_file {
    enum official_role role;
    const char *name;
    uint64_t size_bytes; /* 0: not known exactly */
    const char *md5;
    const char *what; /* "training images", … */
};

/* All of them; *ret_count entries, constant. */
const struct official_file *official_files(size_t *ret_count);
/* By the last component of a path, by size, by MD5; NULL if none. */
const struct official_file *official_by_name(const char *path);
const struct official_file *official_by_size(uint64_t size_bytes);
const struct official_file *official_by_md5(const char *md5_hex);

/* Says in `text` which published file a file of this size and MD5 is, or that it is none;
 * *ret_wrong: it is not what its name or its size says. */
struct status official_describe(const char *path, uint64_t size_bytes, const char *md5_hex,
                                struct buffer *text, bool *ret_wrong);

/* Appends what the published file of this name weighs, when `path` carries an official name and
 * another size: "; the published NAME has N bytes and MD5 …". Nothing otherwise. */
struct status official_append_hint(const char *path, uint64_t size_bytes, struct buffer *text);

#endif
