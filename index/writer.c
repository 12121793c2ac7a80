#include "index/writer.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/memory.h"
#include "index/format.h"
#include "index/url.h"

/* An index while it is written: sections are streamed one after the other, the header and the
 * directory in front of them are filled in last. */
struct encoder {
    struct file_writer *writer;
    uint64_t base;           /* where the index begins in the file */
    struct buffer pending;   /* bytes that are not in the file yet */
    struct buffer directory; /* entries of the sections so far */
    struct buffer chunk;     /* content of the section that is not written yet */
    struct buffer crcs;      /* of the section's chunks so far */
    uint64_t section_begin, section_bytes;
};

static void encoder_done(struct encoder *encoder)
{
    buffer_done(&encoder->pending);
    buffer_done(&encoder->directory);
    buffer_done(&encoder->chunk);
    buffer_done(&encoder->crcs);
}
CLEANUP_VALUE(encoder_done, struct encoder)

/* From the index's first byte. */
static uint64_t encoder_position(const struct encoder *encoder)
{
    return file_writer_position(encoder->writer) + encoder->pending.length - encoder->base;
}

static struct status encoder_flush(struct encoder *encoder)
{
    TRY(file_writer_write(encoder->writer, encoder->pending.data, encoder->pending.length));
    encoder->pending.length = 0;
    return OK;
}

static struct status encoder_write(struct encoder *encoder, const void *bytes, size_t length)
{
    const size_t write_bytes = (size_t)1 << 20;
    TRY(buffer_append(&encoder->pending, bytes, length));
    return encoder->pending.length >= write_bytes ? encoder_flush(encoder) : OK;
}

static struct status encoder_align(struct encoder *encoder)
{
    static const uint8_t zeros[INDEX_ALIGNMENT];
    uint64_t position = encoder_position(encoder);
    return encoder_write(encoder, zeros, index_align(position) - position);
}

static struct status chunk_flush(struct encoder *encoder)
{
    struct buffer *chunk = &encoder->chunk;
    TRY(buffer_append_le32(&encoder->crcs, crc32c_update(0, chunk->data, chunk->length)));
    TRY(encoder_write(encoder, chunk->data, chunk->length));
    chunk->length = 0;
    return OK;
}

static struct status section_append(struct encoder *encoder, const void *bytes, size_t length)
{
    const uint8_t *next = bytes;
    encoder->section_bytes += length;
    while (length > 0) {
        size_t room = INDEX_CHUNK_BYTES - encoder->chunk.length;
        size_t part = length < room ? length : room;
        TRY(buffer_append(&encoder->chunk, next, part));
        if (encoder->chunk.length == INDEX_CHUNK_BYTES)
            TRY(chunk_flush(encoder));
        next += part;
        length -= part;
    }
    return OK;
}

static struct status section_append_le32(struct encoder *encoder, uint32_t value)
{
    uint8_t bytes[4];
    store_le32(bytes, value);
    return section_append(encoder, bytes, sizeof bytes);
}

static struct status section_append_le64(struct encoder *encoder, uint64_t value)
{
    uint8_t bytes[8];
    store_le64(bytes, value);
    return section_append(encoder, bytes, sizeof bytes);
}

static void section_start(struct encoder *encoder)
{
    encoder->section_begin = encoder_position(encoder);
    encoder->section_bytes = 0;
    encoder->crcs.length = 0;
}

static struct status section_finish(struct encoder *encoder, enum index_section kind)
{
    if (encoder->chunk.length > 0)
        TRY(chunk_flush(encoder));
    TRY(encoder_align(encoder));
    TRY(encoder_write(encoder, encoder->crcs.data, encoder->crcs.length));
    TRY(encoder_align(encoder));

    struct buffer *directory = &encoder->directory;
    size_t entry_end = directory->length + INDEX_ENTRY_BYTES;
    TRY(buffer_append_le32(directory, kind));
    TRY(buffer_append_le32(directory, INDEX_SECTION_REQUIRED));
    TRY(buffer_append_le64(directory, encoder->section_begin));
    TRY(buffer_append_le64(directory, encoder->section_bytes));
    TRY(buffer_append_le32(directory, crc32c_update(0, encoder->crcs.data, encoder->crcs.length)));
    return buffer_resize(directory, entry_end);
}

