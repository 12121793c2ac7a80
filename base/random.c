#include "base/random.h"

#include <math.h>

void philox4x32(uint32_t counter[4], const uint32_t key[2])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53 * counter[0];
        uint64_t p1 = (uint64_t)0xcd9e8d57 * counter[2];
        counter[0] = (uint32_t)(p1 >> 32) ^ counter[1] ^ k0;
        counter[2] = (uint32_t)(p0 >> 32) ^ counter[3] ^ k1;
        counter[1] = (uint32_t)p1;
        counter[3] = (uint32_t)p0;
        k0 += 0x9e3779b9; /* golden ratio */
        k1 += 0xbb67ae85; /* sqrt(3) − 1 */
    }
}

struct random_stream random_stream_make(uint64_t seed, enum random_domain domain, uint64_t a,
                                        uint64_t b)
{
    return (struct random_stream){
        .key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
        .counter = {0, (uint32_t)a, (uint32_t)b, (uint32_t)(b >> 32) ^ (uint32_t)domain << 24},
        .next = 4,
    };
}

uint32_t random_u32(struct random_stream *stream)
{
    if (stream->next == 4) {
        for (int i = 0; i < 4; i++)
            stream->words[i] = stream->counter[i];
        philox4x32(stream->words, stream->key);
        stream->counter[0]++;
        stream->next = 0;
    }
    return stream->words[stream->next++];
}

uint64_t random_u64(struct random_stream *stream)
{
    uint64_t low = random_u32(stream);
    return low | (uint64_t)random_u32(stream) << 32;
}

double random_double(struct random_stream *stream)
{
    return (double)(random_u64(stream) >> 11) * 0x1p-53;
}

/* The high word of a 64 × 64 bit product falls into each of [0, bound) equally often once the few
 * low words below 2^64 mod bound are drawn again (Lemire, "Fast random integer generation in an
 * interval", 2019). */
uint64_t random_below(struct random_stream *stream, uint64_t bound)
{
    uint64_t rejected_below = -bound % bound;
    unsigned __int128 product;
    do
        product = (unsigned __int128)random_u64(stream) * bound;
    while ((uint64_t)product < rejected_below);
    return (uint64_t)(product >> 64);
}

double random_normal(struct random_stream *stream)
{
    const double two_pi = 6.283185307179586476925286766559;
    double radius = sqrt(-2.0 * log(1.0 - random_double(stream))); /* 1 − u is never 0 */
    return radius * cos(two_pi * random_double(stream));
}
