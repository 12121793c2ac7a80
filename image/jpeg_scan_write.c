#include "image/jpeg_scan.h"

#include <string.h>

#include "base/memory.h"
#include "image/jpeg_scan_state.h"

/* --- What was kept -------------------------------------------------------------------------------
 */

static uint64_t read_varint(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        uint8_t byte = reader_u8(reader);
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    reader->overrun = true;
    return 0;
}

static struct status read_ends(struct jpeg_scanner *scanner, struct reader *reader,
                               struct scan_kept *scan)
{
    uint64_t interval = 0, count = read_varint(reader);
    if (count > reader_left(reader)) /* each takes three bytes */
        FAIL(STATUS_CORRUPT, "what is kept of the JPEG is cut off");
    TRY(memory_grow(scanner->end_count + count, sizeof *scanner->ends, &scanner->ends,
                    &scanner->end_capacity));
    scan->first_end = scanner->end_count;
    scan->end_count = count;
    for (uint64_t i = 0; i < count; i++) {
        interval += read_varint(reader);
        struct interval_end *end = &scanner->ends[scanner->end_count++];
        *end = (struct interval_end){.interval = interval, .padding = reader_u8(reader)};
        end->fill_count = reader_u8(reader);
    }
    return OK;
}

/* Reads what stands before the bytes of the file. */
static struct status kept_read(struct jpeg_scanner *scanner, struct reader *reader,
                               unsigned *ret_count)
{
    scanner->end_count = 0;
    *ret_count = reader_u8(reader);
    if (*ret_count < 1 || *ret_count > FRAME_MAX_COMPONENTS)
        FAIL(STATUS_CORRUPT, "what is kept of the JPEG has %u scans", *ret_count);
    for (unsigned i = 0; i < *ret_count; i++) {
        struct scan_kept *scan = &scanner->scans[i];
        uint64_t segment_bytes = read_varint(reader);
        uint8_t flags = reader_u8(reader);
        if (flags > 3 || segment_bytes > reader->length)
            FAIL(STATUS_CORRUPT, "what is kept of scan %u does not hold", i);
        *scan = (struct scan_kept){.segment_bytes = (size_t)segment_bytes,
                                   .pads_with_zeros = flags & 1};
        if (flags & 2)
            TRY(read_ends(scanner, reader, scan));
    }
    if (reader->overrun)
        FAIL(STATUS_CORRUPT, "what is kept of the JPEG is cut off");
    return OK;
}

static bool same_shape(const struct frame *a, const struct frame *b)
{
    bool is_same =
        a->width == b->width && a->height == b->height && a->component_count == b->component_count;
    for (unsigned c = 0; is_same && c < a->component_count; c++) {
        const struct frame_component *p = &a->components[c], *q = &b->components[c];
        is_same = p->horizontal == q->horizontal && p->vertical == q->vertical &&
                  p->blocks_wide == q->blocks_wide && p->blocks_high == q->blocks_high;
    }
    return is_same;
}

/* --- Intervals -----------------------------------------------------------------------------------
 */

/* Writes MCUs `first` … `end` − 1 to the scratch. */
static struct status interval_encode(struct jpeg_scanner *scanner, const struct scan_walk *walk,
                                     const struct coefficients *coefficients, uint64_t first,
                                     uint64_t end)
{
    struct scan_run *run = &scanner->run;
    memset(run->dc, 0, sizeof run->dc);
    run->pending = 0;
    run->pending_count = 0;
    run->out = scanner->bits;
    for (uint64_t mcu = first; mcu < end;) {
        uint32_t done, count = scan_run_place(run, walk, coefficients, mcu);
        size_t used = (size_t)(run->out - scanner->bits);
        TRY(memory_grow(used + 2 * SCAN_SLACK_BYTES, 1, &scanner->bits, &scanner->bits_capacity));
        run->out = scanner->bits + used;
        run->out_limit = scanner->bits + scanner->bits_capacity - SCAN_SLACK_BYTES;
        if (count > end - mcu)
            count = (uint32_t)(end - mcu);
        if (!scanner->kernels->write(run, count, &done))
            FAIL(STATUS_CORRUPT, "the JPEG's Huffman tables lack a code for its coefficients");
        mcu += done;
    }
    return OK;
}

/* Fills up the last byte. Returns the number of bytes. */
static size_t interval_pad(struct jpeg_scanner *scanner, unsigned padding)
{
    struct scan_run *run = &scanner->run;
    size_t length = (size_t)(run->out - scanner->bits);
    if (run->pending_count > 0) {
        unsigned ones = scan_padding_ones(8 - run->pending_count);
        scanner->bits[length++] = (uint8_t)(run->pending >> 56 | (padding & ones));
    }
    return length;
}

