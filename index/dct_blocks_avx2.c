#ifdef __x86_64__

#include <immintrin.h>

#include "index/dct_row.h"

/* A byte each: 1 in the bytes whose bit is set. */
static const uint64_t byte_ones = 0x0101010101010101;

static inline uint64_t sum_lanes(__m256i sums)
{
    __m128i half = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return (uint64_t)_mm_cvtsi128_si64(half) + (uint64_t)_mm_extract_epi64(half, 1);
}

static inline struct dct_header_sums sum_some(const uint8_t *headers, uint32_t count,
                                              const struct dct_code *code)
{
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi8(1);
    const __m256i dc_bits = _mm256_set1_epi32((int)load_le32(code->dc_bits));
    __m256i dc_sums = zero, mask_sums = zero, none_sums = zero;
    uint32_t whole = count / 32 * 32;
    for (uint32_t i = 0; i < whole; i += 32) {
        __m256i header = _mm256_loadu_si256((const __m256i *)(headers + i));
        __m256i last = _mm256_and_si256(header, _mm256_set1_epi8(DCT_LAST_MASK));
        __m256i class = _mm256_and_si256(_mm256_srli_epi16(header, DCT_CLASS_SHIFT),
                                         _mm256_set1_epi8(DCT_DC_CLASSES - 1));
        dc_sums =
            _mm256_add_epi64(dc_sums, _mm256_sad_epu8(_mm256_shuffle_epi8(dc_bits, class), zero));
        mask_sums = _mm256_add_epi64(mask_sums, _mm256_sad_epu8(_mm256_subs_epu8(last, one), zero));
        none_sums = _mm256_add_epi64(
            none_sums, _mm256_sad_epu8(_mm256_and_si256(_mm256_cmpeq_epi8(last, zero), one), zero));
    }
    struct dct_header_sums sums = {sum_lanes(dc_sums), sum_lanes(mask_sums),
                                   whole - sum_lanes(none_sums)};
    for (uint32_t i = whole; i < count; i++)
        dct_add_header(&sums, headers[i], code);
    return sums;
}

static inline void sum_headers(const uint8_t *headers, uint32_t count, uint32_t first,
                               const struct dct_code *code, struct dct_header_sums *ret_all,
                               struct dct_header_sums *ret_first)
{
    struct dct_header_sums before = sum_some(headers, first, code);
    struct dct_header_sums after = sum_some(headers + first, count - first, code);
    *ret_first = before;
    *ret_all =
        (struct dct_header_sums){before.dc_bits + after.dc_bits, before.mask_bits + after.mask_bits,
                                 before.lasts + after.lasts};
}

static inline uint64_t count_ones(const uint8_t *bytes, uint64_t count)
{
    uint64_t ones = 0;
    for (; count >= 8; bytes += 8, count -= 8)
        ones += (unsigned)_mm_popcnt_u64(load_le64(bytes));
    return ones + (unsigned)_mm_popcnt_u64(_bzhi_u64(load_le64(bytes), (unsigned)count * 8));
}

/* 8 fields from a bit position on, a byte each. */
static inline uint64_t unpack_fields(const uint8_t *field, uint64_t bit, unsigned field_bits)
{
    return _pdep_u64(dct_bits(field, bit), byte_ones * ((1U << field_bits) - 1));
}

static inline uint64_t count_escapes(const uint8_t *field, uint64_t first, uint64_t end,
                                     unsigned field_bits)
{
    /* A field with all bits set carries into the bit above it. */
    const uint64_t carry = byte_ones << field_bits;
    uint64_t count = 0;
    for (uint64_t i = first; i < end; i += 8) {
        uint64_t carries = (unpack_fields(field, i * field_bits, field_bits) + byte_ones) & carry;
        if (end - i < 8)
            carries = _bzhi_u64(carries, (unsigned)(end - i) * 8);
        count += (unsigned)_mm_popcnt_u64(carries);
    }
    return count;
}

static inline uint64_t count_two_bytes(const uint8_t *escape, uint64_t count)
{
    uint64_t found = 0;
    for (uint64_t i = 0; i < count; i += 8) {
        uint64_t flags = load_le64(escape + i) & (byte_ones * DCT_TWO_BYTES);
        if (count - i < 8)
            flags = _bzhi_u64(flags, (unsigned)(count - i) * 8);
        found += (unsigned)_mm_popcnt_u64(flags);
    }
    return found;
}

static const struct dct_counters counters = {sum_headers, count_ones, count_escapes,
                                             count_two_bytes};

/* --- Blocks --------------------------------------------------------------------------------------
 */

