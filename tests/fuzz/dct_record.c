/* `dct` records from hostile bytes, read with every variant, whole and in parts, which have to
 * agree on every block; and what is read has to be the same when it was written again, with the
 * same bytes by every variant. */

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

/* Parts of rows in natural order, as decoding a crop reads them; where they are, the record's
 * length decides. */
static void read_parts(enum cpu_level level, struct dct_record *record, size_t length)
{
    static _Alignas(64) int16_t part[8][64], expected[8][64];
    struct block_reader from_memory = coefficients_reader(&first);
    record->kernels = dct_kernels_for(level);
    struct block_reader reader = dct_record_reader(record);
    for (unsigned c = 0; c < record->frame.component_count; c++) {
        const struct frame_component *component = &record->frame.components[c];
        uint32_t begin = (uint32_t)length % component->blocks_wide;
        uint32_t count = component->blocks_wide - begin, row = component->blocks_high / 2;
        count = count < 8 ? count : 8;
        if (reader.read(reader.context, c, row, begin, count, part).code != STATUS_DONE ||
            from_memory.read(from_memory.context, c, row, begin, count, expected).code !=
                STATUS_DONE ||
            memcmp(part, expected, count * sizeof part[0]) != 0)
            abort();
    }
}

/* Rows with widths that the record need not have. */
static void write_rows(size_t length)
{
    static struct buffer scratch, plain, variant;
    const struct dct_code code = {{0, (uint8_t)(1 + length % 4), (uint8_t)(6 + length % 5), 16},
                                  (uint8_t)(1 + length % DCT_MAX_FIELD_BITS)};
    const int16_t(*blocks)[64] = (const int16_t(*)[64])first.blocks[0];
    for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
        struct buffer *out = level == CPU_PLAIN ? &plain : &variant;
        out->length = 0;
        if (dct_row_write(dct_kernels_for(level), blocks, first.frame.components[0].blocks_wide,
                          &code, &scratch, out)
                .code != STATUS_DONE)
            abort();
        if (plain.length != out->length || memcmp(plain.data, out->data, plain.length) != 0)
            abort();
    }
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
        for (enum cpu_level level = CPU_PLAIN; is_read && level <= cpu_level(); level++)
            read_parts(level, &record, length);
        if (is_read)
            write_rows(length);
        if (is_read)
            write_again();
        status_ignore(dct_record_kept(&record, &kept));
    }
    status_ignore(status);
    free(bytes);
    return 0;
}
