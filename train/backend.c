#include "train/backend.h"

const char *const train_dtype_names[] = {
    [DTYPE_AUTO] = "auto", [DTYPE_F32] = "f32",   [DTYPE_TF32] = "tf32",
    [DTYPE_BF16] = "bf16", [DTYPE_FP16] = "fp16", NULL,
};
const char *const memory_kind_names[] = {
    [MEMORY_PARAMETERS] = "parameters",
    [MEMORY_GRADIENTS] = "gradients",
    [MEMORY_OPTIMIZER] = "optimizer",
    [MEMORY_AVERAGE] = "average",
    [MEMORY_ACTIVATIONS] = "activations",
    [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_BATCHES] = "batches",
    [MEMORY_OTHER] = "other",
    NULL,
};
const char *const optimizer_names[] = {"sgd", "lars", NULL};

struct status step_check_labels(const int32_t *labels, uint32_t batch, uint32_t classes)
{
    for (uint32_t i = 0; i < batch; i++)
        if (labels[i] < -1 || labels[i] >= (int64_t)classes)
            FAIL(STATUS_USAGE,
                 "the label of image %u of the batch is none of the network's: label %d, and there "
                 "are %u classes",
                 i, labels[i], classes);
    return OK;
}
