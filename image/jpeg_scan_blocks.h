#ifndef HEADRACE_IMAGE_JPEG_SCAN_BLOCKS_H
#define HEADRACE_IMAGE_JPEG_SCAN_BLOCKS_H

/* Private to image/jpeg_scan_plain.c, _avx2.c and _avx512.c, which compile the same loops for an
 * instruction set each: what they gain most from are BMI2's shifts by a variable count. */

#include <string.h>

#include "base/bytes.h"
#include "image/jpeg_scan_kernels.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

/* --- Reading -------------------------------------------------------------------------------------
 */

/* Fills the window up to at least 56 bits. The bytes that are taken were loaded before, so that
 * only shift and or lie between two lookups. */
static inline void bits_refill(struct scan_bits *bits)
{
    bits->window |= bits->ahead >> bits->count;
    bits->next += (63 - bits->count) >> 3;
    bits->ahead = load_be64(bits->next);
    bits->count |= 56;
}

static inline void bits_drop(struct scan_bits *bits, unsigned count)
{
    bits->window <<= count;
    bits->count -= count;
}

/* The value behind a code: those that begin with a 0 are negative, with all bits inverted. */
static inline int32_t entry_value(uint64_t window, uint32_t entry)
{
    uint64_t value = window << huffman_code_bits(entry);
    uint64_t negative = ~(uint64_t)((int64_t)value >> 63);
    uint64_t magnitude = (value ^ negative) >> 1 >> huffman_value_shift(entry);
    return (int32_t)((magnitude ^ negative) - negative);
}

/* The entry of a code that is longer than the lookup table reaches. */
static __attribute__((noinline)) uint32_t entry_find_long(const struct huffman_decoder *decoder,
                                                          uint64_t window)
{
    return huffman_find_long(decoder, (unsigned)(window >> 48));
}

/* Places one coefficient that is not 0 and moves *k to it; false at the block's end, which is well
 * where *k is HUFFMAN_END. */
static inline bool ac_take(struct scan_bits *bits, uint32_t entry, int16_t *block, unsigned *k)
{
    unsigned place = *k + huffman_advance(entry);
    if (place > 63) {
        *k = huffman_advance(entry);
        bits_drop(bits, huffman_total_bits(entry));
        return false;
    }
    block[place] = (int16_t)entry_value(bits->window, entry);
    bits_drop(bits, huffman_total_bits(entry));
    *k = place;
    if (place < 63)
        return true;
    *k = block[63] ? HUFFMAN_END : HUFFMAN_INVALID; /* zeros at the end need no code */
    return false;
}

/* The same for any code, with the window filled before and after: a code and its value may want 31
 * bits. */
static inline bool ac_read_one(struct scan_bits *bits, const struct huffman_decoder *decoder,
                               int16_t *block, unsigned *k)
{
    bits_refill(bits);
    uint32_t entry = decoder->lookup[bits->window >> (64 - HUFFMAN_LOOKUP_BITS)];
    if (huffman_advance(entry) == HUFFMAN_LONG)
        entry = entry_find_long(decoder, bits->window);
    bool goes_on = ac_take(bits, entry, block, k);
    bits_refill(bits);
    return goes_on;
}

/* Places the one or two coefficients that the pair table has for the next bits, 26 at most. */
static inline __attribute__((always_inline)) bool ac_read(struct scan_bits *bits,
                                                          const struct huffman_decoder *decoder,
                                                          int16_t *block, unsigned *k)
{
    uint64_t pair = decoder->pairs[bits->window >> (64 - HUFFMAN_PAIR_BITS)];
    unsigned next = *k + huffman_pair_advance(pair);
    unsigned first = *k + huffman_pair_first(pair);
    if (__builtin_expect(next < 63, 1)) {
        /* Where there is no second one, this is overwritten. */
        block[*k + huffman_pair_second(pair)] = huffman_pair_second_value(pair);
        block[first] = huffman_pair_value(pair, bits->window);
        bits_drop(bits, huffman_pair_bits(pair));
        *k = next;
        return true;
    }
    /* After a value in place 63 comes no end of block. */
    if (huffman_pair_advance(pair) < HUFFMAN_END || huffman_pair_advance(pair) >= HUFFMAN_LONG ||
        first > 62)
        return ac_read_one(bits, decoder, block, k);
    if (huffman_pair_first(pair) > 0)
        block[first] = huffman_pair_value(pair, bits->window);
    bits_drop(bits, huffman_pair_bits(pair));
    *k = HUFFMAN_END;
    return false;
}

static inline __attribute__((always_inline)) bool block_read(struct scan_bits *bits,
                                                             const struct scan_run_block *at,
                                                             int32_t *dc, int16_t *block)
{
    bits_refill(bits);
    uint32_t entry = at->dc->lookup[bits->window >> (64 - HUFFMAN_LOOKUP_BITS)];
    if (__builtin_expect(huffman_advance(entry) == HUFFMAN_LONG, 0))
        entry = entry_find_long(at->dc, bits->window);
    if (huffman_advance(entry) == HUFFMAN_INVALID)
        return false;
    *dc += entry_value(bits->window, entry);
    bits_drop(bits, huffman_total_bits(entry));
    memset(block, 0, 64 * sizeof *block);
    block[0] = (int16_t)*dc;

    const struct huffman_decoder *ac = at->ac;
    unsigned k = 0;
    do
        bits_refill(bits);
    while (ac_read(bits, ac, block, &k) && ac_read(bits, ac, block, &k));
    return k == HUFFMAN_END && (int16_t)*dc == *dc;
}

