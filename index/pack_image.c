#include "index/pack_image.h"

#include <string.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "index/dct_record.h"
#include "index/shard_writer.h"

void pack_scratch_done(struct pack_scratch *scratch)
{
    dct_maker_done(&scratch->maker);
    buffer_done(&scratch->original);
    buffer_done(&scratch->jpeg);
    decoder_close(scratch->decoder);
    resampler_close(scratch->resampler);
    picture_done(&scratch->picture);
    picture_done(&scratch->shrunk);
}

bool pack_is_lossy(const struct pack_options *options)
{
    return options->max_side > 0 || options->quality > 0;
}

static bool item_converts(const struct source_item *item, const struct pack_options *options)
{
    return !options->in_place && (pack_is_lossy(options) || item->encoding != options->encoding);
}

bool pack_converts(const struct source *source, const struct pack_options *options)
{
    bool converts = false;
    for (size_t i = 0; !converts && i < source->item_count; i++)
        converts = item_converts(&source->items[i], options);
    return converts;
}

static void item_set_size(struct source_item *item, uint32_t width, uint32_t height)
{
    bool fits = width <= UINT16_MAX && height <= UINT16_MAX;
    item->width = fits ? (uint16_t)width : 0;
    item->height = fits ? (uint16_t)height : 0;
}

static struct status picture_decode(struct pack_scratch *scratch, const void *bytes, size_t length)
{
    if (!scratch->decoder)
        TRY(decoder_open(&scratch->decoder));
    return decoder_decode(scratch->decoder, bytes, length, NULL, &scratch->picture, NULL);
}

/* --- Into `jpeg` ---------------------------------------------------------------------------------
 */

/* Probes a file that is packed as it is, and decodes it where that was asked for, or where its end
 * is missing. */
static struct status file_examine(const struct pack_options *options, struct pack_scratch *scratch,
                                  const void *bytes, size_t length, struct pack_finding *finding)
{
    struct image_info info;
    TRY(image_probe(bytes, length, &info));
    finding->is_png = info.kind == IMAGE_PNG;
    bool is_cut = info.kind == IMAGE_JPEG && !jpeg_has_end(bytes, length);
    if (options->decode || is_cut)
        TRY(picture_decode(scratch, bytes, length));
    item_set_size(&finding->item, info.width, info.height);
    return OK;
}

static void file_size_shrunk(const struct picture *picture, uint32_t max_side, uint32_t *ret_width,
                             uint32_t *ret_height)
{
    uint32_t width = picture->width, height = picture->height;
    uint32_t longer = width > height ? width : height;
    *ret_width = width;
    *ret_height = height;
    if (max_side == 0 || longer <= max_side)
        return;
    /* Rounded to the nearest; at least a pixel is left of the shorter side. */
    *ret_width = (uint32_t)(((uint64_t)width * max_side + longer / 2) / longer);
    *ret_height = (uint32_t)(((uint64_t)height * max_side + longer / 2) / longer);
    *ret_width = *ret_width ? *ret_width : 1;
    *ret_height = *ret_height ? *ret_height : 1;
}

static struct status picture_shrink(struct pack_scratch *scratch, uint32_t width, uint32_t height)
{
    const struct crop crop = {
        .box = {0, 0, scratch->picture.width, scratch->picture.height},
        .out_width = width,
        .out_height = height,
        .window = {0, 0, width, height},
    };
    if (!scratch->resampler)
        TRY(resampler_open(&scratch->resampler));
    return resampler_run(scratch->resampler, &scratch->picture, &crop, PIXELS_PILLOW,
                         &scratch->shrunk);
}

