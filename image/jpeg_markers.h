#ifndef HEADRACE_IMAGE_JPEG_MARKERS_H
#define HEADRACE_IMAGE_JPEG_MARKERS_H

/* Private to image/jpeg_scan*.c: the marker segments of a JPEG file, what a decoder has to know of
 * them, and the order in which a scan's blocks stand. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "image/coefficients.h"
#include "image/jpeg_scan.h"

#define JPEG_TABLES 4
#define JPEG_MAX_MCU_BLOCKS 10
#define JPEG_MARKER_RST0 0xD0

/* A DHT's table: how many codes of each length, and their symbols by increasing code. */
struct huffman_spec {
    uint8_t counts[17]; /* [1 … 16] */
    uint8_t symbols[256];
    bool is_there;
};

/* One SOS: components by their place in the frame. */
struct jpeg_scan_header {
    unsigned component_count;
    uint8_t components[FRAME_MAX_COMPONENTS];
    uint8_t dc_tables[FRAME_MAX_COMPONENTS], ac_tables[FRAME_MAX_COMPONENTS];
};

/* What the segments so far said. Zero it to start. */
struct jpeg_markers {
    struct frame
        frame; /* complete from the first SOS on, but for components that no scan had yet */
    bool has_frame;
    bool is_scanned[FRAME_MAX_COMPONENTS]; /* a scan had the component */
    unsigned scan_count;
    uint8_t ids[FRAME_MAX_COMPONENTS], quantiser_numbers[FRAME_MAX_COMPONENTS];
    uint16_t quantisers[JPEG_TABLES][64];
    bool has_quantisers[JPEG_TABLES];
    struct huffman_spec dc[JPEG_TABLES], ac[JPEG_TABLES];
    uint32_t restart_mcus; /* 0: no restarts */
    bool has_jfif, has_adobe;
    uint8_t adobe_transform;
    struct jpeg_scan_header scan;
    enum jpeg_refusal refusal; /* of the failure that was returned */
};

/* Reads the SOI. */
struct status jpeg_markers_begin(struct jpeg_markers *markers, struct reader *reader);
/* Reads segments up to a scan's entropy-coded data (*ret_is_scan) or past EOI. Fails with
 * STATUS_CORRUPT or STATUS_UNSUPPORTED, markers->refusal set; a file that ends without EOI is
 * damaged. */
struct status jpeg_markers_next(struct jpeg_markers *markers, struct reader *reader,
                                bool *ret_is_scan);

/* The order of a scan's blocks. */
struct scan_walk {
    uint32_t mcus_wide, mcus_high;
    unsigned block_count; /* in an MCU */
    struct scan_block {
        uint8_t slot;      /* which of the scan's components */
        uint8_t component; /* which of the frame's */
        size_t first;      /* number of the block in the first MCU */
        size_t step;       /* to the next MCU's, in blocks */
        size_t row_step;   /* to the next row of MCUs', in blocks */
    } blocks[JPEG_MAX_MCU_BLOCKS];
};
struct scan_walk scan_walk_make(const struct jpeg_markers *markers);

#endif
