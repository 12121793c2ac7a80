#include "prep/layout.h"

#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "image/source.h"
#include "prep/image_name.h"
#include "prep/kaggle.h"

static const char kaggle_images[] = "ILSVRC/Data/CLS-LOC";
static const char tiny_annotations[] = "val_annotations.txt";
static const char tiny_images[] = "images";
/* Kaggle's label file stands four folders above its validation images. */
static const int max_levels_up = 4;

struct status layout_find_root(const char *path, char **ret_root)
{
    CLEANUP(memory_free) char *below = NULL;
    TRY(path_join(path, kaggle_images, &below));
    if (path_is_folder(below)) {
        *ret_root = MOVE(below);
        return OK;
    }
    return string_copy(path, ret_root);
}

/* --- Flat images --- */

/* The label file that lies in `path` or in a folder around it; a published name if none does. */
static struct status find_labels(const char *path, char **ret_labels)
{
    static const char *const names[] = {"ILSVRC2012_devkit_t12.tar.gz", "ILSVRC2012_devkit_t12",
                                        KAGGLE_SOLUTION};
    CLEANUP(memory_free) char *folder = NULL;
    TRY(path_real(path, &folder));
    for (int level = 0; level <= max_levels_up; level++) {
        char *parent;
        for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
            CLEANUP(memory_free) char *candidate = NULL;
            TRY(path_join(folder, names[i], &candidate));
            if (path_exists(candidate)) {
                *ret_labels = MOVE(candidate);
                return OK;
            }
        }
        TRY(path_folder(folder, &parent));
        memory_free(folder);
        folder = parent;
    }
    return string_copy(names[0], ret_labels);
}

/* The first image of a folder whose name is one of ILSVRC2012's; NULL if there is none. */
static const char *first_image(const struct folder_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->entries[i].is_file && source_is_image_name(list->entries[i].name) &&
            image_name_parse(list->entries[i].name).set != IMAGE_SET_OTHER)
            return list->entries[i].name;
    return NULL;
}

static struct status fail_flat(const char *path, const char *image)
{
    CLEANUP(memory_free) char *labels = NULL;
    struct image_name name = image_name_parse(image);
    if (name.set == IMAGE_SET_TEST)
        FAIL(STATUS_USAGE, "%s has test images (%s, …), whose classes are not published", path,
             image);
    if (*name.wnid)
        FAIL(STATUS_USAGE,
             "%s has flat images (%s, …) and no class folders; their names tell their classes, so "
             "sort them first: headrace organize %s",
             path, image, path);
    TRY(find_labels(path, &labels));
    FAIL(STATUS_USAGE,
         "%s has flat validation images (%s, …), not 1000 class folders of 50; sort them first: "
         "headrace organize %s --devkit %s",
         path, image, path, labels);
}

/* --- Tiny-ImageNet --- */

static struct status fail_tiny_train(const char *path)
{
    FAIL(STATUS_USAGE,
         "%s is laid out as Tiny-ImageNet's training images are (CLASS/images/NAME); take that "
         "level out first: (cd %s && for c in n*; do mv \"$c\"/images/* \"$c\" && rmdir "
         "\"$c\"/images; done)",
         path, path);
}

static struct status fail_tiny_val(const char *path)
{
    FAIL(STATUS_USAGE,
         "%s is laid out as Tiny-ImageNet's validation images are; sort them into class folders "
         "first: (cd %s && while read -r f c rest; do mkdir -p \"$c\" && mv images/\"$f\" \"$c\"; "
         "done <val_annotations.txt && rmdir images)",
         path, path);
}

/* --- Any folder --- */

/* The folders that would be classes: their number, and one of them. */
static size_t count_folders(const struct folder_list *list, const char **ret_first)
{
    size_t count = 0;
    *ret_first = NULL;
    for (size_t i = 0; i < list->count; i++) {
        if (!list->entries[i].is_folder || list->entries[i].name[0] == '.')
            continue;
        if (!*ret_first)
            *ret_first = list->entries[i].name;
        count++;
    }
    return count;
}

static bool has_entry(const struct folder_list *list, const char *name, bool is_folder)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->entries[i].name, name) == 0)
            return list->entries[i].is_folder == is_folder;
    return false;
}

/* Looks into what would be a class folder; `is_only` if it would be the only one. */
static struct status check_class(const char *path, const char *name, bool is_only)
{
    CLEANUP(memory_free) char *class_path = NULL;
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(path_join(path, name, &class_path));
    struct status status = folder_list_read(class_path, &list);
    if (status.code != STATUS_DONE) { /* whoever reads the images says so */
        status_clear(&status);
        return OK;
    }
    const char *image = first_image(&list);
    if (is_only && image && !is_wnid(name) && image_name_parse(image).set != IMAGE_SET_TRAIN)
        return fail_flat(class_path, image);
    if (!image && is_wnid(name) && has_entry(&list, tiny_images, true))
        return fail_tiny_train(path);
    return OK;
}

struct status layout_check_classes(const char *path)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    const char *first_folder;
    TRY(folder_list_read(path, &list));
    size_t folders = count_folders(&list, &first_folder);
    if (has_entry(&list, tiny_annotations, false) && has_entry(&list, tiny_images, true))
        return fail_tiny_val(path);
    if (folders)
        return check_class(path, first_folder, folders == 1);
    const char *image = first_image(&list);
    return image ? fail_flat(path, image) : OK;
}
