#ifndef HEADRACE_PREP_KAGGLE_ZIP_H
#define HEADRACE_PREP_KAGGLE_ZIP_H

/* ILSVRC2012 as Kaggle hands it out, one zip file (imagenet-object-localization-challenge.zip):
 * ILSVRC/Data/CLS-LOC/train/WNID/NAME, …/val/NAME, …/test/NAME, annotations, and the label files
 * of kaggle.h. Only its directory is read; what it is not wanted for costs no memory. */

#include "base/bytes.h"
#include "base/memory.h"
#include "prep/image_name.h"
#include "prep/zip.h"

#define KAGGLE_IMAGES "ILSVRC/Data/CLS-LOC"

struct kaggle_image {
    const char *name; /* file name */
    struct zip_place place;
    uint32_t wnid_number; /* of its folder: n01440764 is 1440764; 0 for validation images */
};

struct kaggle_images {
    struct kaggle_image *items;
    size_t count, capacity;
};

struct kaggle_zip {
    struct zip_file *file;
    struct kaggle_images train, val; /* training images by class, within it as they lie */
    uint64_t test_count;
    uint64_t other_count;       /* of regular files below KAGGLE_IMAGES that are no images there */
    struct kaggle_images texts; /* the label files */
    struct arena names;
};

/* Fails with STATUS_CORRUPT, saying what it expected, for a zip file without such images or label
 * files. */
struct status kaggle_zip_open(const char *path, struct kaggle_zip **ret_zip);
void kaggle_zip_close(struct kaggle_zip *zip);
CLEANUP_POINTER(kaggle_zip_close, struct kaggle_zip)

/* Reads the label file of this name; *ret_path, on the heap, is for messages. Both stay as they are
 * where there is none. */
struct status kaggle_zip_read_text(const struct kaggle_zip *zip, const char *name, size_t max_bytes,
                                   struct buffer *text, char **ret_path);

/* For qsort: by class, within it as they lie in the file. */
int kaggle_image_compare(const void *a, const void *b);

/* Room for a WNID's text. */
const char *kaggle_wnid(uint32_t wnid_number, char text[WNID_LENGTH + 1]);

#endif
