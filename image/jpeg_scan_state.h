#ifndef HEADRACE_IMAGE_JPEG_SCAN_STATE_H
#define HEADRACE_IMAGE_JPEG_SCAN_STATE_H

/* Private to image/jpeg_scan*.c: what both directions share. */

#include "image/jpeg_scan_kernels.h"

/* An interval that does not end as its scan's first one does. */
struct interval_end {
    uint64_t interval;
    uint8_t padding;    /* the bits that fill up its last byte */
    uint8_t fill_count; /* superfluous 0xFF bytes before the restart marker */
};

/* What is kept of one scan beside the bytes of its segments. */
struct scan_kept {
    size_t segment_begin, segment_bytes; /* from the end of the scan before to this one's data */
    bool pads_with_zeros;
    size_t first_end, end_count; /* its intervals in `ends` */
};

struct jpeg_scanner {
    const struct scan_kernels *kernels;
    struct jpeg_markers markers;
    /* By the number of the table in the file. */
    struct huffman_decoder dc[JPEG_TABLES], ac[JPEG_TABLES];
    struct huffman_encoder dc_code[JPEG_TABLES], ac_code[JPEG_TABLES];
    struct scan_run run;
    struct scan_kept scans[FRAME_MAX_COMPONENTS];
    struct interval_end *ends; /* of all scans */
    size_t end_count, end_capacity;
    uint8_t *bits; /* an interval's bytes without stuffing, SCAN_SLACK_BYTES behind them */
    size_t bits_capacity;
};

/* Sets up the run for the scan that the markers describe, before its first MCU. */
void scan_run_start(struct jpeg_scanner *scanner, const struct scan_walk *walk);
/* Lets the run begin at MCU `mcu` of the scan, counted row by row, and says how many follow in its
 * row. */
uint32_t scan_run_place(struct scan_run *run, const struct scan_walk *walk,
                        const struct coefficients *coefficients, uint64_t mcu);

static inline unsigned scan_padding_ones(unsigned padding_bits)
{
    return (1U << padding_bits) - 1;
}

#endif
