#include "prep/organize.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/shell.h"
#include "base/stage.h"
#include "base/stop.h"
#include "image/source.h"
#include "prep/image_name.h"

void organize_plan_done(struct organize_plan *plan)
{
    memory_free(plan->val_dir);
    memory_free(plan->moves);
    folder_list_done(&plan->list);
    *plan = (struct organize_plan){0};
}

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* The command for another folder with the same devkit. */
static struct status same_command(const char *dir, const struct devkit *devkit, char **ret_command)
{
    if (devkit_is_built_in(devkit))
        return shell_command(ret_command, "headrace organize %s", dir);
    return shell_command(ret_command, "headrace organize %s --devkit %s", dir, devkit_path(devkit));
}

static struct status fail_numbers(const char *dir, const char *number, const struct devkit *devkit)
{
    CLEANUP(memory_free) char *by_label = NULL;
    CLEANUP(memory_free) char *by_id = NULL;
    TRY(shell_command(&by_label, "headrace organize %s --folders labels", dir));
    TRY(shell_command(&by_id, "headrace organize %s --folders ids --devkit %s", dir,
                      devkit_is_built_in(devkit) ? "ILSVRC2012_devkit_t12.tar.gz"
                                                 : devkit_path(devkit)));
    FAIL(STATUS_CORRUPT,
         "%s has numeric folders (%s, …), expected WNIDs such as n01440764; if the numbers are "
         "labels, 0 … 999 as in ImageNet-V2: %s; if they are ILSVRC2012_IDs, 1 … 1000: %s",
         dir, number, by_label, by_id);
}

/* What a folder without flat images is: sorted already, or not what was meant. */
static struct status check_no_images(const struct organize_plan *plan, const struct devkit *devkit)
{
    const char *first_number = NULL;
    for (size_t i = 0; i < plan->list.count; i++) {
        const struct folder_entry *entry = &plan->list.entries[i];
        if (entry->is_folder && class_table_find(devkit_classes(devkit), entry->name) >= 0)
            return OK;
        if (entry->is_folder && is_number(entry->name))
            first_number = entry->name;
    }
    if (first_number)
        return fail_numbers(plan->val_dir, first_number, devkit);
    CLEANUP(memory_free) char *val = NULL;
    CLEANUP(memory_free) char *command = NULL;
    TRY(path_join(plan->val_dir, "val", &val));
    TRY(same_command(val, devkit, &command));
    if (path_is_folder(val))
        FAIL(STATUS_NOT_FOUND, "%s has no images, but a folder val: %s", plan->val_dir, command);
    FAIL(STATUS_NOT_FOUND,
         "%s has no images: expected ILSVRC2012_val_00000001.JPEG and so on directly in it; "
         "name the folder that holds them",
         plan->val_dir);
}

static struct status fail_train(const char *dir, const char *class_name, const char *image)
{
    CLEANUP(memory_free) char *command = NULL;
    TRY(shell_command(&command, "headrace verify %s", dir));
    FAIL(STATUS_FAILED,
         "%s has training images (%s/%s, …), expected validation images only; class folders of "
         "training images are sorted already: %s",
         dir, class_name, image, command);
}

/* Marks the images that class folders hold already. */
static struct status mark_sorted(const struct organize_plan *plan, const struct devkit *devkit,
                                 bool *is_seen)
{
    for (size_t i = 0; i < plan->list.count; i++) {
        const struct folder_entry *entry = &plan->list.entries[i];
        CLEANUP(folder_list_done) struct folder_list images = {0};
        CLEANUP(memory_free) char *path = NULL;
        if (!entry->is_folder || class_table_find(devkit_classes(devkit), entry->name) < 0)
            continue;
        TRY(path_join(plan->val_dir, entry->name, &path));
        TRY(folder_list_read(path, &images));
        for (size_t k = 0; k < images.count; k++) {
            struct image_name name = image_name_parse(images.entries[k].name);
            /* Those that are sorted by their own names may lie beside others of the kind. */
            bool is_expected = plan->count && devkit_val_count(devkit) == 0;
            if (name.set == IMAGE_SET_TRAIN && !is_expected)
                return fail_train(plan->val_dir, entry->name, images.entries[k].name);
            if (name.set == IMAGE_SET_VAL && name.number <= devkit_val_count(devkit))
                is_seen[name.number] = true;
        }
    }
    return OK;
}

static struct status count_missing(struct organize_plan *plan, const struct devkit *devkit,
                                   bool *is_seen)
{
    TRY(mark_sorted(plan, devkit, is_seen));
    for (size_t number = devkit_val_count(devkit); number >= 1; number--) {
        if (is_seen[number])
            continue;
        plan->missing++;
        plan->first_missing = number;
    }
    return OK;
}

