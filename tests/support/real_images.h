#ifndef HEADRACE_TESTS_SUPPORT_REAL_IMAGES_H
#define HEADRACE_TESTS_SUPPORT_REAL_IMAGES_H

/* The JPEG files of an archive of archives such as ILSVRC2012_img_train.tar, one after the other,
 * mapped. */

#include <stdbool.h>
#include <stdint.h>

#include "base/file.h"

struct real_images {
    struct file_map map;
    uint64_t at;
    uint64_t count; /* handed out so far */
};
struct status real_images_open(const char *path, struct real_images *images);
void real_images_done(struct real_images *images);
CLEANUP_VALUE(real_images_done, struct real_images)
/* False at the end. The bytes hold until real_images_done. */
bool real_images_next(struct real_images *images, const uint8_t **ret_bytes, size_t *ret_length);

#endif
