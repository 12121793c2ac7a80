#ifndef HEADRACE_TRAIN_CUDA_PARAM_MAP_H
#define HEADRACE_TRAIN_CUDA_PARAM_MAP_H

/* Where a network's parameters stand in the arrays of a store (kernels.h tells what an arena is):
 * trained ones in the order in which backward makes their gradients, so that a part of the array is
 * complete early and can be reduced; running statistics behind them. Convolution weights are (out,
 * kernel, kernel, in), of the images' convolution with `in` padded to INPUT_CHANNELS; what goes by
 * class is padded to columns_padded(classes). */

#include "train/cuda/kernels.h"
#include "train/cuda/program.h"

struct param_place {
    uint64_t offset, count; /* elements; the count with padding */
    uint32_t in;            /* weights: elements of the innermost dimension */
};

struct param_map {
    const struct network *network; /* borrowed */
    struct param_place *params;    /* by parameter; count 0: has no place */
    uint64_t trained, total;       /* elements, multiples of KERNEL_BLOCK */
    struct arena_segment *segments;
    uint32_t *segment_params; /* by segment: its parameter */
    uint32_t segment_count;
    uint32_t *block_segments; /* (trained / KERNEL_BLOCK) */
};

struct status param_map_open(const struct network *network, struct param_map **ret_map);
void param_map_close(struct param_map *map);
CLEANUP_POINTER(param_map_close, struct param_map)

/* Between torchvision's layout and the arena's, for one parameter. param_map_pack sets padding to
 * 0. */
void param_map_pack(const struct param_map *map, size_t param, const double *values,
                    float *ret_place);
void param_map_unpack(const struct param_map *map, size_t param, const float *place,
                      double *ret_values);

/* Sets whether BN's parameters and biases decay; weights always do. */
void param_map_set_decay(struct param_map *map, bool norm_and_bias);

#endif
