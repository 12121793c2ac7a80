#ifndef HEADRACE_DEMO_DEVKIT_H
#define HEADRACE_DEMO_DEVKIT_H

/* Writes a devkit like the published one: data/meta.mat (through matio) and the validation ground
 * truth. */

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* `ids[label]` is the ILSVRC2012_ID (from 1) of the class with that label in pattern_classes;
 * `train_images` the number of training images of each; `truth[k]` the ID of validation image k
 * + 1. Creates FOLDER/data with both files. */
struct status devkit_write(const char *folder, const uint16_t *ids, uint16_t train_images,
                           const uint16_t *truth, size_t truth_count);

#endif
