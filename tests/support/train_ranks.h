#ifndef HEADRACE_TESTS_SUPPORT_TRAIN_RANKS_H
#define HEADRACE_TESTS_SUPPORT_TRAIN_RANKS_H

/* Whole trainings in several processes, each a child of the test. */

#include "tests/support/ranks.h"

struct trainer;

/* What the next runs are made with, beside their arguments; zeroes for none of it. */
extern struct ranks_train_settings {
    char odd_arguments[1024]; /* instead of the others', for one rank of the next run only */
    unsigned odd_rank;
    const char *sums_path;             /* file that rank 0 writes the sums of -e to */
    void (*prepare)(struct trainer *); /* changes what each rank's trainer works with */
} ranks_train_settings;

/* Runs `text` with a path of the test behind it in so many processes, which all succeed or all
 * fail. Returns how `speaker` ended. */
struct rank_end ranks_train(unsigned size, bool fails, unsigned speaker, const char *text,
                            const char *path);
void ranks_train_well(unsigned size, const char *text, const char *path);
void expect_message(const struct rank_end *end, const char *part);

/* The losses of two runs' steps: so many, the same relative to the second's, at the same rates. */
void expect_losses(const char *found_run, const char *wanted_run, size_t steps, double tolerance);

/* Writes data/PART/classC/III.JPEG of the test, some 36 pixels a side; with `cut` only so many
 * bytes of it. */
void plain_image_write(const char *part, unsigned class_number, unsigned i, size_t cut);

#endif
