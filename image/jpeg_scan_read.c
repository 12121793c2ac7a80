#include "image/jpeg_scan.h"

#include <string.h>

#include "base/memory.h"
#include "image/jpeg_scan_state.h"

/* --- Intervals -----------------------------------------------------------------------------------
 */

/* Copies entropy-coded data up to the next marker, or the file's end, without the zero that follows
 * each 0xFF. The reader stands at the marker's first 0xFF then. */
static size_t interval_unstuff(struct reader *reader, uint8_t *out)
{
    const uint8_t *next = reader->data + reader->position, *end = reader->data + reader->length;
    uint8_t *start = out;
    while (next < end) {
        const uint8_t *found = memchr(next, 0xFF, (size_t)(end - next));
        bool is_stuffed = found && found + 1 < end && found[1] == 0;
        size_t count = (size_t)((found ? found : end) - next) + is_stuffed;
        memcpy(out, next, count);
        out += count;
        next += count + is_stuffed;
        if (!is_stuffed)
            break;
    }
    memset(out, 0, SCAN_SLACK_BYTES);
    reader->position = (size_t)(next - reader->data);
    return (size_t)(out - start);
}

/* Where in the file the byte stands that follows `count` bytes without stuffing. */
static size_t interval_locate(const struct reader *reader, size_t start, size_t count)
{
    const uint8_t *data = reader->data;
    size_t position = start;
    for (size_t i = 0; i < count; i++)
        position += data[position] == 0xFF ? 2 : 1;
    return position;
}

/* Reads MCUs `first` … `end` − 1. */
static struct status interval_decode(struct jpeg_scanner *scanner, const struct scan_walk *walk,
                                     struct coefficients *coefficients, uint64_t first,
                                     uint64_t end, size_t available)
{
    struct scan_run *run = &scanner->run;
    memset(run->dc, 0, sizeof run->dc);
    scan_bits_start(&run->bits, scanner->bits);
    run->end = scanner->bits + available;
    for (uint64_t mcu = first; mcu < end;) {
        uint32_t count = scan_run_place(run, walk, coefficients, mcu);
        if (count > end - mcu)
            count = (uint32_t)(end - mcu);
        if (!scanner->kernels->read(run, count))
            FAIL(STATUS_CORRUPT, "the data of its blocks %llu to %llu is damaged or cut off",
                 (unsigned long long)mcu, (unsigned long long)mcu + count - 1);
        mcu += count;
    }
    return OK;
}

/* Notes how an interval ends, where that does not go without saying. */
static struct status interval_note(struct jpeg_scanner *scanner, struct scan_kept *scan,
                                   const struct interval_end *end, unsigned padding_bits)
{
    unsigned ones = scan_padding_ones(padding_bits);
    if (end->interval == 0)
        scan->pads_with_zeros = padding_bits > 0 && end->padding == 0;
    if (end->fill_count == 0 && end->padding == (scan->pads_with_zeros ? 0 : ones))
        return OK;
    TRY(memory_grow(scanner->end_count + 1, sizeof *scanner->ends, &scanner->ends,
                    &scanner->end_capacity));
    scanner->ends[scanner->end_count++] = *end;
    scan->end_count++;
    return OK;
}

/* Passes over the restart marker between an interval and the next. */
static struct status restart_read(struct reader *reader, uint64_t interval, uint8_t *ret_fill)
{
    size_t start = reader->position;
    unsigned byte = reader_u8(reader);
    while (byte == 0xFF)
        byte = reader_u8(reader);
    if (reader->overrun || reader->position < start + 2 ||
        byte != JPEG_MARKER_RST0 + (unsigned)(interval & 7))
        FAIL(STATUS_CORRUPT, "there is no restart marker %u at byte %zu", (unsigned)(interval & 7),
             start);
    size_t fill = reader->position - start - 2;
    if (fill > UINT8_MAX)
        FAIL(STATUS_CORRUPT, "there are %zu fill bytes before byte %zu", fill, reader->position);
    *ret_fill = (uint8_t)fill;
    return OK;
}

