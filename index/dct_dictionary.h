#ifndef HEADRACE_INDEX_DCT_DICTIONARY_H
#define HEADRACE_INDEX_DCT_DICTIONARY_H

/* What JPEG files have in common beside their coefficients: the dictionary with which `dct` records
 * compress it. A part of the format: changed, it makes records unreadable. */

#include <stddef.h>
#include <stdint.h>

extern const uint8_t dct_dictionary[];
extern const size_t dct_dictionary_bytes;

#endif
