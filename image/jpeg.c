/* The only user of libjpeg(-turbo). */

#include <setjmp.h>
#include <stdio.h> /* jpeglib.h needs FILE */
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "base/memory.h"
#include "image/codec.h"

/* A progressive file of few bytes can ask for thousands of passes over a huge image; honest ones
 * have about ten. */
#define MAX_SCANS 100

/* libjpeg reports through callbacks and expects an error not to return: it is caught in guard(). */
struct jpeg_errors {
    struct jpeg_error_mgr manager; /* first: libjpeg hands this address back */
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    int code; /* JERR_…, JWRN_… */
    unsigned warnings;
};

static void on_error(j_common_ptr common)
{
    struct jpeg_errors *errors = (struct jpeg_errors *)common->err;
    errors->code = errors->manager.msg_code;
    errors->manager.format_message(common, errors->message);
    longjmp(errors->escape, 1);
}

/* Where data is missing, libjpeg fills in gray and warns; here that is an error. */
static void on_message(j_common_ptr common, int level)
{
    struct jpeg_errors *errors = (struct jpeg_errors *)common->err;
    if (level >= 0)
        return; /* a trace */
    if (errors->manager.msg_code == JWRN_JPEG_EOF || errors->manager.msg_code == JWRN_HIT_MARKER)
        on_error(common);
    errors->warnings++;
}

static struct jpeg_error_mgr *errors_init(struct jpeg_errors *errors)
{
    jpeg_std_error(&errors->manager);
    errors->manager.error_exit = on_error;
    errors->manager.emit_message = on_message;
    errors->warnings = 0;
    return &errors->manager;
}

static struct status errors_status(const struct jpeg_errors *errors)
{
    switch (errors->code) {
    case JERR_OUT_OF_MEMORY:
        FAIL(STATUS_NO_MEMORY, "libjpeg: %s", errors->message);
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
        FAIL(STATUS_UNSUPPORTED, "libjpeg: %s", errors->message);
    default:
        FAIL(STATUS_CORRUPT, "libjpeg: %s", errors->message);
    }
}

/* --- Reading -------------------------------------------------------------------------------------
 */

struct jpeg_reader {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_errors errors;
    struct jpeg_progress_mgr progress;
    const uint8_t *bytes;
    size_t length;
    struct rectangle wanted;  /* what the picture will hold */
    struct rectangle columns; /* x and width of what libjpeg is asked for: at least `wanted` */
    struct picture *picture;
    uint8_t *row; /* one row as libjpeg gives it, where it cannot go straight into the picture */
    size_t row_capacity;
};

/* Runs a stage that calls libjpeg; its errors come back as a status. The stage must own nothing. */
static struct status guard(struct jpeg_reader *reader, void (*stage)(struct jpeg_reader *reader))
{
    if (setjmp(reader->errors.escape)) {
        jpeg_abort_decompress(&reader->cinfo);
        return errors_status(&reader->errors);
    }
    stage(reader);
    return OK;
}

static void on_progress(j_common_ptr common)
{
    struct jpeg_decompress_struct *cinfo = (struct jpeg_decompress_struct *)common;
    if (cinfo->input_scan_number <= MAX_SCANS)
        return;
    struct jpeg_errors *errors = (struct jpeg_errors *)common->err;
    errors->code = JMSG_NOMESSAGE;
    snprintf(errors->message, sizeof errors->message, "more than %d scans", MAX_SCANS);
    longjmp(errors->escape, 1);
}

struct status jpeg_reader_open(struct jpeg_reader **ret_reader)
{
    CLEANUP(jpeg_reader_close) struct jpeg_reader *reader = NULL;
    TRY(memory_alloc(1, sizeof *reader, &reader));
    reader->cinfo.err = errors_init(&reader->errors);
    reader->progress.progress_monitor = on_progress;
    *ret_reader = MOVE(reader);
    return OK;
}

void jpeg_reader_close(struct jpeg_reader *reader)
{
    if (!reader)
        return;
    jpeg_destroy_decompress(&reader->cinfo);
    memory_free(reader->row);
    memory_free(reader);
}

static void stage_header(struct jpeg_reader *reader)
{
    jpeg_create_decompress(&reader->cinfo);
    reader->cinfo.progress = &reader->progress;
    jpeg_mem_src(&reader->cinfo, reader->bytes, reader->length);
    jpeg_read_header(&reader->cinfo, TRUE);
}

