#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#include "index/dct_row.h"

/* The bits of `count` < 64 lanes, or all. */
static inline __mmask64 lanes(uint64_t count)
{
    return count < 64 ? _bzhi_u64(UINT64_MAX, (unsigned)count) : UINT64_MAX;
}

static inline uint64_t sum_lanes(__m512i sums)
{
    return (uint64_t)_mm512_reduce_add_epi64(sums);
}

static inline void sum_headers(const uint8_t *headers, uint32_t count, uint32_t first,
                               const struct dct_code *code, struct dct_header_sums *ret_all,
                               struct dct_header_sums *ret_first)
{
    const __m512i zero = _mm512_setzero_si512(), one = _mm512_set1_epi8(1);
    const __m512i dc_bits = _mm512_set1_epi32((int)load_le32(code->dc_bits));
    __m512i dc_sums = zero, mask_sums = zero, first_mask_sums = zero;
    uint64_t lasts = 0, first_lasts = 0;
    for (uint32_t i = 0; i < count; i += 64) {
        __mmask64 valid = lanes(count - i), is_first = i < first ? lanes(first - i) : 0;
        __m512i header = _mm512_maskz_loadu_epi8(valid, headers + i);
        __m512i last = _mm512_and_si512(header, _mm512_set1_epi8(DCT_LAST_MASK));
        __m512i class = _mm512_and_si512(_mm512_srli_epi16(header, DCT_CLASS_SHIFT),
                                         _mm512_set1_epi8(DCT_DC_CLASSES - 1));
        __m512i bits = _mm512_maskz_shuffle_epi8(valid, dc_bits, class);
        __m512i mask_bits = _mm512_subs_epu8(last, one);
        __mmask64 has_last = _mm512_test_epi8_mask(last, last);
        dc_sums = _mm512_add_epi64(dc_sums, _mm512_sad_epu8(bits, zero));
        mask_sums = _mm512_add_epi64(mask_sums, _mm512_sad_epu8(mask_bits, zero));
        first_mask_sums =
            _mm512_add_epi64(first_mask_sums,
                             _mm512_sad_epu8(_mm512_maskz_mov_epi8(is_first, mask_bits), zero));
        lasts += (unsigned)_mm_popcnt_u64(has_last);
        first_lasts += (unsigned)_mm_popcnt_u64(has_last & is_first);
    }
    *ret_all = (struct dct_header_sums){sum_lanes(dc_sums), sum_lanes(mask_sums), lasts};
    *ret_first = (struct dct_header_sums){0, sum_lanes(first_mask_sums), first_lasts};
}

static inline uint64_t count_ones(const uint8_t *bytes, uint64_t count)
{
    __m512i ones = _mm512_setzero_si512();
    for (uint64_t i = 0; i < count; i += 64)
        ones = _mm512_add_epi64(ones, _mm512_popcnt_epi64(
                                          _mm512_maskz_loadu_epi8(lanes(count - i), bytes + i)));
    return sum_lanes(ones);
}

/* How 64 fields of one width become bytes: of each 8 fields, which are as many bytes as a field has
 * bits, the bytes go to one 64-bit lane, and from there each field to its byte. */
struct unpacking {
    __m512i bytes, shifts, mask;
};

/* `bit`: where the fields begin within a byte. */
static inline struct unpacking unpacking_make(unsigned field_bits, unsigned bit)
{
    const __m512i eighths = _mm512_set1_epi64(0x0706050403020100);
    const __m512i lane_numbers =
        _mm512_set_epi64(0x0707070707070707, 0x0606060606060606, 0x0505050505050505,
                         0x0404040404040404, 0x0303030303030303, 0x0202020202020202,
                         0x0101010101010101, 0);
    /* Products of numbers below 8 stay in their bytes. */
    const __m512i width = _mm512_set1_epi16((short)field_bits);
    return (struct unpacking){
        .bytes = _mm512_add_epi8(_mm512_mullo_epi16(lane_numbers, width), eighths),
        .shifts = _mm512_add_epi8(_mm512_mullo_epi16(eighths, width), _mm512_set1_epi8((char)bit)),
        .mask = _mm512_set1_epi8((char)((1 << field_bits) - 1)),
    };
}

