#ifndef HEADRACE_TRAIN_INITIALISE_H
#define HEADRACE_TRAIN_INITIALISE_H

/* The values a network starts from, as torchvision's ResNet draws them: convolutions normal with
 * variance 2/fan_out (He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015), γ = 1, β =
 * 0, running statistics 0 and 1, fully connected weight and bias uniform within ±1/sqrt(fan_in).
 * Each parameter has a random stream of its own, (seed, RANDOM_WEIGHTS, parameter), so its values
 * depend on nothing else. Values are f32 numbers: every backend starts from the same. */

#include "train/backend.h"

/* The values of one parameter, in torchvision's layout. With `zero_init`, γ of each residual
 * branch's last BN is 0. */
void initialise_param(const struct network *network, size_t param, uint64_t seed, bool zero_init,
                      double *ret_values);

/* Writes all values of a store. */
struct status initialise_store(const struct network *network, const struct backend_ops *ops,
                               struct store *store, uint64_t seed, bool zero_init);

#endif
