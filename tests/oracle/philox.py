"""The streams of base/random.h, and the initial weights of train/initialise.h, in NumPy.

Logarithms and cosines are those of Python's math module, that is, of the C library that the program uses too."""

import math

import numpy as np

RANDOM_WEIGHTS = 3
RANDOM_TEST = 6


def philox_words(seed, domain, a, b, blocks):
    """The first 4 * blocks words of random_stream_make(seed, domain, a, b)."""
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    counter = [
        np.arange(blocks, dtype=np.uint64),
        np.full(blocks, a, dtype=np.uint64),
        np.full(blocks, b & 0xFFFFFFFF, dtype=np.uint64),
        np.full(blocks, (b >> 32) ^ (domain << 24), dtype=np.uint64),
    ]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0 = counter[0] * np.uint64(0xD2511F53)
        p1 = counter[2] * np.uint64(0xCD9E8D57)
        counter = [
            (p1 >> shift) ^ counter[1] ^ np.uint64(key[0]),
            p1 & low,
            (p0 >> shift) ^ counter[3] ^ np.uint64(key[1]),
            p0 & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(counter, axis=1).reshape(-1)


def stream_u32(seed, domain, a, b, count):
    return philox_words(seed, domain, a, b, (count + 3) // 4)[:count]


def stream_u64(seed, domain, a, b, count):
    words = philox_words(seed, domain, a, b, (count + 1) // 2)[: 2 * count]
    return words[0::2] | words[1::2] << np.uint64(32)


def stream_double(seed, domain, a, b, count):
    return (stream_u64(seed, domain, a, b, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def stream_normal(seed, domain, a, b, count):
    uniform = stream_double(seed, domain, a, b, 2 * count)
    logs = np.fromiter(map(math.log, (1.0 - uniform[0::2]).tolist()), np.float64, count)
    cosines = np.fromiter(map(math.cos, (2 * math.pi * uniform[1::2]).tolist()), np.float64, count)
    return np.sqrt(-2.0 * logs) * cosines


def stream_below(seed, domain, a, b, bound, count):
    """`count` numbers of random_below. A number that it would draw again is not expected for small bounds."""
    numbers = []
    for word in stream_u64(seed, domain, a, b, count).tolist():
        product = word * bound
        assert product & (2**64 - 1) >= 2**64 % bound
        numbers.append(product >> 64)
    return numbers


def initial_weights(shapes, seed, residual_gamma):
    """The values that train/initialise.c draws, for (name, shape) in the order of torchvision's state_dict, as float64.
    The weight of the last normalisation of each residual branch is `residual_gamma` (0: --zero-init)."""
    bottleneck = any(name.endswith(".bn3.weight") for name, _ in shapes)
    last_norm = ".bn3.weight" if bottleneck else ".bn2.weight"
    weights = {}
    for index, (name, shape) in enumerate(shapes):
        count = math.prod(shape)
        if len(shape) == 4:
            deviation = math.sqrt(2 / (shape[0] * shape[2] * shape[3]))
            values = deviation * stream_normal(seed, RANDOM_WEIGHTS, index, 0, count)
        elif name.startswith("fc."):
            fan_in = weights.get("fc.weight", np.empty(shape)).shape[1]
            uniform = stream_double(seed, RANDOM_WEIGHTS, index, 0, count)
            values = 1 / math.sqrt(fan_in) * (2 * uniform - 1)
        elif name.endswith(last_norm):
            values = np.full(count, residual_gamma)
        else:
            values = np.full(count, float(name.endswith((".weight", ".running_var"))))
        weights[name] = values.astype(np.float32).astype(np.float64).reshape(shape)
    return weights
