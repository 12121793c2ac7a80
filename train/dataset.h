#ifndef HEADRACE_TRAIN_DATASET_H
#define HEADRACE_TRAIN_DATASET_H

/* The two sets of a run: found from its options, with one class table, and fed in the form that a
 * backend takes. */

#include "base/scope.h"
#include "base/status.h"
#include "image/class_table.h"
#include "index/access.h"
#include "index/index.h"
#include "train/division.h"
#include "train/feed.h"
#include "train/options.h"

struct dataset {
    struct access *access;                 /* of the indexes; NULL: synthetic */
    struct cache *cache;                   /* of their records; NULL: none */
    struct class_table *classes;           /* the network's */
    struct index *train_index, *val_index; /* NULL: synthetic, or not asked for */
    struct feed *train, *val;              /* NULL until they are started */
    int32_t *val_label_map;                /* NULL: the same classes */
};

/* Opens one set: an index (of `access`, where it has URLs), class folders (index/folder_index.h),
 * whose labels are then by `classes` where that is not NULL, or what a folder of both sets has of
 * `part` ("train", "val"), found as --data finds it. Listed with `threads`; 0: cores_available().
 */
struct status dataset_open_part(const char *path, const char *part,
                                const struct class_table *classes, unsigned threads,
                                struct access *access, struct index **ret_index);

/* Finds the sets of --data, --train and --val, or stands for none with --synthetic. `model_classes`
 * (NULL: the training set's) are the network's; a training set must have the very same, a
 * validation set some of them. Without `with_train` only the validation set is opened. A run
 * without --val and
 * --data has no validation set. Fails with STATUS_USAGE or STATUS_NOT_FOUND, saying what was looked
 * for. */
struct status dataset_open(const struct train_options *options,
                           const struct class_table *model_classes, bool with_train,
                           struct dataset **ret_dataset);
/* The same with the training set alone. */
struct status dataset_open_train(const struct train_options *options, struct dataset **ret_dataset);
void dataset_close(struct dataset *dataset);
CLEANUP_POINTER(dataset_close, struct dataset)

/* Opens a feed (another one of its kind is closed first): training in the micro-batches of
 * `division`, evaluation in batches of dataset_val_batch; each process gets its slice. */
struct status dataset_start_train(struct dataset *dataset, const struct train_options *options,
                                  const struct division *division,
                                  const struct tensor_format *format, uint32_t image_size);
struct status dataset_start_val(struct dataset *dataset, const struct train_options *options,
                                const struct division *division,
                                const struct tensor_format *format);
/* Bytes of the host that both feeds take at most: the training one, and with `evaluates` the
 * other. */
struct status dataset_bytes(const struct dataset *dataset, const struct train_options *options,
                            const struct division *division, const struct tensor_format *format,
                            uint32_t image_size, bool evaluates, uint64_t *ret_bytes);
/* What a loader of the whole batches of training is opened with. */
struct loader_options dataset_loader_options(const struct train_options *options,
                                             const struct tensor_format *format,
                                             uint32_t image_size);
/* How many images an evaluation step takes in all: a micro-batch, or fewer where the set has fewer;
 * a multiple of the processes and their devices. */
uint32_t dataset_val_batch(const struct dataset *dataset, const struct train_options *options,
                           const struct division *division);
/* Steps of a training epoch. */
uint64_t dataset_train_steps(const struct dataset *dataset, const struct train_options *options);

#endif
