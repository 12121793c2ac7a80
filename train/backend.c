#include "train/backend.h"

const char *const train_dtype_names[] = {
    [DTYPE_AUTO] = "auto", [DTYPE_F32] = "f32",   [DTYPE_TF32] = "tf32",
    [DTYPE_BF16] = "bf16", [DTYPE_FP16] = "fp16", NULL,
};
const char *const optimizer_names[] = {"sgd", "lars", NULL};
