#ifndef HEADRACE_TESTS_SUPPORT_GOLDEN_H
#define HEADRACE_TESTS_SUPPORT_GOLDEN_H

/* What tests/oracle/pillow_golden.py left in tests/golden, and the images it computes from a seed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "image/picture.h"

/* A file of lines of words; lines that start with # are left out. */
struct golden {
    struct buffer text;
    char *next_line, *next_word;
    bool failed; /* a word was missing or no number; true from then on */
};
struct status golden_open(const char *name, struct golden *golden);
void golden_done(struct golden *golden);
CLEANUP_VALUE(golden_done, struct golden)
/* Goes to the next line; false at the end. */
bool golden_line(struct golden *golden);
/* The line's next word; valid until golden_done. */
const char *golden_word(struct golden *golden);
uint64_t golden_number(struct golden *golden);
void golden_numbers(struct golden *golden, uint32_t *numbers, size_t count);
uint32_t golden_hex(struct golden *golden);
double golden_real(struct golden *golden);

/* Noise, noise of the extremes, or a gradient, by seed % 3. */
struct status picture_from_seed(uint64_t seed, uint32_t width, uint32_t height,
                                struct picture *picture);
/* The CRC-32C of the pixels without the rows' padding. */
uint32_t picture_crc(const struct picture *picture);

#endif