/* Makes scratch->jpeg of a file; *file is moved on to it unless the file may stay as it is. */
static struct status file_encode_anew(const struct pack_options *options,
                                      struct pack_scratch *scratch, const struct buffer **file,
                                      struct pack_finding *finding)
{
    uint32_t width, height;
    TRY(picture_decode(scratch, (*file)->data, (*file)->length));
    file_size_shrunk(&scratch->picture, options->max_side, &width, &height);
    const struct picture *picture = &scratch->picture;
    finding->is_shrunk = width != picture->width || height != picture->height;
    if (!finding->is_shrunk && options->quality == 0)
        return OK;
    if (finding->is_shrunk) {
        TRY(picture_shrink(scratch, width, height));
        picture = &scratch->shrunk;
    }
    int quality = options->quality ? (int)options->quality : PACK_QUALITY;
    TRY(jpeg_encode(picture, quality, &scratch->jpeg));
    finding->item.is_lossy = true;
    *file = &scratch->jpeg;
    return OK;
}

/* --- Into `dct` ----------------------------------------------------------------------------------
 */

/* Appends a file's `dct` record and sets the item's size, or appends nothing and says why in
 * finding->refusal. */
static struct status dct_append(struct pack_scratch *scratch, const struct buffer *file,
                                struct buffer *out, struct pack_finding *finding)
{
    TRY(dct_make(&scratch->maker, file, out, &finding->refusal));
    const struct frame *frame = &scratch->maker.restorer.coefficients.frame;
    if (finding->refusal == JPEG_TAKEN)
        item_set_size(&finding->item, frame->width, frame->height);
    return OK;
}

/* --- Records -------------------------------------------------------------------------------------
 */

/* Looks at a record that is copied as it stands. */
static struct status record_examine(const struct pack_options *options,
                                    struct pack_scratch *scratch, const uint8_t *bytes,
                                    struct pack_finding *finding)
{
    size_t length = finding->item.length;
    struct dct_record record;
    if (finding->item.encoding == ENCODING_JPEG)
        return file_examine(options, scratch, bytes, length, finding);
    TRY(dct_record_open(bytes, length, &record));
    item_set_size(&finding->item, record.frame.width, record.frame.height);
    if (!options->decode)
        return OK;
    TRY(record_restore(&scratch->maker.restorer, finding->item.encoding, bytes, length,
                       &scratch->original));
    return picture_decode(scratch, scratch->original.data, scratch->original.length);
}

static struct status file_append(const struct buffer *file, struct buffer *out,
                                 struct pack_finding *finding)
{
    finding->item.encoding = ENCODING_JPEG;
    return buffer_append(out, file->data, file->length);
}

/* Whether libjpeg may fail at a file, too, though its header is as it should be. */
static bool is_doubtful(enum jpeg_refusal refusal)
{
    return refusal == JPEG_REFUSED_DAMAGED || refusal == JPEG_REFUSED_SAMPLING;
}

/* Appends what becomes of an original file. Where something is wrong with it, nothing or the file
 * itself is appended. */
static struct status file_pack(const struct pack_options *options, struct pack_scratch *scratch,
                               struct buffer *out, struct pack_finding *finding)
{
    const struct buffer *file = &scratch->original;
    if (pack_is_lossy(options))
        TRY(file_encode_anew(options, scratch, &file, finding));
    else if (options->decode)
        TRY(picture_decode(scratch, file->data, file->length));
    size_t begin = out->length;
    if (options->encoding == ENCODING_DCT) {
        TRY(dct_append(scratch, file, out, finding));
        finding->item.encoding = ENCODING_DCT;
        if (out->length > begin)
            return OK;
    }
    TRY(file_append(file, out, finding));
    const struct pack_options examination = {.decode = is_doubtful(finding->refusal)};
    return file_examine(&examination, scratch, file->data, file->length, finding);
}

/* Something about the image is wrong: fails, or notes it. */
static struct status image_problem(const struct pack_options *options, struct status status,
                                   struct pack_finding *finding)
{
    if (status.code == STATUS_DONE || status.code == STATUS_NO_MEMORY)
        return status;
    if (options->on_error == PACK_FAIL)
        return status_advise(status, "--on-error skip leaves such images out, --on-error keep "
                                     "packs them");
    finding->problem = MOVE(status.message);
    return OK;
}

/* The source's own record does not hold: its CRC or its encoding. Fails, or notes it where such
 * images are left out; what it was cannot be kept. */