static inline __m512i unpack_fields(const uint8_t *field, __m512i bytes, __m512i shifts,
                                    __m512i mask)
{
    __m512i gathered = _mm512_permutexvar_epi8(bytes, _mm512_loadu_si512(field));
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, gathered), mask);
}

static inline uint64_t count_escapes(const uint8_t *field, uint64_t first, uint64_t end,
                                     unsigned field_bits)
{
    uint64_t bit = first * field_bits, count = 0;
    struct unpacking by = unpacking_make(field_bits, bit % 8);
    field += bit / 8;
    for (uint64_t i = first; i < end; i += 64, field += (size_t)8 * field_bits) {
        __m512i fields = unpack_fields(field, by.bytes, by.shifts, by.mask);
        count +=
            (unsigned)_mm_popcnt_u64(_mm512_mask_cmpeq_epi8_mask(lanes(end - i), fields, by.mask));
    }
    return count;
}

static inline uint64_t count_two_bytes(const uint8_t *escape, uint64_t count)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i += 64)
        found += (unsigned)_mm_popcnt_u64(
            _mm512_movepi8_mask(_mm512_maskz_loadu_epi8(lanes(count - i), escape + i)));
    return found;
}

static const struct dct_counters counters = {sum_headers, count_ones, count_escapes,
                                             count_two_bytes};

/* Kept apart from the loop over blocks, as few need it. */
static __attribute__((noinline)) const uint8_t *add_two_bytes(uint64_t two_bytes, uint64_t negative,
                                                              __m512i magnitudes,
                                                              const uint8_t *low,
                                                              const struct dct_order *order,
                                                              int16_t *out)
{
    _Alignas(64) uint8_t bytes[64];
    _mm512_store_si512(bytes, magnitudes);
    return dct_add_two_bytes(two_bytes, negative, bytes, low, order, out);
}

/* --- DCs -----------------------------------------------------------------------------------------
 */

enum { GROUP = 16 }; /* blocks whose DCs are made at once */

/* Each lane's sum of all lanes up to it. */
static inline __m512i sums_up_to(__m512i values)
{
    const __m512i zero = _mm512_setzero_si512();
    values = _mm512_add_epi32(values, _mm512_alignr_epi32(values, zero, 15));
    values = _mm512_add_epi32(values, _mm512_alignr_epi32(values, zero, 14));
    values = _mm512_add_epi32(values, _mm512_alignr_epi32(values, zero, 12));
    return _mm512_add_epi32(values, _mm512_alignr_epi32(values, zero, 8));
}

static inline uint32_t last_lane(__m512i values)
{
    return (uint32_t)_mm_extract_epi32(_mm512_extracti32x4_epi32(values, 3), 3);
}

/* The DCs of a group. `dc` is that of the block before, and becomes that of the last. */
static inline __m256i read_dcs(struct dct_streams *streams, const uint8_t *headers, uint32_t count,
                               const struct dct_code *code, uint32_t *dc)
{
    __mmask16 valid = count < GROUP ? (__mmask16)_bzhi_u32(UINT16_MAX, count) : UINT16_MAX;
    __m128i header = _mm_maskz_loadu_epi8(valid, headers);
    __m128i class =
        _mm_and_si128(_mm_srli_epi16(header, DCT_CLASS_SHIFT), _mm_set1_epi8(DCT_DC_CLASSES - 1));
    __m512i bits = _mm512_cvtepu8_epi32(
        _mm_maskz_shuffle_epi8(valid, _mm_set1_epi32((int)load_le32(code->dc_bits)), class));

    __m512i ends = sums_up_to(bits);
    __m512i starts = _mm512_add_epi32(_mm512_sub_epi32(ends, bits),
                                      _mm512_set1_epi32((int)(streams->dc_bit % 8)));
    __m512i words = _mm512_i32gather_epi32(_mm512_srli_epi32(starts, 3),
                                           streams->bytes + streams->dc_bit / 8, 1);
    words = _mm512_srlv_epi32(words, _mm512_and_si512(starts, _mm512_set1_epi32(7)));
    __m512i unused = _mm512_sub_epi32(_mm512_set1_epi32(32), bits);
    words = _mm512_srav_epi32(_mm512_sllv_epi32(words, unused), unused);
    streams->dc_bit += last_lane(ends);

    __m512i dcs = _mm512_add_epi32(sums_up_to(words), _mm512_set1_epi32((int)*dc));
    *dc = last_lane(dcs);
    return _mm512_cvtepi32_epi16(dcs);
}

