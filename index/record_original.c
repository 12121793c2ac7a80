#include "index/record_original.h"

#include "index/dct_record.h"

void restorer_done(struct restorer *restorer)
{
    jpeg_scanner_close(restorer->scanner);
    coefficients_done(&restorer->coefficients);
    buffer_done(&restorer->kept);
    buffer_done(&restorer->stored);
    *restorer = (struct restorer){0};
}

static struct status dct_restore(struct restorer *restorer, const void *bytes, size_t length,
                                 struct buffer *original)
{
    struct dct_record record;
    if (!restorer->scanner)
        TRY(jpeg_scanner_open(&restorer->scanner));
    TRY(dct_record_open(bytes, length, &record));
    TRY(dct_record_coefficients(&record, &restorer->coefficients));
    TRY(dct_record_kept(&record, &restorer->kept));
    return jpeg_scan_write(restorer->scanner, &restorer->coefficients, restorer->kept.data,
                           restorer->kept.length, original);
}

struct status record_restore(struct restorer *restorer, uint8_t encoding, const void *bytes,
                             size_t length, struct buffer *original)
{
    switch (encoding) {
    case ENCODING_JPEG:
        original->length = 0;
        return buffer_append(original, bytes, length);
    case ENCODING_DCT:
        return dct_restore(restorer, bytes, length, original);
    default:
        FAIL(STATUS_UNSUPPORTED, "it has encoding %u, which this program does not know", encoding);
    }
}

/* What was read into restorer->stored becomes the file. JPEG files change places, not copies. */
static struct status stored_restore(struct restorer *restorer, struct index *index, uint64_t i,
                                    uint8_t encoding, struct buffer *original)
{
    if (encoding == ENCODING_JPEG) {
        struct buffer file = restorer->stored;
        restorer->stored = *original;
        *original = file;
        return OK;
    }
    return index_blame_bytes(index, i,
                             record_restore(restorer, encoding, restorer->stored.data,
                                            restorer->stored.length, original));
}

struct status record_original(struct restorer *restorer, struct index *index, uint64_t i,
                              struct buffer *original)
{
    struct record record;
    TRY(index_record(index, i, &record));
    TRY(index_read(index, i, &restorer->stored));
    return stored_restore(restorer, index, i, record.encoding, original);
}

struct status record_original_through(struct restorer *restorer, struct index *index,
                                      struct cache_reader *cache, uint64_t i,
                                      struct buffer *original)
{
    uint8_t encoding;
    TRY(cache_reader_read(cache, i, &restorer->stored, &encoding));
    return stored_restore(restorer, index, i, encoding, original);
}
