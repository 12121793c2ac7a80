#include "index/shard_writer.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/memory.h"
#include "index/format.h"
#include "index/writer.h"

struct shard_writer {
    char *prefix;
    const struct class_table *classes;
    uint64_t shard_bytes;

    struct source_shard *shards;
    struct file_writer **files; /* of each shard; all but the last are prepared */
    size_t shard_count, shard_capacity, file_capacity;
    uint64_t position; /* in the last shard, with the run that is not written yet */

    struct source_item *items;
    size_t item_count, item_capacity;
    size_t first_item; /* of the last shard */

    const uint8_t *run; /* records that were added but not written */
    uint64_t run_bytes;
};

uint64_t shard_padded(uint64_t length)
{
    return index_align(length);
}

struct status shard_path(const char *prefix, size_t number, char **ret_path)
{
    return string_format(ret_path, "%s-%05zu.shard", prefix, number);
}

/* Whether a shard of `position` bytes has no room for a record. An empty one has room for any. */
static bool shard_is_full(uint64_t position, uint64_t length, uint64_t shard_bytes)
{
    return position > PACKED_HEADER_BYTES && position + shard_padded(length) > shard_bytes;
}

void shard_layout(const struct source *source, uint64_t shard_bytes, uint64_t *ret_shards,
                  uint64_t *ret_bytes)
{
    uint64_t position = PACKED_HEADER_BYTES;
    *ret_shards = 1;
    *ret_bytes = 0;
    for (size_t i = 0; i < source->item_count; i++) {
        uint64_t length = source->items[i].length;
        if (shard_is_full(position, length, shard_bytes)) {
            *ret_shards += 1;
            *ret_bytes += position;
            position = PACKED_HEADER_BYTES;
        }
        position += shard_padded(length);
    }
    *ret_bytes += position;
}

struct status shard_writer_open(const char *prefix, const struct class_table *classes,
                                uint64_t shard_bytes, struct shard_writer **ret_writer)
{
    CLEANUP(shard_writer_free) struct shard_writer *writer = NULL;
    TRY(memory_alloc(1, sizeof *writer, &writer));
    TRY(string_copy(prefix, &writer->prefix));
    writer->classes = classes;
    writer->shard_bytes = shard_bytes;
    *ret_writer = MOVE(writer);
    return OK;
}

void shard_writer_free(struct shard_writer *writer)
{
    if (!writer)
        return;
    for (size_t i = 0; i < writer->shard_count; i++) {
        file_writer_free(writer->files[i]);
        memory_free(writer->shards[i].path);
    }
    memory_free(writer->files);
    memory_free(writer->shards);
    memory_free(writer->items);
    memory_free(writer->prefix);
    memory_free(writer);
}

static struct file_writer *last_file(const struct shard_writer *writer)
{
    return writer->files[writer->shard_count - 1];
}

/* Puts the CRC into a header or footer. */
static void packed_sign(uint8_t bytes[PACKED_HEADER_BYTES])
{
    store_le32(bytes + PACKED_CRC, crc32c_update(0, bytes, PACKED_CRC));
}

static struct status shard_begin(struct shard_writer *writer)
{
    size_t number = writer->shard_count;
    TRY(memory_grow(number + 1, sizeof *writer->shards, &writer->shards, &writer->shard_capacity));
    TRY(memory_grow(number + 1, sizeof *writer->files, &writer->files, &writer->file_capacity));
    struct source_shard *shard = &writer->shards[number];
    *shard = (struct source_shard){.kind = SHARD_PACKED};
    writer->files[number] = NULL;
    writer->shard_count++;
    TRY(shard_path(writer->prefix, number, &shard->path));
    TRY(file_writer_open(shard->path, &writer->files[number]));

    uint8_t header[PACKED_HEADER_BYTES] = {0};
    memcpy(header, PACKED_HEADER_MAGIC, 8);
    store_le32(header + 8, INDEX_VERSION);
    store_le32(header + 12, (uint32_t)number);
    store_le64(header + 16, class_table_hash(writer->classes));
    packed_sign(header);
    writer->position = sizeof header;
    writer->first_item = writer->item_count;
    return file_writer_write(writer->files[number], header, sizeof header);
}

static struct status trailer_write(const struct shard_writer *writer, struct file_writer *file)
{
    static char nothing[] = "";
    const struct source_shard itself = {.path = nothing, .kind = SHARD_PACKED};
    const struct index_contents contents = {
        .classes = writer->classes,
        .shards = &itself,
        .shard_count = 1,
        .items = writer->items + writer->first_item,
        .item_count = writer->item_count - writer->first_item,
        .first_shard = (uint32_t)(writer->shard_count - 1),
        .provenance = "{}",
    };
    uint64_t begin = file_writer_position(file);
    TRY(index_encode(&contents, file));

