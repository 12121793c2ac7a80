#ifdef __x86_64__

#include "image/jpeg_scan_blocks.h"

/* A block's codes are looked up and put together beside each other; only what four of them make is
 * appended one by one. What no lane holds goes the plain way: magnitudes above MAX_MAGNITUDE, codes
 * that with their values have more than MAX_SYMBOL_BITS, a symbol without a code. */

enum {
    MAX_MAGNITUDE = 255,
    MAX_SYMBOL_BITS = 16,
    MAX_PUT_BITS = 56,
    SYMBOLS = 64, /* of a block, at most: 63 coefficients, and its end unless the last is not 0 */
};

/* Bit k: 16 places from k on are not in the mask. */
static inline uint64_t sixteen_zeros(uint64_t mask)
{
    uint64_t zeros = ~mask;
    zeros &= zeros >> 1;
    zeros &= zeros >> 2;
    zeros &= zeros >> 4;
    return zeros & zeros >> 8;
}

/* The places of all symbols, given those of the coefficients that are not 0. The symbol for 16
 * zeros is that of a 0 in the last of their places, behind a run of 15. */
static inline uint64_t symbol_places(uint64_t mask)
{
    const uint64_t dc = 1;
    uint64_t below_last = UINT64_MAX >> 1 >> _lzcnt_u64(mask | dc);
    uint64_t zeros = sixteen_zeros(mask | dc) & below_last;
    while (__builtin_expect(zeros != 0, 0)) {
        mask |= (uint64_t)1 << (_tzcnt_u64(zeros) + 15);
        zeros = sixteen_zeros(mask | dc) & below_last;
    }
    return mask;
}

static inline __m512i byte_table(uint64_t upper, uint64_t lower)
{
    return _mm512_broadcast_i32x4(_mm_set_epi64x((int64_t)lower, (int64_t)upper));
}

/* How many bits each byte needs. */
static inline __m512i bit_lengths(__m512i bytes)
{
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i of_low = byte_table(0x0303030302020100, 0x0404040404040404);
    const __m512i of_high = byte_table(0x0707070706060500, 0x0808080808080808);
    __m512i low = _mm512_shuffle_epi8(of_low, _mm512_and_si512(bytes, nibble));
    __m512i high =
        _mm512_shuffle_epi8(of_high, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), nibble));
    return _mm512_max_epu8(low, high);
}

/* The bytes of a table of 256 that `symbols` stand for; 0 in other lanes than the valid ones. */
static inline __m512i look_up(__mmask64 valid, const uint8_t *table, __m512i symbols)
{
    __m512i low = _mm512_maskz_permutex2var_epi8(valid, _mm512_loadu_si512(table), symbols,
                                                 _mm512_loadu_si512(table + 64));
    __m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(table + 128), symbols,
                                            _mm512_loadu_si512(table + 192));
    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(symbols) & valid, high);
}

/* The symbols of a block, a byte each, in their order. */
struct symbols {
    __m512i lengths, codes_low, codes_high; /* the codes */
    __m512i sizes, values;                  /* the bits behind them */
    unsigned count;
};

/* False where the block has to go the plain way. */
static inline bool symbols_make(const struct huffman_encoder *encoder, const int16_t *block,
                                struct symbols *ret_symbols)
{
    const uint64_t not_dc = ~(uint64_t)1;
    __m512i upper = _mm512_loadu_si512(block), lower = _mm512_loadu_si512(block + 32);
    uint64_t negative = _mm512_movepi16_mask(upper) | (uint64_t)_mm512_movepi16_mask(lower) << 32;
    upper = _mm512_maskz_abs_epi16((__mmask32)not_dc, upper);
    lower = _mm512_abs_epi16(lower);
    if (_mm512_test_epi16_mask(_mm512_or_si512(upper, lower),
                               _mm512_set1_epi16((short)~MAX_MAGNITUDE)))
        return false;
    __m512i magnitudes = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(upper)),
                                            _mm512_cvtepi16_epi8(lower), 1);
    __m512i sizes = bit_lengths(magnitudes);
    /* Those below 0 are written with all bits inverted. */
    const __m512i ones = byte_table(0x7f3f1f0f07030100, 0xff);
    __m512i values =
        _mm512_xor_si512(magnitudes, _mm512_maskz_shuffle_epi8(negative & not_dc, ones, sizes));

    const __m512i places =
        _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45,
                        44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26,
                        25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6,
                        5, 4, 3, 2, 1, 0);
    const __m512i one = _mm512_set1_epi8(1);
    uint64_t mask = symbol_places(_mm512_test_epi8_mask(magnitudes, magnitudes));
    unsigned coefficients = (unsigned)_mm_popcnt_u64(mask);
    unsigned count = coefficients + (unsigned)(~mask >> 63);
    __mmask64 valid = UINT64_MAX >> 1 >> (SYMBOLS - 1 - count);
    sizes = _mm512_maskz_compress_epi8(mask, sizes);
    __m512i at = _mm512_maskz_compress_epi8(mask, places);
    __m512i before = _mm512_maskz_permutexvar_epi8(not_dc, _mm512_sub_epi8(places, one), at);
    __m512i runs = _mm512_sub_epi8(_mm512_sub_epi8(at, before), one);
    /* Behind the last coefficient stands the end of the block, which is symbol 0. */
    __m512i symbols = _mm512_maskz_mov_epi8(_bzhi_u64(UINT64_MAX, coefficients),
                                            _mm512_or_si512(_mm512_slli_epi16(runs, 4), sizes));
    __m512i lengths = look_up(valid, encoder->lengths, symbols);
    *ret_symbols = (struct symbols){
        .lengths = lengths,
        .codes_low = look_up(valid, encoder->codes_low, symbols),
        .codes_high = look_up(valid, encoder->codes_high, symbols),
        .sizes = sizes,
        .values = _mm512_maskz_compress_epi8(mask, values),
        .count = count,
    };
    return _mm512_mask_cmpeq_epi8_mask(valid, lengths, _mm512_setzero_si512()) == 0 &&
           _mm512_cmpgt_epu8_mask(_mm512_add_epi8(lengths, sizes),
                                  _mm512_set1_epi8(MAX_SYMBOL_BITS)) == 0;
}

