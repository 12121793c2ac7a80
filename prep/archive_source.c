#include "prep/archive_source.h"

#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "prep/archive_listing.h"

/* --- Flat validation images --- */

static struct status add_val_item(struct source *source, const struct devkit *devkit,
                                  const struct archive_item *image, uint32_t shard)
{
    const char *name = path_base(image->name);
    if (!source_is_image_name(name)) {
        source->ignored++;
        return OK;
    }
    struct source_item item = {.offset = image->offset,
                               .length = image->size_bytes,
                               .shard = shard};
    TRY(devkit_label_of_name(devkit, name, &item.label));
    return source_add_item(source, &item, name, strlen(name));
}

struct status val_source_open(const struct archive_file *file, const struct devkit *devkit,
                              struct source **ret_source)
{
    CLEANUP(archive_listing_done) struct archive_listing listing = {0};
    CLEANUP(source_free) struct source *source = NULL;
    uint32_t shard;
    TRY(archive_list(file, &listing));
    TRY(source_new(&source));
    TRY(string_copy("ilsvrc-val-tar", &source->kind));
    TRY(class_table_copy(devkit_classes(devkit), &source->classes));
    TRY(source_add_shard(source, file->path, file->size_bytes, SHARD_TAR, &shard));
    for (size_t i = 0; i < listing.count; i++)
        TRY(status_context(add_val_item(source, devkit, &listing.items[i], shard), "%s",
                           file->path));
    TRY(source_finish(source));
    *ret_source = MOVE(source);
    return OK;
}

/* --- Class folders --- */

/* An image whose path is PREFIX/CLASS/NAME. */
struct placed_image {
    const struct archive_item *item;
    const char *class_name;
    const char *name;
};

struct placement {
    struct placed_image *images;
    const char **classes; /* sorted, each once */
    size_t count, class_count;
    uint64_t ignored;
    struct arena names;
};

static void placement_done(struct placement *placement)
{
    memory_free(placement->images);
    memory_free(placement->classes);
    arena_done(&placement->names);
}
CLEANUP_VALUE(placement_done, struct placement)

/* The part of `name` behind "PREFIX/", or NULL. */
static const char *behind_prefix(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    if (length == 0)
        return name;
    return strncmp(name, prefix, length) == 0 && name[length] == '/' ? name + length + 1 : NULL;
}

static int string_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void classes_unique(struct placement *placement)
{
    const char **classes = placement->classes;
    qsort(classes, placement->count, sizeof *classes, string_compare);
    for (size_t i = 0; i < placement->count; i++)
        if (i == 0 || strcmp(classes[placement->class_count - 1], classes[i]) != 0)
            classes[placement->class_count++] = classes[i];
}

static struct status place(const struct archive_listing *listing, const char *prefix,
                           struct placement *placement)
{
    TRY(memory_alloc(listing->count, sizeof *placement->images, &placement->images));
    TRY(memory_alloc(listing->count, sizeof *placement->classes, &placement->classes));
    for (size_t i = 0; i < listing->count; i++) {
        const char *class_name = behind_prefix(listing->items[i].name, prefix);
        if (!class_name && source_is_image_name(path_base(listing->items[i].name)))
            continue; /* of another set, which was not asked for */
        const char *slash = class_name ? strchr(class_name, '/') : NULL;
        if (!slash || strchr(slash + 1, '/') || *class_name == '.' ||
            !source_is_image_name(slash + 1)) {
            placement->ignored++;
            continue;
        }
        struct placed_image *image = &placement->images[placement->count];
        *image = (struct placed_image){&listing->items[i], NULL, slash + 1};
        TRY(arena_copy(&placement->names, class_name, (size_t)(slash - class_name),
                       &image->class_name));
        placement->classes[placement->count++] = image->class_name;
    }
    classes_unique(placement);
    return OK;
}

/* The distinct folders that class folders lie in, "" for the top; at most `max`. */
static struct status prefixes_find(const struct archive_listing *listing, struct arena *names,
                                   const char **prefixes, size_t max, size_t *ret_count)
{
    *ret_count = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const char *name = listing->items[i].name;
        const char *base = path_base(name);
        if (base == name || !source_is_image_name(base))
            continue;
        const char *end = base - 1; /* of the class's name; go back to its start */
        while (end > name && end[-1] != '/')
            end--;
        size_t length = end > name ? (size_t)(end - name) - 1 : 0;
        size_t k = 0;
        while (k < *ret_count &&
               (strlen(prefixes[k]) != length || strncmp(prefixes[k], name, length) != 0))
            k++;
        if (k < *ret_count)
            continue;
        if (*ret_count == max)
            return OK;
        TRY(arena_copy(names, name, length, &prefixes[(*ret_count)++]));
    }
    return OK;
}

/* Slashes at the end of what was typed do not matter. */
static bool is_same_folder(const char *folder, const char *typed)
{
    size_t length = strlen(typed);
    while (length && typed[length - 1] == '/')
        length--;
    return strlen(folder) == length && strncmp(folder, typed, length) == 0;
}

