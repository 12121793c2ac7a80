#include "tests/support/real_images.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/tar.h"

struct status real_images_open(const char *path, struct real_images *images)
{
    *images = (struct real_images){0};
    return file_map_open(path, &images->map);
}

void real_images_done(struct real_images *images)
{
    file_map_done(&images->map);
}

bool real_images_next(struct real_images *images, const uint8_t **ret_bytes, size_t *ret_length)
{
    const uint8_t *data = images->map.data;
    while (images->at + TAR_BLOCK <= images->map.size_bytes) {
        const char *header = (const char *)data + images->at;
        images->at += TAR_BLOCK;
        /* Zeros end each archive; the members of an inner one follow its header in the outer. */
        if (header[0] == 0 || strstr(header, ".tar"))
            continue;
        uint64_t length = strtoull(header + 124, NULL, 8);
        *ret_bytes = data + images->at;
        *ret_length = length;
        images->at += (length + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        if (strstr(header, ".JPEG")) {
            images->count++;
            return true;
        }
    }
    return false;
}