/* An order of coefficients for byte shuffles: which of each 16 bytes in zigzag order (first index)
 * go where in each 32 bytes of the result (second index). */
struct shuffles {
    __m256i from[4][2];
};

static inline struct shuffles shuffles_make(const struct dct_order *order)
{
    struct shuffles shuffles;
    for (unsigned half = 0; half < 2; half++) {
        __m256i places = _mm256_loadu_si256((const __m256i *)(order->zigzag + (size_t)32 * half));
        for (unsigned from = 0; from < 4; from++) {
            __m256i offset = _mm256_sub_epi8(places, _mm256_set1_epi8((char)(16 * from)));
            /* Beyond the 16 bytes: bit 7, which gives 0. */
            __m256i outside =
                _mm256_cmpeq_epi8(_mm256_and_si256(offset, _mm256_set1_epi8((char)0xF0)),
                                  _mm256_setzero_si256());
            shuffles.from[from][half] =
                _mm256_or_si256(offset, _mm256_andnot_si256(outside, _mm256_set1_epi8(-128)));
        }
    }
    return shuffles;
}

struct block_constants {
    const struct dct_order *order;
    struct shuffles shuffles;
    unsigned field_bits;
};

/* 8 magnitudes of a block, a byte for each bit of the masks' lowest bytes. */
static inline uint64_t read_eight(struct dct_streams *streams, uint64_t mask, uint64_t large,
                                  unsigned field_bits)
{
    uint64_t ones = _pdep_u64(mask, byte_ones), large_ones = _pdep_u64(large, byte_ones);
    uint64_t fields = _pdep_u64(dct_bits(streams->bytes, streams->field_bit),
                                large_ones * ((1U << field_bits) - 1));
    streams->field_bit += field_bits * (unsigned)_mm_popcnt_u64(large_ones);
    /* Escapes, too, are the fields that carry. */
    uint64_t escaped = ((fields + large_ones) >> field_bits & byte_ones) * UINT8_MAX;
    uint64_t escapes = _pdep_u64(load_le64(streams->escape), escaped);
    streams->escape += (unsigned)_mm_popcnt_u64(escaped) / 8;
    return ((ones + large_ones + fields) & ~escaped) | escapes;
}

static inline __m128i read_sixteen(struct dct_streams *streams, uint64_t mask, uint64_t large,
                                   unsigned field_bits)
{
    uint64_t low = read_eight(streams, mask, large, field_bits);
    uint64_t high = read_eight(streams, mask >> 8, large >> 8, field_bits);
    return _mm_insert_epi64(_mm_cvtsi64_si128((int64_t)low), (int64_t)high, 1);
}

/* Gives numbers their signs: one for each of the lowest 16 bits. */
static inline __m256i add_signs(__m128i magnitudes, uint64_t negative)
{
    const __m128i bits = _mm_set1_epi64x((int64_t)0x8040201008040201);
    __m128i signs = _mm_shuffle_epi8(_mm_cvtsi64_si128((int64_t)negative),
                                     _mm_set_epi64x((int64_t)byte_ones, 0));
    signs = _mm_cmpeq_epi8(_mm_and_si128(signs, bits), bits);
    return _mm256_broadcastsi128_si256(_mm_sub_epi8(_mm_xor_si128(magnitudes, signs), signs));
}

/* A block on its way. Bit k of each mask: place k in zigzag order. */
struct block {
    uint64_t mask, large, negative, two_bytes;
    _Alignas(16) uint8_t magnitudes[64]; /* without signs */
    __m256i upper, lower;                /* in the order that was asked for */
};

/* Reads 16 coefficients, of places 16 * part and up, and puts them where they belong. */
static inline __attribute__((always_inline)) void read_part(struct dct_streams *streams,
                                                            const struct block_constants *constants,
                                                            unsigned part, struct block *block)
{
    unsigned shift = 16 * part;
    const __m256i *shuffles = constants->shuffles.from[part];
    __m128i values =
        read_sixteen(streams, block->mask >> shift, block->large >> shift, constants->field_bits);
    _mm_store_si128((__m128i *)(block->magnitudes + shift), values);
    block->two_bytes |= (uint64_t)(unsigned)_mm_movemask_epi8(values) << shift;
    __m256i numbers = add_signs(values, block->negative >> shift);
    block->upper = _mm256_or_si256(block->upper, _mm256_shuffle_epi8(numbers, shuffles[0]));
    block->lower = _mm256_or_si256(block->lower, _mm256_shuffle_epi8(numbers, shuffles[1]));
}