static struct status read_header(struct jpeg_reader *reader, const void *bytes, size_t length)
{
    /* libjpeg's state would hand an image's tables on to a later image that lacks its own. */
    jpeg_destroy_decompress(&reader->cinfo);
    reader->bytes = bytes;
    reader->length = length;
    reader->errors.warnings = 0;
    return guard(reader, stage_header);
}

struct status jpeg_reader_probe(struct jpeg_reader *reader, const void *bytes, size_t length,
                                struct image_info *ret_info)
{
    TRY(read_header(reader, bytes, length));
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    *ret_info = (struct image_info){
        .kind = IMAGE_JPEG,
        .width = cinfo->image_width,
        .height = cinfo->image_height,
        .components = (unsigned)cinfo->num_components,
        .progressive = cinfo->progressive_mode,
    };
    jpeg_abort_decompress(cinfo);
    return OK;
}

static uint32_t round_down(uint32_t value, uint32_t unit)
{
    return value / unit * unit;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t mcu_width(const struct jpeg_decompress_struct *cinfo)
{
    return DCTSIZE * (cinfo->num_components == 1 ? 1U : (uint32_t)cinfo->max_h_samp_factor);
}

static uint32_t mcu_height(const struct jpeg_decompress_struct *cinfo)
{
    return DCTSIZE * (cinfo->num_components == 1 ? 1U : (uint32_t)cinfo->max_v_samp_factor);
}

/* Sets reader->wanted and reader->columns. Upsampling treats the first and last column of what is
 * decoded as the image's border, so that one more MCU is decoded on both sides where columns are
 * subsampled. */
static struct status plan_region(struct jpeg_reader *reader, const struct rectangle *region)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    struct rectangle whole = {0, 0, cinfo->image_width, cinfo->image_height};
    if (region)
        TRY(rectangle_check_region(region, whole.width, whole.height));

    /* Files of several scans are decoded whole: libjpeg smooths incomplete ones across block
     * borders. */
    reader->wanted = region && !jpeg_has_multiple_scans(cinfo) ? *region : whole;
    reader->columns = reader->wanted;
    uint32_t unit = mcu_width(cinfo), end = reader->wanted.x + reader->wanted.width;
    if (reader->wanted.width == whole.width)
        return OK;
    reader->columns.x = round_down(reader->wanted.x, unit);
    if (unit == DCTSIZE) {
        reader->wanted.x = reader->columns.x; /* rows go straight into the picture */
    } else {
        reader->columns.x -= smaller(unit, reader->columns.x);
        end += smaller(unit, whole.width - end);
    }
    reader->columns.width = end - reader->columns.x;
    if (unit == DCTSIZE)
        reader->wanted.width = reader->columns.width;
    return OK;
}

static void stage_start(struct jpeg_reader *reader)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    cinfo->dct_method = JDCT_ISLOW;
    cinfo->do_fancy_upsampling = TRUE;
    jpeg_start_decompress(cinfo);

    if (reader->columns.width < cinfo->image_width) {
        JDIMENSION x = reader->columns.x, width = reader->columns.width;
        jpeg_crop_scanline(cinfo, &x, &width);
    }
    /* Rows above are skipped at once and by whole MCUs, and one MCU row more than needed is
     * decoded: upsampling looks at the row above. */
    uint32_t skip = round_down(reader->wanted.y, mcu_height(cinfo));
    if (cinfo->max_v_samp_factor > 1)
        skip -= smaller(skip, mcu_height(cinfo));
    if (skip)
        jpeg_skip_scanlines(cinfo, skip);
}

static unsigned multiply_div_255(unsigned a, unsigned b)
{
    unsigned product = a * b + 128;
    return ((product >> 8) + product) >> 8;
}

/* Stored values are inverted (Adobe's habit), which is taken for granted in unmarked files too, as
 * Pillow does. */
