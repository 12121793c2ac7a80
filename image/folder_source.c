#include "image/folder_source.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/pool.h"

struct listing {
    const char *root;
    const char **folders; /* names of the class folders, byte-wise sorted */
    size_t folder_count;
    struct source **parts; /* the images of each class folder */
};

static bool is_class_folder(const struct folder_entry *entry)
{
    return entry->is_folder && entry->name[0] != '.' && strcmp(entry->name, "__MACOSX") != 0 &&
           strcmp(entry->name, "lost+found") != 0;
}

static struct status no_folders(const char *root, const struct folder_list *entries)
{
    size_t images = 0;
    for (size_t i = 0; i < entries->count; i++)
        images += entries->entries[i].is_file && source_is_image_name(entries->entries[i].name);
    if (images == 0)
        FAIL(STATUS_NOT_FOUND, "%s has no class folders and no images; expected %s/CLASS/NAME.JPEG",
             root, root);
    FAIL(STATUS_NOT_FOUND,
         "%s holds %zu images but no class folders; if these are the validation images, sort them "
         "first: headrace organize %s --devkit ILSVRC2012_devkit_t12.tar.gz",
         root, images, root);
}

static struct status file_length(const char *folder, const char *name, uint64_t *ret_length)
{
    CLEANUP(memory_free) char *path = NULL;
    struct stat info;
    TRY(path_join(folder, name, &path));
    if (stat(path, &info) != 0)
        return status_errno(errno, "cannot read %s", path);
    *ret_length = (uint64_t)info.st_size;
    return OK;
}

/* Lists one class folder. Labels are filled in by the caller. */
static struct status folder_read(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    struct listing *listing = context;
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(folder_list_done) struct folder_list files = {0};
    TRY(path_join(listing->root, listing->folders[item], &folder));
    TRY(folder_list_read(folder, &files));
    TRY(source_new(&listing->parts[item]));

    struct source *part = listing->parts[item];
    for (size_t i = 0; i < files.count; i++) {
        const char *name = files.entries[i].name;
        if (!files.entries[i].is_file || !source_is_image_name(name)) {
            part->ignored++;
            continue;
        }
        struct source_item image = {0};
        TRY(file_length(folder, name, &image.length));
        TRY(source_add_item(part, &image, name, strlen(name)));
    }
    return OK;
}

/* Moves the images of one class folder into the source. */
static struct status part_add(struct source *source, const char *root, const char *folder,
                              const struct source *part)
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
    return OK;
}

static struct status parts_add(struct source *source, const struct listing *listing)
{
    uint32_t shard;
    TRY(source_add_shard(source, listing->root, 0, SHARD_FOLDER, &shard));
    for (size_t i = 0; i < listing->folder_count; i++)
        TRY(part_add(source, listing->root, listing->folders[i], listing->parts[i]));
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

struct status folder_source_open(const char *root, const struct class_table *classes,
                                 unsigned threads, struct source **ret_source)
{
    CLEANUP(folder_list_done) struct folder_list entries = {0};
    CLEANUP(listing_done) struct listing listing = {.root = root};
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(source_free) struct source *source = NULL;

    TRY(folder_list_read(root, &entries));
    TRY(source_new(&source));
    TRY(memory_alloc(entries.count, sizeof *listing.folders, &listing.folders));
    TRY(memory_alloc(entries.count, sizeof *listing.parts, &listing.parts));
    for (size_t i = 0; i < entries.count; i++) {
        if (is_class_folder(&entries.entries[i]))
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
