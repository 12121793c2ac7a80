#include "index/dct_blocks.h"

#include <string.h>

#include "index/dct_row.h"

const struct dct_kernels *dct_kernels_for(enum cpu_level level)
{
#ifdef __x86_64__
    if (level >= CPU_AVX512)
        return &dct_avx512;
    if (level >= CPU_AVX2)
        return &dct_avx2;
#endif
    (void)level;
    return &dct_plain;
}

/* --- Widths --------------------------------------------------------------------------------------
 */

/* So many rows are looked at, and fewer than twice as many, where there are so many. */
static const uint32_t sample_rows = 8;

static struct dct_lengths sample_measure(const struct dct_kernels *kernels,
                                         const int16_t (*blocks)[64], uint32_t wide, uint32_t high)
{
    struct dct_lengths lengths = {0};
    uint32_t step = high > sample_rows ? high / sample_rows : 1;
    for (uint32_t row = 0; row < high; row += step)
        kernels->measure(blocks + (size_t)row * wide, wide, &lengths);
    return lengths;
}

/* The bits of all DC differences when class c is the smallest that holds a number. `up_to[b]`:
 * differences of b bits or fewer. */
static uint64_t dc_cost(const uint64_t *up_to, const uint8_t *dc_bits)
{
    uint64_t cost = dc_bits[0] * up_to[dc_bits[0]];
    for (unsigned class = 1; class < DCT_DC_CLASSES; class ++)
        cost += dc_bits[class] * (up_to[dc_bits[class]] - up_to[dc_bits[class - 1]]);
    return cost;
}

static void choose_dc_bits(const struct dct_lengths *lengths, uint8_t *ret_dc_bits)
{
    uint64_t best = UINT64_MAX, up_to[DCT_MAX_DC_BITS + 1] = {lengths->dc[0]};
    for (unsigned i = 1; i <= DCT_MAX_DC_BITS; i++)
        up_to[i] = up_to[i - 1] + lengths->dc[i];
    uint8_t bits[DCT_DC_CLASSES] = {[DCT_DC_CLASSES - 1] = DCT_MAX_DC_BITS};
    for (bits[0] = 0; bits[0] < DCT_MAX_DC_BITS; bits[0]++)
        for (bits[1] = bits[0] + 1; bits[1] < DCT_MAX_DC_BITS; bits[1]++)
            for (bits[2] = bits[1] + 1; bits[2] < DCT_MAX_DC_BITS; bits[2]++) {
                uint64_t cost = dc_cost(up_to, bits);
                if (cost < best)
                    memcpy(ret_dc_bits, bits, sizeof bits);
                best = cost < best ? cost : best;
            }
}

/* The bits of fields and escapes; that of two-byte escapes is the same for all widths. */
static uint64_t field_cost(const struct dct_lengths *lengths, unsigned field_bits)
{
    return lengths->above[0] * field_bits + lengths->above[field_bits] * 8;
}

static unsigned choose_field_bits(const struct dct_lengths *lengths)
{
    unsigned best = 1;
    for (unsigned bits = 2; bits <= DCT_MAX_FIELD_BITS; bits++)
        if (field_cost(lengths, bits) < field_cost(lengths, best))
            best = bits;
    return best;
}

struct dct_code dct_code_choose(const struct dct_kernels *kernels, const int16_t (*blocks)[64],
                                uint32_t wide, uint32_t high)
{
    struct dct_lengths lengths = sample_measure(kernels, blocks, wide, high);
    struct dct_code code = {.field_bits = (uint8_t)choose_field_bits(&lengths)};
    choose_dc_bits(&lengths, code.dc_bits);
    return code;
}

/* --- Rows ----------------------------------------------------------------------------------------
 */

/* The most bytes that a block gives each stream. */
static const uint8_t block_bytes[DCT_STREAMS] = {1, 2, 8, 8, 8, 48, 63, 63};
static const size_t slack_bytes = 64;

static struct status sinks_open(uint32_t blocks, struct buffer *scratch, struct dct_sink *sinks)
{
    size_t sizes[DCT_STREAMS], total = 0;
    for (unsigned i = 0; i < DCT_STREAMS; i++) {
        sizes[i] = (size_t)block_bytes[i] * blocks + slack_bytes;
        total += sizes[i];
    }
    TRY(buffer_reserve(scratch, total));
    uint8_t *start = scratch->data;
    for (unsigned i = 0; i < DCT_STREAMS; i++) {
        sinks[i] = (struct dct_sink){.start = start, .next = start};
        start += sizes[i];
    }
    return OK;
}

struct status dct_row_write(const struct dct_kernels *kernels, const int16_t (*blocks)[64],
                            uint32_t count, const struct dct_code *code, struct buffer *scratch,
                            struct buffer *out)
{
    struct dct_sink sinks[DCT_STREAMS];
    TRY(sinks_open(count, scratch, sinks));
    if (!kernels->write(blocks, count, code, sinks))
        FAIL(STATUS_UNSUPPORTED, "a coefficient is %d", INT16_MIN);
    for (unsigned i = 0; i < DCT_STREAMS; i++) {
        size_t length = (size_t)(sinks[i].next - sinks[i].start) + (sinks[i].pending_bits > 0);
        TRY(buffer_append(out, sinks[i].start, length));
    }
    return OK;
}