/* --- Blocks --------------------------------------------------------------------------------------
 */

struct block_constants {
    const struct dct_order *order;
    /* For 32 numbers each: a byte becomes the upper half of a 16-bit number. */
    __m512i to_upper, to_lower;
    __m512i one, base, zero, field_bytes, field_mask;
    __m512i field_shifts[8]; /* for fields that begin at each bit of a byte */
    unsigned field_bits;
};

static const __mmask64 upper_halves = 0xAAAAAAAAAAAAAAAA;

static inline __m512i to_upper_halves(const uint8_t *zigzag)
{
    __m256i from = _mm256_loadu_si256((const __m256i *)zigzag);
    return _mm512_slli_epi16(_mm512_cvtepu8_epi16(from), 8);
}

static inline void block_constants_set(struct block_constants *constants,
                                       const struct dct_code *code, const struct dct_order *order)
{
    constants->order = order;
    constants->to_upper = to_upper_halves(order->zigzag);
    constants->to_lower = to_upper_halves(order->zigzag + 32);
    constants->one = _mm512_set1_epi8(1);
    constants->base = _mm512_set1_epi8(DCT_FIELD_BASE);
    constants->zero = _mm512_setzero_si512();
    constants->field_bits = code->field_bits;
    for (unsigned bit = 0; bit < 8; bit++) {
        struct unpacking by = unpacking_make(code->field_bits, bit);
        constants->field_bytes = by.bytes;
        constants->field_mask = by.mask;
        constants->field_shifts[bit] = by.shifts;
    }
}

static inline __attribute__((always_inline)) void read_block(
    struct dct_streams *streams, unsigned header, int16_t dc,
    const struct block_constants *constants, int16_t *out)
{
    /* Bit k of each mask: place k in zigzag order. */
    unsigned last = header & DCT_LAST_MASK;
    uint64_t mask = dct_block_mask(dct_bits_64(streams->bytes, streams->mask_bit), last);
    streams->mask_bit += dct_mask_bits(last);
    uint64_t large = _pdep_u64(dct_bits_64(streams->bytes, streams->large_bit), mask);
    uint64_t negative = _pdep_u64(dct_bits_64(streams->signs, streams->large_bit), mask);
    streams->large_bit += (unsigned)_mm_popcnt_u64(mask);

    __m512i fields =
        unpack_fields(streams->bytes + streams->field_bit / 8, constants->field_bytes,
                      constants->field_shifts[streams->field_bit % 8], constants->field_mask);
    fields = _mm512_maskz_expand_epi8(large, fields);
    streams->field_bit += constants->field_bits * (unsigned)_mm_popcnt_u64(large);
    uint64_t escaped = _mm512_mask_cmpeq_epi8_mask(large, fields, constants->field_mask);
    __m512i magnitudes = _mm512_mask_add_epi8(_mm512_maskz_mov_epi8(mask, constants->one), large,
                                              fields, constants->base);
    magnitudes = _mm512_mask_expand_epi8(magnitudes, escaped, _mm512_loadu_si512(streams->escape));
    uint64_t two_bytes = _mm512_movepi8_mask(magnitudes);
    __m512i value = _mm512_mask_sub_epi8(magnitudes, negative, constants->zero, magnitudes);

    __m512i upper = _mm512_maskz_permutexvar_epi8(upper_halves, constants->to_upper, value);
    __m512i lower = _mm512_maskz_permutexvar_epi8(upper_halves, constants->to_lower, value);
    upper = _mm512_mask_set1_epi16(_mm512_srai_epi16(upper, 8), 1, dc);
    _mm512_store_si512(out, upper);
    _mm512_store_si512(out + 32, _mm512_srai_epi16(lower, 8));
    if (__builtin_expect(two_bytes != 0, 0))
        streams->low =
            add_two_bytes(two_bytes, negative, magnitudes, streams->low, constants->order, out);
    streams->escape += (unsigned)_mm_popcnt_u64(escaped);
}

