#include "tests/support/jpeg_blocks.h"

#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>

struct blocks_reader {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
};

static void reader_done(struct blocks_reader *reader)
{
    jpeg_destroy_decompress(&reader->cinfo);
}
CLEANUP_VALUE(reader_done, struct blocks_reader)

static uint32_t divide_up(uint64_t value, uint64_t by)
{
    return (uint32_t)((value + by - 1) / by);
}

static struct frame frame_of(const struct jpeg_decompress_struct *cinfo)
{
    struct frame frame = {
        .width = cinfo->image_width,
        .height = cinfo->image_height,
        .component_count = (unsigned)cinfo->num_components,
        .horizontal_max = (uint8_t)cinfo->max_h_samp_factor,
        .vertical_max = (uint8_t)cinfo->max_v_samp_factor,
    };
    bool gray = cinfo->num_components == 1;
    frame.color = gray ? FRAME_GRAY : cinfo->jpeg_color_space == JCS_RGB ? FRAME_RGB : FRAME_YCBCR;
    if (gray)
        frame.horizontal_max = frame.vertical_max = 1;
    for (unsigned c = 0; c < frame.component_count; c++) {
        const jpeg_component_info *info = &cinfo->comp_info[c];
        struct frame_component *component = &frame.components[c];
        component->horizontal = gray ? 1 : (uint8_t)info->h_samp_factor;
        component->vertical = gray ? 1 : (uint8_t)info->v_samp_factor;
        uint32_t across = frame.horizontal_max, down = frame.vertical_max;
        component->width = divide_up((uint64_t)frame.width * component->horizontal, across);
        component->height = divide_up((uint64_t)frame.height * component->vertical, down);
        component->blocks_wide = divide_up(frame.width, 8 * across) * component->horizontal;
        component->blocks_high = divide_up(frame.height, 8 * down) * component->vertical;
        for (int k = 0; k < 64; k++)
            component->quantisers[k] = info->quant_table->quantval[k];
    }
    return frame;
}

struct status jpeg_blocks_read(const void *bytes, size_t length, struct coefficients *coefficients)
{
    CLEANUP(reader_done) struct blocks_reader reader = {0};
    struct jpeg_decompress_struct *cinfo = &reader.cinfo;
    cinfo->err = jpeg_std_error(&reader.errors);
    jpeg_create_decompress(cinfo);
    jpeg_mem_src(cinfo, bytes, length);
    jpeg_read_header(cinfo, TRUE);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(cinfo);
    struct frame frame = frame_of(cinfo);
    TRY(coefficients_reset(coefficients, &frame));
    for (unsigned c = 0; c < frame.component_count; c++) {
        const struct frame_component *component = &frame.components[c];
        int16_t(*out)[64] = coefficients->blocks[c];
        for (uint32_t y = 0; y < component->blocks_high; y++) {
            JBLOCKARRAY rows =
                cinfo->mem->access_virt_barray((j_common_ptr)cinfo, arrays[c], y, 1, FALSE);
            for (uint32_t x = 0; x < component->blocks_wide; x++, out++)
                for (int k = 0; k < 64; k++)
                    (*out)[k] = rows[0][x][zigzag_to_natural[k]];
        }
    }
    return OK;
}
