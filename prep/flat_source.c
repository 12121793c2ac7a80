#include "prep/flat_source.h"

#include <string.h>

#include "base/file.h"
#include "base/pool.h"

struct status flat_classes(struct class_table **ret_classes)
{
    static const struct class_entry flat = {.wnid = "(flat)", .words = ""};
    return class_table_make(&flat, 1, ret_classes);
}

struct flat_listing {
    const struct source *source;
    const struct devkit *devkit; /* or NULL */
    struct folder_list files;
    struct source_item *items; /* of the files that are images, in their order */
    size_t count;
};

static void flat_listing_done(struct flat_listing *listing)
{
    folder_list_done(&listing->files);
    memory_free(listing->items);
}
CLEANUP_VALUE(flat_listing_done, struct flat_listing)

static struct status find_label(const struct flat_listing *listing, struct source_item *item)
{
    const struct class_table *classes = listing->source->classes;
    if (!listing->devkit)
        return OK;
    TRY(devkit_label_of_name(listing->devkit, item->name, &item->label));
    const char *wnid = class_table_at(devkit_classes(listing->devkit), item->label)->wnid;
    int64_t label = class_table_find(classes, wnid);
    if (label < 0)
        FAIL(STATUS_CORRUPT, "%s is of class %s, which is none of the %zu classes (first: %s)",
             item->name, wnid, class_table_count(classes), class_table_at(classes, 0)->wnid);
    item->label = (uint32_t)label;
    return OK;
}

static struct status item_fill(uint64_t i, unsigned thread, void *context)
{
    (void)thread;
    struct flat_listing *listing = context;
    struct source_item *item = &listing->items[i];
    CLEANUP(memory_free) char *path = NULL;
    TRY(shard_record_path(&listing->source->shards[0], "", item->name, &path));
    TRY(file_length(path, &item->length));
    return find_label(listing, item);
}

static struct status list_images(struct flat_listing *listing, struct source *source)
{
    TRY(folder_list_read(source->shards[0].path, &listing->files));
    TRY(memory_alloc(listing->files.count, sizeof *listing->items, &listing->items));
    for (size_t i = 0; i < listing->files.count; i++) {
        const struct folder_entry *entry = &listing->files.entries[i];
        if (entry->is_file && source_is_image_name(entry->name))
            listing->items[listing->count++].name = entry->name;
        else
            source->ignored++;
    }
    return OK;
}

struct status flat_source_open(const char *root, const struct devkit *devkit,
                               const struct class_table *classes, unsigned threads,
                               struct source **ret_source)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(flat_listing_done) struct flat_listing listing = {.devkit = devkit};
    uint32_t shard;
    TRY(source_new(&source));
    listing.source = source;
    TRY(string_copy("flat-folder", &source->kind));
    if (devkit)
        TRY(class_table_copy(classes ? classes : devkit_classes(devkit), &source->classes));
    else
        TRY(flat_classes(&source->classes));
    TRY(source_add_shard(source, root, 0, SHARD_FLAT, &shard));
    TRY(list_images(&listing, source));
    TRY(pool_open(threads, &pool));
    TRY(status_context(pool_run(pool, listing.count, item_fill, &listing), "%s", root));
    for (size_t i = 0; i < listing.count; i++)
        TRY(source_add_item(source, &listing.items[i], listing.items[i].name,
                            strlen(listing.items[i].name)));
    TRY(source_finish(source));
    *ret_source = MOVE(source);
    return OK;
}
