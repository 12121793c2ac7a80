/* headrace report: a run on one HTML page. */

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/memory.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "train/module.h"
#include "train/report.h"

struct report_arguments {
    const char *out, *val;
    int device;
    int64_t samples;
    struct access_options access;
};

#define FIELD(name) offsetof(struct report_arguments, name)
static const struct option report_options_table[] = {
    {"out", 'o', OPT_STRING, FIELD(out), .value = "FILE",
     .help = "the page, .html (default RUN_DIR/report.html)"},
    {"val", 0, OPT_STRING, FIELD(val), .value = "INDEX",
     .help = "where the validation set is now, if it was moved"},
    {"samples", 0, OPT_INT, FIELD(samples), .min = 0, .max = 1000, .value = "N",
     .help = "images with predictions (default %d)"},
    {"device", 0, OPT_ENUM, FIELD(device), .names = device_names,
     .help = "where to compute the predictions (default %d)"},
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage report_usage = {
    .command = "report",
    .positionals = "RUN_DIR",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Draws a run's curves, configuration and some predictions as one HTML page.",
    .details = "The page loads nothing from elsewhere: it can be sent as one file.",
    .example = "headrace report run",
};

/* No index and no image is replaced by a slip of the hand. */
static struct status output_check(const char *path)
{
    const char *ending = strrchr(path_base(path), '.');
    TRY(command_check_output(path));
    if (!ending || (strcasecmp(ending, ".html") != 0 && strcasecmp(ending, ".htm") != 0))
        FAIL(STATUS_USAGE, "'%s': a report is written as .html", path);
    return file_writer_check(path);
}

struct status cmd_report(int argc, char **argv)
{
    struct report_arguments arguments = {.samples = 12};
    struct option_parse parse = {0};
    CLEANUP(buffer_done) struct buffer html = {0};
    CLEANUP(memory_free) char *path = NULL;
    access_options_init(&arguments.access);
    TRY(command_parse(&report_usage, report_options_table, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    const char *folder = parse.positionals[0];
    const struct report_options options = {
        .val = arguments.val,
        .device = device_names[arguments.device],
        .samples = (uint32_t)arguments.samples,
        .access = arguments.access,
    };
    if (arguments.out)
        TRY(output_check(arguments.out));
    TRY(report_append(&html, folder, &options));
    TRY(arguments.out ? string_copy(arguments.out, &path)
                      : path_join(folder, "report.html", &path));
    TRY(file_write_atomic(path, html.data, html.length));
    printf("%s\n", path);
    return OK;
}
