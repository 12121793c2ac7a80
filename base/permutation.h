#ifndef HEADRACE_BASE_PERMUTATION_H
#define HEADRACE_BASE_PERMUTATION_H

#include <stdint.h>

/* A random permutation of 0 … count−1 with O(1) memory: a balanced Feistel network over the next
 * even power of two, cycle-walked into the range (Black and Rogaway, "Ciphers with arbitrary finite
 * domains", CT-RSA 2002). */
#define PERMUTATION_ROUNDS 6

struct permutation {
    uint64_t count;
    unsigned half_bits;
    uint32_t keys[PERMUTATION_ROUNDS][2];
};

/* A pure function of (seed, stream, count); count may be 0, `stream` is below 2^56. */
struct permutation permutation_make(uint64_t count, uint64_t seed, uint64_t stream);
/* The element at a position, both below count. */
uint64_t permutation_at(const struct permutation *permutation, uint64_t position);
/* The position of an element: the inverse. */
uint64_t permutation_position(const struct permutation *permutation, uint64_t element);

#endif