static bool read_row(const struct dct_row *row, const struct dct_order *order, uint32_t first,
                     uint32_t count, int16_t (*out)[64])
{
    struct dct_streams streams;
    if (!dct_row_open(row, first, &counters, &streams))
        return false;
    struct block_constants constants;
    block_constants_set(&constants, row->code, order);
    uint32_t dc = 0, end = first + count;
    for (uint32_t group = 0; group < end; group += GROUP) {
        uint32_t left = row->blocks - group;
        _Alignas(32) int16_t dcs[GROUP];
        _mm256_store_si256((__m256i *)dcs,
                           read_dcs(&streams, row->bytes + group, left, row->code, &dc));
        uint32_t stop = end - group < GROUP ? end - group : GROUP;
        for (uint32_t i = group < first ? first - group : 0; i < stop; i++)
            read_block(&streams, row->bytes[group + i], dcs[i], &constants, out[group + i - first]);
    }
    return true;
}

/* --- Writing -------------------------------------------------------------------------------------
 */

/* How 64 fields, a byte each, become a string of bits: neighbours are joined to 2, 4 and 8 fields,
 * and the eights are as many whole bytes as a field has bits. */
struct packing {
    __m512i two, four; /* weights */
    __m128i eight;     /* by how much the upper half of 64 bits goes down */
    __m512i bytes;     /* which of all bytes stand where in the string */
    __mmask64 all;
    unsigned field_bits;
};

static inline struct packing packing_make(unsigned field_bits)
{
    uint8_t bytes[64] = {0};
    for (unsigned i = 0; i < 8 * field_bits; i++)
        bytes[i] = (uint8_t)(i / field_bits * 8 + i % field_bits);
    return (struct packing){
        .two = _mm512_set1_epi16((short)(1 | 1 << field_bits << 8)),
        .four = _mm512_set1_epi32(1 | 1 << 2 * field_bits << 16),
        .eight = _mm_cvtsi32_si128(32 - 4 * (int)field_bits),
        .bytes = _mm512_loadu_si512(bytes),
        .all = _bzhi_u64(UINT64_MAX, 8 * field_bits),
        .field_bits = field_bits,
    };
}

/* Appends the first `count` of 64 fields; the others are 0. */
static inline void write_fields(struct dct_sink *sink, __m512i fields, unsigned count,
                                const struct packing *by)
{
    __m512i fours = _mm512_madd_epi16(_mm512_maddubs_epi16(fields, by->two), by->four);
    __m512i upper = _mm512_srl_epi64(_mm512_maskz_mov_epi32(0xAAAA, fours), by->eight);
    __m512i eights = _mm512_or_si512(_mm512_maskz_mov_epi32(0x5555, fours), upper);
    __m512i string = _mm512_maskz_permutexvar_epi8(by->all, by->bytes, eights);

    __m512i before = _mm512_alignr_epi64(string, _mm512_setzero_si512(), 7);
    __m512i shift = _mm512_set1_epi64((int64_t)sink->pending_bits);
    __m128i pending = _mm_cvtsi64_si128((int64_t)sink->pending);
    string =
        _mm512_or_si512(_mm512_shldv_epi64(string, before, shift), _mm512_zextsi128_si512(pending));
    _mm512_storeu_si512(sink->next, string);
    unsigned bits = sink->pending_bits + count * by->field_bits;
    sink->next += bits / 8;
    sink->pending = *sink->next;
    sink->pending_bits = bits % 8;
}

