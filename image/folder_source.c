#include "image/folder_source.h"

#include <string.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/shell.h"

struct listing {
    const char *root;
    bool goes_on;         /* past what cannot be read */
    const char **folders; /* names of the class folders, byte-wise sorted */
    size_t folder_count;
    struct source **parts; /* the images of each class folder */
};

static struct status no_folders(const char *root, const struct folder_list *entries)
{
    size_t images = 0;
    const char *index = NULL;
    for (size_t i = 0; i < entries->count; i++) {
        const char *ending = strrchr(entries->entries[i].name, '.');
        if (!index && entries->entries[i].is_file && ending && strcmp(ending, ".idx") == 0)
            index = entries->entries[i].name;
        images += entries->entries[i].is_file && source_is_image_name(entries->entries[i].name);
    }
    if (images == 0 && index)
        FAIL(STATUS_NOT_FOUND, "%s holds no images but an index; name that: %s/%s", root, root,
             index);
    if (images == 0)
        FAIL(STATUS_NOT_FOUND, "%s has no class folders and no images; expected %s/CLASS/NAME.JPEG",
             root, root);
    CLEANUP(memory_free) char *command = NULL;
    TRY(shell_command(&command, "headrace organize %s --devkit ILSVRC2012_devkit_t12.tar.gz",
                      root));
    FAIL(STATUS_NOT_FOUND,
         "%s holds %zu images but no class folders; if these are the validation images, sort them "
         "first: %s",
         root, images, command);
}

static struct status image_add(struct source *part, const char *folder, const char *name)
{
    CLEANUP(memory_free) char *path = NULL;
    struct source_item image = {0};
    TRY(path_join(folder, name, &path));
    TRY(file_length(path, &image.length));
    return source_add_item(part, &image, name, strlen(name));
}

/* A failure ends the listing, or is noted. `name` is NULL for the folder itself. */
static struct status failed(const struct listing *listing, struct source *part, const char *class,
                            const char *name, struct status failure)
{
    CLEANUP(memory_free) char *path = NULL;
    if (failure.code == STATUS_DONE || !listing->goes_on)
        return failure;
    TRY(path_join(class, name ? name : "", &path));
    return source_add_failure(part, path, failure);
}

/* Lists one class folder. Labels are filled in by the caller. */
static struct status folder_read(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    struct listing *listing = context;
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(folder_list_done) struct folder_list files = {0};
    const char *class = listing->folders[item];
    TRY(path_join(listing->root, class, &folder));
    TRY(source_new(&listing->parts[item]));
    struct source *part = listing->parts[item];
    TRY(failed(listing, part, class, NULL, folder_list_read(folder, &files)));
    for (size_t i = 0; i < files.count; i++) {
        const char *name = files.entries[i].name;
        if (files.entries[i].is_file && source_is_image_name(name))
            TRY(failed(listing, part, class, name, image_add(part, folder, name)));
        else
            part->ignored++;
    }
    return OK;
}

/* Moves the images of one class folder into the source. */
static struct status part_add(struct source *source, const char *root, const char *folder,
                              struct source *part)
{
    int64_t label = class_table_find(source->classes, folder);
    if (label < 0)
        FAIL(STATUS_CORRUPT, "%s/%s is not a class of the table of %zu classes (first: %s)", root,
             folder, class_table_count(source->classes), class_table_at(source->classes, 0)->wnid);
    for (size_t i = 0; i < part->item_count; i++) {
        struct source_item image = part->items[i];
        image.label = (uint32_t)label;
        TRY(source_add_item(source, &image, image.name, strlen(image.name)));
    }
    source->ignored += part->ignored;
    for (size_t i = 0; i < part->failure_count; i++) {
        TRY(memory_grow(source->failure_count + 1, sizeof *source->failures, &source->failures,
                        &source->failure_capacity));
        source->failures[source->failure_count++] = part->failures[i];
        part->failures[i] = (struct source_failure){0};
    }
    return OK;
}

/* The first folder in ROOT/CLASS, given to the caller; NULL where there is none. */
static struct status folder_within(const char *root, const char *class, char **ret_name)
{
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(folder_list_done) struct folder_list list = {0};
    *ret_name = NULL;
    TRY(path_join(root, class, &path));
    TRY(folder_list_read(path, &list));
    for (size_t i = 0; i < list.count && !*ret_name; i++)
        if (list.entries[i].is_folder && source_is_class_name(list.entries[i].name))
            TRY(string_copy(list.entries[i].name, ret_name));
    return OK;
}