    uint8_t footer[PACKED_HEADER_BYTES] = {0};
    memcpy(footer, PACKED_TRAILER_MAGIC, 8);
    store_le64(footer + 8, begin);
    store_le64(footer + 16, file_writer_position(file) - begin);
    packed_sign(footer);
    return file_writer_write(file, footer, sizeof footer);
}

static struct status shard_end(struct shard_writer *writer)
{
    struct file_writer *file = last_file(writer);
    TRY(shard_writer_flush(writer));
    TRY(trailer_write(writer, file));
    writer->shards[writer->shard_count - 1].size_bytes = file_writer_position(file);
    TRY(file_writer_prepare(file));
    file_writer_park(file);
    return OK;
}

struct status shard_writer_add(struct shard_writer *writer, const struct source_item *item,
                               const uint8_t *bytes)
{
    if (writer->shard_count > 0 &&
        shard_is_full(writer->position, item->length, writer->shard_bytes)) {
        TRY(shard_end(writer));
        TRY(shard_begin(writer));
    }
    if (writer->shard_count == 0)
        TRY(shard_begin(writer));
    TRY(memory_grow(writer->item_count + 1, sizeof *writer->items, &writer->items,
                    &writer->item_capacity));
    struct source_item *added = &writer->items[writer->item_count++];
    *added = *item;
    added->shard = (uint32_t)(writer->shard_count - 1);
    added->offset = writer->position;

    if (bytes != writer->run + writer->run_bytes)
        TRY(shard_writer_flush(writer));
    if (writer->run_bytes == 0)
        writer->run = bytes;
    writer->run_bytes += shard_padded(item->length);
    writer->position += shard_padded(item->length);
    return OK;
}

struct status shard_writer_flush(struct shard_writer *writer)
{
    if (writer->run_bytes > 0)
        TRY(file_writer_write(last_file(writer), writer->run, writer->run_bytes));
    writer->run = NULL;
    writer->run_bytes = 0;
    return OK;
}

struct status shard_writer_finish(struct shard_writer *writer)
{
    return writer->shard_count > 0 ? shard_end(writer) : OK;
}

static struct status fail_occupied(const char *path)
{
    FAIL(STATUS_FAILED,
         "'%s' exists and holds other images; give --force to replace it, or another name", path);
}

struct status shard_writer_check(const struct shard_writer *writer)
{
    CLEANUP(memory_free) char *next_path = NULL;
    for (size_t i = 0; i < writer->shard_count; i++) {
        bool is_same;
        if (!path_exists(writer->shards[i].path))
            continue;
        TRY(file_writer_matches(writer->files[i], &is_same));
        if (!is_same)
            return fail_occupied(writer->shards[i].path);
    }
    TRY(shard_path(writer->prefix, writer->shard_count, &next_path));
    return path_exists(next_path) ? fail_occupied(next_path) : OK;
}

/* Whether there is a shard `number`, or what was left of one that was never finished. */
static struct status shard_find(const struct shard_writer *writer, size_t number, bool *ret_found)
{
    CLEANUP(memory_free) char *path = NULL;
    TRY(shard_path(writer->prefix, number, &path));
    *ret_found = path_exists(path);
    return *ret_found ? OK : file_writer_find_leftovers(path, ret_found);
}

static struct status shard_remove(const struct shard_writer *writer, size_t number)
{
    CLEANUP(memory_free) char *path = NULL;
    size_t leftovers;
    TRY(shard_path(writer->prefix, number, &path));
    TRY(file_writer_sweep(path, &leftovers));
    return file_remove(path);
}

/* Removes the shards of an earlier set that this one does not replace, the last one first: after a
 * kill, no gap hides the rest from the next run. */
static struct status surplus_remove(const struct shard_writer *writer)
{
    size_t end = writer->shard_count;
    bool is_there;
    TRY(shard_find(writer, end, &is_there));
    while (is_there)
        TRY(shard_find(writer, ++end, &is_there));
    while (end > writer->shard_count)
        TRY(shard_remove(writer, --end));
    return OK;
}

struct status shard_writer_publish(struct shard_writer *writer)
{
    for (size_t i = 0; i < writer->shard_count; i++)
        TRY(file_writer_publish(writer->files[i]));
    return surplus_remove(writer);
}

const struct source_shard *shard_writer_shards(const struct shard_writer *writer, size_t *ret_count)
{
    *ret_count = writer->shard_count;
    return writer->shards;
}

const struct source_item *shard_writer_items(const struct shard_writer *writer, uint64_t *ret_count)
{
    *ret_count = writer->item_count;
    return writer->items;
}
