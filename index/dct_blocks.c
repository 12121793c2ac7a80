#include "index/dct_blocks.h"

#include <string.h>

#include "base/memory.h"
#include "index/dct_row.h"

const struct dct_kernels *dct_kernels_for(enum cpu_level level)
{
#ifdef __x86_64__
    if (level >= CPU_AVX512)
        return &dct_avx512;
#endif
    (void)level;
    return &dct_plain;
}

/* --- Widths --------------------------------------------------------------------------------------
 */

static unsigned magnitude_of(int value)
{
    return (unsigned)(value < 0 ? -value : value);
}

static unsigned bit_length(unsigned value)
{
    return value ? 32 - (unsigned)__builtin_clz(value) : 0;
}

/* Bits that hold the value with its sign; 0 for 0. */
static unsigned signed_bits(int value)
{
    return value == 0 ? 0 : bit_length(value < 0 ? (unsigned)~value : (unsigned)value) + 1;
}

/* DC differences are taken modulo 65536. */
static int dc_difference(const int16_t *block, int16_t before)
{
    return (int16_t)(uint16_t)(block[0] - before);
}

/* How often numbers of each length in bits occur. */
struct lengths {
    uint64_t dc[DCT_MAX_DC_BITS + 1];
    uint64_t magnitude[17]; /* of magnitude − 1, so that 2^w + 1 is the first of length w + 1 */
};

static struct lengths count_lengths(const int16_t (*blocks)[64], uint32_t wide, uint32_t high)
{
    struct lengths lengths = {0};
    for (uint64_t i = 0; i < (uint64_t)wide * high; i++) {
        int16_t before = i % wide == 0 ? 0 : blocks[i - 1][0];
        lengths.dc[signed_bits(dc_difference(blocks[i], before))]++;
        for (unsigned k = 1; k < 64; k++)
            if (blocks[i][k])
                lengths.magnitude[bit_length(magnitude_of(blocks[i][k]) - 1)]++;
    }
    return lengths;
}

/* The bits of all DC differences when class c is the smallest that holds a number. */
static uint64_t dc_cost(const struct lengths *lengths, const uint8_t *dc_bits)
{
    uint64_t cost = 0;
    unsigned class = 0;
    for (unsigned bits = 0; bits <= DCT_MAX_DC_BITS; bits++) {
        class += bits > dc_bits[class];
        cost += lengths->dc[bits] * dc_bits[class];
    }
    return cost;
}

static void choose_dc_bits(const struct lengths *lengths, uint8_t *ret_dc_bits)
{
    uint64_t best = UINT64_MAX;
    uint8_t bits[DCT_DC_CLASSES] = {[DCT_DC_CLASSES - 1] = DCT_MAX_DC_BITS};
    for (bits[0] = 0; bits[0] < DCT_MAX_DC_BITS; bits[0]++)
        for (bits[1] = bits[0] + 1; bits[1] < DCT_MAX_DC_BITS; bits[1]++)
            for (bits[2] = bits[1] + 1; bits[2] < DCT_MAX_DC_BITS; bits[2]++) {
                uint64_t cost = dc_cost(lengths, bits);
                if (cost < best)
                    memcpy(ret_dc_bits, bits, sizeof bits);
                best = cost < best ? cost : best;
            }
}

/* The bits of fields and escapes; that of two-byte escapes is the same for all widths. */
static uint64_t field_cost(const struct lengths *lengths, unsigned field_bits)
{
    uint64_t cost = 0;
    for (unsigned bits = 1; bits < ARRAY_LENGTH(lengths->magnitude); bits++)
        cost += lengths->magnitude[bits] * (field_bits + (bits > field_bits ? 8 : 0));
    return cost;
}

static unsigned choose_field_bits(const struct lengths *lengths)
{
    unsigned best = 1;
    for (unsigned bits = 2; bits <= DCT_MAX_FIELD_BITS; bits++)
        if (field_cost(lengths, bits) < field_cost(lengths, best))
            best = bits;
    return best;
}

struct dct_code dct_code_choose(const int16_t (*blocks)[64], uint32_t wide, uint32_t high)
{
    struct lengths lengths = count_lengths(blocks, wide, high);
    struct dct_code code = {.field_bits = (uint8_t)choose_field_bits(&lengths)};
    choose_dc_bits(&lengths, code.dc_bits);
    return code;
}

/* --- Rows ----------------------------------------------------------------------------------------
 */

/* A stream that is being written: whole bytes at `next`, fewer than 8 bits in `pending`. */
struct sink {
    uint8_t *start, *next;
    uint64_t pending;
    unsigned pending_bits;
};

