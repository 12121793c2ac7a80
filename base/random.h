#ifndef HEADRACE_BASE_RANDOM_H
#define HEADRACE_BASE_RANDOM_H

/* Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011). A stream is a pure function of its key and counter: no
 * state is shared, and any position can be computed at once. */

#include <stdint.h>

/* Ten rounds; `counter` (4 words) is replaced by 4 random words. */
void philox4x32(uint32_t counter[4], const uint32_t key[2]);

/* A stream of numbers named by (seed, domain, a, b): for instance (seed, RANDOM_CROP, epoch,
 * record). */
struct random_stream {
    uint32_t key[2];
    uint32_t counter[4];
    uint32_t words[4];
    unsigned next; /* index of the next unused word */
};

/* What a stream is used for, so that streams of one seed never coincide. */
enum random_domain {
    RANDOM_ORDER = 1,
    RANDOM_CROP = 2,
    RANDOM_WEIGHTS = 3,
    RANDOM_SPLIT = 4,
    RANDOM_SYNTHETIC = 5,
    RANDOM_TEST = 6,
    RANDOM_WINDOW = 7,
    RANDOM_MIXUP = 8,
    RANDOM_RETRY = 9,
};

/* `a` must be below 2^32 and `b` below 2^56. Block n of the stream (its words 4n … 4n + 3, used in
 * that order) is philox4x32 of the counter (n, a, low word of b, high word of b + (domain << 24))
 * under the key (low word of seed, high word of seed); a stream holds 2^32 blocks. */
struct random_stream random_stream_make(uint64_t seed, enum random_domain domain, uint64_t a,
                                        uint64_t b);
uint32_t random_u32(struct random_stream *stream);
/* Two words, the low one first. */
uint64_t random_u64(struct random_stream *stream);
/* Uniform in [0, 1): the upper 53 bits of random_u64. */
double random_double(struct random_stream *stream);
/* Uniform in [0, bound), without bias; bound > 0. */
uint64_t random_below(struct random_stream *stream, uint64_t bound);
/* Standard normal: sqrt(-2 ln(1 - u)) cos(2 pi v) of two random_double (Box-Muller). */
double random_normal(struct random_stream *stream);

#endif