static struct status plan_moves(struct organize_plan *plan, const struct devkit *devkit)
{
    CLEANUP(memory_free) bool *is_seen = NULL;
    TRY(memory_alloc(plan->list.count, sizeof *plan->moves, &plan->moves));
    TRY(memory_alloc(devkit_val_count(devkit) + 1, sizeof *is_seen, &is_seen));
    for (size_t i = 0; i < plan->list.count; i++) {
        const struct folder_entry *entry = &plan->list.entries[i];
        uint32_t label;
        if (!entry->is_file || !source_is_image_name(entry->name))
            continue;
        TRY(status_context(devkit_label_of_name(devkit, entry->name, &label), "%s", plan->val_dir));
        if (devkit_val_count(devkit))
            is_seen[image_name_parse(entry->name).number] = true;
        plan->moves[plan->count++] =
            (struct organize_move){entry->name,
                                   class_table_at(devkit_classes(devkit), label)->wnid};
    }
    if (plan->count == 0)
        TRY(check_no_images(plan, devkit));
    return count_missing(plan, devkit, is_seen);
}

/* An archive, or a folder that was made by sorting, would be refused with less of a reason. */
static struct status check_dir(const char *dir, const struct devkit *devkit)
{
    CLEANUP(memory_free) char *real = NULL;
    CLEANUP(memory_free) char *command = NULL;
    if (!path_exists(dir))
        FAIL(STATUS_NOT_FOUND, "%s does not exist, expected a folder of validation images", dir);
    TRY(path_real(dir, &real));
    if (path_is_folder(dir) && class_table_find(devkit_classes(devkit), path_base(real)) >= 0)
        FAIL(STATUS_USAGE, "%s is the folder of one class already; name the folder around it", dir);
    if (path_is_folder(dir))
        return OK;
    TRY(shell_command(&command, "headrace extract %s", dir));
    FAIL(STATUS_USAGE,
         "%s is a file, expected a folder of validation images; an archive of them is sorted while "
         "it is unpacked: %s DEST --devkit ILSVRC2012_devkit_t12.tar.gz",
         dir, command);
}

struct status organize_plan_make(const char *val_dir, const struct devkit *devkit,
                                 struct organize_plan *ret_plan)
{
    CLEANUP(organize_plan_done) struct organize_plan plan = {0};
    TRY(check_dir(val_dir, devkit));
    TRY(string_copy(val_dir, &plan.val_dir));
    TRY(folder_list_read(val_dir, &plan.list));
    TRY(plan_moves(&plan, devkit));
    *ret_plan = plan;
    plan = (struct organize_plan){0};
    return OK;
}

/* Whether `to` is there already, as the same file (a link that an earlier run made). */
static struct status check_place(const char *from, const char *to, bool *ret_is_same)
{
    struct stat from_info, to_info;
    *ret_is_same = false;
    if (stat(from, &from_info))
        return status_errno(errno, "cannot read '%s'", from);
    if (lstat(to, &to_info))
        return OK;
    *ret_is_same = from_info.st_dev == to_info.st_dev && from_info.st_ino == to_info.st_ino;
    if (!*ret_is_same)
        FAIL(STATUS_FAILED,
             "'%s' is to become '%s', but that exists: compare the two and remove one", from, to);
    return OK;
}

static struct status move_image(const struct organize_plan *plan, const struct organize_move *move,
                                bool link, size_t *placed)
{
    CLEANUP(memory_free) char *from = NULL;
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) char *to = NULL;
    bool is_same;
    TRY(path_join(plan->val_dir, move->name, &from));
    TRY(path_join(plan->val_dir, move->wnid, &folder));
    TRY(path_join(folder, move->name, &to));
    TRY(folder_create(folder));
    TRY(check_place(from, to, &is_same));
    *placed += !is_same;
    if (is_same)
        return link ? OK : file_remove(from); /* renaming one link onto the other does nothing */
    return link ? file_link(from, to) : file_rename(from, to);
}

struct status organize_apply(const struct organize_plan *plan, bool link, size_t *ret_placed)
{
    CLEANUP(stage_close) struct stage *stage = NULL;
    *ret_placed = 0;
    TRY(stage_open(plan->val_dir, &stage)); /* for its lock */
    for (size_t i = 0; i < plan->count; i++) {
        TRY(stop_check());
        TRY(move_image(plan, &plan->moves[i], link, ret_placed));
    }
    return plan->count ? folder_sync_tree(plan->val_dir) : OK;
}
