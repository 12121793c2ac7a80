#include "image/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "image/shard_reader.h"

bool shard_is_folder(const struct source_shard *shard)
{
    return shard->kind == SHARD_FOLDER || shard->kind == SHARD_FLAT;
}

struct status shard_record_path(const struct source_shard *shard, const char *class_name,
                                const char *name, char **ret_path)
{
    if (shard->kind == SHARD_FLAT)
        return string_format(ret_path, "%s/%s", shard->path, name);
    return string_format(ret_path, "%s/%s/%s", shard->path, class_name, name);
}

struct status source_new(struct source **ret_source)
{
    return memory_alloc(1, sizeof **ret_source, ret_source);
}

void source_free(struct source *source)
{
    if (!source)
        return;
    class_table_free(source->classes);
    for (size_t i = 0; i < source->shard_count; i++)
        memory_free(source->shards[i].path);
    memory_free(source->shards);
    memory_free(source->items);
    for (size_t i = 0; i < source->failure_count; i++) {
        memory_free(source->failures[i].path);
        memory_free(source->failures[i].reason);
    }
    memory_free(source->failures);
    arena_done(&source->names);
    memory_free(source->kind);
    memory_free(source);
}

struct status source_add_shard(struct source *source, const char *path, uint64_t size_bytes,
                               enum shard_kind kind, uint32_t *ret_shard)
{
    if (source->shard_count >= UINT32_MAX)
        FAIL(STATUS_UNSUPPORTED, "a data set of more than %" PRIu32 " shards", UINT32_MAX);
    TRY(memory_grow(source->shard_count + 1, sizeof *source->shards, &source->shards,
                    &source->shard_capacity));
    struct source_shard *shard = &source->shards[source->shard_count];
    *shard = (struct source_shard){.size_bytes = size_bytes, .kind = kind};
    TRY(string_copy(path, &shard->path));
    *ret_shard = (uint32_t)source->shard_count++;
    return OK;
}

/* Names become file names when a data set is unpacked, so nothing may lead out of the folder. */
static struct status name_check(const char *name, size_t length)
{
    bool dots = (length == 1 && name[0] == '.') || (length == 2 && memcmp(name, "..", 2) == 0);
    if (length == 0 || dots || memchr(name, '/', length) || memchr(name, '\0', length))
        FAIL(STATUS_CORRUPT, "an image is named \"%.*s\", which cannot be a file's name",
             (int)(length < 256 ? length : 256), name);
    return OK;
}

struct status source_add_item(struct source *source, const struct source_item *item,
                              const char *name, size_t name_length)
{
    TRY(name_check(name, name_length));
    TRY(memory_grow(source->item_count + 1, sizeof *source->items, &source->items,
                    &source->item_capacity));
    struct source_item *added = &source->items[source->item_count];
    *added = *item;
    TRY(arena_copy(&source->names, name, name_length, &added->name));
    source->item_count++;
    return OK;
}

static struct status failure_add(struct source *source, const char *path, const char *reason)
{
    TRY(memory_grow(source->failure_count + 1, sizeof *source->failures, &source->failures,
                    &source->failure_capacity));
    struct source_failure *added = &source->failures[source->failure_count++];
    *added = (struct source_failure){0};
    TRY(string_copy(path, &added->path));
    return string_copy(reason, &added->reason);
}

struct status source_add_failure(struct source *source, const char *path, struct status failure)
{
    if (failure.code == STATUS_NO_MEMORY)
        return failure;
    struct status status = failure_add(source, path, status_message(&failure));
    status_clear(&failure);
    return status;
}

static int item_compare(const void *a, const void *b)
{
    const struct source_item *p = a, *q = b;
    if (p->label != q->label)
        return p->label < q->label ? -1 : 1;
    return strcmp(p->name, q->name);
}

/* Most archives hand their items out in order, and then nothing has to move. */
static void items_sort(struct source *source)
{
    for (size_t i = 1; i < source->item_count; i++) {
        if (item_compare(&source->items[i - 1], &source->items[i]) > 0) {
            qsort(source->items, source->item_count, sizeof *source->items, item_compare);
            return;
        }
    }
}

