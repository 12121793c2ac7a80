/* make-demo: draws a small ImageNet: a tar of tars, a flat validation tar and a devkit, in the
 * published layout. The same arguments give the same bytes. */

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/option.h"
#include "demo/devkit.h"
#include "demo/patterns.h"
#include "image/decode.h"

struct demo_arguments {
    int64_t train_images, val_images, seed;
};

static const struct option demo_options[] = {
    {"train", 0, OPT_INT, offsetof(struct demo_arguments, train_images), .min = 1, .max = 1300,
     .value = "N", .help = "training images a class (%d)"},
    {"val", 0, OPT_INT, offsetof(struct demo_arguments, val_images), .min = 1, .max = 1300,
     .value = "N", .help = "validation images a class (%d)"},
    {"seed", 0, OPT_INT, offsetof(struct demo_arguments, seed), .min = 0, .max = 1e9, .value = "N",
     .help = "seed of the drawings (%d)"},
    {0},
};

static const struct option_usage demo_usage = {
    .command = "make-demo",
    .positionals = "DEST",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Draws a small ImageNet-like set of archives and a devkit into DEST.",
    .example = "build/make-demo /tmp/demo --train 60 --val 20",
};

/* ---- tar, in its ustar form ---- */

#define TAR_BLOCK 512

static struct status tar_add(struct buffer *tar, const char *name, const struct buffer *content)
{
    char header[TAR_BLOCK] = {0};
    snprintf(header, 100, "%s", name);
    memcpy(header + 100, "0000644\0000000000\0000000000", 24);
    snprintf(header + 124, 12, "%011zo", content->length);
    memcpy(header + 136, "12000000000", 12);
    memcpy(header + 148, "        0", 9);
    memcpy(header + 257, "ustar\00000", 8);
    unsigned sum = 0;
    for (int i = 0; i < TAR_BLOCK; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    TRY(buffer_append(tar, header, sizeof header));
    TRY(buffer_append(tar, content->data, content->length));
    return buffer_resize(tar, (tar->length + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK);
}

static struct status tar_end(struct buffer *tar)
{
    return buffer_resize(tar, tar->length + 2 * TAR_BLOCK);
}

/* ---- the archives ---- */

/* `part` keeps training and validation apart: no image is in both. */
static struct status image_draw(const struct demo_arguments *arguments, unsigned part,
                                unsigned label, int64_t number, struct buffer *jpeg)
{
    CLEANUP(picture_done) struct picture picture = {0};
    struct random_stream stream = random_stream_make((uint64_t)arguments->seed, RANDOM_SYNTHETIC,
                                                     part * 100 + label, (uint64_t)number);
    TRY(pattern_draw(label, &stream, &picture));
    int quality = number % 3 == 0 ? 80 : 95; /* 4:2:0 and 4:4:4 */
    return jpeg_encode(&picture, quality, jpeg);
}

static struct status class_tar_make(const struct demo_arguments *arguments, unsigned label,
                                    struct buffer *tar)
{
    CLEANUP(buffer_done) struct buffer jpeg = {0};
    for (int64_t i = 0; i < arguments->train_images; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s_%lld.JPEG", pattern_classes[label].wnid,
                 (long long)(i * 7 + 3)); /* neither padded nor consecutive, as published */
        TRY(image_draw(arguments, 0, label, i, &jpeg));
        TRY(tar_add(tar, name, &jpeg));
    }
    return tar_end(tar);
}

static struct status train_write(const struct demo_arguments *arguments, const char *path)
{
    CLEANUP(buffer_done) struct buffer outer = {0};
    for (unsigned i = 0; i < PATTERN_CLASSES; i++) {
        CLEANUP(buffer_done) struct buffer inner = {0};
        unsigned label = (i * 7 + 2) % PATTERN_CLASSES; /* in no particular order, as published */
        char name[64];
        snprintf(name, sizeof name, "%s.tar", pattern_classes[label].wnid);
        TRY(class_tar_make(arguments, label, &inner));
        TRY(tar_add(&outer, name, &inner));
    }
    TRY(tar_end(&outer));
    return file_write_atomic(path, outer.data, outer.length);
}

/* Image k + 1 of the validation set is of class (3 k) mod 10; truth[k] becomes its ID. */
static struct status val_write(const struct demo_arguments *arguments, const char *path,
                               const uint16_t *ids, uint16_t *truth)
{
    CLEANUP(buffer_done) struct buffer tar = {0};
    CLEANUP(buffer_done) struct buffer jpeg = {0};
    for (int64_t k = 0; k < arguments->val_images * PATTERN_CLASSES; k++) {
        unsigned label = (unsigned)(3 * k % PATTERN_CLASSES);
        char name[64];
        snprintf(name, sizeof name, "ILSVRC2012_val_%08lld.JPEG", (long long)k + 1);
        TRY(image_draw(arguments, 1, label, k, &jpeg));
        TRY(tar_add(&tar, name, &jpeg));
        truth[k] = ids[label];
    }
    TRY(tar_end(&tar));
    return file_write_atomic(path, tar.data, tar.length);
}

static struct status demo_write(const struct demo_arguments *arguments, const char *folder)
{
    /* IDs run against the order of WNIDs, so that a tool that takes one for the other is found out.
     */
    uint16_t ids[PATTERN_CLASSES];
    for (unsigned label = 0; label < PATTERN_CLASSES; label++)
        ids[label] = (uint16_t)(PATTERN_CLASSES - label);
    CLEANUP(memory_free) char *train = NULL;
    CLEANUP(memory_free) char *val = NULL;
    CLEANUP(memory_free) char *devkit = NULL;
    CLEANUP(memory_free) uint16_t *truth = NULL;
    size_t truth_count = (size_t)arguments->val_images * PATTERN_CLASSES;
    TRY(memory_alloc(truth_count, sizeof *truth, &truth));
    TRY(path_join(folder, "ILSVRC2012_img_train.tar", &train));
    TRY(path_join(folder, "ILSVRC2012_img_val.tar", &val));
    TRY(path_join(folder, "ILSVRC2012_devkit_t12", &devkit));
    TRY(folder_create(folder));
    TRY(train_write(arguments, train));
    TRY(val_write(arguments, val, ids, truth));
    return devkit_write(devkit, ids, (uint16_t)arguments->train_images, truth, truth_count);
}

static struct status run(int argc, char **argv)
{
    struct demo_arguments arguments = {.train_images = 60, .val_images = 20, .seed = 0};
    struct option_parse parse;
    CLEANUP(buffer_done) struct buffer help = {0};
    TRY(option_help(&demo_usage, demo_options, &arguments, &help));
    TRY(option_parse_arguments(&demo_usage, demo_options, argc, argv, &arguments, &parse));
    if (parse.help) {
        fwrite(help.data, 1, help.length, stdout);
        return OK;
    }
    return demo_write(&arguments, parse.positionals[0]);
}

int main(int argc, char **argv)
{
    struct status status = run(argc, argv);
    if (status.code != STATUS_DONE)
        fprintf(stderr, "make-demo: error: %s\n", status_message(&status));
    int exit_status = status_exit_code(status.code);
    status_clear(&status);
    return exit_status;
}
