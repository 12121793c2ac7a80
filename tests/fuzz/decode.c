/* Images from hostile bytes: probed, decoded whole and in part, where a part must equal the whole.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "image/decode.h"

#define MAX_PIXELS ((uint64_t)1 << 20) /* more only takes time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void compare(const struct picture *part, const struct picture *whole)
{
    for (uint32_t y = 0; y < part->height; y++)
        if (memcmp(part->pixels + y * part->stride_bytes,
                   whole->pixels + (part->origin_y + y) * whole->stride_bytes +
                       (size_t)part->origin_x * 3,
                   (size_t)part->width * 3) != 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct image_info info = {0};
    struct status status = image_probe(data, length, &info);
    bool usable = status.code == STATUS_DONE && (uint64_t)info.width * info.height <= MAX_PIXELS;
    status_ignore(status);
    if (!usable)
        return 0;

    static struct decoder *decoder;
    if (!decoder)
        status_ignore(decoder_open(&decoder));
    CLEANUP(picture_done) struct picture whole = {0}, part = {0};
    struct rectangle region = {info.width / 3, info.height / 3, info.width / 3 + 1,
                               info.height / 3 + 1};
    status = decoder_decode(decoder, data, length, NULL, &whole, NULL);
    bool decoded = status.code == STATUS_DONE;
    status_ignore(status);
    status = decoder_decode(decoder, data, length, &region, &part, NULL);
    if (decoded && status.code == STATUS_DONE)
        compare(&part, &whole);
    if (decoded && status.code != STATUS_DONE)
        abort();
    status_ignore(status);
    return 0;
}
