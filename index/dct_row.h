#ifndef HEADRACE_INDEX_DCT_ROW_H
#define HEADRACE_INDEX_DCT_ROW_H

/* Private to index/dct_blocks_*.c: where the streams of a row stand. All sizes follow from what was
 * read before, so that one look over a row proves that its blocks end where it does; after that no
 * block needs a check. */

#include "index/dct_blocks.h"

/* Streams at some block. Positions of bits are counted from the row's first byte. */
struct dct_streams {
    const uint8_t *bytes; /* of the row */
    const uint8_t *signs; /* where positions of `large` are those of the signs */
    uint64_t dc_bit, mask_bit, large_bit, field_bit;
    const uint8_t *escape, *low;
};

/* What headers add up to. */
struct dct_header_sums {
    uint64_t dc_bits, mask_bits;
    uint64_t lasts; /* blocks with coefficients beyond the DC */
};

/* How a variant counts. */
struct dct_counters {
    /* The sums of all headers, and of the first ones. */
    void (*headers)(const uint8_t *headers, uint32_t count, uint32_t first,
                    const struct dct_code *code, struct dct_header_sums *ret_all,
                    struct dct_header_sums *ret_first);
    /* The bits that are set in `count` bytes. */
    uint64_t (*ones)(const uint8_t *bytes, uint64_t count);
    /* Fields first … end − 1 with all bits set. */
    uint64_t (*escapes)(const uint8_t *field, uint64_t first, uint64_t end, unsigned field_bits);
    /* Bytes with DCT_TWO_BYTES. */
    uint64_t (*two_bytes)(const uint8_t *escape, uint64_t count);
};

/* 57 bits or more from a bit position on. */
static inline uint64_t dct_bits(const uint8_t *stream, uint64_t bit)
{
    return load_le64(stream + bit / 8) >> bit % 8;
}

/* 64 bits from a bit position on; up to 16 bytes behind that are read. */
static inline uint64_t dct_bits_64(const uint8_t *stream, uint64_t bit)
{
    const uint8_t *words = stream + bit / 64 * 8;
    return load_le64(words) >> bit % 64 | load_le64(words + 8) << 1 << (~bit % 64);
}

/* The lower `count` bits, count < 64. */
static inline uint64_t dct_low_bits(uint64_t bits, unsigned count)
{
    return bits & (((uint64_t)1 << count) - 1);
}

/* The sign-extended lower `count` bits, count < 64. */
static inline int64_t dct_signed(uint64_t bits, unsigned count)
{
    return (int64_t)(bits << 1 << (63 - count)) >> 1 >> (63 - count);
}

/* The mask of a block: bit k for place k of the zigzag order. The last one is not stored. */
static inline unsigned dct_mask_bits(unsigned last)
{
    return last - (last > 0);
}

static inline void dct_add_header(struct dct_header_sums *sums, unsigned header,
                                  const struct dct_code *code)
{
    unsigned last = header & DCT_LAST_MASK;
    sums->dc_bits += code->dc_bits[header >> DCT_CLASS_SHIFT];
    sums->mask_bits += dct_mask_bits(last);
    sums->lasts += last > 0;
}

static inline uint64_t dct_block_mask(uint64_t bits, unsigned last)
{
    uint64_t top = (uint64_t)1 << last;
    return (((bits << 1) & (top - 1)) | top) & ~(uint64_t)1;
}

static inline uint64_t dct_bytes(uint64_t bits)
{
    return (bits + 7) / 8;
}

/* The bits that are set among the first `bits`. */
static inline __attribute__((always_inline)) uint64_t dct_ones(const struct dct_counters *counters,
                                                               const uint8_t *stream, uint64_t bits)
{
    if (bits == 0)
        return 0;
    unsigned rest = (unsigned)__builtin_popcount(stream[bits / 8] & ((1U << bits % 8) - 1));
    return counters->ones(stream, bits / 8) + rest;
}

/* Sets the streams to block `first`. False where the row is not what its streams add up to. The
 * bits that fill up a stream's last byte count, too: they are zero, and if they were not, sizes
 * would come out too large and not too small. */
static inline __attribute__((always_inline)) bool dct_row_open(const struct dct_row *row,
                                                               uint32_t first,
                                                               const struct dct_counters *counters,
                                                               struct dct_streams *streams)
{
    const struct dct_code *code = row->code;
    if (row->length < row->blocks)
        return false;
    struct dct_header_sums all, before = {0};
    counters->headers(row->bytes, row->blocks, first, code, &all, &before);

    const uint8_t *bytes = row->bytes;
    uint64_t dc = row->blocks, mask = dc + dct_bytes(all.dc_bits);
    uint64_t large = mask + dct_bytes(all.mask_bits);
    if (large > row->length)
        return false;
    uint64_t flags = dct_bytes(all.lasts + counters->ones(bytes + mask, large - mask));
    uint64_t field = large + 2 * flags;
    if (field > row->length)
        return false;
    uint64_t large_before = before.lasts + dct_ones(counters, bytes + mask, before.mask_bits);
    uint64_t fields = counters->ones(bytes + large, flags);
    uint64_t fields_before = dct_ones(counters, bytes + large, large_before);

    uint64_t escape = field + dct_bytes(fields * code->field_bits);
    if (escape > row->length)
        return false;
    uint64_t escapes_before = counters->escapes(bytes + field, 0, fields_before, code->field_bits);
    uint64_t escapes =
        escapes_before + counters->escapes(bytes + field, fields_before, fields, code->field_bits);
    uint64_t low = escape + escapes;
    if (low > row->length)
        return false;
    uint64_t low_before = counters->two_bytes(bytes + escape, escapes_before);
    uint64_t lows =
        low_before + counters->two_bytes(bytes + escape + escapes_before, escapes - escapes_before);
    *streams = (struct dct_streams){
        .bytes = bytes,
        .signs = bytes + flags,
        .dc_bit = dc * 8,
        .mask_bit = mask * 8 + before.mask_bits,
        .large_bit = large * 8 + large_before,
        .field_bit = field * 8 + fields_before * code->field_bits,
        .escape = bytes + escape + escapes_before,
        .low = bytes + low + low_before,
    };
    return low + lows == row->length;
}

