#ifndef HEADRACE_TESTS_SUPPORT_PARITY_H
#define HEADRACE_TESTS_SUPPORT_PARITY_H

/* Holds a backend against PyTorch: runs it on what a golden file of tests/oracle/train_golden.py
 * describes (64 x 64 pixels, batch 4, weights and images from the counter-based generator) and
 * compares. */

#include "train/backend.h"

/* The largest distances allowed. */
struct parity_bounds {
    double gradient; /* of each tensor's norm and projection relative to the norm, and of 64 samples
                      * relative to the largest of them */
    double running;  /* the same for running means and variances after one step */
    double logits;   /* relative to the largest logit; they are read as f32 */
    double loss;     /* relative, of each step and of an evaluation */
    unsigned steps;  /* of SGD, 1 … 10 */
};

/* Runs `module` against tests/golden/`name`.bin and prints how far off it was. Fails with what was
 * furthest beyond its bound first. Weights as drawn by train/initialise.h must match to 1e-12
 * always, and metrics the logits. */
struct status parity_check(const struct backend_module *module, const struct backend_config *config,
                           const char *name, const struct parity_bounds *bounds);

#endif