static inline void read_block(struct dct_streams *streams, unsigned header, int16_t dc,
                              const struct block_constants *constants, int16_t *out)
{
    unsigned last = header & DCT_LAST_MASK;
    struct block block;
    block.two_bytes = 0; /* not the whole of it: zeroing costs */
    block.upper = block.lower = _mm256_setzero_si256();
    block.mask = dct_block_mask(dct_bits_64(streams->bytes, streams->mask_bit), last);
    streams->mask_bit += dct_mask_bits(last);
    block.large = _pdep_u64(dct_bits_64(streams->bytes, streams->large_bit), block.mask);
    block.negative = _pdep_u64(dct_bits_64(streams->signs, streams->large_bit), block.mask);
    streams->large_bit += (unsigned)_mm_popcnt_u64(block.mask);

    read_part(streams, constants, 0, &block);
    read_part(streams, constants, 1, &block);
    if (last >= 32) { /* in half of all blocks */
        read_part(streams, constants, 2, &block);
        read_part(streams, constants, 3, &block);
    }

    __m256i first = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(block.upper));
    __m256i *to = (__m256i *)out;
    _mm256_store_si256(to, _mm256_insert_epi16(first, dc, 0));
    _mm256_store_si256(to + 1, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(block.upper, 1)));
    _mm256_store_si256(to + 2, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(block.lower)));
    _mm256_store_si256(to + 3, _mm256_cvtepi8_epi16(_mm256_extracti128_si256(block.lower, 1)));
    if (__builtin_expect(block.two_bytes != 0, 0))
        streams->low = dct_add_two_bytes(block.two_bytes, block.negative, block.magnitudes,
                                         streams->low, constants->order, out);
}

static bool read_row(const struct dct_row *row, const struct dct_order *order, uint32_t first,
                     uint32_t count, int16_t (*out)[64])
{
    struct dct_streams streams;
    if (!dct_row_open(row, first, &counters, &streams))
        return false;
    const struct block_constants constants = {order, shuffles_make(order), row->code->field_bits};
    int64_t dc = dct_skip_dc(&streams, row, first);
    for (uint32_t i = 0; i < count; i++) {
        unsigned header = row->bytes[first + i];
        dc += dct_next_dc(&streams, header, row->code);
        read_block(&streams, header, (int16_t)dc, &constants, out[i]);
    }
    return true;
}

/* --- Writing -------------------------------------------------------------------------------------
 */

/* The low bytes of 32 numbers of 0 … 255. */
static inline __m256i join_bytes(__m256i upper, __m256i lower)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi16(upper, lower), 0xD8);
}

/* The signs of 32 numbers. */
static inline uint32_t sign_mask(__m256i upper, __m256i lower)
{
    return (uint32_t)_mm256_movemask_epi8(
        _mm256_permute4x64_epi64(_mm256_packs_epi16(upper, lower), 0xD8));
}

/* What 32 coefficients become, and the masks of those that are not zero, large, negative. */
struct part {
    __m256i fields; /* bytes; for all that are too large that of an escape */
    uint32_t mask, large, negative;
    uint32_t mins; /* those of -32768 */
};

static inline struct part part_make(const int16_t *block, unsigned field_bits)
{
    const __m256i zero = _mm256_setzero_si256(), base = _mm256_set1_epi16(DCT_FIELD_BASE);
    const __m256i most = _mm256_set1_epi16((short)((1U << field_bits) - 1));
    __m256i upper = _mm256_loadu_si256((const __m256i *)block);
    __m256i lower = _mm256_loadu_si256((const __m256i *)(block + 16));
    __m256i min = _mm256_set1_epi16(INT16_MIN);
    uint32_t mins = sign_mask(_mm256_cmpeq_epi16(upper, min), _mm256_cmpeq_epi16(lower, min));
    uint32_t negative = sign_mask(upper, lower);
    upper = _mm256_abs_epi16(upper);
    lower = _mm256_abs_epi16(lower);
    __m256i bytes = join_bytes(_mm256_min_epu16(upper, base), _mm256_min_epu16(lower, base));
    __m256i fields = join_bytes(_mm256_min_epu16(_mm256_subs_epu16(upper, base), most),
                                _mm256_min_epu16(_mm256_subs_epu16(lower, base), most));
    return (struct part){
        .fields = fields,
        .mask = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, zero)),
        .large = (uint32_t)_mm256_movemask_epi8(
            _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(DCT_FIELD_BASE))),
        .negative = negative,
        .mins = mins,
    };
}

static inline uint64_t join_masks(uint32_t upper, uint32_t lower)
{
    return upper | (uint64_t)lower << 32;
}

