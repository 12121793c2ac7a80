#!/usr/bin/env python3
"""Writes tests/golden/lars.txt: updates by LARS as MLPerf's reference makes them, in plain NumPy and f64.

After You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017, and mlcommons/training,
image_classification/tensorflow2/lars_optimizer.py: the rate stands inside the momentum, the norm is that of the
gradient without decay, and normalisations and biases have neither decay nor a rate of their own.

    python3 tests/oracle/lars_golden.py > tests/golden/lars.txt
"""

import numpy as np

from philox import RANDOM_TEST, stream_normal

# Trained parameters of tests/support/mini_network.c with a bottleneck and a shortcut: index, elements, is a weight.
CONVOLUTIONS = [(0, 4704, 32), (6, 512, 16), (12, 2304, 16), (18, 1024, 64), (24, 2048, 64)]
PARAMS = [p for i, n, c in CONVOLUTIONS for p in ((i, n, True), (i + 1, c, False), (i + 2, c, False))]
PARAMS += [(30, 640, True), (31, 10, False)]
RATES = [0.5, 1.0, 2.0]
MOMENTUM, DECAY, ETA = 0.9, 1e-3, 1e-3
ZERO_VALUE, ZERO_GRADIENT = 12, 18  # parameters where a norm is 0 in the first step


def drawn(index, stream, count):
    return stream_normal(1, RANDOM_TEST, index, stream, count).astype(np.float32).astype(np.float64)


def update(index, count, is_weight, nesterov, decay_all, epsilon):
    w = np.zeros(count) if index == ZERO_VALUE else drawn(index, 0, count)
    v = np.zeros(count)
    for step, rate in enumerate(RATES):
        g = drawn(index, step + 1, count)
        if index == ZERO_GRADIENT and step == 0:
            g[:] = 0
        decay = DECAY if is_weight or decay_all else 0.0
        if is_weight:
            w_norm, g_norm = np.linalg.norm(w), np.linalg.norm(g)
            if w_norm > 0 and g_norm > 0:
                rate *= ETA * w_norm / (g_norm + decay * w_norm + epsilon)
        g = rate * (g + decay * w)
        v = MOMENTUM * v + g
        w = w - (g + MOMENTUM * v if nesterov else v)
    return w, v


def main():
    print("# By tests/oracle/lars_golden.py. nesterov, decay of all, epsilon, parameter, elements; then for its value")
    print("# and its momentum after three steps: the norm, and the sum of element i times i % 7 - 3")
    for nesterov, decay_all, epsilon in ((0, 0, 0.0), (1, 1, 0.5)):
        for index, count, is_weight in PARAMS:
            words = [nesterov, decay_all, epsilon, index, count]
            for x in update(index, count, is_weight, nesterov, decay_all, epsilon):
                words += [repr(float(np.linalg.norm(x))), repr(float(x @ (np.arange(count) % 7 - 3)))]
            print(*words)


if __name__ == "__main__":
    main()