/* Appends bytes with a zero behind each 0xFF. */
static struct status append_stuffed(struct buffer *bytes, const uint8_t *next, size_t length)
{
    const uint8_t *end = next + length;
    TRY(buffer_reserve(bytes, bytes->length + 2 * length));
    uint8_t *out = bytes->data + bytes->length;
    while (next < end) {
        const uint8_t *found = memchr(next, 0xFF, (size_t)(end - next));
        size_t count = (size_t)((found ? found + 1 : end) - next);
        memcpy(out, next, count);
        out += count;
        next += count;
        if (found)
            *out++ = 0;
    }
    bytes->length = (size_t)(out - bytes->data);
    return OK;
}

static struct status append_restart(struct buffer *bytes, uint64_t interval, unsigned fill_count)
{
    for (unsigned i = 0; i <= fill_count; i++)
        TRY(buffer_append_u8(bytes, 0xFF));
    return buffer_append_u8(bytes, (uint8_t)(JPEG_MARKER_RST0 + (interval & 7)));
}

/* --- Scans ---------------------------------------------------------------------------------------
 */

static struct status scan_codes_make(struct jpeg_scanner *scanner)
{
    const struct jpeg_markers *markers = &scanner->markers;
    const struct jpeg_scan_header *scan = &markers->scan;
    for (unsigned slot = 0; slot < scan->component_count; slot++) {
        unsigned dc = scan->dc_tables[slot], ac = scan->ac_tables[slot];
        TRY(huffman_encoder_make(&markers->dc[dc], &scanner->dc_code[dc]));
        TRY(huffman_encoder_make(&markers->ac[ac], &scanner->ac_code[ac]));
    }
    return OK;
}

static struct status scan_write(struct jpeg_scanner *scanner,
                                const struct coefficients *coefficients,
                                const struct scan_kept *scan, struct buffer *bytes)
{
    struct scan_walk walk = scan_walk_make(&scanner->markers);
    uint64_t mcus = (uint64_t)walk.mcus_wide * walk.mcus_high, step = mcus, interval = 0;
    size_t next_end = scan->first_end, ends_end = next_end + scan->end_count;
    if (scanner->markers.restart_mcus)
        step = scanner->markers.restart_mcus;
    TRY(scan_codes_make(scanner));
    scan_run_start(scanner, &walk);
    for (uint64_t first = 0; first < mcus; first += step, interval++) {
        bool is_last = mcus - first <= step;
        struct interval_end end = {.padding = scan->pads_with_zeros ? 0 : 0xFF};
        if (next_end < ends_end && scanner->ends[next_end].interval == interval)
            end = scanner->ends[next_end++];
        TRY(interval_encode(scanner, &walk, coefficients, first, is_last ? mcus : first + step));
        TRY(append_stuffed(bytes, scanner->bits, interval_pad(scanner, end.padding)));
        if (!is_last)
            TRY(append_restart(bytes, interval, end.fill_count));
    }
    return OK;
}

static struct status segment_write(struct jpeg_scanner *scanner, struct reader *reader,
                                   const struct frame *frame, const struct scan_kept *scan,
                                   struct buffer *bytes)
{
    bool is_scan;
    size_t start = reader->position;
    if (start == 0)
        TRY(jpeg_markers_begin(&scanner->markers, reader));
    TRY(jpeg_markers_next(&scanner->markers, reader, &is_scan));
    if (!is_scan || reader->position - start != scan->segment_bytes)
        FAIL(STATUS_CORRUPT, "the segments that are kept of the JPEG have other lengths");
    if (!same_shape(&scanner->markers.frame, frame))
        FAIL(STATUS_CORRUPT, "the JPEG's header is that of other coefficients");
    return buffer_append(bytes, reader->data + start, scan->segment_bytes);
}

struct status jpeg_scan_write(struct jpeg_scanner *scanner, const struct coefficients *coefficients,
                              const void *kept, size_t kept_bytes, struct buffer *bytes)
{
    struct reader head = reader_make(kept, kept_bytes);
    unsigned scan_count;
    scanner->markers = (struct jpeg_markers){0};
    bytes->length = 0;
    TRY(kept_read(scanner, &head, &scan_count));
    struct reader reader = reader_make(head.data + head.position, reader_left(&head));
    for (unsigned i = 0; i < scan_count; i++) {
        const struct scan_kept *scan = &scanner->scans[i];
        TRY(segment_write(scanner, &reader, &coefficients->frame, scan, bytes));
        TRY(scan_write(scanner, coefficients, scan, bytes));
    }
    return buffer_append(bytes, reader.data + reader.position, reader_left(&reader));
}
