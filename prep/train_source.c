#include <string.h>

#include "base/path.h"
#include "base/pool.h"
#include "prep/archive_source.h"
#include "prep/train_inner.h"

struct train_listing {
    const struct archive_file *file;
    struct archive_listing outer;
    struct train_inner inner;
    struct archive_listing *images; /* of each inner archive */
};

static void train_listing_done(struct train_listing *train)
{
    for (size_t i = 0; train->images && i < train->inner.count; i++)
        archive_listing_done(&train->images[i]);
    memory_free(train->images);
    train_inner_done(&train->inner);
    archive_listing_done(&train->outer);
}
CLEANUP_VALUE(train_listing_done, struct train_listing)

static struct status list_class(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    struct train_listing *train = context;
    return archive_list_inner(train->file, train->inner.items[item], &train->images[item]);
}

static struct status add_class(struct source *source, const struct archive_listing *images,
                               uint32_t label, uint32_t shard)
{
    for (size_t i = 0; i < images->count; i++) {
        const struct archive_item *image = &images->items[i];
        const char *name = path_base(image->name);
        if (!source_is_image_name(name)) {
            source->ignored++;
            continue;
        }
        struct source_item item = {.offset = image->offset,
                                   .length = image->size_bytes,
                                   .label = label,
                                   .shard = shard};
        TRY(source_add_item(source, &item, name, strlen(name)));
    }
    return OK;
}

static struct status add_classes(struct source *source, const struct train_listing *train)
{
    uint32_t shard;
    TRY(source_add_shard(source, train->file->path, train->file->size_bytes, SHARD_TAR, &shard));
    source->ignored = train->outer.count - train->inner.count;
    for (size_t i = 0; i < train->inner.count; i++) {
        int64_t label = class_table_find(source->classes, train->inner.classes[i]);
        TRY(add_class(source, &train->images[i], (uint32_t)label, shard));
    }
    return source_finish(source);
}

struct status train_source_open(const struct archive_file *file, const struct class_table *classes,
                                unsigned threads, struct source **ret_source)
{
    CLEANUP(train_listing_done) struct train_listing train = {.file = file};
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(source_free) struct source *source = NULL;

    TRY(archive_list(file, &train.outer));
    TRY(train_inner_find(file, &train.outer, classes, &train.inner));
    TRY(source_new(&source));
    TRY(string_copy("ilsvrc-train-tar", &source->kind));
    TRY(classes ? class_table_copy(classes, &source->classes)
                : class_table_from_names(train.inner.classes, train.inner.count, NULL,
                                         &source->classes));
    TRY(memory_alloc(train.inner.count, sizeof *train.images, &train.images));
    TRY(pool_open(threads, &pool));
    TRY(pool_run(pool, train.inner.count, list_class, &train));
    TRY(add_classes(source, &train));
    *ret_source = MOVE(source);
    return OK;
}
