#ifndef HEADRACE_IMAGE_CLASS_TABLE_H
#define HEADRACE_IMAGE_CLASS_TABLE_H

/* Classes and their labels. A class is keyed by its WNID (or folder name, where a data set has no
 * WNIDs); its label is its position in byte-wise order of these keys, for training and validation
 * alike, as torchvision, timm, Keras and Caffe label ImageNet. */

#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"
#include "base/status.h"

struct class_entry {
    const char *wnid; /* "n01440764", or any folder name */
    const char
        *words; /* "tench, Tinca tinca"; "" if unknown. Not a key: two classes may share it. */
    uint32_t train_images; /* published number of training images; 0 if unknown */
};

struct class_table;

/* Makes a table from entries in any order; strings are copied. Fails with STATUS_CORRUPT when a key
 * occurs twice, is empty, or holds '/' or a zero. */
struct status class_table_make(const struct class_entry *entries, size_t count,
                               struct class_table **ret_table);
/* Makes a table from keys alone. Words and counts come from `known` (borrowed; NULL: the built-in
 * table) where it has all of the keys. */
struct status class_table_from_names(const char *const *names, size_t count,
                                     const struct class_table *known,
                                     struct class_table **ret_table);
/* Fails with STATUS_CORRUPT where class names are numbers that stand for other classes than their
 * places say, or may: of several lengths (1 … 10 would be labelled 1, 10, 2, …), or a thousand of
 * them, which are ImageNet's in one order or another. `where` is what has them, `folder` the one
 * that the commands of the message are for. */
struct status class_names_refuse_numbers(const char *const *names, size_t count, const char *where,
                                         const char *folder);
struct status class_table_copy(const struct class_table *table, struct class_table **ret_copy);
void class_table_free(struct class_table *table);
CLEANUP_POINTER(class_table_free, struct class_table)

size_t class_table_count(const struct class_table *table);
/* The class with a label, borrowed; label < count. */
const struct class_entry *class_table_at(const struct class_table *table, size_t label);
/* The label of a key, or -1. */
int64_t class_table_find(const struct class_table *table, const char *wnid);
/* Names the set and order of keys: the first 8 bytes (little-endian) of the SHA-256 of the keys,
 * each followed by a newline. Words and counts do not enter. */
uint64_t class_table_hash(const struct class_table *table);

/* The 1000 classes of ILSVRC2012 with words and published counts, built in. Borrowed, never NULL.
 */
const struct class_table *class_table_ilsvrc2012(void);
/* How many training images are published in all: 1,281,167. Validation: 50 a class. */
#define ILSVRC2012_TRAIN_IMAGES 1281167
#define ILSVRC2012_VAL_IMAGES 50000
#define ILSVRC2012_VAL_IMAGES_PER_CLASS 50
#define ILSVRC2012_CLASSES 1000

#endif
