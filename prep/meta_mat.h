#ifndef HEADRACE_PREP_META_MAT_H
#define HEADRACE_PREP_META_MAT_H

/* Reading the devkit's meta.mat: a MATLAB 5.0 file with the struct array `synsets`, N×1 or 1×N,
 * numbers of any type.
 *
 * Read here and not by a library: of the MAT format a struct of numbers and texts is all that is
 * needed, and matio, which the tests compare with, trusts the lengths in a file (and loads HDF5
 * with itself). */

#include <stddef.h>
#include <stdint.h>

#include "base/memory.h"
#include "base/scope.h"
#include "base/status.h"

struct synset {
    uint32_t id; /* ILSVRC2012_ID, from 1 */
    const char *wnid;
    const char *words;
    uint32_t child_count; /* 0: a leaf, that is, a class */
    uint32_t train_images;
};

struct synset_list {
    struct synset *items;
    size_t count;
    struct arena strings;
};

/* Parses the bytes of a meta.mat; `name` is for messages. Fails with STATUS_CORRUPT, or
 * STATUS_UNSUPPORTED (MATLAB 7.3), and says what is not as expected. */
struct status meta_mat_parse(const void *bytes, size_t length, const char *name,
                             struct synset_list *ret_list);
void synset_list_done(struct synset_list *list);
CLEANUP_VALUE(synset_list_done, struct synset_list)

#endif
