#include "index/dct_make.h"

#include <string.h>

#include "image/shard_reader.h"
#include "index/dct_record.h"

void dct_maker_done(struct dct_maker *maker)
{
    restorer_done(&maker->restorer);
    buffer_done(&maker->rebuilt);
}

/* The record gives the file back, or it is not kept. */
static struct status dct_verify(struct dct_maker *maker, const struct buffer *file,
                                const uint8_t *record, size_t length,
                                enum jpeg_refusal *ret_refusal)
{
    struct buffer *rebuilt = &maker->rebuilt;
    struct status status = record_restore(&maker->restorer, ENCODING_DCT, record, length, rebuilt);
    if (status.code == STATUS_NO_MEMORY)
        return status;
    if (status.code != STATUS_DONE || rebuilt->length != file->length ||
        memcmp(rebuilt->data, file->data, file->length) != 0)
        *ret_refusal = JPEG_REFUSED_ROUND_TRIP;
    status_ignore(status);
    return OK;
}

/* Appends the record of the restorer's coefficients, unless another file would come back. */
static struct status coefficients_append(struct dct_maker *maker, const struct buffer *file,
                                         struct buffer *out, enum jpeg_refusal *ret_refusal)
{
    const struct restorer *parts = &maker->restorer;
    size_t begin = out->length;
    TRY(dct_record_write(&parts->coefficients, parts->kept.data, parts->kept.length, out));
    size_t length = out->length - begin;
    TRY(buffer_reserve(out, out->length + SHARD_PADDING));
    return dct_verify(maker, file, out->data + begin, length, ret_refusal);
}

struct status dct_make(struct dct_maker *maker, const struct buffer *file, struct buffer *out,
                       enum jpeg_refusal *ret_refusal)
{
    struct restorer *parts = &maker->restorer;
    size_t begin = out->length;
    if (!parts->scanner)
        TRY(jpeg_scanner_open(&parts->scanner));
    TRY(jpeg_take(parts->scanner, file->data, file->length, &parts->coefficients, &parts->kept,
                  ret_refusal));
    if (*ret_refusal != JPEG_TAKEN)
        return OK;
    struct status status = coefficients_append(maker, file, out, ret_refusal);
    if (status.code == STATUS_UNSUPPORTED) {
        *ret_refusal = JPEG_REFUSED_EXTREME;
        status_clear(&status);
    }
    if (*ret_refusal != JPEG_TAKEN)
        out->length = begin;
    return status;
}
