#ifndef HEADRACE_TESTS_SUPPORT_MINI_NETWORK_H
#define HEADRACE_TESTS_SUPPORT_MINI_NETWORK_H

/* Networks that hold one fusion each: a stem, one residual block, a head. */

#include <stdbool.h>

#include "train/network.h"

struct mini {
    bool bottleneck, shortcut; /* shortcut: a convolution, else the block's input itself */
    uint32_t stride;
    uint32_t batch, height, width, classes;
};

/* The network, with parameters named "param 0" and so on (network_close). */
struct network *mini_open(const struct mini *mini);

#endif