/* Writes up to 8 bytes beyond the stream's end. */
static void sink_bits(struct sink *sink, uint64_t bits, unsigned count)
{
    if (count > 32) {
        sink_bits(sink, (uint32_t)bits, 32);
        bits >>= 32;
        count -= 32;
    }
    sink->pending |= bits << sink->pending_bits;
    sink->pending_bits += count;
    store_le64(sink->next, sink->pending);
    sink->next += sink->pending_bits / 8;
    sink->pending >>= sink->pending_bits & ~7U;
    sink->pending_bits &= 7;
}

static void sink_byte(struct sink *sink, unsigned byte)
{
    *sink->next++ = (uint8_t)byte;
}

/* In the order in which they stand in a row. */
enum {
    SINK_HEADER,
    SINK_DC,
    SINK_MASK,
    SINK_LARGE,
    SINK_SIGN,
    SINK_FIELD,
    SINK_ESCAPE,
    SINK_LOW,
    SINK_COUNT,
};

/* The most bytes that a block gives each of them. */
static const uint8_t sink_block_bytes[SINK_COUNT] = {1, 2, 8, 8, 8, 56, 63, 63};
static const size_t sink_slack_bytes = 8;

static struct status sinks_open(uint32_t blocks, struct buffer *scratch, struct sink *sinks)
{
    size_t sizes[SINK_COUNT], total = 0;
    for (unsigned i = 0; i < SINK_COUNT; i++) {
        sizes[i] = (size_t)sink_block_bytes[i] * blocks + sink_slack_bytes;
        total += sizes[i];
    }
    TRY(buffer_reserve(scratch, total));
    uint8_t *start = scratch->data;
    for (unsigned i = 0; i < SINK_COUNT; i++) {
        sinks[i] = (struct sink){.start = start, .next = start};
        start += sizes[i];
    }
    return OK;
}

static void write_dc(struct sink *sinks, int difference, unsigned last, const struct dct_code *code)
{
    unsigned class = 0;
    while (code->dc_bits[class] < signed_bits(difference))
        class ++;
    unsigned bits = code->dc_bits[class];
    sink_byte(&sinks[SINK_HEADER], last | class << DCT_CLASS_SHIFT);
    sink_bits(&sinks[SINK_DC], dct_low_bits((uint64_t)difference, bits), bits);
}

static void write_magnitude(struct sink *sinks, unsigned magnitude, unsigned field_bits)
{
    unsigned escape = (1U << field_bits) - 1, field = magnitude - DCT_FIELD_BASE;
    sink_bits(&sinks[SINK_FIELD], field < escape ? field : escape, field_bits);
    if (field < escape)
        return;
    if (magnitude < DCT_TWO_BYTES) {
        sink_byte(&sinks[SINK_ESCAPE], magnitude);
    } else {
        sink_byte(&sinks[SINK_ESCAPE], magnitude >> 8 | DCT_TWO_BYTES);
        sink_byte(&sinks[SINK_LOW], magnitude);
    }
}

static uint64_t block_mask(const int16_t *block)
{
    uint64_t mask = 0;
    for (unsigned k = 1; k < 64; k++)
        mask |= (uint64_t)(block[k] != 0) << k;
    return mask;
}

/* Returns whether the format can hold the block. */
static bool write_block(struct sink *sinks, const int16_t *block, int16_t dc_before,
                        const struct dct_code *code)
{
    uint64_t mask = block_mask(block), large = 0, negative = 0;
    unsigned last = mask ? 63 - (unsigned)__builtin_clzll(mask) : 0, count = 0;
    write_dc(sinks, dc_difference(block, dc_before), last, code);
    sink_bits(&sinks[SINK_MASK], dct_low_bits(mask >> 1, dct_mask_bits(last)), dct_mask_bits(last));
    for (; mask; mask &= mask - 1, count++) {
        int value = block[__builtin_ctzll(mask)];
        if (value == INT16_MIN)
            return false;
        unsigned magnitude = magnitude_of(value);
        negative |= (uint64_t)(value < 0) << count;
        large |= (uint64_t)(magnitude > 1) << count;
        if (magnitude > 1)
            write_magnitude(sinks, magnitude, code->field_bits);
    }
    sink_bits(&sinks[SINK_LARGE], large, count);
    sink_bits(&sinks[SINK_SIGN], negative, count);
    return true;
}

struct status dct_row_write(const int16_t (*blocks)[64], uint32_t count,
                            const struct dct_code *code, struct buffer *scratch, struct buffer *out)
{
    struct sink sinks[SINK_COUNT];
    TRY(sinks_open(count, scratch, sinks));
    for (uint32_t i = 0; i < count; i++)
        if (!write_block(sinks, blocks[i], i > 0 ? blocks[i - 1][0] : 0, code))
            FAIL(STATUS_UNSUPPORTED, "a coefficient is %d", INT16_MIN);
    for (unsigned i = 0; i < SINK_COUNT; i++) {
        size_t length = (size_t)(sinks[i].next - sinks[i].start) + (sinks[i].pending_bits > 0);
        TRY(buffer_append(out, sinks[i].start, length));
    }
    return OK;
}
