#ifndef HEADRACE_TRAIN_CPU_ONEDNN_H
#define HEADRACE_TRAIN_CPU_ONEDNN_H

/* The only door to oneDNN: convolutions, the fully connected layer and changes of layout, as
 * operations that take plain pointers. Activations are always (N, H, W, C); weights stand in
 * whatever layout an operation likes best. An operation whose best implementation is one of
 * oneDNN's reference loops is refused. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/scope.h"
#include "base/status.h"
#include "train/backend.h"

struct onednn; /* engine and stream */

/* The library uses no more of the processor than cpu_level() allows. */
struct status onednn_open(struct onednn **ret_onednn);
void onednn_close(struct onednn *onednn);
CLEANUP_POINTER(onednn_close, struct onednn)
/* Appends "oneDNN 3.2". */
struct status onednn_describe(struct buffer *text);

/* Order, padding and type of one tensor in memory. */
struct layout;

/* A copy; `from` stays the caller's. */
struct status layout_clone(const struct layout *from, struct layout **ret_layout);
/* f32, dense, the last dimension fastest. rank is 2 or 4. */
struct status layout_open_dense(unsigned rank, const uint64_t *shape, struct layout **ret_layout);
void layout_close(struct layout *layout);
CLEANUP_POINTER(layout_close, struct layout)
size_t layout_bytes(const struct layout *layout);
bool layout_equal(const struct layout *a, const struct layout *b);

enum operation_pass {
    PASS_FORWARD = 0,      /* output = input * weights + bias */
    PASS_BACKWARD_DATA,    /* gradient at the input from that at the output */
    PASS_BACKWARD_WEIGHTS, /* gradient of the weights, always f32 */
};
extern const char *const operation_pass_names[]; /* by value: "backward data" */

/* What happens to an output before it is stored. */
enum operation_post {
    POST_NONE = 0,
    POST_RELU,
    POST_ADD_RELU, /* relu(output + what stood there) */
};

struct conv_shape {
    uint32_t batch, height, width, channels_in;
    uint32_t out_height, out_width, channels_out;
    uint32_t kernel, stride, padding;
};

/* A convolution without dilation. `bias` and `post` belong to the forward pass of evaluation. */
struct conv_config {
    struct conv_shape shape;
    enum train_dtype dtype; /* of activations and weights: DTYPE_F32 or DTYPE_BF16 */
    bool bias;              /* forward only: f32 (channels_out) */
    enum operation_post post;
};

/* (batch, in) -> (batch, out). Outputs are f32 in the forward pass, gradients at them are in
 * `dtype`. The forward pass has a bias. */
struct fc_config {
    uint32_t batch, in, out;
    enum train_dtype dtype;
};

struct operation;

struct status operation_open_conv(struct onednn *onednn, enum operation_pass pass,
                                  const struct conv_config *config,
                                  struct operation **ret_operation);
struct status operation_open_fc(struct onednn *onednn, enum operation_pass pass,
                                const struct fc_config *config, struct operation **ret_operation);
/* Copies a tensor from `input` in one layout to `output` in another, changing the type. */
struct status operation_open_reorder(struct onednn *onednn, const struct layout *from,
                                     const struct layout *to, struct operation **ret_operation);
void operation_close(struct operation *operation);
CLEANUP_POINTER(operation_close, struct operation)

/* Of the weights, or of their gradient for PASS_BACKWARD_WEIGHTS. Borrowed; NULL for a reorder. */
const struct layout *operation_weights(const struct operation *operation);
/* oneDNN's name for what runs: "brgconv:avx512_core_amx". Borrowed. */
const char *operation_implementation(const struct operation *operation);
/* Scratch memory that operation_run needs. */
size_t operation_scratch_bytes(const struct operation *operation);

/* Tensors by their role in the layer, whichever of them the pass writes; unused ones are NULL. */
struct operation_tensors {
    void *input;
    void *weights;
    void *bias;
    void *output;
    void *scratch; /* aligned to 64 bytes */
};
struct status operation_run(struct operation *operation, const struct operation_tensors *tensors);

#endif