/* The fields of large coefficients and what escapes them. */
static inline void write_large(struct dct_sink *sinks, const int16_t *block, const uint8_t *fields,
                               uint64_t large, unsigned field_bits)
{
    for (; large; large >>= 8, block += 8, fields += 8) {
        uint64_t large_ones = _pdep_u64(large, byte_ones), eight = load_le64(fields);
        unsigned count = (unsigned)_mm_popcnt_u64(large_ones);
        dct_sink_bits(&sinks[DCT_STREAM_FIELD],
                      _pext_u64(eight, large_ones * ((1U << field_bits) - 1)), count * field_bits);
        uint64_t escaped = (eight + byte_ones) >> field_bits & large_ones;
        for (; escaped; escaped &= escaped - 1)
            dct_write_escape(sinks, dct_magnitude(block[_tzcnt_u64(escaped) / 8]));
    }
}

static bool write_block(struct dct_sink *sinks, const int16_t *block, int16_t dc_before,
                        const struct dct_code *code)
{
    struct part upper = part_make(block, code->field_bits);
    struct part lower = part_make(block + 32, code->field_bits);
    if (join_masks(upper.mins & ~1U, lower.mins))
        return false;
    uint64_t mask = join_masks(upper.mask & ~1U, lower.mask);
    uint64_t large = join_masks(upper.large & ~1U, lower.large);
    uint64_t negative = join_masks(upper.negative, lower.negative);
    _Alignas(32) uint8_t fields[64];
    _mm256_store_si256((__m256i *)fields, upper.fields);
    _mm256_store_si256((__m256i *)(fields + 32), lower.fields);

    unsigned last = dct_last(mask), mask_bits = dct_mask_bits(last);
    unsigned count = (unsigned)_mm_popcnt_u64(mask);
    dct_write_dc(sinks, dct_dc_difference(block, dc_before), last, code);
    dct_sink_bits_64(&sinks[DCT_STREAM_MASK], _bzhi_u64(mask >> 1, mask_bits), mask_bits);
    dct_sink_bits_64(&sinks[DCT_STREAM_LARGE], _pext_u64(large, mask), count);
    dct_sink_bits_64(&sinks[DCT_STREAM_SIGN], _pext_u64(negative, mask), count);
    write_large(sinks, block, fields, large, code->field_bits);
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

/* --- Measuring -----------------------------------------------------------------------------------
 */

/* So many blocks can add two to a byte. */
static const uint32_t max_measured = UINT8_MAX / 2;

/* The magnitudes of 32 coefficients, those above 127 as 127, in some order. */
static inline __m256i clamped_magnitudes(__m256i upper, __m256i lower)
{
    const __m256i most = _mm256_set1_epi16(INT8_MAX);
    return _mm256_packs_epi16(_mm256_min_epu16(_mm256_abs_epi16(upper), most),
                              _mm256_min_epu16(_mm256_abs_epi16(lower), most));
}

static void measure_magnitudes(const int16_t (*blocks)[64], uint32_t count, uint64_t *above)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i counts[DCT_MAX_FIELD_BITS + 1] = {zero};
    for (uint32_t i = 0; i < count; i++) {
        const __m256i *block = (const __m256i *)blocks[i];
        __m256i first = _mm256_insert_epi16(_mm256_loadu_si256(block), 0, 0);
        __m256i upper = clamped_magnitudes(first, _mm256_loadu_si256(block + 1));
        __m256i lower =
            clamped_magnitudes(_mm256_loadu_si256(block + 2), _mm256_loadu_si256(block + 3));
        for (unsigned b = 0; b <= DCT_MAX_FIELD_BITS; b++) {
            __m256i bound = _mm256_set1_epi8((char)(1 << b));
            counts[b] =
                _mm256_sub_epi8(counts[b], _mm256_add_epi8(_mm256_cmpgt_epi8(upper, bound),
                                                           _mm256_cmpgt_epi8(lower, bound)));
        }
    }
    for (unsigned b = 0; b <= DCT_MAX_FIELD_BITS; b++)
        above[b] += sum_lanes(_mm256_sad_epu8(counts[b], zero));
}

void dct_measure_row_avx2(const int16_t (*blocks)[64], uint32_t count, struct dct_lengths *lengths)
{
    for (uint32_t i = 0; i < count; i++) {
        int difference = dct_dc_difference(blocks[i], i > 0 ? blocks[i - 1][0] : 0);
        lengths->dc[dct_signed_bits(difference)]++;
    }
    for (uint32_t i = 0; i < count; i += max_measured)
        measure_magnitudes(blocks + i, count - i < max_measured ? count - i : max_measured,
                           lengths->above);
}

const struct dct_kernels dct_avx2 = {read_row, write_row, dct_measure_row_avx2};

#endif
