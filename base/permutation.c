#include "base/permutation.h"

#include <assert.h>

#include "base/random.h"

/* With fewer bits in a half, six rounds do not make all orders equally likely. */
static const unsigned least_half_bits = 4;

struct permutation permutation_make(uint64_t count, uint64_t seed, uint64_t stream)
{
    struct permutation permutation = {.count = count, .half_bits = least_half_bits};
    while (permutation.half_bits < 32 && count > (uint64_t)1 << (2 * permutation.half_bits))
        permutation.half_bits++;

    struct random_stream random = random_stream_make(seed, RANDOM_ORDER, 0, stream);
    for (int round = 0; round < PERMUTATION_ROUNDS; round++) {
        permutation.keys[round][0] = random_u32(&random);
        permutation.keys[round][1] = random_u32(&random);
    }
    return permutation;
}

/* The round function: half_bits bits that depend on all bits of `half` and of the key. */
static inline uint64_t round_mix(const struct permutation *permutation, int round, uint64_t half)
{
    const uint64_t odd_a = 0x9e3779b97f4a7c15, odd_b = 0xd6e8feb86659fd93;
    const uint32_t *key = permutation->keys[round];
    uint64_t x = (half ^ key[0] ^ (uint64_t)key[1] << 32) * odd_a;
    x = (x ^ x >> 32) * odd_b;
    return x >> (64 - permutation->half_bits);
}

static uint64_t encrypt(const struct permutation *permutation, uint64_t value)
{
    unsigned bits = permutation->half_bits;
    uint64_t left = value >> bits, right = value & (((uint64_t)1 << bits) - 1);
    for (int round = 0; round < PERMUTATION_ROUNDS; round++) {
        uint64_t next = left ^ round_mix(permutation, round, right);
        left = right;
        right = next;
    }
    return left << bits | right;
}

static uint64_t decrypt(const struct permutation *permutation, uint64_t value)
{
    unsigned bits = permutation->half_bits;
    uint64_t left = value >> bits, right = value & (((uint64_t)1 << bits) - 1);
    for (int round = PERMUTATION_ROUNDS; round-- > 0;) {
        uint64_t previous = right ^ round_mix(permutation, round, left);
        right = left;
        left = previous;
    }
    return left << bits | right;
}

/* A value outside the range is walked on along its cycle, which leads back into the range: less
 * than four steps on average, since the network's domain is less than four times the count. */
uint64_t permutation_at(const struct permutation *permutation, uint64_t position)
{
    assert(position < permutation->count);
    do
        position = encrypt(permutation, position);
    while (position >= permutation->count);
    return position;
}

uint64_t permutation_position(const struct permutation *permutation, uint64_t element)
{
    assert(element < permutation->count);
    do
        element = decrypt(permutation, element);
    while (element >= permutation->count);
    return element;
}
