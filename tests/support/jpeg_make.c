#include "tests/support/jpeg_make.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/memory.h"
#include "base/random.h"

struct maker {
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors; /* errors end the test: the kinds are ours */
    jpeg_scan_info scans[4];
    unsigned char *file;
    unsigned long file_bytes;
};

static void maker_done(struct maker *maker)
{
    jpeg_destroy_compress(&maker->cinfo);
    free(maker->file);
}
CLEANUP_VALUE(maker_done, struct maker)

/* libjpeg warns of tables that only extended JPEG may have. */
static void say_nothing(j_common_ptr common)
{
    (void)common;
}

static void set_kind(struct maker *maker, const struct jpeg_kind *kind)
{
    struct jpeg_compress_struct *cinfo = &maker->cinfo;
    static const J_COLOR_SPACE stored[] = {0, JCS_GRAYSCALE, 0, JCS_YCbCr, JCS_YCCK};
    static const J_COLOR_SPACE given[] = {0, JCS_GRAYSCALE, 0, JCS_RGB, JCS_CMYK};
    cinfo->input_components = kind->components;
    cinfo->in_color_space = given[kind->components];
    jpeg_set_defaults(cinfo);
    jpeg_set_quality(cinfo, kind->quality ? kind->quality : 80, FALSE);
    cinfo->optimize_coding = kind->optimize;
    jpeg_set_colorspace(cinfo, (kind->keep_rgb ? given : stored)[kind->components]);
    for (int c = 0; c < kind->components; c++) {
        cinfo->comp_info[c].h_samp_factor = kind->factors[c][0];
        cinfo->comp_info[c].v_samp_factor = kind->factors[c][1];
    }
    if (kind->progressive)
        jpeg_simple_progression(cinfo);
    if (kind->separate_scans) {
        for (int c = 0; c < kind->components; c++)
            maker->scans[c] =
                (jpeg_scan_info){.comps_in_scan = 1, .component_index = {c}, .Se = 63};
        cinfo->scan_info = maker->scans;
        cinfo->num_scans = kind->components;
    }
    cinfo->arith_code = kind->arithmetic;
    cinfo->restart_interval = kind->restart_blocks;
}

struct status jpeg_make(const struct jpeg_kind *kind, uint64_t seed, uint32_t width,
                        uint32_t height, struct buffer *bytes)
{
    CLEANUP(maker_done) struct maker maker = {0};
    CLEANUP(memory_free) uint8_t *row = NULL;
    size_t row_bytes = (size_t)width * (size_t)kind->components;
    TRY(memory_alloc(row_bytes, 1, &row));
    struct jpeg_compress_struct *cinfo = &maker.cinfo;
    cinfo->err = jpeg_std_error(&maker.errors);
    maker.errors.output_message = say_nothing;
    jpeg_create_compress(cinfo);
    jpeg_mem_dest(cinfo, &maker.file, &maker.file_bytes);
    cinfo->image_width = width;
    cinfo->image_height = height;
    set_kind(&maker, kind);

    struct random_stream stream = random_stream_make(seed, RANDOM_TEST, 0, 0);
    jpeg_start_compress(cinfo, TRUE);
    while (cinfo->next_scanline < height) {
        for (size_t i = 0; i < row_bytes; i++)
            row[i] = (uint8_t)((3 * i + 2 * cinfo->next_scanline) % 190 + random_u32(&stream) % 64);
        jpeg_write_scanlines(cinfo, &row, 1);
    }
    jpeg_finish_compress(cinfo);
    TRY(buffer_resize(bytes, 0));
    return buffer_append(bytes, maker.file, maker.file_bytes);
}

/* --- Coefficients --- */

struct taker {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
};

static void taker_done(struct taker *taker)
{
    jpeg_destroy_decompress(&taker->cinfo);
}
CLEANUP_VALUE(taker_done, struct taker)

static struct frame frame_of(const struct jpeg_decompress_struct *cinfo)
{
    struct frame frame = {
        .width = cinfo->image_width,
        .height = cinfo->image_height,
        .color = cinfo->num_components == 1           ? FRAME_GRAY
                 : cinfo->jpeg_color_space == JCS_RGB ? FRAME_RGB
                                                      : FRAME_YCBCR,
        .component_count = (unsigned)cinfo->num_components,
        .horizontal_max = (uint8_t)cinfo->max_h_samp_factor,
        .vertical_max = (uint8_t)cinfo->max_v_samp_factor,
    };
    if (frame.component_count == 1)
        frame.horizontal_max = frame.vertical_max = 1;
    uint32_t mcus_wide =
        (frame.width + 8U * frame.horizontal_max - 1) / (8U * frame.horizontal_max);
    uint32_t mcus_high = (frame.height + 8U * frame.vertical_max - 1) / (8U * frame.vertical_max);
    for (unsigned c = 0; c < frame.component_count; c++) {
        const jpeg_component_info *info = &cinfo->comp_info[c];
        struct frame_component *component = &frame.components[c];
        bool is_gray = frame.component_count == 1;
        component->horizontal = is_gray ? 1 : (uint8_t)info->h_samp_factor;
        component->vertical = is_gray ? 1 : (uint8_t)info->v_samp_factor;
        component->blocks_wide = mcus_wide * component->horizontal;
        component->blocks_high = mcus_high * component->vertical;
        component->width = info->downsampled_width;
        component->height = info->downsampled_height;
        memcpy(component->quantisers, info->quant_table->quantval, sizeof component->quantisers);
    }
    return frame;
}

/* Blocks beyond those of the image are read too: scans of all components hold them. */
static void take_component(struct taker *taker, jvirt_barray_ptr blocks, unsigned c,
                           struct coefficients *coefficients)
{
    struct jpeg_decompress_struct *cinfo = &taker->cinfo;
    const struct frame_component *component = &coefficients->frame.components[c];
    for (uint32_t y = 0; y < component->blocks_high; y++) {
        JBLOCKARRAY row = cinfo->mem->access_virt_barray((j_common_ptr)cinfo, blocks, y, 1, FALSE);
        for (uint32_t x = 0; x < component->blocks_wide; x++) {
            int16_t *out = coefficients->blocks[c][(size_t)y * component->blocks_wide + x];
            for (unsigned k = 0; k < 64; k++)
                out[k] = row[0][x][zigzag_to_natural[k]];
        }
    }
}

struct status jpeg_make_coefficients(const struct buffer *bytes, struct coefficients *coefficients)
{
    CLEANUP(taker_done) struct taker taker = {0};
    struct jpeg_decompress_struct *cinfo = &taker.cinfo;
    cinfo->err = jpeg_std_error(&taker.errors);
    taker.errors.output_message = say_nothing;
    jpeg_create_decompress(cinfo);
    jpeg_mem_src(cinfo, bytes->data, bytes->length);
    jpeg_read_header(cinfo, TRUE);
    jvirt_barray_ptr *blocks = jpeg_read_coefficients(cinfo);
    struct frame frame = frame_of(cinfo);
    TRY(coefficients_reset(coefficients, &frame));
    for (unsigned c = 0; c < frame.component_count; c++)
        take_component(&taker, blocks[c], c, coefficients);
    return OK;
}
