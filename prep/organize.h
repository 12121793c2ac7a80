#ifndef HEADRACE_PREP_ORGANIZE_H
#define HEADRACE_PREP_ORGANIZE_H

/* Sorting flat validation images into class folders. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/folder.h"
#include "base/scope.h"
#include "base/status.h"
#include "prep/devkit.h"

struct organize_move {
    const char *name; /* VAL_DIR/name becomes VAL_DIR/wnid/name */
    const char *wnid;
};

struct organize_plan {
    char *val_dir;
    struct organize_move *moves; /* none if the folder is sorted already */
    size_t count;
    uint64_t missing;        /* images of the ground truth that are nowhere in the folder */
    uint64_t first_missing;  /* its number */
    struct folder_list list; /* what the moves' names point into */
};

/* Pairs each image in `val_dir` with its class; `devkit` has to outlive the plan. A folder that is
 * sorted already gives an empty plan. Fails, and changes nothing, for anything it cannot place:
 * other files' names, numbers beyond the ground truth, no images at all. */
struct status organize_plan_make(const char *val_dir, const struct devkit *devkit,
                                 struct organize_plan *ret_plan);
void organize_plan_done(struct organize_plan *plan);
CLEANUP_VALUE(organize_plan_done, struct organize_plan)

/* Carries the plan out by renaming or, with `link`, by hard links, which leave the flat images
 * where they are. Can be stopped at any moment; a new plan then holds the rest. An image whose
 * place is taken by another file fails. *ret_placed: how many were not in their place before. */
struct status organize_apply(const struct organize_plan *plan, bool link, size_t *ret_placed);

/* --- Numbered class folders --- */

enum folder_numbers {
    FOLDER_NUMBERS_NONE,
    FOLDER_NUMBERS_LABELS, /* 0, 1, … in the order of sorted WNIDs, as ImageNet-V2 has them */
    FOLDER_NUMBERS_IDS,    /* the devkit's ILSVRC2012_IDs: 1, 2, … */
};

/* Pairs each folder of `dir` whose name is a number with its class: DIR/name becomes DIR/wnid.
 * Fails, and changes nothing, for numbers without a class and for places that are taken. */
struct status organize_plan_folders(const char *dir, const struct devkit *devkit,
                                    enum folder_numbers numbers, struct organize_plan *ret_plan);
/* Renames. Can be stopped at any moment; a new plan then holds the rest. */
struct status organize_apply_folders(const struct organize_plan *plan);

#endif