static inline bool run_read(struct scan_run *run, uint32_t count)
{
    struct scan_bits bits = run->bits;
    for (uint32_t mcu = 0; mcu < count; mcu++) {
        for (unsigned b = 0; b < run->block_count; b++) {
            struct scan_run_block *at = &run->blocks[b];
            if (!block_read(&bits, at, &run->dc[at->slot], *at->next))
                return false;
            at->next += at->step;
        }
        /* Up to eight bytes are loaded before they are wanted; what is really too much shows at the
         * interval's end. */
        if (bits.next > run->end + 16)
            return false;
    }
    run->bits = bits;
    return true;
}

/* --- Writing -------------------------------------------------------------------------------------
 */

/* Bit k: block[k] is not 0. */
#ifdef __AVX2__
static inline uint64_t zero_mask_half(const int16_t *values)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)values);
    __m256i high = _mm256_loadu_si256((const __m256i *)(values + 16));
    __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8);
    __m256i zeros = _mm256_cmpeq_epi8(bytes, _mm256_setzero_si256());
    return (uint32_t)_mm256_movemask_epi8(zeros);
}

static inline uint64_t nonzero_mask(const int16_t *block)
{
    return ~(zero_mask_half(block) | zero_mask_half(block + 32) << 32);
}
#else
static inline uint64_t nonzero_mask(const int16_t *block)
{
    const uint64_t gather = 0x0102040810204080; /* bit 0 of each byte into the uppermost byte */
    uint8_t flags[64];
    uint64_t mask = 0;
    for (unsigned k = 0; k < 64; k++)
        flags[k] = block[k] != 0;
    for (unsigned k = 0; k < 64; k += 8)
        mask |= (load_le64(flags + k) * gather >> 56) << k;
    return mask;
}
#endif

struct scan_out {
    uint64_t pending;
    unsigned count; /* below 8 */
    uint8_t *next;
};

static inline void bits_put(struct scan_out *out, uint64_t bits, unsigned count)
{
    out->count += count;
    out->pending |= bits << (64 - out->count);
    store_le64(out->next, __builtin_bswap64(out->pending));
    out->next += out->count >> 3;
    out->pending <<= out->count & 56;
    out->count &= 7;
}

/* Writes the code of `run` zeros and a value; false where it has none. Values of 16 bits and more
 * have none. */
static inline bool value_put(struct scan_out *out, const struct huffman_encoder *encoder,
                             unsigned run, int32_t value)
{
    int32_t negative = value >> 31;
    uint32_t magnitude = (uint32_t)((value ^ negative) - negative);
    unsigned size = magnitude ? 32 - (unsigned)__builtin_clz(magnitude) : 0;
    if (size > 15)
        return false;
    uint64_t entry = encoder->entries[run << 4 | size];
    uint64_t low = (uint64_t)(uint32_t)(value + negative) & ((1U << size) - 1);
    if (entry == 0)
        return false;
    bits_put(out, entry >> 6 | low, entry & 63);
    return true;
}

/* Writes all of a block but its DC. */
static inline bool acs_write(struct scan_out *out, const struct huffman_encoder *encoder,
                             const int16_t *block)
{
    unsigned last = 0;
    for (uint64_t mask = nonzero_mask(block) & ~(uint64_t)1; mask; mask &= mask - 1) {
        unsigned place = (unsigned)__builtin_ctzll(mask), run = place - last - 1;
        for (; __builtin_expect(run > 15, 0); run -= 16) {
            if (!value_put(out, encoder, 15, 0))
                return false;
        }
        if (!value_put(out, encoder, run, block[place]))
            return false;
        last = place;
    }
    return last == 63 || value_put(out, encoder, 0, 0);
}

typedef bool acs_writer(struct scan_out *out, const struct huffman_encoder *encoder,
                        const int16_t *block);

static inline __attribute__((always_inline)) bool run_write_with(struct scan_run *run,
                                                                 uint32_t count, acs_writer *write,
                                                                 uint32_t *ret_done)
{
    struct scan_out out = {run->pending, run->pending_count, run->out};
    uint32_t mcu = 0;
    for (; mcu < count && out.next < run->out_limit; mcu++) {
        for (unsigned b = 0; b < run->block_count; b++) {
            struct scan_run_block *at = &run->blocks[b];
            const int16_t *block = *at->next;
            if (!value_put(&out, at->dc_code, 0, block[0] - run->dc[at->slot]) ||
                !write(&out, at->ac_code, block))
                return false;
            run->dc[at->slot] = block[0];
            at->next += at->step;
        }
    }
    run->pending = out.pending;
    run->pending_count = out.count;
    run->out = out.next;
    *ret_done = mcu;
    return true;
}

static inline bool run_write(struct scan_run *run, uint32_t count, uint32_t *ret_done)
{
    return run_write_with(run, count, acs_write, ret_done);
}

#endif
