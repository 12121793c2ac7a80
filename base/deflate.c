#include "base/deflate.h"

#include <zlib.h>

#include "base/memory.h"

enum {
    ZLIB_WINDOW_BITS = 15,
    RAW_WINDOW_BITS = -15, /* negative: neither header nor checksum */
    MEMORY_LEVEL = 9,
    PIECE_BYTES = 16 << 10,
};

static struct status stream_make(const void *bytes, size_t length, z_stream *ret_stream)
{
    if (length > UINT32_MAX)
        FAIL(STATUS_NO_MEMORY, "%zu bytes are too many to compress or inflate at once", length);
    *ret_stream = (z_stream){.next_in = (Bytef *)bytes, .avail_in = (uInt)length};
    return OK;
}

/* Runs a step until it says that it has ended or cannot go on; appends what comes out. */
static struct status run(z_stream *stream, int (*step)(z_stream *, int), int flush,
                         struct buffer *out, int *ret_result)
{
    *ret_result = Z_OK;
    while (*ret_result == Z_OK) {
        uint8_t piece[PIECE_BYTES];
        stream->next_out = piece;
        stream->avail_out = sizeof piece;
        *ret_result = step(stream, flush);
        TRY(buffer_append(out, piece, sizeof piece - stream->avail_out));
    }
    return OK;
}

struct status deflate_raw(const void *bytes, size_t length,
                          const struct deflate_dictionary *dictionary, struct buffer *out)
{
    z_stream stream;
    int result;
    TRY(stream_make(bytes, length, &stream));
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, RAW_WINDOW_BITS, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        FAIL(STATUS_NO_MEMORY, "no memory to compress %zu bytes", length);
    deflateSetDictionary(&stream, dictionary->bytes, (uInt)dictionary->length);
    struct status status = run(&stream, deflate, Z_FINISH, out, &result);
    deflateEnd(&stream);
    TRY(status);
    if (result != Z_STREAM_END)
        FAIL(STATUS_FAILED, "%zu bytes cannot be compressed (%d)", length, result);
    return OK;
}

static struct status inflate_all(z_stream *stream, int window_bits,
                                 const struct deflate_dictionary *dictionary, struct buffer *out)
{
    int result;
    if (inflateInit2(stream, window_bits) != Z_OK)
        FAIL(STATUS_NO_MEMORY, "no memory to inflate %u bytes", stream->avail_in);
    if (dictionary)
        inflateSetDictionary(stream, dictionary->bytes, (uInt)dictionary->length);
    struct status status = run(stream, inflate, Z_NO_FLUSH, out, &result);
    inflateEnd(stream);
    TRY(status);
    if (result != Z_STREAM_END)
        FAIL(STATUS_CORRUPT, "the compressed data are damaged");
    return OK;
}

struct status inflate_raw(const void *bytes, size_t length,
                          const struct deflate_dictionary *dictionary, struct buffer *out)
{
    z_stream stream;
    TRY(stream_make(bytes, length, &stream));
    TRY(inflate_all(&stream, RAW_WINDOW_BITS, dictionary, out));
    if (stream.avail_in > 0)
        FAIL(STATUS_CORRUPT, "%u bytes stand behind the compressed data", stream.avail_in);
    return OK;
}

struct status inflate_zlib(const void *bytes, size_t length, struct buffer *out)
{
    z_stream stream;
    TRY(stream_make(bytes, length, &stream));
    return inflate_all(&stream, ZLIB_WINDOW_BITS, NULL, out);
}

/* --- Piece by piece --- */

/* zlib counts in unsigned int. */
static const size_t max_piece_bytes = 1 << 30;

struct inflater {
    z_stream stream;
    bool is_open;
};

struct status inflater_open(struct inflater **ret_inflater)
{
    CLEANUP(inflater_close) struct inflater *inflater = NULL;
    TRY(memory_alloc(1, sizeof *inflater, &inflater));
    if (inflateInit2(&inflater->stream, RAW_WINDOW_BITS) != Z_OK)
        FAIL(STATUS_NO_MEMORY, "cannot allocate memory to unpack compressed data");
    inflater->is_open = true;
    *ret_inflater = MOVE(inflater);
    return OK;
}

void inflater_close(struct inflater *inflater)
{
    if (!inflater)
        return;
    if (inflater->is_open)
        inflateEnd(&inflater->stream);
    memory_free(inflater);
}

void inflater_reset(struct inflater *inflater)
{
    inflateReset(&inflater->stream);
}

static unsigned piece(size_t length)
{
    return (unsigned)(length < max_piece_bytes ? length : max_piece_bytes);
}

struct status inflater_run(struct inflater *inflater, struct reader *packed, void *bytes,
                           size_t capacity, size_t *ret_length, bool *ret_ended)
{
    z_stream *stream = &inflater->stream;
    *ret_length = 0;
    *ret_ended = false;
    while (*ret_length < capacity && !*ret_ended) {
        unsigned in = piece(reader_left(packed)), out = piece(capacity - *ret_length);
        stream->next_in = (uint8_t *)packed->data + packed->position;
        stream->avail_in = in;
        stream->next_out = (uint8_t *)bytes + *ret_length;
        stream->avail_out = out;
        int result = inflate(stream, Z_NO_FLUSH);
        packed->position += in - stream->avail_in;
        *ret_length += out - stream->avail_out;
        if (result == Z_BUF_ERROR)
            return OK; /* more input is needed */
        if (result != Z_OK && result != Z_STREAM_END)
            FAIL(STATUS_CORRUPT, "the compressed data are damaged");
        *ret_ended = result == Z_STREAM_END;
    }
    return OK;
}

uint32_t crc32_update(uint32_t crc, const void *bytes, size_t length)
{
    return (uint32_t)crc32_z(crc, bytes, length);
}