static struct status item_check(const struct source *source, const struct source_item *item)
{
    if (item->label >= class_table_count(source->classes))
        FAIL(STATUS_CORRUPT, "%s has label %" PRIu32 ", but there are only %zu classes", item->name,
             item->label, class_table_count(source->classes));
    if (item->shard >= source->shard_count)
        FAIL(STATUS_CORRUPT, "%s stands in shard %" PRIu32 ", but there are only %zu", item->name,
             item->shard, source->shard_count);
    if (item->length > UINT32_MAX)
        FAIL(STATUS_UNSUPPORTED, "%s has %" PRIu64 " bytes; an image may have at most 4 GiB",
             item->name, item->length);

    const struct source_shard *shard = &source->shards[item->shard];
    uint64_t end;
    if (!shard_is_folder(shard) &&
        (!size_add(item->offset, item->length, &end) || end > shard->size_bytes))
        FAIL(STATUS_CORRUPT,
             "%s: %s at offset %" PRIu64 " has %" PRIu64 " bytes, but the file ends at %" PRIu64,
             shard->path, item->name, item->offset, item->length, shard->size_bytes);
    return OK;
}

static struct status items_refuse_twins(const struct source *source)
{
    for (size_t i = 1; i < source->item_count; i++) {
        const struct source_item *p = &source->items[i - 1], *q = &source->items[i];
        if (item_compare(p, q) == 0)
            FAIL(STATUS_CORRUPT,
                 "class %s has two images named %s: at offset %" PRIu64
                 " of %s and at offset %" PRIu64 " of %s",
                 class_table_at(source->classes, p->label)->wnid, p->name, p->offset,
                 source->shards[p->shard].path, q->offset, source->shards[q->shard].path);
    }
    return OK;
}

struct status source_finish(struct source *source)
{
    if (source->item_count == 0)
        FAIL(STATUS_NOT_FOUND, "%s holds no images (.JPEG, .jpg, .png)",
             source->shard_count ? source->shards[0].path : "the data set");
    for (size_t i = 0; i < source->item_count; i++)
        TRY(item_check(source, &source->items[i]));
    items_sort(source);
    return items_refuse_twins(source);
}

struct source_reader {
    const struct source *source;
    struct shard_reader *shards;
};

struct status source_reader_open(const struct source *source, struct source_reader **ret_reader)
{
    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    TRY(memory_alloc(1, sizeof *reader, &reader));
    reader->source = source;
    TRY(shard_reader_open(source->shards, source->shard_count, &reader->shards));
    *ret_reader = MOVE(reader);
    return OK;
}

void source_reader_close(struct source_reader *reader)
{
    if (!reader)
        return;
    shard_reader_close(reader->shards);
    memory_free(reader);
}

struct shard_range source_range(const struct source *source, size_t item)
{
    const struct source_item *entry = &source->items[item];
    return (struct shard_range){
        .shard = entry->shard,
        .offset = entry->offset,
        .length = entry->length,
        .crc32c = entry->crc32c,
        .crc_known = entry->crc_known,
        .class_name = class_table_at(source->classes, entry->label)->wnid,
        .name = entry->name,
    };
}

struct status source_read(struct source_reader *reader, size_t item, struct buffer *bytes)
{
    struct shard_range range = source_range(reader->source, item);
    return status_context(shard_read_buffer(reader->shards, &range, bytes), "record %s/%s",
                          range.class_name, range.name);
}

bool source_is_image_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    if (name[0] == '.' || !dot)
        return false;
    return strcasecmp(dot, ".jpeg") == 0 || strcasecmp(dot, ".jpg") == 0 ||
           strcasecmp(dot, ".png") == 0;
}

bool source_is_class_name(const char *name)
{
    return name[0] != '.' && strcmp(name, "__MACOSX") != 0 && strcmp(name, "lost+found") != 0;
}
