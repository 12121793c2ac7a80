#ifndef HEADRACE_PREP_ARCHIVE_LISTING_H
#define HEADRACE_PREP_ARCHIVE_LISTING_H

/* The regular files in an archive, found by reading its headers alone, and what kind of archive
 * they make it. */

#include "base/memory.h"
#include "prep/archive.h"

struct archive_item {
    const char *name; /* whole path in the archive */
    uint64_t offset;  /* in the file */
    uint64_t size_bytes;
};

struct archive_listing {
    struct archive_item *items;
    size_t count, capacity;
    struct arena names;
    unsigned warnings;
};

/* Lists an archive file, whose members must have byte ranges (archive_file_check_ranges; sparse
 * members fail). Warnings of libarchive are counted and shown. */
struct status archive_list(const struct archive_file *file, struct archive_listing *listing);
/* Lists an inner archive. */
struct status archive_list_inner(const struct archive_file *file, const struct archive_item *inner,
                                 struct archive_listing *listing);
void archive_listing_done(struct archive_listing *listing);
CLEANUP_VALUE(archive_listing_done, struct archive_listing)

enum archive_layout {
    LAYOUT_UNKNOWN,
    LAYOUT_TRAIN,         /* a tar of tars, one a class */
    LAYOUT_VAL,           /* flat, ILSVRC2012_val_NNNNNNNN.JPEG */
    LAYOUT_TEST,          /* flat, ILSVRC2012_test_NNNNNNNN.JPEG */
    LAYOUT_TRAIN_FLAT,    /* flat, nWNID_N.JPEG or nWNID_N_nWNID.JPEG, as Hugging Face has them */
    LAYOUT_CLASS_FOLDERS, /* [PREFIX/]CLASS/NAME */
    LAYOUT_DEVKIT,        /* has a meta.mat */
};

const char *archive_layout_name(enum archive_layout layout);
/* Fails with the commands that sort the images of a LAYOUT_TRAIN_FLAT archive into class folders.
 */
struct status archive_fail_train_flat(const char *path, const char *dest);
/* What a member makes of its archive. */
enum archive_layout archive_layout_of_member(const char *name);
/* Looks at the first members; reads a gzip file's data as far as that needs. */
struct status archive_layout_find(const struct archive_file *file, enum archive_layout *ret_layout);

#endif
