#include "index/index_source.h"

#include <string.h>

static struct status records_add(struct source *source, const struct index *index)
{
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct record record;
        const char *name;
        TRY(index_record(index, i, &record));
        TRY(index_name(index, i, &name));
        const struct source_item item = {
            .offset = record.offset,
            .length = record.length,
            .label = record.label,
            .shard = record.shard,
            .crc32c = record.crc32c,
            .crc_known = record.crc_known,
            .encoding = record.encoding,
            .is_lossy = record.is_lossy,
            .width = record.width,
            .height = record.height,
        };
        TRY(source_add_item(source, &item, name, strlen(name)));
    }
    return OK;
}

struct status index_source_open(const struct index *index, struct source **ret_source)
{
    CLEANUP(source_free) struct source *source = NULL;
    TRY(source_new(&source));
    TRY(string_copy("index", &source->kind));
    TRY(class_table_copy(index_classes(index), &source->classes));
    for (size_t i = 0; i < index_shard_count(index); i++) {
        const struct source_shard *shard = index_shard(index, i);
        uint32_t number;
        TRY(source_add_shard(source, shard->path, shard->size_bytes, shard->kind, &number));
        source->shards[number].remote = shard->remote;
    }
    TRY(records_add(source, index));
    TRY(status_context(source_finish(source), "'%s'", index_path(index)));
    *ret_source = MOVE(source);
    return OK;
}