/* Which of the folders is a whole set by its name; NULL: none. */
static const char *part_find(const struct listing *listing)
{
    static const char *const parts[] = {"train", "val", "validation", "valid", "test"};
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++)
        for (size_t j = 0; j < listing->folder_count; j++)
            if (strcmp(listing->folders[j], parts[i]) == 0)
                return parts[i];
    return NULL;
}

/* Fails where the class folders, which hold no images, hold folders: the root is a level too high,
 * or the images stand a level too deep. */
static struct status refuse_deep_folders(const struct listing *listing)
{
    const char *root = listing->root, *part = part_find(listing);
    for (size_t i = 0; i < listing->folder_count; i++) {
        CLEANUP(memory_free) char *within = NULL;
        const char *folder = listing->folders[i];
        TRY(folder_within(root, folder, &within));
        if (within && part)
            FAIL(STATUS_NOT_FOUND, "%s holds no class folders with images; did you mean %s/%s?",
                 root, root, part);
        if (within)
            FAIL(STATUS_NOT_FOUND,
                 "%s holds no class folders with images: in %s/%s there are folders such as %s, "
                 "expected %s/CLASS/NAME.JPEG",
                 root, root, folder, within, root);
    }
    return OK;
}

static struct status parts_add(struct source *source, const struct listing *listing)
{
    uint32_t shard;
    TRY(source_add_shard(source, listing->root, 0, SHARD_FOLDER, &shard));
    for (size_t i = 0; i < listing->folder_count; i++)
        TRY(part_add(source, listing->root, listing->folders[i], listing->parts[i]));
    if (source->item_count == 0 && source->failure_count)
        FAIL(STATUS_IO, "nothing in %s can be read: %s", listing->root, source->failures[0].reason);
    if (source->item_count == 0)
        TRY(refuse_deep_folders(listing));
    return source_finish(source);
}

static void listing_done(struct listing *listing)
{
    for (size_t i = 0; listing->parts && i < listing->folder_count; i++)
        source_free(listing->parts[i]);
    memory_free(listing->parts);
    memory_free(listing->folders);
}
CLEANUP_VALUE(listing_done, struct listing)

static struct status folder_source_list(const char *root, const struct class_table *classes,
                                        unsigned threads, bool goes_on, struct source **ret_source)
{
    CLEANUP(folder_list_done) struct folder_list entries = {0};
    CLEANUP(listing_done) struct listing listing = {.root = root, .goes_on = goes_on};
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(source_free) struct source *source = NULL;

    TRY(folder_list_read(root, &entries));
    TRY(source_new(&source));
    TRY(memory_alloc(entries.count, sizeof *listing.folders, &listing.folders));
    TRY(memory_alloc(entries.count, sizeof *listing.parts, &listing.parts));
    for (size_t i = 0; i < entries.count; i++) {
        if (entries.entries[i].is_folder && source_is_class_name(entries.entries[i].name))
            listing.folders[listing.folder_count++] = entries.entries[i].name;
        else
            source->ignored++;
    }
    if (listing.folder_count == 0)
        return no_folders(root, &entries);
    TRY(class_names_refuse_numbers(listing.folders, listing.folder_count, root, root));

    TRY(string_copy("class-folders", &source->kind));
    TRY(classes ? class_table_copy(classes, &source->classes)
                : class_table_from_names(listing.folders, listing.folder_count, NULL,
                                         &source->classes));
    TRY(pool_open(threads, &pool));
    TRY(pool_run(pool, listing.folder_count, folder_read, &listing));
    TRY(parts_add(source, &listing));
    *ret_source = MOVE(source);
    return OK;
}

struct status folder_source_open(const char *root, const struct class_table *classes,
                                 unsigned threads, struct source **ret_source)
{
    return folder_source_list(root, classes, threads, false, ret_source);
}

struct status folder_source_survey(const char *root, unsigned threads, struct source **ret_source)
{
    return folder_source_list(root, NULL, threads, true, ret_source);
}
