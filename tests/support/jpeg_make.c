#include "tests/support/jpeg_make.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

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

static void set_kind(struct maker *maker, const struct jpeg_kind *kind)
{
    struct jpeg_compress_struct *cinfo = &maker->cinfo;
    static const J_COLOR_SPACE stored[] = {0, JCS_GRAYSCALE, 0, JCS_YCbCr, JCS_YCCK};
    static const J_COLOR_SPACE given[] = {0, JCS_GRAYSCALE, 0, JCS_RGB, JCS_CMYK};
    cinfo->input_components = kind->components;
    cinfo->in_color_space = given[kind->components];
    jpeg_set_defaults(cinfo);
    jpeg_set_quality(cinfo, 80, TRUE);
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
