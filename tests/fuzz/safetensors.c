/* Safetensors from hostile bytes: what parses is read whole. */

#include <stdint.h>

#include "base/memory.h"
#include "train/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    struct status status = safetensors_parse(data, length, "input", &file);
    for (size_t i = 0; status.code == STATUS_DONE && i < safetensors_count(file); i++) {
        const struct safetensor *tensor = safetensors_at(file, i);
        CLEANUP(memory_free) float *values = NULL;
        status_ignore(memory_alloc(tensor->count, sizeof *values, &values));
        if (values)
            status_ignore(safetensor_read(tensor, values));
    }
    status_ignore(status);
    return 0;
}
