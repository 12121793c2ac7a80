#include "image/decode.h"

#include <string.h>

#include "base/memory.h"
#include "image/codec.h"

struct decoder {
    struct jpeg_reader *jpeg;
};

static const uint8_t jpeg_signature[] = {0xff, 0xd8, 0xff};
static const uint8_t png_signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

const char *image_kind_name(enum image_kind kind)
{
    switch (kind) {
    case IMAGE_JPEG:
        return "JPEG";
    case IMAGE_PNG:
        return "PNG";
    case IMAGE_UNKNOWN:
        break;
    }
    return "unknown";
}

enum image_kind image_kind_of(const void *bytes, size_t length)
{
    if (length >= sizeof jpeg_signature && !memcmp(bytes, jpeg_signature, sizeof jpeg_signature))
        return IMAGE_JPEG;
    if (length >= sizeof png_signature && !memcmp(bytes, png_signature, sizeof png_signature))
        return IMAGE_PNG;
    return IMAGE_UNKNOWN;
}

/* In a JPEG's data no other FF D9 can stand. */
bool jpeg_has_end(const void *bytes, size_t length)
{
    const uint8_t *tail = bytes;
    for (size_t i = length < JPEG_TAIL_BYTES ? 0 : length - JPEG_TAIL_BYTES; i + 1 < length; i++)
        if (tail[i] == 0xff && tail[i + 1] == 0xd9)
            return true;
    return false;
}

struct status image_check_size(uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0)
        FAIL(STATUS_CORRUPT, "the image has no pixels (%u x %u)", width, height);
    if ((uint64_t)width * height > DECODE_MAX_PIXELS)
        FAIL(STATUS_UNSUPPORTED, "the image has %u x %u pixels; at most %llu are decoded", width,
             height, (unsigned long long)DECODE_MAX_PIXELS);
    return OK;
}

static struct status unknown_kind(const uint8_t *bytes, size_t length)
{
    if (length < sizeof png_signature)
        FAIL(STATUS_CORRUPT, "the image ends after %zu bytes", length);
    FAIL(STATUS_CORRUPT, "neither JPEG nor PNG: it starts with the bytes %02x %02x %02x %02x",
         bytes[0], bytes[1], bytes[2], bytes[3]);
}

struct status image_probe(const void *bytes, size_t length, struct image_info *ret_info)
{
    CLEANUP(jpeg_reader_close) struct jpeg_reader *reader = NULL;
    switch (image_kind_of(bytes, length)) {
    case IMAGE_JPEG:
        TRY(jpeg_reader_open(&reader));
        return jpeg_reader_probe(reader, bytes, length, ret_info);
    case IMAGE_PNG:
        return png_probe(bytes, length, ret_info);
    case IMAGE_UNKNOWN:
        break;
    }
    return unknown_kind(bytes, length);
}

struct status decoder_open(struct decoder **ret_decoder)
{
    CLEANUP(decoder_close) struct decoder *decoder = NULL;
    TRY(memory_alloc(1, sizeof *decoder, &decoder));
    TRY(jpeg_reader_open(&decoder->jpeg));
    *ret_decoder = MOVE(decoder);
    return OK;
}

void decoder_close(struct decoder *decoder)
{
    if (!decoder)
        return;
    jpeg_reader_close(decoder->jpeg);
    memory_free(decoder);
}

struct status decoder_decode(struct decoder *decoder, const void *bytes, size_t length,
                             const struct rectangle *region, struct picture *picture,
                             unsigned *ret_warnings)
{
    unsigned warnings = 0;
    switch (image_kind_of(bytes, length)) {
    case IMAGE_JPEG:
        TRY(jpeg_reader_decode(decoder->jpeg, bytes, length, region, picture, &warnings));
        break;
    case IMAGE_PNG:
        TRY(png_decode(bytes, length, picture, &warnings));
        break;
    case IMAGE_UNKNOWN:
        return unknown_kind(bytes, length);
    }
    if (ret_warnings)
        *ret_warnings = warnings;
    return OK;
}
