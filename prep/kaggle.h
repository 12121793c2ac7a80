#ifndef HEADRACE_PREP_KAGGLE_H
#define HEADRACE_PREP_KAGGLE_H

/* The label files of ILSVRC2012 as Kaggle hands it out: LOC_synset_mapping.txt has a line
 * "n01440764 tench, Tinca tinca" for each class, LOC_val_solution.csv a line
 * "ILSVRC2012_val_00048981,n03995372 85 1 499 272" for each validation image, in any order. */

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "image/class_table.h"

#define KAGGLE_SOLUTION "LOC_val_solution.csv"
#define KAGGLE_MAPPING "LOC_synset_mapping.txt"

/* A label file's text; `path` is for messages. */
struct kaggle_text {
    const char *path;
    const void *bytes;
    size_t length;
};

/* The classes; counts come from the built-in table where it has all of them. Fails with
 * STATUS_CORRUPT, naming file and line. */
struct status kaggle_parse_mapping(const struct kaggle_text *text,
                                   struct class_table **ret_classes);
/* The validation images' labels by number, of image 1 first, on the heap. The numbers have to be 1,
 * 2, 3, … without gaps. Fails with STATUS_CORRUPT, naming file and line. */
struct status kaggle_parse_solution(const struct kaggle_text *text,
                                    const struct class_table *classes, uint32_t **ret_labels,
                                    size_t *ret_count);

#endif
