/* headrace show: a contact sheet of some images of an index. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/permutation.h"
#include "base/stop.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "image/sheet.h"
#include "index/index.h"
#include "index/record_image.h"

struct show_arguments {
    const char *out, *classes;
    int64_t count, columns, cell, seed;
    struct access_options access;
};

#define FIELD(name) offsetof(struct show_arguments, name)
static const struct option show_options[] = {
    {"out", 'o', OPT_STRING, FIELD(out), .value = "FILE", .required = true,
     .help = "the sheet to write: .png or .jpg"},
    {"count", 'n', OPT_INT, FIELD(count), .min = 1, .max = 4096, .value = "N",
     .help = "how many images (default %d)"},
    {"classes", 0, OPT_STRING, FIELD(classes), .value = "FILE|WNID,…",
     .help = "only of these classes, from a file or separated by commas"},
    {"seed", 0, OPT_INT, FIELD(seed), .max = 9007199254740992, .value = "N",
     .help = "which images are drawn (default %d)"},
    {"columns", 0, OPT_INT, FIELD(columns), .min = 1, .max = 64, .value = "N",
     .help = "images in a row (default %d)"},
    {"cell", 0, OPT_INT, FIELD(cell), .min = 32, .max = 1024, .value = "PIXELS",
     .help = "side of a thumbnail (default %d)"},
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage show_usage = {
    .command = "show",
    .positionals = "INDEX",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Draws a contact sheet of images of an index, with their names and classes.",
    .details =
        "Images are drawn at random, without repetition, and shown in the index's order; the "
        "same seed draws the same images.",
    .example = "headrace show val.idx -o sheet.png -n 40 --seed 7",
};

/* The records of the wanted classes. */
static struct status candidates_find(const struct index *index, const bool *wanted,
                                     uint64_t **ret_records, uint64_t *ret_count)
{
    CLEANUP(memory_free) uint64_t *records = NULL;
    const int32_t *labels;
    uint64_t count = 0;
    TRY(index_labels(index, &labels));
    TRY(memory_alloc(index_count(index), sizeof *records, &records));
    for (uint64_t i = 0; i < index_count(index); i++) {
        if (wanted[labels[i]])
            records[count++] = i;
    }
    if (count == 0)
        FAIL(STATUS_NOT_FOUND, "'%s' has no images of these classes", index_path(index));
    *ret_records = MOVE(records);
    *ret_count = count;
    return OK;
}

/* Shows a record; one that cannot be decoded gets a black thumbnail and its reason as a warning. */
static struct status record_show(struct index *index, uint64_t i, struct record_image *image,
                                 struct sheet *sheet)
{
    CLEANUP(buffer_done) struct buffer caption = {0};
    CLEANUP(picture_done) struct picture picture = {0};
    struct record record;
    const char *name, *text;
    TRY(index_record(index, i, &record)); /* its class is told even if it cannot be read */
    TRY(index_name(index, i, &name));
    struct status status = record_image_read(image, i, &record);
    if (status.code == STATUS_DONE)
        status = index_blame_bytes(index, i, record_image_decode(image, NULL, &picture));
    if (status.code != STATUS_DONE) {
        status = index_blame(index, i, status);
        log_warning("%s", status_message(&status));
        status_clear(&status);
        TRY(picture_resize(&picture, 1, 1));
        memset(picture.pixels, 0, 3);
    }
    const struct class_entry *entry = class_table_at(index_classes(index), record.label);
    /* The key too: two classes may have the same words. */
    TRY(buffer_append_text(&caption, "%s\n%" PRIu32 " %s\n[%s] %" PRIu32 " x %" PRIu32, name,
                           record.label, entry->words[0] ? entry->words : entry->wnid, entry->wnid,
                           picture.width, picture.height));
    TRY(buffer_text(&caption, &text));
    return sheet_add(sheet, &picture, text);
}

static struct status sheet_fill(struct index *index, const struct show_arguments *arguments,
                                struct sheet *sheet)
{
    CLEANUP(memory_free) bool *wanted = NULL;
    CLEANUP(memory_free) uint64_t *records = NULL;
    CLEANUP(record_image_close) struct record_image *image = NULL;
    uint64_t count = 0;
    TRY(command_classes(index_classes(index), arguments->classes, &wanted));
    TRY(candidates_find(index, wanted, &records, &count));
    TRY(record_image_open(index, PIXELS_PILLOW, &image));
    struct permutation order = permutation_make(count, (uint64_t)arguments->seed, 0);
    for (uint64_t i = 0; i < count; i++) {
        TRY(stop_check());
        if (permutation_position(&order, i) < (uint64_t)arguments->count)
            TRY(record_show(index, records[i], image, sheet));
    }
    return OK;
}

struct status cmd_show(int argc, char **argv)
{
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(sheet_close) struct sheet *sheet = NULL;
    struct option_parse parse;
    /* A cell is as wide as the name of a validation image. */
    struct show_arguments arguments = {.count = 40, .columns = 8, .cell = 168};
    access_options_init(&arguments.access);
    TRY(command_parse(&show_usage, show_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    TRY(command_check_output(arguments.out));
    TRY(sheet_check_name(arguments.out));
    TRY(access_open(&arguments.access, &access));
    TRY(command_open_index("show INDEX -o FILE.png", parse.positionals[0], access, &index));
    TRY(sheet_open((unsigned)arguments.columns, (uint32_t)arguments.cell, &sheet));
    TRY(sheet_fill(index, &arguments, sheet));
    TRY(sheet_write(sheet, arguments.out));
    printf("%s\n", arguments.out);
    return OK;
}
