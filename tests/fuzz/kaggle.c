/* Kaggle's label files from hostile bytes: the class mapping up to the first zero byte, then the
 * solution. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "prep/kaggle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    CLEANUP(class_table_free) struct class_table *classes = NULL;
    CLEANUP(memory_free) uint32_t *labels = NULL;
    const uint8_t *zero = length ? memchr(data, '\0', length) : NULL;
    size_t mapping_length = zero ? (size_t)(zero - data) : length, count = 0;
    size_t solution_start = zero ? mapping_length + 1 : length;
    const struct kaggle_text mapping = {"mapping", data, mapping_length};
    const struct kaggle_text solution = {"solution", data + solution_start,
                                         length - solution_start};
    struct status status = kaggle_parse_mapping(&mapping, &classes);
    if (status.code == STATUS_DONE)
        status = kaggle_parse_solution(&solution, classes, &labels, &count);
    for (size_t i = 0; status.code == STATUS_DONE && i < count; i++)
        if (labels[i] >= class_table_count(classes))
            abort();
    status_clear(&status);
    return 0;
}