static struct status shards_encode(struct encoder *encoder, const struct index_contents *contents)
{
    section_start(encoder);
    for (size_t i = 0; i < contents->shard_count; i++) {
        const struct source_shard *shard = &contents->shards[i];
        size_t path_length = strlen(shard->path);
        TRY(section_append_le32(encoder, shard->kind));
        TRY(section_append_le32(encoder, (uint32_t)path_length));
        TRY(section_append_le64(encoder, shard->size_bytes));
        TRY(section_append(encoder, shard->path, path_length));
    }
    return section_finish(encoder, SECTION_SHARDS);
}

static struct status classes_encode(struct encoder *encoder, const struct class_table *classes)
{
    section_start(encoder);
    for (size_t i = 0; i < class_table_count(classes); i++) {
        const struct class_entry *entry = class_table_at(classes, i);
        size_t key_length = strlen(entry->wnid), words_length = strlen(entry->words);
        TRY(section_append_le32(encoder, entry->train_images));
        TRY(section_append_le32(encoder, (uint32_t)key_length));
        TRY(section_append_le32(encoder, (uint32_t)words_length));
        TRY(section_append(encoder, entry->wnid, key_length));
        TRY(section_append(encoder, entry->words, words_length));
    }
    return section_finish(encoder, SECTION_CLASSES);
}

static struct status provenance_encode(struct encoder *encoder, const char *provenance)
{
    section_start(encoder);
    TRY(section_append(encoder, provenance, strlen(provenance)));
    return section_finish(encoder, SECTION_PROVENANCE);
}

/* The bytes of one record in a column. */
static void column_value(enum index_section kind, const struct index_contents *contents,
                         const struct source_item *item, uint8_t *bytes)
{
    switch (kind) {
    case SECTION_LABELS:
        store_le32(bytes, item->label);
        return;
    case SECTION_OFFSETS:
        store_le64(bytes, item->offset);
        return;
    case SECTION_LENGTHS:
        store_le32(bytes, (uint32_t)item->length);
        return;
    case SECTION_SHARD_NUMBERS:
        store_le32(bytes, item->shard - contents->first_shard);
        return;
    case SECTION_SIZES:
        store_le16(bytes, item->width);
        store_le16(bytes + 2, item->height);
        return;
    case SECTION_ENCODINGS:
        bytes[0] = item->encoding;
        return;
    case SECTION_CRCS:
        store_le32(bytes, item->crc_known ? item->crc32c : 0);
        return;
    case SECTION_FLAGS:
        bytes[0] =
            (uint8_t)((item->crc_known ? INDEX_CRC_KNOWN : 0) | (item->is_lossy ? INDEX_LOSSY : 0));
        return;
    default:
        assert(!"not a column");
    }
}

static struct status columns_encode(struct encoder *encoder, const struct index_contents *contents)
{
    for (enum index_section kind = SECTION_LABELS; kind <= SECTION_FLAGS; kind++) {
        section_start(encoder);
        for (uint64_t i = 0; i < contents->item_count; i++) {
            uint8_t bytes[8];
            column_value(kind, contents, &contents->items[i], bytes);
            TRY(section_append(encoder, bytes, index_column_bytes[kind]));
        }
        TRY(section_finish(encoder, kind));
    }
    return OK;
}

static struct status names_encode(struct encoder *encoder, const struct index_contents *contents)
{
    uint64_t offset = 0;
    section_start(encoder);
    for (uint64_t i = 0; i < contents->item_count; i++) {
        TRY(section_append_le64(encoder, offset));
        offset += strlen(contents->items[i].name) + 1;
    }
    TRY(section_append_le64(encoder, offset));
    TRY(section_finish(encoder, SECTION_NAME_OFFSETS));

    section_start(encoder);
    for (uint64_t i = 0; i < contents->item_count; i++) {
        const char *name = contents->items[i].name;
        TRY(section_append(encoder, name, strlen(name) + 1));
    }
    return section_finish(encoder, SECTION_NAMES);
}

