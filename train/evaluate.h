#ifndef HEADRACE_TRAIN_EVALUATE_H
#define HEADRACE_TRAIN_EVALUATE_H

/* Accuracy on a set, each image counted exactly once whatever the batch size. */

#include "base/status.h"
#include "image/class_table.h"
#include "train/feed.h"
#include "train/mirrored.h"
#include "train/model.h"
#include "train/ranks.h"
#include "train/run_log.h"

/* For each class of a set the label that a model gives it: classes are matched by WNID, so a set
 * may hold some of the model's classes only. *ret_map is heap memory (memory_free), or NULL when
 * both tables are the same. Fails with STATUS_FAILED, naming a class that the model does not know.
 */
struct status evaluate_label_map(const struct class_table *set, const struct class_table *model,
                                 int32_t **ret_map);

/* What is evaluated; all borrowed. */
struct evaluation {
    const struct model *model;
    struct plan *plan;         /* EVAL */
    struct mirrored *mirrored; /* of the plan; NULL: images are taken as they are */
    struct feed *feed;
    struct comm *comm; /* each process evaluates its part, the sums are those of all; NULL: alone */
};

/* Runs the plan over the feed and prints a line every `print_freq` steps. Fails where not one image
 * could be read, and with STATUS_STOPPED when a stop was asked of any process. */
struct status evaluate_run(const struct evaluation *evaluation, struct run_log *log,
                           uint64_t print_freq, struct metric_sums *ret_sums);

#endif