/* Appends what escapes the fields. Few need two bytes. */
static inline void write_escapes(struct dct_sink *sinks, const int16_t *block, __m512i magnitudes,
                                 uint64_t escaped)
{
    if (__builtin_expect((_mm512_movepi8_mask(magnitudes) & escaped) != 0, 0)) {
        for (; escaped; escaped &= escaped - 1)
            dct_write_escape(sinks, dct_magnitude(block[_tzcnt_u64(escaped)]));
        return;
    }
    struct dct_sink *sink = &sinks[DCT_STREAM_ESCAPE];
    _mm512_storeu_si512(sink->next, _mm512_maskz_compress_epi8(escaped, magnitudes));
    sink->next += (unsigned)_mm_popcnt_u64(escaped);
}

/* The low bytes of 64 numbers; those above 255 are 255. */
static inline __m512i clamp_to_bytes(__m512i upper, __m512i lower)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtusepi16_epi8(upper)),
                              _mm512_cvtusepi16_epi8(lower), 1);
}

static inline __attribute__((always_inline)) bool write_block(struct dct_sink *sinks,
                                                              const int16_t *block,
                                                              int16_t dc_before,
                                                              const struct dct_code *code,
                                                              const struct packing *by)
{
    const uint64_t not_dc = ~(uint64_t)1;
    __m512i upper = _mm512_loadu_si512(block), lower = _mm512_loadu_si512(block + 32);
    uint64_t negative = _mm512_movepi16_mask(upper) | (uint64_t)_mm512_movepi16_mask(lower) << 32;
    upper = _mm512_maskz_abs_epi16((__mmask32)not_dc, upper);
    lower = _mm512_abs_epi16(lower);
    if (_mm512_movepi16_mask(_mm512_or_si512(upper, lower)))
        return false; /* the magnitude of -32768 */

    __m512i magnitudes = clamp_to_bytes(upper, lower);
    uint64_t mask = _mm512_test_epi8_mask(magnitudes, magnitudes);
    uint64_t large = _mm512_cmpgt_epu8_mask(magnitudes, _mm512_set1_epi8(1));
    __m512i most = _mm512_set1_epi8((char)((1U << by->field_bits) - 1));
    __m512i fields = _mm512_sub_epi8(magnitudes, _mm512_set1_epi8(DCT_FIELD_BASE));
    uint64_t escaped = _mm512_mask_cmpge_epu8_mask(large, fields, most);
    fields = _mm512_maskz_compress_epi8(large, _mm512_min_epu8(fields, most));

    unsigned last = dct_last(mask), mask_bits = dct_mask_bits(last);
    unsigned count = (unsigned)_mm_popcnt_u64(mask);
    dct_write_dc(sinks, dct_dc_difference(block, dc_before), last, code);
    dct_sink_bits_64(&sinks[DCT_STREAM_MASK], _bzhi_u64(mask >> 1, mask_bits), mask_bits);
    dct_sink_bits_64(&sinks[DCT_STREAM_LARGE], _pext_u64(large, mask), count);
    dct_sink_bits_64(&sinks[DCT_STREAM_SIGN], _pext_u64(negative, mask), count);
    write_fields(&sinks[DCT_STREAM_FIELD], fields, (unsigned)_mm_popcnt_u64(large), by);
    write_escapes(sinks, block, magnitudes, escaped);
    return true;
}

static bool write_row(const int16_t (*blocks)[64], uint32_t count, const struct dct_code *code,
                      struct dct_sink *sinks)
{
    const struct packing by = packing_make(code->field_bits);
    struct dct_sink own[DCT_STREAMS]; /* bytes that are written cannot be its */
    memcpy(own, sinks, sizeof own);
    bool holds = true;
    for (uint32_t i = 0; holds && i < count; i++)
        holds = write_block(own, blocks[i], i > 0 ? blocks[i - 1][0] : 0, code, &by);
    memcpy(sinks, own, sizeof own);
    return holds;
}

const struct dct_kernels dct_avx512 = {read_row, write_row, dct_measure_row_avx2};

#endif
