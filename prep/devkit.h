#ifndef HEADRACE_PREP_DEVKIT_H
#define HEADRACE_PREP_DEVKIT_H

/* The development kit: which classes there are (meta.mat), and the class of each validation image
 * (ground truth).
 *
 * The kit numbers classes by ILSVRC2012_ID, which is not the order of labels: IDs are translated
 * here, once, and leave this file only in messages. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"
#include "image/class_table.h"

struct devkit;

/* Opens a devkit: its archive (.tar or .tar.gz), its folder, any folder around that, or a folder
 * that holds the archive under its published name. Kaggle's LOC_val_solution.csv, with its
 * LOC_synset_mapping.txt beside it, or a folder or Kaggle's zip file of the two, is as good. Fails
 * with STATUS_NOT_FOUND when there is no meta.mat, with STATUS_CORRUPT, naming file and line, when
 * something is wrong in it. The ground truth may be missing (devkit_val_count is 0 then). */
struct status devkit_open(const char *path, struct devkit **ret_devkit);
/* The built-in classes, and no ground truth: for names that say their classes themselves, as
 * Hugging Face's do. */
struct status devkit_open_built_in(struct devkit **ret_devkit);
void devkit_free(struct devkit *devkit);
CLEANUP_POINTER(devkit_free, struct devkit)

/* What it was opened as; for messages, and for commands where it is not built in. */
const char *devkit_path(const struct devkit *devkit);
bool devkit_is_built_in(const struct devkit *devkit);
/* The leaf classes; borrowed. */
const struct class_table *devkit_classes(const struct devkit *devkit);
/* The label of an ILSVRC2012_ID, or -1. Always -1 for what is not a real devkit. */
int64_t devkit_label_of_id(const struct devkit *devkit, uint64_t id);
/* Lines of the ground truth. */
size_t devkit_val_count(const struct devkit *devkit);
/* The label of validation image `number`, 1 <= number <= devkit_val_count. */
uint32_t devkit_val_label(const struct devkit *devkit, size_t number);
/* How many validation images have a label. */
uint64_t devkit_val_count_of(const struct devkit *devkit, uint32_t label);
/* Whether it is that of ILSVRC2012: the same classes, counts and ground truth. */
bool devkit_is_published(const struct devkit *devkit);
/* Names a list of validation labels, of image 1 first: a CRC-32C. */
uint32_t devkit_val_labels_crc(const uint32_t *labels, size_t count);
#define ILSVRC2012_VAL_LABELS_CRC 0x5ee31433
/* The label of a validation image by its file name, which has to hold its number (a WNID behind the
 * number must agree). Without a ground truth any name's WNID decides, and a name without one fails
 * with STATUS_NOT_FOUND. Fails with STATUS_CORRUPT otherwise. */
struct status devkit_label_of_name(const struct devkit *devkit, const char *name,
                                   uint32_t *ret_label);

#endif