static struct status interval_read(struct jpeg_scanner *scanner, struct reader *reader,
                                   const struct scan_walk *walk, struct coefficients *coefficients,
                                   struct scan_kept *scan, uint64_t interval)
{
    struct interval_end end = {.interval = interval};
    uint64_t mcus = (uint64_t)walk->mcus_wide * walk->mcus_high, step = mcus;
    if (scanner->markers.restart_mcus)
        step = scanner->markers.restart_mcus;
    uint64_t first = interval * step;
    bool is_last = mcus - first <= step;

    size_t start = reader->position, available = interval_unstuff(reader, scanner->bits);
    TRY(interval_decode(scanner, walk, coefficients, first, is_last ? mcus : first + step,
                        available));
    const struct scan_bits *bits = &scanner->run.bits;
    uint64_t used_bits = (uint64_t)(bits->next - scanner->bits) * 8 - bits->count;
    size_t used = (size_t)((used_bits + 7) / 8);
    unsigned padding_bits = (unsigned)(used * 8 - used_bits);
    if (used > available || (used < available && !is_last))
        FAIL(STATUS_CORRUPT, "the data before byte %zu has another length than its blocks",
             reader->position);
    if (padding_bits > 0)
        end.padding = scanner->bits[used - 1] & scan_padding_ones(padding_bits);
    if (!is_last)
        TRY(restart_read(reader, interval, &end.fill_count));
    else if (used < available) /* stray bytes are kept with what follows the scan */
        reader->position = interval_locate(reader, start, used);
    return interval_note(scanner, scan, &end, padding_bits);
}

/* --- Scans ---------------------------------------------------------------------------------------
 */

static struct status scan_tables_make(struct jpeg_scanner *scanner)
{
    const struct jpeg_markers *markers = &scanner->markers;
    const struct jpeg_scan_header *scan = &markers->scan;
    for (unsigned slot = 0; slot < scan->component_count; slot++) {
        unsigned dc = scan->dc_tables[slot], ac = scan->ac_tables[slot];
        TRY(huffman_decoder_make(&markers->dc[dc], true, &scanner->dc[dc]));
        TRY(huffman_decoder_make(&markers->ac[ac], false, &scanner->ac[ac]));
    }
    return OK;
}

static struct status scan_read(struct jpeg_scanner *scanner, struct reader *reader,
                               struct coefficients *coefficients, struct scan_kept *scan)
{
    const struct jpeg_markers *markers = &scanner->markers;
    struct scan_walk walk = scan_walk_make(markers);
    uint64_t mcus = (uint64_t)walk.mcus_wide * walk.mcus_high, intervals = 1;
    if (markers->restart_mcus)
        intervals = (mcus + markers->restart_mcus - 1) / markers->restart_mcus;
    TRY(scan_tables_make(scanner));
    scan_run_start(scanner, &walk);
    for (uint64_t i = 0; i < intervals; i++)
        TRY(interval_read(scanner, reader, &walk, coefficients, scan, i));
    return OK;
}

/* Before memory is taken for a size that a header claims: each block has at least two bits. */
static struct status length_check(const struct frame *frame, size_t length)
{
    uint64_t blocks = 0;
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        blocks += ((uint64_t)component->width + 7) / 8 * ((component->height + 7) / 8);
    }
    if (blocks / 4 > length)
        FAIL(STATUS_CORRUPT, "it has %zu bytes, too few for %u x %u pixels", length, frame->width,
             frame->height);
    return OK;
}