/* What is to be appended: `counts` bits each. */
struct puts {
    _Alignas(64) uint64_t bits[SYMBOLS / 4], counts[SYMBOLS / 4];
};

static inline __m256i byte_half(__m512i bytes, unsigned half)
{
    return half ? _mm512_extracti64x4_epi64(bytes, 1) : _mm512_castsi512_si256(bytes);
}

/* Joins 32 symbols in fours. False where four have too many bits. */
static inline bool symbols_join(const struct symbols *symbols, unsigned half, struct puts *puts)
{
    __m512i low = _mm512_cvtepu8_epi16(byte_half(symbols->codes_low, half));
    __m512i high = _mm512_cvtepu8_epi16(byte_half(symbols->codes_high, half));
    __m512i sizes = _mm512_cvtepu8_epi16(byte_half(symbols->sizes, half));
    __m512i values = _mm512_cvtepu8_epi16(byte_half(symbols->values, half));
    __m512i lengths = _mm512_cvtepu8_epi16(byte_half(symbols->lengths, half));
    __m512i codes = _mm512_or_si512(low, _mm512_slli_epi16(high, 8));
    __m512i bits = _mm512_or_si512(_mm512_sllv_epi16(codes, sizes), values);
    __m512i counts = _mm512_add_epi16(lengths, sizes);

    /* Of two neighbours the first, in the lower half, goes up to make room for the second. */
    __m512i first = _mm512_maskz_mov_epi16(0x55555555, bits);
    bits = _mm512_or_si512(_mm512_sllv_epi32(first, _mm512_srli_epi32(counts, 16)),
                           _mm512_srli_epi32(bits, 16));
    counts = _mm512_madd_epi16(counts, _mm512_set1_epi16(1));
    first = _mm512_maskz_mov_epi32(0x5555, bits);
    __m512i seconds = _mm512_srli_epi64(counts, 32);
    bits = _mm512_or_si512(_mm512_sllv_epi64(first, seconds), _mm512_srli_epi64(bits, 32));
    counts = _mm512_add_epi64(_mm512_maskz_mov_epi32(0x5555, counts), seconds);
    _mm512_store_si512(puts->bits + 8 * half, bits);
    _mm512_store_si512(puts->counts + 8 * half, counts);
    return _mm512_cmpgt_epu64_mask(counts, _mm512_set1_epi64(MAX_PUT_BITS)) == 0;
}

static inline __attribute__((always_inline)) bool acs_write_wide(
    struct scan_out *out, const struct huffman_encoder *encoder, const int16_t *block)
{
    struct symbols symbols;
    struct puts puts;
    if (__builtin_expect(!symbols_make(encoder, block, &symbols), 0) ||
        !symbols_join(&symbols, 0, &puts) ||
        (symbols.count > SYMBOLS / 2 && !symbols_join(&symbols, 1, &puts)))
        return acs_write(out, encoder, block);
    for (unsigned i = 0; 4 * i < symbols.count; i++)
        bits_put(out, puts.bits[i], (unsigned)puts.counts[i]);
    return true;
}

static bool run_write_wide(struct scan_run *run, uint32_t count, uint32_t *ret_done)
{
    return run_write_with(run, count, acs_write_wide, ret_done);
}

const struct scan_kernels scan_kernels_avx512 = {run_read, run_write_wide};

#endif