/* The next block's DC difference. */
static inline int64_t dct_next_dc(struct dct_streams *streams, unsigned header,
                                  const struct dct_code *code)
{
    unsigned bits = code->dc_bits[header >> DCT_CLASS_SHIFT];
    int64_t difference = dct_signed(dct_bits(streams->bytes, streams->dc_bit), bits);
    streams->dc_bit += bits;
    return difference;
}

/* The DC before block `first`. */
static inline int64_t dct_skip_dc(struct dct_streams *streams, const struct dct_row *row,
                                  uint32_t first)
{
    int64_t dc = 0;
    for (uint32_t i = 0; i < first; i++)
        dc += dct_next_dc(streams, row->bytes[i], row->code);
    return dc;
}

/* Sets magnitudes of two bytes right, whose places in zigzag order are `two_bytes`. `magnitudes`:
 * of a block, in zigzag order, with the flag and the high bits of these. Returns where the low
 * bytes go on. */
static inline const uint8_t *dct_add_two_bytes(uint64_t two_bytes, uint64_t negative,
                                               const uint8_t *magnitudes, const uint8_t *low,
                                               const struct dct_order *order, int16_t *out)
{
    for (; two_bytes; two_bytes &= two_bytes - 1) {
        unsigned place = (unsigned)__builtin_ctzll(two_bytes);
        int magnitude = (magnitudes[place] - DCT_TWO_BYTES) << 8 | *low++;
        out[order->place[place]] = (int16_t)(negative >> place & 1 ? -magnitude : magnitude);
    }
    return low;
}

/* --- Writing -------------------------------------------------------------------------------------
 */

static inline unsigned dct_magnitude(int value)
{
    return (unsigned)(value < 0 ? -value : value);
}

static inline unsigned dct_bit_length(unsigned value)
{
    return value ? 32 - (unsigned)__builtin_clz(value) : 0;
}

/* Bits that hold the value with its sign; 0 for 0. */
static inline unsigned dct_signed_bits(int value)
{
    return value == 0 ? 0 : dct_bit_length(value < 0 ? (unsigned)~value : (unsigned)value) + 1;
}

/* DC differences are taken modulo 65536. */
static inline int dct_dc_difference(const int16_t *block, int16_t before)
{
    return (int16_t)(uint16_t)(block[0] - before);
}

/* Appends `count` <= 56 bits, and writes up to 8 bytes beyond them. */
static inline void dct_sink_bits(struct dct_sink *sink, uint64_t bits, unsigned count)
{
    uint64_t pending = sink->pending | bits << sink->pending_bits;
    unsigned pending_bits = sink->pending_bits + count;
    store_le64(sink->next, pending);
    sink->next += pending_bits / 8;
    sink->pending = pending >> (pending_bits & ~7U);
    sink->pending_bits = pending_bits & 7;
}

/* Up to 64 bits, and writes up to 16 bytes beyond them. */
static inline void dct_sink_bits_64(struct dct_sink *sink, uint64_t bits, unsigned count)
{
    uint64_t pending = sink->pending | bits << sink->pending_bits;
    uint64_t beyond = bits >> 1 >> (63 - sink->pending_bits);
    unsigned pending_bits = sink->pending_bits + count;
    store_le64(sink->next, pending);
    store_le64(sink->next + 8, beyond);
    sink->next += pending_bits / 8;
    sink->pending = pending_bits < 64 ? pending >> (pending_bits & 56) : beyond;
    sink->pending_bits = pending_bits & 7;
}

static inline void dct_sink_byte(struct dct_sink *sink, unsigned byte)
{
    *sink->next++ = (uint8_t)byte;
}

/* The header of a block and its DC. */
static inline void dct_write_dc(struct dct_sink *sinks, int difference, unsigned last,
                                const struct dct_code *code)
{
    unsigned class = 0, needed = dct_signed_bits(difference);
    for (unsigned i = 0; i < DCT_DC_CLASSES - 1; i++) /* counted, as no branch would foresee it */
        class += code->dc_bits[i] < needed;
    unsigned bits = code->dc_bits[class];
    dct_sink_byte(&sinks[DCT_STREAM_HEADER], last | class << DCT_CLASS_SHIFT);
    dct_sink_bits(&sinks[DCT_STREAM_DC], dct_low_bits((uint64_t)difference, bits), bits);
}

/* The place of the last coefficient of a mask. */
static inline unsigned dct_last(uint64_t mask)
{
    return 63 - (unsigned)__builtin_clzll(mask | 1);
}

/* A magnitude that no field holds. */
static inline void dct_write_escape(struct dct_sink *sinks, unsigned magnitude)
{
    if (magnitude < DCT_TWO_BYTES) {
        dct_sink_byte(&sinks[DCT_STREAM_ESCAPE], magnitude);
    } else {
        dct_sink_byte(&sinks[DCT_STREAM_ESCAPE], magnitude >> 8 | DCT_TWO_BYTES);
        dct_sink_byte(&sinks[DCT_STREAM_LOW], magnitude);
    }
}

#ifdef __x86_64__
/* What AVX-512 could do better here is not worth a second one. */
void dct_measure_row_avx2(const int16_t (*blocks)[64], uint32_t count, struct dct_lengths *lengths);
#endif

#endif
