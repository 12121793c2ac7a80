#include <string.h>

#include "index/dct_row.h"

static void sum_headers(const uint8_t *headers, uint32_t count, uint32_t first,
                        const struct dct_code *code, struct dct_header_sums *ret_all,
                        struct dct_header_sums *ret_first)
{
    struct dct_header_sums sums = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (i == first)
            *ret_first = sums;
        dct_add_header(&sums, headers[i], code);
    }
    if (first == count)
        *ret_first = sums;
    *ret_all = sums;
}

static uint64_t count_ones(const uint8_t *bytes, uint64_t count)
{
    uint64_t ones = 0;
    for (uint64_t i = 0; i < count; i++)
        ones += (unsigned)__builtin_popcount(bytes[i]);
    return ones;
}

static uint64_t count_escapes(const uint8_t *field, uint64_t first, uint64_t end,
                              unsigned field_bits)
{
    unsigned escape = (1U << field_bits) - 1;
    uint64_t count = 0;
    for (uint64_t i = first; i < end; i++)
        count += dct_low_bits(dct_bits(field, i * field_bits), field_bits) == escape;
    return count;
}

static uint64_t count_two_bytes(const uint8_t *escape, uint64_t count)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i++)
        found += (escape[i] & DCT_TWO_BYTES) != 0;
    return found;
}

static const struct dct_counters counters = {sum_headers, count_ones, count_escapes,
                                             count_two_bytes};

/* The next magnitude above 1. */
static int read_large(struct dct_streams *streams, unsigned field_bits)
{
    unsigned escape = (1U << field_bits) - 1;
    unsigned field =
        (unsigned)dct_low_bits(dct_bits(streams->bytes, streams->field_bit), field_bits);
    streams->field_bit += field_bits;
    if (field < escape)
        return (int)field + DCT_FIELD_BASE;
    unsigned byte = *streams->escape++;
    if (byte < DCT_TWO_BYTES)
        return (int)byte;
    return (int)(byte - DCT_TWO_BYTES) << 8 | *streams->low++;
}

/* All coefficients but the DC. */
static void read_block(struct dct_streams *streams, unsigned last, unsigned field_bits,
                       const struct dct_order *order, int16_t *out)
{
    memset(out, 0, 64 * sizeof *out);
    uint64_t mask = dct_block_mask(dct_bits_64(streams->bytes, streams->mask_bit), last);
    streams->mask_bit += dct_mask_bits(last);
    uint64_t large = dct_bits_64(streams->bytes, streams->large_bit);
    uint64_t negative = dct_bits_64(streams->signs, streams->large_bit);
    streams->large_bit += (unsigned)__builtin_popcountll(mask);
    for (; mask; mask &= mask - 1, large >>= 1, negative >>= 1) {
        int magnitude = large & 1 ? read_large(streams, field_bits) : 1;
        out[order->place[__builtin_ctzll(mask)]] = (int16_t)(negative & 1 ? -magnitude : magnitude);
    }
}

static bool read_row(const struct dct_row *row, const struct dct_order *order, uint32_t first,
                     uint32_t count, int16_t (*out)[64])
{
    struct dct_streams streams;
    if (!dct_row_open(row, first, &counters, &streams))
        return false;
    int64_t dc = dct_skip_dc(&streams, row, first);
    for (uint32_t i = 0; i < count; i++) {
        unsigned header = row->bytes[first + i];
        read_block(&streams, header & DCT_LAST_MASK, row->code->field_bits, order, out[i]);
        dc += dct_next_dc(&streams, header, row->code);
        out[i][0] = (int16_t)dc;
    }
    return true;
}

/* --- Writing -------------------------------------------------------------------------------------
 */

static void write_large(struct dct_sink *sinks, unsigned magnitude, unsigned field_bits)
{
    unsigned escape = (1U << field_bits) - 1, field = magnitude - DCT_FIELD_BASE;
    dct_sink_bits(&sinks[DCT_STREAM_FIELD], field < escape ? field : escape, field_bits);
    if (field >= escape)
        dct_write_escape(sinks, magnitude);
}

static bool write_block(struct dct_sink *sinks, const int16_t *block, int16_t dc_before,
                        const struct dct_code *code)
{
    uint64_t mask = 0, large = 0, negative = 0;
    unsigned count = 0;
    for (unsigned k = 1; k < 64; k++) {
        if (block[k] == 0)
            continue;
        if (block[k] == INT16_MIN)
            return false;
        unsigned magnitude = dct_magnitude(block[k]);
        mask |= (uint64_t)1 << k;
        large |= (uint64_t)(magnitude > 1) << count;
        negative |= (uint64_t)(block[k] < 0) << count;
        if (magnitude > 1)
            write_large(sinks, magnitude, code->field_bits);
        count++;
    }
    unsigned last = dct_last(mask), mask_bits = dct_mask_bits(last);
    dct_write_dc(sinks, dct_dc_difference(block, dc_before), last, code);
    dct_sink_bits_64(&sinks[DCT_STREAM_MASK], dct_low_bits(mask >> 1, mask_bits), mask_bits);
    dct_sink_bits_64(&sinks[DCT_STREAM_LARGE], large, count);
    dct_sink_bits_64(&sinks[DCT_STREAM_SIGN], negative, count);
    return true;
}

static bool write_row(const int16_t (*blocks)[64], uint32_t count, const struct dct_code *code,
                      struct dct_sink *sinks)
{
    for (uint32_t i = 0; i < count; i++)
        if (!write_block(sinks, blocks[i], i > 0 ? blocks[i - 1][0] : 0, code))
            return false;
    return true;
}

static void measure_row(const int16_t (*blocks)[64], uint32_t count, struct dct_lengths *lengths)
{
    for (uint32_t i = 0; i < count; i++) {
        int difference = dct_dc_difference(blocks[i], i > 0 ? blocks[i - 1][0] : 0);
        lengths->dc[dct_signed_bits(difference)]++;
        for (unsigned k = 1; k < 64; k++)
            for (unsigned b = 0; b <= DCT_MAX_FIELD_BITS; b++)
                lengths->above[b] += dct_magnitude(blocks[i][k]) > 1U << b;
    }
}

const struct dct_kernels dct_plain = {read_row, write_row, measure_row};