static void cmyk_row_to_rgb(const uint8_t *cmyk, uint32_t width, uint8_t *rgb)
{
    for (uint32_t x = 0; x < width; x++, cmyk += 4, rgb += 3) {
        unsigned white = cmyk[3];
        for (unsigned c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(white - multiply_div_255(255 - cmyk[c], white));
    }
}

static void stage_rows(struct jpeg_reader *reader)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    const struct rectangle *wanted = &reader->wanted;
    bool straight = cinfo->output_components == 3 && wanted->width == reader->columns.width;
    size_t left_pixels = wanted->x - reader->columns.x;

    while (cinfo->output_scanline < wanted->y + wanted->height) {
        bool inside = cinfo->output_scanline >= wanted->y;
        uint8_t *target = reader->picture->pixels;
        if (inside)
            target += (cinfo->output_scanline - wanted->y) * reader->picture->stride_bytes;
        JSAMPROW row = inside && straight ? target : reader->row;
        jpeg_read_scanlines(cinfo, &row, 1);
        if (row == target || !inside)
            continue;
        const uint8_t *first = row + left_pixels * (size_t)cinfo->output_components;
        if (cinfo->output_components == 4)
            cmyk_row_to_rgb(first, wanted->width, target);
        else
            memcpy(target, first, (size_t)wanted->width * 3);
    }
    jpeg_abort_decompress(cinfo);
}

struct status jpeg_reader_decode(struct jpeg_reader *reader, const void *bytes, size_t length,
                                 const struct rectangle *region, struct picture *picture,
                                 unsigned *ret_warnings)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    TRY(read_header(reader, bytes, length));
    TRY(image_check_size(cinfo->image_width, cinfo->image_height));
    TRY(plan_region(reader, region));
    TRY(guard(reader, stage_start));

    TRY(picture_resize(picture, reader->wanted.width, reader->wanted.height));
    picture->origin_x = reader->wanted.x;
    picture->origin_y = reader->wanted.y;
    reader->picture = picture;
    size_t row_bytes = (size_t)cinfo->output_width * (size_t)cinfo->output_components;
    TRY(memory_grow(row_bytes, 1, &reader->row, &reader->row_capacity));

    TRY(guard(reader, stage_rows));
    *ret_warnings = reader->errors.warnings;
    return OK;
}

/* --- Writing -------------------------------------------------------------------------------------
 */

struct jpeg_writer {
    struct jpeg_compress_struct cinfo;
    struct jpeg_errors errors;
    const struct picture *picture;
    int quality;
    unsigned char *file; /* malloc'd by libjpeg */
    unsigned long file_bytes;
};

static void writer_done(struct jpeg_writer *writer)
{
    jpeg_destroy_compress(&writer->cinfo);
    free(writer->file);
}
CLEANUP_VALUE(writer_done, struct jpeg_writer)

static void write_file(struct jpeg_writer *writer)
{
    struct jpeg_compress_struct *cinfo = &writer->cinfo;
    jpeg_create_compress(cinfo);
    jpeg_mem_dest(cinfo, &writer->file, &writer->file_bytes);
    cinfo->image_width = writer->picture->width;
    cinfo->image_height = writer->picture->height;
    cinfo->input_components = 3;
    cinfo->in_color_space = JCS_RGB;
    jpeg_set_defaults(cinfo);
    jpeg_set_quality(cinfo, writer->quality, TRUE);
    int sampling = writer->quality >= 90 ? 1 : 2;
    cinfo->comp_info[0].h_samp_factor = cinfo->comp_info[0].v_samp_factor = sampling;
    jpeg_start_compress(cinfo, TRUE);
    while (cinfo->next_scanline < cinfo->image_height) {
        JSAMPROW row =
            writer->picture->pixels + cinfo->next_scanline * writer->picture->stride_bytes;
        jpeg_write_scanlines(cinfo, &row, 1);
    }
    jpeg_finish_compress(cinfo);
}

static struct status run_writer(struct jpeg_writer *writer)
{
    if (setjmp(writer->errors.escape))
        return errors_status(&writer->errors);
    write_file(writer);
    return OK;
}

struct status jpeg_encode(const struct picture *picture, int quality, struct buffer *bytes)
{
    CLEANUP(writer_done) struct jpeg_writer writer = {.picture = picture, .quality = quality};
    writer.cinfo.err = errors_init(&writer.errors);
    TRY(run_writer(&writer));
    TRY(buffer_resize(bytes, 0));
    return buffer_append(bytes, writer.file, writer.file_bytes);
}