static struct status choose_prefix(const struct archive_file *file,
                                   const struct archive_listing *listing, const char *wanted,
                                   struct arena *names, const char **ret_prefix)
{
    const char *prefixes[6];
    size_t count;
    TRY(prefixes_find(listing, names, prefixes, ARRAY_LENGTH(prefixes), &count));
    if (count == 0)
        FAIL(STATUS_NOT_FOUND, "%s holds no images in class folders (CLASS/NAME.JPEG)", file->path);
    if (!wanted && count == 1) {
        *ret_prefix = prefixes[0];
        return OK;
    }
    CLEANUP(buffer_done) struct buffer choices = {0};
    const char *text;
    for (size_t i = 0; i < count; i++) {
        if (wanted && is_same_folder(prefixes[i], wanted)) {
            *ret_prefix = prefixes[i];
            return OK;
        }
        TRY(buffer_append_text(&choices, "%s%s", i ? ", " : "",
                               *prefixes[i] ? prefixes[i] : "\"\""));
    }
    TRY(buffer_text(&choices, &text));
    if (wanted)
        FAIL(STATUS_NOT_FOUND, "%s holds no images as %s/CLASS/NAME.JPEG; its prefixes are: %s",
             file->path, wanted, text);
    FAIL(STATUS_USAGE, "%s holds class folders below several folders; choose one with --prefix: %s",
         file->path, text);
}

static struct status add_placed(struct source *source, const struct archive_file *file,
                                const struct placement *placement)
{
    uint32_t shard;
    TRY(source_add_shard(source, file->path, file->size_bytes, SHARD_TAR, &shard));
    for (size_t i = 0; i < placement->count; i++) {
        const struct placed_image *image = &placement->images[i];
        int64_t label = class_table_find(source->classes, image->class_name);
        if (label < 0)
            FAIL(STATUS_CORRUPT,
                 "%s: %s lies in a class that the table of %zu classes does not have", file->path,
                 image->item->name, class_table_count(source->classes));
        struct source_item item = {.offset = image->item->offset,
                                   .length = image->item->size_bytes,
                                   .label = (uint32_t)label,
                                   .shard = shard};
        TRY(source_add_item(source, &item, image->name, strlen(image->name)));
    }
    source->ignored = placement->ignored;
    return source_finish(source);
}

struct status tar_source_open(const struct archive_file *file, const char *prefix,
                              const struct class_table *classes, struct source **ret_source)
{
    CLEANUP(archive_listing_done) struct archive_listing listing = {0};
    CLEANUP(placement_done) struct placement placement = {0};
    CLEANUP(source_free) struct source *source = NULL;
    TRY(archive_list(file, &listing));
    TRY(choose_prefix(file, &listing, prefix, &placement.names, &prefix));
    TRY(place(&listing, prefix, &placement));
    TRY(class_names_refuse_numbers(placement.classes, placement.class_count, file->path,
                                   "<the folder it was unpacked to>"));
    TRY(source_new(&source));
    TRY(string_copy("class-folders-tar", &source->kind));
    TRY(classes ? class_table_copy(classes, &source->classes)
                : class_table_from_names(placement.classes, placement.class_count, NULL,
                                         &source->classes));
    TRY(add_placed(source, file, &placement));
    *ret_source = MOVE(source);
    return OK;
}

/* --- Any of them --- */

struct status archive_fail_prefix(const char *path, const char *what)
{
    FAIL(STATUS_USAGE, "--prefix is for archives of class folders; %s is %s", path, what);
}

struct status archive_source_open(const char *path, const struct devkit *devkit, const char *prefix,
                                  unsigned threads, struct source **ret_source)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    const struct class_table *classes = devkit ? devkit_classes(devkit) : NULL;
    enum archive_layout layout;
    TRY(archive_file_open(path, &file));
    TRY(archive_file_check_ranges(file));
    TRY(archive_layout_find(file, &layout));
    if (prefix && (layout == LAYOUT_UNKNOWN || layout == LAYOUT_TRAIN_FLAT))
        layout = LAYOUT_CLASS_FOLDERS;
    if (prefix && layout != LAYOUT_CLASS_FOLDERS)
        return archive_fail_prefix(path, archive_layout_name(layout));
    switch (layout) {
    case LAYOUT_TRAIN:
        return train_source_open(file, classes, threads, ret_source);
    case LAYOUT_CLASS_FOLDERS:
        return tar_source_open(file, prefix, classes, ret_source);
    case LAYOUT_VAL:
        if (devkit)
            return val_source_open(file, devkit, ret_source);
        FAIL(STATUS_USAGE,
             "%s is a validation archive; its images' classes are in the devkit: add --devkit "
             "ILSVRC2012_devkit_t12.tar.gz",
             path);
    default:
        FAIL(STATUS_CORRUPT,
             "%s is %s; a training archive, a validation archive or an archive of "
             "class folders is expected here",
             path, archive_layout_name(layout));
    }
}
