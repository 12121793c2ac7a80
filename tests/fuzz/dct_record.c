/* `dct` records from hostile bytes, read with every variant, which have to agree on every block;
 * and what is read has to be the same when it was written again. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "index/dct_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static struct coefficients first, other;

static size_t component_bytes(const struct frame *frame, unsigned c)
{
    return (size_t)frame->components[c].blocks_wide * frame->components[c].blocks_high *
           sizeof first.blocks[0][0];
}

static void compare(void)
{
    if (first.frame.component_count != other.frame.component_count)
        abort();
    for (unsigned c = 0; c < first.frame.component_count; c++) {
        size_t bytes = component_bytes(&first.frame, c);
        if (bytes != component_bytes(&other.frame, c) ||
            memcmp(first.blocks[c], other.blocks[c], bytes) != 0)
            abort();
    }
}

static bool read_with(enum cpu_level level, struct dct_record *record, struct coefficients *out)
{
    record->kernels = dct_kernels_for(level);
    struct status status = dct_record_coefficients(record, out);
    bool is_read = status.code == STATUS_DONE;
    if (!is_read && status.code != STATUS_CORRUPT)
        abort();
    status_ignore(status);
    return is_read;
}

static void write_again(void)
{
    CLEANUP(buffer_done) struct buffer bytes = {0};
    struct dct_record record;
    struct status status = dct_record_write(&first, "kept", 4, &bytes);
    if (status.code == STATUS_DONE)
        status = buffer_reserve(&bytes, bytes.length + DCT_RECORD_PADDING);
    if (status.code == STATUS_DONE)
        status = dct_record_open(bytes.data, bytes.length, &record);
    if (status.code == STATUS_DONE)
        status = dct_record_coefficients(&record, &other);
    if (status.code != STATUS_DONE)
        abort();
    compare();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    /* Memory of its own, so that a byte too far is noticed. */
    uint8_t *bytes = malloc(length + DCT_RECORD_PADDING);
    if (!bytes)
        return 0;
    if (length > 0)
        memcpy(bytes, data, length);
    memset(bytes + length, 0xFF, DCT_RECORD_PADDING);
    struct dct_record record;
    struct status status = dct_record_open(bytes, length, &record);
    if (status.code == STATUS_DONE) {
        CLEANUP(buffer_done) struct buffer kept = {.ceiling_bytes = 1 << 20};
        bool is_read = read_with(CPU_PLAIN, &record, &first);
        for (enum cpu_level level = CPU_AVX2; level <= cpu_level(); level++) {
            if (read_with(level, &record, &other) != is_read)
                abort();
            if (is_read)
                compare();
        }
        if (is_read)
            write_again();
        status_ignore(dct_record_kept(&record, &kept));
    }
    status_ignore(status);
    free(bytes);
    return 0;
}
