#include <string.h>
#include <strings.h>

#include "base/path.h"
#include "base/pool.h"
#include "prep/archive_listing.h"
#include "prep/archive_source.h"

struct train_listing {
    const struct archive_file *file;
    struct archive_listing outer;
    size_t *inner; /* items of `outer` that are class archives */
    const char **classes;
    size_t inner_count;
    struct archive_listing *images; /* of each inner archive */
    struct arena names;
};

static void train_listing_done(struct train_listing *train)
{
    for (size_t i = 0; train->images && i < train->inner_count; i++)
        archive_listing_done(&train->images[i]);
    memory_free(train->images);
    memory_free(train->inner);
    memory_free(train->classes);
    archive_listing_done(&train->outer);
    arena_done(&train->names);
}
CLEANUP_VALUE(train_listing_done, struct train_listing)

static struct status find_inner(struct train_listing *train)
{
    const struct archive_listing *outer = &train->outer;
    TRY(memory_alloc(outer->count, sizeof *train->inner, &train->inner));
    TRY(memory_alloc(outer->count, sizeof *train->classes, &train->classes));
    for (size_t i = 0; i < outer->count; i++) {
        if (archive_layout_of_member(outer->items[i].name) != LAYOUT_TRAIN)
            continue;
        const char *base = path_base(outer->items[i].name);
        TRY(arena_copy(&train->names, base, strlen(base) - strlen(".tar"),
                       &train->classes[train->inner_count]));
        train->inner[train->inner_count++] = i;
    }
    if (train->inner_count == 0)
        FAIL(STATUS_NOT_FOUND, "%s holds no class archives (n01440764.tar, …)", train->file->path);
    return memory_alloc(train->inner_count, sizeof *train->images, &train->images);
}

static struct status list_class(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    struct train_listing *train = context;
    return archive_list_inner(train->file, &train->outer.items[train->inner[item]],
                              &train->images[item]);
}

static struct status add_class(struct source *source, const struct train_listing *train, size_t i,
                               uint32_t shard)
{
    int64_t label = class_table_find(source->classes, train->classes[i]);
    if (label < 0)
        FAIL(STATUS_CORRUPT,
             "%s: inner archive %s is for a class that the table of %zu classes does not have",
             train->file->path, train->outer.items[train->inner[i]].name,
             class_table_count(source->classes));
    for (size_t k = 0; k < train->images[i].count; k++) {
        const struct archive_item *image = &train->images[i].items[k];
        const char *name = path_base(image->name);
        if (!source_is_image_name(name)) {
            source->ignored++;
            continue;
        }
        struct source_item item = {.offset = image->offset,
                                   .length = image->size_bytes,
                                   .label = (uint32_t)label,
                                   .shard = shard};
        TRY(source_add_item(source, &item, name, strlen(name)));
    }
    return OK;
}

struct status train_source_open(const struct archive_file *file, const struct class_table *classes,
                                unsigned threads, struct source **ret_source)
{
    CLEANUP(train_listing_done) struct train_listing train = {.file = file};
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(source_free) struct source *source = NULL;
    uint32_t shard;

    TRY(archive_list(file, &train.outer));
    TRY(find_inner(&train));
    TRY(source_new(&source));
    TRY(string_copy("ilsvrc-train-tar", &source->kind));
    TRY(status_context(classes ? class_table_copy(classes, &source->classes)
                               : class_table_from_names(train.classes, train.inner_count, NULL,
                                                        &source->classes),
                       "%s", file->path));
    TRY(pool_open(threads, &pool));
    TRY(pool_run(pool, train.inner_count, list_class, &train));

    TRY(source_add_shard(source, file->path, file->size_bytes, SHARD_TAR, &shard));
    source->ignored = train.outer.count - train.inner_count;
    for (size_t i = 0; i < train.inner_count; i++)
        TRY(add_class(source, &train, i, shard));
    TRY(source_finish(source));
    *ret_source = MOVE(source);
    return OK;
}
