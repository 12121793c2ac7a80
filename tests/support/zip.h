#ifndef HEADRACE_TESTS_SUPPORT_ZIP_H
#define HEADRACE_TESTS_SUPPORT_ZIP_H

/* Writes zip files into memory. */

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/status.h"

enum zip_form {
    ZIP_STORED,
    ZIP_DEFLATED,  /* as deflate's own stored blocks */
    ZIP_STORED_64, /* sizes and offset in zip64's extra field */
};

/* A zip file in the making: members and the directory that will follow them. Zero it to start. */
struct zip_writer {
    struct buffer bytes, directory;
    size_t count;
};
void zip_writer_done(struct zip_writer *writer);
CLEANUP_VALUE(zip_writer_done, struct zip_writer)

/* Appends a member of at most 65535 bytes. `mode` is that of Unix, 0: a regular file. */
struct status zip_add(struct zip_writer *writer, const char *name, enum zip_form form,
                      unsigned mode, const void *bytes, size_t length);
/* Appends the directory and its end, with zip64's records if `is_64`. */
struct status zip_end(struct zip_writer *writer, bool is_64, const char *comment);

#endif