static struct status source_problem(const struct pack_options *options, struct status status,
                                    struct pack_finding *finding)
{
    if (status.code != STATUS_CORRUPT)
        return status;
    if (options->on_error != PACK_SKIP)
        return status_advise(status, "--on-error skip leaves such images out");
    finding->problem = MOVE(status.message);
    return OK;
}

/* Sets what follows from the bytes that were appended since `begin`, and fills up with zeros. */
static struct status record_finish(struct buffer *out, size_t begin, struct pack_finding *finding)
{
    struct source_item *item = &finding->item;
    size_t length = out->length - begin;
    if (length > UINT32_MAX)
        FAIL(STATUS_UNSUPPORTED, "its record has %zu bytes; the index holds up to 4 GiB", length);
    item->length = length;
    if (!item->crc_known)
        item->crc32c = crc32c_update(0, out->data + begin, length);
    item->crc_known = true;
    finding->padded_bytes = shard_padded(length);
    TRY(buffer_reserve(out, begin + finding->padded_bytes + SHARD_PADDING));
    return buffer_resize(out, begin + finding->padded_bytes);
}

static struct status image_read(const struct pack_source *from, size_t i, struct buffer *bytes)
{
    struct shard_range range = source_range(from->source, i);
    size_t begin = bytes->length;
    TRY(buffer_reserve(bytes, begin + range.length + SHARD_PADDING));
    TRY(shard_read(from->reader, &range, bytes->data + begin));
    memset(bytes->data + begin + range.length, 0, SHARD_PADDING);
    bytes->length = begin + range.length;
    return OK;
}

static struct status image_copy(const struct pack_source *from, size_t i,
                                struct pack_scratch *scratch, struct buffer *out,
                                struct pack_finding *finding)
{
    size_t begin = out->length;
    TRY(source_problem(from->options, image_read(from, i, out), finding));
    if (finding->problem)
        return OK;
    return image_problem(from->options,
                         record_examine(from->options, scratch, out->data + begin, finding),
                         finding);
}

/* The file that a record was made of, into scratch->original. */
static struct status original_read(const struct pack_source *from, size_t i,
                                   struct pack_scratch *scratch)
{
    struct restorer *restorer = &scratch->maker.restorer;
    enum record_encoding encoding = from->source->items[i].encoding;
    if (encoding == ENCODING_JPEG) {
        scratch->original.length = 0;
        return image_read(from, i, &scratch->original);
    }
    restorer->stored.length = 0;
    TRY(image_read(from, i, &restorer->stored));
    return record_restore(restorer, encoding, restorer->stored.data, restorer->stored.length,
                          &scratch->original);
}

static struct status image_convert(const struct pack_source *from, size_t i,
                                   struct pack_scratch *scratch, struct buffer *out,
                                   struct pack_finding *finding)
{
    size_t begin = out->length;
    TRY(source_problem(from->options, original_read(from, i, scratch), finding));
    if (finding->problem)
        return OK;
    finding->item.width = finding->item.height = 0;
    finding->item.crc_known = false; /* that of what was read */
    TRY(image_problem(from->options, file_pack(from->options, scratch, out, finding), finding));
    if (!finding->problem)
        return OK;
    out->length = begin;
    finding->item.is_lossy = from->source->items[i].is_lossy;
    return file_append(&scratch->original, out, finding);
}

struct status pack_image(const struct pack_source *from, size_t i, struct pack_scratch *scratch,
                         struct buffer *out, struct pack_finding *finding)
{
    const struct pack_options *options = from->options;
    size_t begin = out->length;
    *finding = (struct pack_finding){.item = from->source->items[i]};
    if (item_converts(&finding->item, options))
        TRY(image_convert(from, i, scratch, out, finding));
    else
        TRY(image_copy(from, i, scratch, out, finding));
    if (finding->problem && options->on_error == PACK_SKIP) {
        out->length = begin;
        return OK;
    }
    return record_finish(out, begin, finding);
}
