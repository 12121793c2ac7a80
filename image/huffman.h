#ifndef HEADRACE_IMAGE_HUFFMAN_H
#define HEADRACE_IMAGE_HUFFMAN_H

/* Private to image/jpeg_scan*.c: a DHT's table in the forms that decoding and encoding look things
 * up in. */

#include <stdint.h>

#include "base/status.h"
#include "image/jpeg_markers.h"

#define HUFFMAN_LOOKUP_BITS 11
#define HUFFMAN_PAIR_BITS 10 /* not more than those */

/* What a symbol says: pass over `run` zeros, then read a value of `size` bits (DC: run is 0). */
static inline unsigned huffman_symbol_size(unsigned symbol)
{
    return symbol & 15;
}

/* An entry of the lookup table, found by the next HUFFMAN_LOOKUP_BITS bits:
 *     bits  0 …  7  length of the code and of the value behind it
 *     bits  8 … 15  63 − the value's length
 *     bits 16 … 23  length of the code
 *     bits 24 … 31  places to go forward: run + 1, or one of these, which lead out of any block */
enum {
    HUFFMAN_END = 64,      /* end of block */
    HUFFMAN_LONG = 128,    /* the code has more bits */
    HUFFMAN_INVALID = 192, /* no code begins like this */
};
static inline unsigned huffman_total_bits(uint32_t entry)
{
    return entry & 63;
}
static inline unsigned huffman_value_shift(uint32_t entry)
{
    return entry >> 8 & 63;
}
static inline unsigned huffman_code_bits(uint32_t entry)
{
    return entry >> 16 & 63;
}
static inline unsigned huffman_advance(uint32_t entry)
{
    return entry >> 24;
}

/* An entry of the table that AC coefficients are first looked up in, by the next HUFFMAN_PAIR_BITS
 * bits: a symbol whose value may reach beyond them, though its sign does not, or two symbols within
 * them, the last of which may be the end of the block:
 *     bits  0 …  7  length of all of it
 *     bits  8 … 15  places from where the block has got to, to the first value; 0: none
 *     bits 16 … 23  places to the second value; where there is none, the first one's again
 *     bits 24 … 31  places to go forward: to the last value, and HUFFMAN_END more where the block
 *                   ends, or HUFFMAN_LONG where there is no such symbol
 *     bits 32 … 47  the first value, if its bits beyond those looked at were 0
 *     bits 48 … 55  63 − the number of these bits
 *     bits 56 … 63  the second value */
static inline unsigned huffman_pair_bits(uint64_t pair)
{
    return pair & 63;
}
static inline unsigned huffman_pair_first(uint64_t pair)
{
    return pair >> 8 & 255;
}
static inline unsigned huffman_pair_second(uint64_t pair)
{
    return pair >> 16 & 255;
}
static inline unsigned huffman_pair_advance(uint64_t pair)
{
    return pair >> 24 & 255;
}

/* The first value, given the 64 bits that begin with those looked up by. */
static inline int16_t huffman_pair_value(uint64_t pair, uint64_t window)
{
    uint64_t beyond = window << HUFFMAN_PAIR_BITS >> 1 >> (pair >> 48 & 63);
    return (int16_t)(uint16_t)((pair >> 32) + beyond);
}
static inline int16_t huffman_pair_second_value(uint64_t pair)
{
    return (int16_t)((int64_t)pair >> 56);
}

/* Zero it to start. */
struct huffman_decoder {
    uint32_t lookup[1 << HUFFMAN_LOOKUP_BITS];
    uint64_t pairs[1 << HUFFMAN_PAIR_BITS]; /* AC only */
    /* For long codes: all codes of `length` bits are below limits[length], both in the upper bits
     * of 16; spec.symbols[(code >> (16 − length)) + offsets[length]]. */
    uint32_t limits[17];
    int32_t offsets[17];
    bool is_dc;
    struct huffman_spec spec; /* that it was made of */
};

/* The entry of a symbol with a code of some length. */
uint32_t huffman_entry(const struct huffman_decoder *decoder, unsigned symbol, unsigned length);
/* The entry for a code that is longer than HUFFMAN_LOOKUP_BITS, given the next 16 bits. */
uint32_t huffman_find_long(const struct huffman_decoder *decoder, unsigned bits);

/* Bits of each symbol, by symbol: (code << size) << 6 | (length of the code + size); 0: it has
 * none. Of two codes for a symbol the first counts. */
struct huffman_encoder {
    uint64_t entries[256];
    /* The codes alone, by symbol, for lookups of many at once; length 0: it has none. */
    uint8_t lengths[256], codes_low[256], codes_high[256];
    struct huffman_spec spec; /* that it was made of */
};

/* What was made of the same table before stays as it is: most images of a set share theirs. Fail
 * with STATUS_CORRUPT where more codes are asked for than there are, or a table of DC values that
 * is to be read has a symbol above 15. */
struct status huffman_decoder_make(const struct huffman_spec *spec, bool is_dc,
                                   struct huffman_decoder *decoder);
struct status huffman_encoder_make(const struct huffman_spec *spec,
                                   struct huffman_encoder *encoder);

#endif
