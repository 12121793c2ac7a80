#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/stage.h"
#include "base/stop.h"
#include "prep/organize.h"

/* The class that a folder's number stands for; -1 for none. */
static int64_t label_of_number(const struct devkit *devkit, enum folder_numbers numbers,
                               uint64_t number)
{
    if (numbers == FOLDER_NUMBERS_IDS)
        return devkit_label_of_id(devkit, number);
    return number < class_table_count(devkit_classes(devkit)) ? (int64_t)number : -1;
}

static struct status plan_folder(struct organize_plan *plan, const struct devkit *devkit,
                                 enum folder_numbers numbers, const char *name)
{
    CLEANUP(memory_free) char *to = NULL;
    uint64_t number;
    if (!number_parse_u64(name, &number))
        return OK;
    const struct class_table *classes = devkit_classes(devkit);
    int64_t label = label_of_number(devkit, numbers, number);
    if (label < 0)
        FAIL(STATUS_CORRUPT, "%s/%s: there is no class with the %s %s in %s", plan->val_dir, name,
             numbers == FOLDER_NUMBERS_IDS ? "ILSVRC2012_ID" : "label", name, devkit_path(devkit));
    const char *wnid = class_table_at(classes, (size_t)label)->wnid;
    TRY(path_join(plan->val_dir, wnid, &to));
    if (path_exists(to))
        FAIL(STATUS_FAILED,
             "%s/%s is to become %s, but that exists: compare the two and remove one",
             plan->val_dir, name, to);
    plan->moves[plan->count++] = (struct organize_move){name, wnid};
    return OK;
}

/* "1" and "01" are one class. */
static struct status refuse_twins(const struct organize_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        for (size_t k = i + 1; k < plan->count; k++)
            if (plan->moves[i].wnid == plan->moves[k].wnid)
                FAIL(STATUS_CORRUPT, "%s: the folders %s and %s have the same number",
                     plan->val_dir, plan->moves[i].name, plan->moves[k].name);
    return OK;
}

struct status organize_plan_folders(const char *dir, const struct devkit *devkit,
                                    enum folder_numbers numbers, struct organize_plan *ret_plan)
{
    CLEANUP(organize_plan_done) struct organize_plan plan = {0};
    TRY(string_copy(dir, &plan.val_dir));
    TRY(folder_list_read(dir, &plan.list));
    TRY(memory_alloc(plan.list.count, sizeof *plan.moves, &plan.moves));
    for (size_t i = 0; i < plan.list.count; i++)
        if (plan.list.entries[i].is_folder)
            TRY(plan_folder(&plan, devkit, numbers, plan.list.entries[i].name));
    TRY(refuse_twins(&plan));
    *ret_plan = plan;
    plan = (struct organize_plan){0};
    return OK;
}

struct status organize_apply_folders(const struct organize_plan *plan)
{
    CLEANUP(stage_close) struct stage *stage = NULL;
    TRY(stage_open(plan->val_dir, &stage)); /* for its lock */
    for (size_t i = 0; i < plan->count; i++) {
        CLEANUP(memory_free) char *from = NULL;
        CLEANUP(memory_free) char *to = NULL;
        TRY(stop_check());
        TRY(path_join(plan->val_dir, plan->moves[i].name, &from));
        TRY(path_join(plan->val_dir, plan->moves[i].wnid, &to));
        TRY(file_rename(from, to));
    }
    return plan->count ? folder_sync(plan->val_dir) : OK;
}
