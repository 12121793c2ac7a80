#ifndef HEADRACE_PREP_ARCHIVE_H
#define HEADRACE_PREP_ARCHIVE_H

/* Reading tar archives (ustar, pax, GNU; gzip is found by content), also an archive inside another
 * one. The only user of libarchive.
 *
 * A read ends at the archive's end mark or not at all: everything else, from a damaged header to a
 * file that stops early, fails and names the archive, the inner archive and the byte offset.
 * Members that are neither regular files nor folders, and names that lead out of the folder they
 * are unpacked in, fail too, so callers need not look. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

/* An open archive file. Read-only once opened, so threads may share it. */
struct archive_file {
    char *path;
    int fd;
    uint64_t size_bytes; /* 0 for a pipe */
    bool is_seekable;
    bool is_gzip;
    uint8_t *head; /* the first bytes, which cannot be read again from a pipe */
    size_t head_length;
};

/* Opens a tar or gzip-compressed tar. What is neither fails with STATUS_CORRUPT and is named for
 * what it is (an HTML page, a zip file, …). */
struct status archive_file_open(const char *path, struct archive_file **ret_file);
void archive_file_close(struct archive_file *file);
CLEANUP_POINTER(archive_file_close, struct archive_file)
/* Fails with STATUS_UNSUPPORTED unless the members' bytes can be read from the file at their
 * offsets. */
struct status archive_file_check_ranges(const struct archive_file *file);

struct archive_member {
    const char *name; /* without leading "./"; borrowed until the next member */
    bool is_folder;   /* else a regular file */
    uint64_t size_bytes;
    bool is_sparse; /* has holes that are not stored */
    bool is_range;  /* the data are the file's bytes [offset, offset + size_bytes) */
    uint64_t offset;
};

/* What a reader is for decides how much it reads at once. */
enum archive_use {
    ARCHIVE_HEADERS, /* data are skipped by seeking */
    ARCHIVE_DATA,
};

struct archive_reader;

/* Reads a whole archive file; borrows it. */
struct status archive_reader_open(const struct archive_file *file, enum archive_use use,
                                  struct archive_reader **ret_reader);
/* Reads an inner archive: a member of `file` whose is_range holds. `inner` (copied) is its name,
 * for messages. */
struct status archive_reader_open_range(const struct archive_file *file, const char *inner,
                                        uint64_t offset, uint64_t size_bytes, enum archive_use use,
                                        struct archive_reader **ret_reader);
/* Reads an inner archive from the stream of the outer reader, which must stand on that member and
 * is not to be used until the inner one is closed. */
struct status archive_reader_open_member(struct archive_reader *outer,
                                         const struct archive_member *member,
                                         struct archive_reader **ret_reader);
void archive_reader_close(struct archive_reader *reader);
CLEANUP_POINTER(archive_reader_close, struct archive_reader)

/* Goes to the next member; *ret_found is false at the end of the archive. */
struct status archive_reader_next(struct archive_reader *reader, struct archive_member *ret_member,
                                  bool *ret_found);
/* The next piece of the current member's data, borrowed until the next call; length 0 when all was
 * read. The pieces add up to the member's size; holes of sparse members come as zeros. */
struct status archive_reader_data(struct archive_reader *reader, const void **ret_bytes,
                                  size_t *ret_length);

/* What libarchive warned of so far, and whether the archive lacked its end mark (which a cut at a
 * member's border shows); the number, and the last text (borrowed, "" if none). */
unsigned archive_reader_warnings(const struct archive_reader *reader);
const char *archive_reader_last_warning(const struct archive_reader *reader);
/* Shows them as one line, if there are any. */
void archive_reader_show_warnings(const struct archive_reader *reader);

/* A failure in the form of all messages about archives: "OUTER: inner archive INNER, byte N: …". */
struct status archive_reader_fail(const struct archive_reader *reader, enum status_code code,
                                  const char *message);

#endif