static struct status scans_read(struct jpeg_scanner *scanner, struct reader *reader,
                                struct coefficients *coefficients, size_t *ret_tail)
{
    struct jpeg_markers *markers = &scanner->markers;
    bool is_scan;
    TRY(jpeg_markers_begin(markers, reader));
    for (*ret_tail = 0;; *ret_tail = reader->position) {
        TRY(jpeg_markers_next(markers, reader, &is_scan));
        if (!is_scan)
            break;
        struct scan_kept *scan = &scanner->scans[markers->scan_count - 1];
        *scan = (struct scan_kept){.segment_begin = *ret_tail,
                                   .segment_bytes = reader->position - *ret_tail,
                                   .first_end = scanner->end_count};
        if (markers->scan_count == 1) {
            bool has_all = markers->scan.component_count == markers->frame.component_count;
            TRY(length_check(&markers->frame, reader->length));
            /* A scan of one component leaves out blocks that lie outside the image. */
            TRY((has_all ? coefficients_layout : coefficients_reset)(coefficients,
                                                                     &markers->frame));
        }
        TRY(scan_read(scanner, reader, coefficients, scan));
    }
    for (unsigned c = 0; c < markers->frame.component_count; c++) {
        if (!markers->is_scanned[c])
            FAIL(STATUS_CORRUPT, "no scan has component %u", c);
    }
    if (markers->scan_count == 0)
        FAIL(STATUS_CORRUPT, "it has no scan");
    coefficients->frame = markers->frame;
    return OK;
}

/* --- What is kept --------------------------------------------------------------------------------
 */

static struct status append_varint(struct buffer *buffer, uint64_t value)
{
    for (; value > 127; value >>= 7)
        TRY(buffer_append_u8(buffer, (uint8_t)(value | 128)));
    return buffer_append_u8(buffer, (uint8_t)value);
}

static struct status append_ends(struct buffer *kept, const struct interval_end *ends, size_t count)
{
    uint64_t before = 0;
    TRY(append_varint(kept, count));
    for (size_t i = 0; i < count; i++) {
        TRY(append_varint(kept, ends[i].interval - before));
        TRY(buffer_append_u8(kept, ends[i].padding));
        TRY(buffer_append_u8(kept, ends[i].fill_count));
        before = ends[i].interval;
    }
    return OK;
}

/* `tail`: where in the file the last scan's data ends. */
static struct status kept_write(const struct jpeg_scanner *scanner, const uint8_t *bytes,
                                size_t length, size_t tail, struct buffer *kept)
{
    unsigned count = scanner->markers.scan_count;
    kept->length = 0;
    TRY(buffer_append_u8(kept, (uint8_t)count));
    for (unsigned i = 0; i < count; i++) {
        const struct scan_kept *scan = &scanner->scans[i];
        TRY(append_varint(kept, scan->segment_bytes));
        TRY(buffer_append_u8(kept, (uint8_t)(scan->pads_with_zeros | (scan->end_count > 0) << 1)));
        if (scan->end_count > 0)
            TRY(append_ends(kept, scanner->ends + scan->first_end, scan->end_count));
    }
    for (unsigned i = 0; i < count; i++)
        TRY(buffer_append(kept, bytes + scanner->scans[i].segment_begin,
                          scanner->scans[i].segment_bytes));
    return buffer_append(kept, bytes + tail, length - tail);
}

struct status jpeg_scan_read(struct jpeg_scanner *scanner, const void *bytes, size_t length,
                             struct coefficients *coefficients, struct buffer *kept,
                             enum jpeg_refusal *ret_refusal)
{
    struct reader reader = reader_make(bytes, length);
    size_t tail;
    scanner->markers = (struct jpeg_markers){0};
    scanner->end_count = 0;
    *ret_refusal = JPEG_TAKEN;
    TRY(memory_grow(length + SCAN_SLACK_BYTES, 1, &scanner->bits, &scanner->bits_capacity));
    struct status status = scans_read(scanner, &reader, coefficients, &tail);
    if (status.code != STATUS_DONE) {
        if (status.code != STATUS_NO_MEMORY)
            *ret_refusal = scanner->markers.refusal;
        return status;
    }
    return kept_write(scanner, bytes, length, tail, kept);
}