/* Fills in the header and the directory, whose places were left free. */
static struct status head_write(struct encoder *encoder, const struct index_contents *contents)
{
    const struct buffer *directory = &encoder->directory;
    uint8_t head[INDEX_HEADER_BYTES + (SECTION_END - 1) * INDEX_ENTRY_BYTES] = {0};
    memcpy(head, INDEX_MAGIC, 8);
    store_le32(head + 8, INDEX_VERSION);
    store_le32(head + 12, (uint32_t)(directory->length / INDEX_ENTRY_BYTES));
    store_le64(head + 16, encoder_position(encoder));
    store_le64(head + 24, contents->item_count);
    store_le32(head + 32, (uint32_t)class_table_count(contents->classes));
    store_le32(head + 36, (uint32_t)contents->shard_count);
    store_le64(head + 40, class_table_hash(contents->classes));
    store_le32(head + INDEX_HEADER_CRCS, crc32c_update(0, directory->data, directory->length));
    store_le32(head + INDEX_HEADER_CRCS + 4, crc32c_update(0, head, INDEX_HEADER_CRCS + 4));
    memcpy(head + INDEX_HEADER_BYTES, directory->data, directory->length);
    return file_writer_write_at(encoder->writer, head, sizeof head, encoder->base);
}

struct status index_encode(const struct index_contents *contents, struct file_writer *writer)
{
    CLEANUP(encoder_done)
    struct encoder encoder = {.writer = writer, .base = file_writer_position(writer)};
    assert(encoder.base % INDEX_ALIGNMENT == 0);
    static const uint8_t head[INDEX_HEADER_BYTES + (SECTION_END - 1) * INDEX_ENTRY_BYTES];
    TRY(encoder_write(&encoder, head, sizeof head));
    TRY(shards_encode(&encoder, contents));
    TRY(classes_encode(&encoder, contents->classes));
    TRY(provenance_encode(&encoder, contents->provenance));
    TRY(columns_encode(&encoder, contents));
    TRY(names_encode(&encoder, contents));
    TRY(encoder_flush(&encoder));
    return head_write(&encoder, contents);
}

/* A shard's path as seen from the index; URLs stay. */
static struct status path_relate(const char *path, const char *folder, char **ret_path)
{
    if (!url_is(path))
        return path_relative(path, folder, ret_path);
    TRY(url_check(path));
    return url_name(path, ret_path); /* without a query: it may hold a signature */
}

/* Copies of shards (into zeroed memory) with their paths as seen from the index. */
static struct status shards_relate(const struct index_contents *contents, const char *folder,
                                   struct source_shard *shards)
{
    for (size_t i = 0; i < contents->shard_count; i++) {
        shards[i] = contents->shards[i];
        shards[i].path = NULL;
        TRY(path_relate(contents->shards[i].path, folder, &shards[i].path));
    }
    return OK;
}

struct status index_prepare(const struct index_contents *contents, const char *path,
                            struct file_writer *writer)
{
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) struct source_shard *shards = NULL;
    struct index_contents related = *contents;
    TRY(path_folder(path, &folder));
    TRY(memory_alloc(contents->shard_count, sizeof *shards, &shards));
    related.shards = shards;
    struct status status = shards_relate(contents, folder, shards);
    if (status.code == STATUS_DONE)
        status = index_encode(&related, writer);
    for (size_t i = 0; i < contents->shard_count; i++)
        memory_free(shards[i].path);
    TRY(status);
    return file_writer_prepare(writer);
}

struct status index_write(const struct source *source, const char *provenance, const char *path)
{
    CLEANUP(file_writer_free) struct file_writer *writer = NULL;
    const struct index_contents contents = {
        .classes = source->classes,
        .shards = source->shards,
        .shard_count = source->shard_count,
        .items = source->items,
        .item_count = source->item_count,
        .provenance = provenance,
    };
    TRY(file_writer_open(path, &writer));
    TRY(index_prepare(&contents, path, writer));
    return file_writer_publish(writer);
}

uint64_t index_estimate_bytes(const struct class_table *classes, uint64_t record_count,
                              uint64_t names_bytes)
{
    uint64_t bytes = INDEX_HEADER_BYTES + 4096; /* directory, provenance, padding */
    for (size_t i = 0; i < class_table_count(classes); i++) {
        const struct class_entry *entry = class_table_at(classes, i);
        bytes += INDEX_CLASS_ENTRY_BYTES + strlen(entry->wnid) + strlen(entry->words);
    }
    uint64_t record_bytes = sizeof(uint64_t) + 1; /* the name's offset and its end */
    for (size_t i = 0; i < SECTION_END; i++)
        record_bytes += index_column_bytes[i];
    bytes += record_count * record_bytes + names_bytes;
    return bytes + 4 * index_chunks(bytes);
}
