#ifndef HEADRACE_PREP_IMAGE_NAME_H
#define HEADRACE_PREP_IMAGE_NAME_H

/* What the names of ILSVRC2012's images say: n01440764_10026.JPEG, ILSVRC2012_val_00000293.JPEG
 * (these two also with _n01440764 behind the number, as on Hugging Face),
 * ILSVRC2012_test_00000001.JPEG. */

#include <stdbool.h>
#include <stdint.h>

enum image_set {
    IMAGE_SET_OTHER,
    IMAGE_SET_TRAIN,
    IMAGE_SET_VAL,
    IMAGE_SET_TEST,
};

#define WNID_LENGTH 9

struct image_name {
    enum image_set set;
    uint64_t number;            /* of the image in its set, or in its class for training images */
    char wnid[WNID_LENGTH + 1]; /* "" if the name has none */
};

/* `name` is a file name without folders. */
struct image_name image_name_parse(const char *name);
/* Whether `text` begins with n and eight digits. */
bool is_wnid_prefix(const char *text);
/* Whether it is a WNID and nothing else. */
bool is_wnid(const char *text);

#endif
