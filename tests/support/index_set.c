#include "tests/support/index_set.h"

#include <inttypes.h>

#include "base/crc32c.h"
#include "index/index_source.h"
#include "tests/test.h"

static void add_classes(struct source *source, size_t class_count)
{
    CLEANUP(arena_done) struct arena names = {0};
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    assert_ok(memory_alloc(class_count, sizeof *entries, &entries));
    for (size_t i = 0; i < class_count; i++) {
        char name[32];
        int length = snprintf(name, sizeof name, "n%04zu", i);
        entries[i] = (struct class_entry){.words = "some, words", .train_images = (uint32_t)i};
        assert_ok(arena_copy(&names, name, (size_t)length, &entries[i].wnid));
    }
    assert_ok(class_table_make(entries, class_count, &source->classes));
}

struct source *index_set_make(const char *path, size_t count, size_t class_count)
{
    struct source *source;
    CLEANUP(buffer_done) struct buffer content = {0};
    assert_ok(source_new(&source));
    assert_ok(string_copy("test", &source->kind));
    add_classes(source, class_count);
    for (size_t i = 0; i < count; i++) {
        struct source_item item = {
            .offset = content.length,
            .length = i % 50 + 1,
            .label = (uint32_t)(i * class_count / count),
            .crc_known = i % 3 != 0,
            .width = (uint16_t)(i % 2 ? i % 600 + 1 : 0),
            .height = (uint16_t)(i % 2 ? i % 400 + 1 : 0),
        };
        for (size_t j = 0; j < item.length; j++)
            assert_ok(buffer_append_u8(&content, (uint8_t)(i * 7 + j)));
        if (item.crc_known)
            item.crc32c = crc32c_update(0, content.data + item.offset, item.length);
        char name[32];
        int length = snprintf(name, sizeof name, "%zu.JPEG", i);
        assert_ok(source_add_item(source, &item, name, (size_t)length));
    }
    uint32_t shard;
    assert_ok(file_write_plain(path, content.data, content.length));
    assert_ok(source_add_shard(source, path, content.length, SHARD_TAR, &shard));
    assert_ok(source_finish(source));
    return source;
}

static int differ(uint64_t i, const char *what)
{
    print_message("record %" PRIu64 ": the %s differs\n", i, what);
    return 0;
}

static int record_equal(struct index *index, const struct source *source, uint64_t i)
{
    const struct source_item *item = &source->items[i];
    struct record record;
    const char *name;
    if (index_record(index, i, &record).code != STATUS_DONE)
        return differ(i, "readability");
    if (record.label != item->label || record.shard != item->shard ||
        record.offset != item->offset || record.length != item->length ||
        record.encoding != item->encoding)
        return differ(i, "place");
    if (record.width != item->width || record.height != item->height)
        return differ(i, "size");
    if (record.crc_known != item->crc_known || (item->crc_known && record.crc32c != item->crc32c))
        return differ(i, "CRC");
    if (index_name(index, i, &name).code != STATUS_DONE || strcmp(name, item->name) != 0)
        return differ(i, "name");
    return 1;
}

int index_set_equal(struct index *index, const struct source *source)
{
    if (index_count(index) != source->item_count ||
        class_table_hash(index_classes(index)) != class_table_hash(source->classes) ||
        index_shard_count(index) != source->shard_count)
        return differ(0, "number of records, shards or classes");
    for (size_t i = 0; i < class_table_count(source->classes); i++) {
        const struct class_entry *a = class_table_at(source->classes, i);
        const struct class_entry *b = class_table_at(index_classes(index), i);
        if (strcmp(a->words, b->words) != 0 || a->train_images != b->train_images)
            return differ(i, "class");
    }
    for (uint64_t i = 0; i < source->item_count; i++) {
        if (!record_equal(index, source, i))
            return 0;
    }
    return 1;
}

struct source *index_set_open(const char *path)
{
    CLEANUP(index_close) struct index *index = NULL;
    struct source *source;
    assert_ok(index_open(path, &index));
    assert_ok(index_source_open(index, &source));
    return source;
}
