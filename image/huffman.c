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
    for (unsigned length = 1; length <= 16; length++) {
        if (bits < decoder->limits[length]) {
            int32_t place = (int32_t)(bits >> (16 - length)) + decoder->offsets[length];
            return huffman_entry(decoder, decoder->symbols[place], length);
        }
    }
    return (uint32_t)HUFFMAN_INVALID << 24;
}

static void lookup_fill(uint32_t *lookup, size_t first, size_t end, uint32_t entry)
{
    for (size_t i = first; i < end; i++)
        lookup[i] = entry;
}

struct status huffman_decoder_make(const struct huffman_spec *spec, bool is_dc,
                                   struct huffman_decoder *decoder)
{
    TRY(spec_check(spec, is_dc));
    decoder->is_dc = is_dc;
    memcpy(decoder->symbols, spec->symbols, sizeof decoder->symbols);
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
    return OK;
}

struct status huffman_encoder_make(const struct huffman_spec *spec, struct huffman_encoder *encoder)
{
    TRY(spec_check(spec, false));
    *encoder = (struct huffman_encoder){0};
    uint32_t code = 0, place = 0;
    for (unsigned length = 1; length <= 16; length++, code <<= 1) {
        for (unsigned i = 0; i < spec->counts[length]; i++, code++, place++) {
            unsigned symbol = spec->symbols[place], size = huffman_symbol_size(symbol);
            if (encoder->entries[symbol] == 0)
                encoder->entries[symbol] = (uint64_t)code << (size + 6) | (length + size);
        }
    }
    return OK;
}
