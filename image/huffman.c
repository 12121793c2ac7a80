#include "image/huffman.h"

#include <string.h>

#include "base/memory.h"

static struct status spec_check(const struct huffman_spec *spec, bool is_dc)
{
    uint32_t code = 0, count = 0;
    for (unsigned length = 1; length <= 16; length++) {
        code = (code << 1) + spec->counts[length];
        count += spec->counts[length];
        if (code > 1U << length)
            FAIL(STATUS_CORRUPT, "a Huffman table has too many codes of %u bits", length);
    }
    for (uint32_t i = 0; is_dc && i < count; i++) {
        if (spec->symbols[i] > 15)
            FAIL(STATUS_CORRUPT, "a Huffman table of DC values has the symbol %u",
                 spec->symbols[i]);
    }
    return OK;
}

uint32_t huffman_entry(const struct huffman_decoder *decoder, unsigned symbol, unsigned length)
{
    unsigned size = huffman_symbol_size(symbol), run = symbol >> 4, advance = run + 1;
    if (!decoder->is_dc && size == 0 && run != 15)
        advance = run == 0 ? HUFFMAN_END : HUFFMAN_INVALID;
    return advance << 24 | length << 16 | (63 - size) << 8 | (length + size);
}

uint32_t huffman_find_long(const struct huffman_decoder *decoder, unsigned bits)
{
    for (unsigned length = HUFFMAN_LOOKUP_BITS + 1; length <= 16; length++) {
        if (bits < decoder->limits[length]) {
            int32_t place = (int32_t)(bits >> (16 - length)) + decoder->offsets[length];
            return huffman_entry(decoder, decoder->spec.symbols[place], length);
        }
    }
    return (uint32_t)HUFFMAN_INVALID << 24;
}

static void lookup_fill(uint32_t *lookup, size_t first, size_t end, uint32_t entry)
{
    for (size_t i = first; i < end; i++)
        lookup[i] = entry;
}

static unsigned entry_size(uint32_t entry)
{
    return 63 - huffman_value_shift(entry);
}

/* The value that a symbol has when the next HUFFMAN_PAIR_BITS bits are these and 0 follows. */
static int32_t pair_value(uint32_t entry, uint32_t bits)
{
    unsigned size = entry_size(entry), total = huffman_total_bits(entry);
    uint32_t shifted = total > HUFFMAN_PAIR_BITS ? bits << (total - HUFFMAN_PAIR_BITS)
                                                 : bits >> (HUFFMAN_PAIR_BITS - total);
    int32_t value = (int32_t)(shifted & ((1U << size) - 1));
    return size > 0 && value >> (size - 1) == 0 ? value - (1 << size) + 1 : value;
}

static uint32_t pair_lookup(const uint32_t *lookup, uint32_t bits)
{
    const uint32_t all = (1U << HUFFMAN_PAIR_BITS) - 1;
    return lookup[(bits & all) << (HUFFMAN_LOOKUP_BITS - HUFFMAN_PAIR_BITS)];
}

/* Whether an entry is a symbol of which `count` bits hold the code and the value's sign. */
static bool pair_may_begin(uint32_t entry, unsigned count)
{
    return huffman_advance(entry) <= HUFFMAN_END &&
           huffman_code_bits(entry) + (entry_size(entry) > 0) <= count;
}

/* Whether an entry is a symbol that `count` bits hold, with its value. */
static bool pair_may_end(uint32_t entry, unsigned count)
{
    return huffman_advance(entry) <= HUFFMAN_END && huffman_total_bits(entry) <= count &&
           entry_size(entry) < 8;
}

static uint64_t pair_make(const uint32_t *lookup, uint32_t bits)
{
    uint32_t entry = pair_lookup(lookup, bits);
    unsigned used = huffman_total_bits(entry), first = huffman_advance(entry);
    if (!pair_may_begin(entry, HUFFMAN_PAIR_BITS))
        return (uint64_t)HUFFMAN_LONG << 24;
    if (first == HUFFMAN_END)
        return (uint64_t)HUFFMAN_END << 24 | used;
    uint64_t value = (uint16_t)pair_value(entry, bits), second_value = 0;
    unsigned second = first, advance = first, beyond = 0;
    if (used > HUFFMAN_PAIR_BITS) {
        beyond = used - HUFFMAN_PAIR_BITS;
    } else {
        unsigned left = HUFFMAN_PAIR_BITS - used;
        bits <<= used;
        entry = pair_lookup(lookup, bits);
        if (pair_may_end(entry, left)) {
            used += huffman_total_bits(entry);
            advance += huffman_advance(entry);
            if (huffman_advance(entry) != HUFFMAN_END) {
                second = advance;
                second_value = (uint8_t)pair_value(entry, bits);
            }
        }
    }
    return second_value << 56 | (uint64_t)(63 - beyond) << 48 | value << 32 |
           (uint64_t)advance << 24 | second << 16 | first << 8 | used;
}

struct status huffman_decoder_make(const struct huffman_spec *spec, bool is_dc,
                                   struct huffman_decoder *decoder)
{
    if (decoder->is_dc == is_dc && memcmp(&decoder->spec, spec, sizeof *spec) == 0)
        return OK;
    TRY(spec_check(spec, is_dc));
    decoder->is_dc = is_dc;
    decoder->spec = *spec;
    uint32_t code = 0, place = 0; /* the code in the upper of 16 bits */
    for (unsigned length = 1; length <= 16; length++) {
        uint32_t step = 1U << (16 - length);
        decoder->offsets[length] = (int32_t)place - (int32_t)(code >> (16 - length));
        for (unsigned i = 0; i < spec->counts[length]; i++, code += step, place++) {
            if (length <= HUFFMAN_LOOKUP_BITS)
                lookup_fill(decoder->lookup, code >> (16 - HUFFMAN_LOOKUP_BITS),
                            (code + step) >> (16 - HUFFMAN_LOOKUP_BITS),
                            huffman_entry(decoder, spec->symbols[place], length));
        }
        decoder->limits[length] = code;
        if (length == HUFFMAN_LOOKUP_BITS) /* what is left belongs to longer codes, or to none */
            lookup_fill(decoder->lookup, code >> (16 - HUFFMAN_LOOKUP_BITS),
                        ARRAY_LENGTH(decoder->lookup), (uint32_t)HUFFMAN_LONG << 24);
    }
    for (uint32_t bits = 0; !is_dc && bits < ARRAY_LENGTH(decoder->pairs); bits++)
        decoder->pairs[bits] = pair_make(decoder->lookup, bits);
    return OK;
}

struct status huffman_encoder_make(const struct huffman_spec *spec, struct huffman_encoder *encoder)
{
    if (memcmp(&encoder->spec, spec, sizeof *spec) == 0)
        return OK;
    TRY(spec_check(spec, false));
    *encoder = (struct huffman_encoder){.spec = *spec};
    uint32_t code = 0, place = 0;
    for (unsigned length = 1; length <= 16; length++, code <<= 1) {
        for (unsigned i = 0; i < spec->counts[length]; i++, code++, place++) {
            unsigned symbol = spec->symbols[place], size = huffman_symbol_size(symbol);
            if (encoder->entries[symbol] != 0)
                continue;
            encoder->entries[symbol] = (uint64_t)code << (size + 6) | (length + size);
            encoder->lengths[symbol] = (uint8_t)length;
            encoder->codes_low[symbol] = (uint8_t)code;
            encoder->codes_high[symbol] = (uint8_t)(code >> 8);
        }
    }
    return OK;
}
