/* Kaggle's label files from hostile bytes: the class mapping up to the first zero byte, then the
 * solution. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "prep/kaggle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static int make_file(const uint8_t *data, size_t length, char path[64])
{
    int fd = memfd_create("labels", MFD_CLOEXEC);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, data, length) != (ssize_t)length)
        abort();
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    CLEANUP(class_table_free) struct class_table *classes = NULL;
    CLEANUP(memory_free) uint32_t *labels = NULL;
    const uint8_t *zero = length ? memchr(data, '\0', length) : NULL;
    size_t mapping_length = zero ? (size_t)(zero - data) : length, count = 0;
    size_t solution_start = zero ? mapping_length + 1 : length;
    char mapping_path[64], solution_path[64];
    int mapping = make_file(data, mapping_length, mapping_path);
    int solution = make_file(data + solution_start, length - solution_start, solution_path);
    struct status status = kaggle_read_mapping(mapping_path, &classes);
    if (status.code == STATUS_DONE)
        status = kaggle_read_solution(solution_path, classes, &labels, &count);
    for (size_t i = 0; status.code == STATUS_DONE && i < count; i++)
        if (labels[i] >= class_table_count(classes))
            abort();
    status_clear(&status);
    close(mapping);
    close(solution);
    return 0;
}
