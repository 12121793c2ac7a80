#include "prep/layout.h"

#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/shell.h"
#include "image/source.h"
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

/* The label file that lies in `path` or in a folder around it; NULL if none does. */
static struct status find_labels(const char *path, char **ret_labels)
{
    static const char *const names[] = {"ILSVRC2012_devkit_t12.tar.gz", "ILSVRC2012_devkit_t12",
                                        KAGGLE_SOLUTION};
    CLEANUP(memory_free) char *real = NULL;
    CLEANUP(memory_free) char *folder = NULL;
    TRY(path_real(path, &real));
    TRY(string_copy(path, &folder));
    *ret_labels = NULL;
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
        TRY(path_folder(level ? folder : real, &parent));
        memory_free(folder);
        folder = parent;
    }
    return OK;
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

/* Whether a folder is that of one class, among others of its kind. */
static bool is_class_folder(const char *path)
{
    CLEANUP(memory_free) char *real = NULL;
    struct status status = path_real(path, &real);
    bool is_class = status.code == STATUS_DONE && is_wnid(path_base(real));
    status_clear(&status);
    return is_class;
}

static struct status fail_flat(const char *path, const char *image)
{
    CLEANUP(memory_free) char *labels = NULL;
    CLEANUP(memory_free) char *command = NULL;
    struct image_name name = image_name_parse(image);
    if (is_class_folder(path))
        FAIL(STATUS_USAGE, "%s is the folder of one class; name the folder around it", path);
    if (name.set == IMAGE_SET_TEST)
        FAIL(STATUS_USAGE, "%s has test images (%s, …), whose classes are not published", path,
             image);
    if (*name.wnid) {
        TRY(shell_command(&command, "headrace organize %s", path));
        FAIL(STATUS_USAGE,
             "%s has flat images (%s, …) and no class folders; their names tell their classes, so "
             "sort them first: %s",
             path, image, command);
    }
    TRY(find_labels(path, &labels));
    TRY(shell_command(&command, "headrace organize %s --devkit %s", path,
                      labels ? labels : "ILSVRC2012_devkit_t12.tar.gz"));
    FAIL(STATUS_USAGE,
         "%s has flat validation images (%s, …), not 1000 class folders of 50; %ssort them first: "
         "%s",
         path, image,
         labels
             ? ""
             : "their classes are told by the devkit (ILSVRC2012_devkit_t12.tar.gz, 2.5 MB, from "
               "https://image-net.org), which is not beside them; with it, ",
         command);
}

/* --- Tiny-ImageNet --- */

static struct status fail_tiny_train(const char *path)
{
    CLEANUP(memory_free) char *command = NULL;
    TRY(shell_command(&command,
                      "(cd %s && for c in n*; do mv \"$c\"/images/* \"$c\" && rmdir "
                      "\"$c\"/images; done)",
                      path));
    FAIL(STATUS_USAGE,
         "%s is laid out as Tiny-ImageNet's training images are (CLASS/images/NAME); take that "
         "level out first: %s",
         path, command);
}

static struct status fail_tiny_val(const char *path)
{
    CLEANUP(memory_free) char *command = NULL;
    TRY(shell_command(&command,
                      "(cd %s && while read -r f c rest; do mkdir -p \"$c\" && mv images/\"$f\" "
                      "\"$c\"; done <val_annotations.txt && rmdir images)",
                      path));
    FAIL(STATUS_USAGE,
         "%s is laid out as Tiny-ImageNet's validation images are; sort them into class folders "
         "first: %s",
         path, command);
}

/* --- Any folder --- */

/* The folders that would be classes: their number, and one of them. */
static size_t count_folders(const struct folder_list *list, const char **ret_first)
{
    size_t count = 0;
    *ret_first = NULL;
    for (size_t i = 0; i < list->count; i++) {
        if (!list->entries[i].is_folder || !source_is_class_name(list->entries[i].name))
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

/* The first flat image of a folder that has no class folders; NULL else. */
static const char *first_flat_image(const struct folder_list *list)
{
    const char *first_folder;
    return count_folders(list, &first_folder) ? NULL : first_image(list);
}

struct status layout_flat_set(const char *path, enum image_set *ret_set)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(folder_list_read(path, &list));
    const char *image = is_class_folder(path) ? NULL : first_flat_image(&list);
    *ret_set = image ? image_name_parse(image).set : IMAGE_SET_OTHER;
    return OK;
}

struct status layout_open_labels(const char *path, struct devkit **ret_devkit)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    CLEANUP(memory_free) char *labels = NULL;
    *ret_devkit = NULL;
    TRY(folder_list_read(path, &list));
    const char *image = first_flat_image(&list);
    struct image_name name = image_name_parse(image ? image : "");
    TRY(find_labels(path, &labels));
    if (name.set == IMAGE_SET_VAL && labels)
        return devkit_open(labels, ret_devkit);
    return *name.wnid ? devkit_open_built_in(ret_devkit) : OK;
}
