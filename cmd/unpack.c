/* headrace unpack: the original files back, in class folders. */

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/progress.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "cmd/problems.h"
#include "index/unpack.h"

enum unpack_on_error { UNPACK_FAIL = 0, UNPACK_SKIP };
static const char *const on_error_names[] = {"fail", "skip", NULL};

struct unpack_arguments {
    int64_t jobs;
    int on_error;
    bool json, quiet;
    struct access_options access;
};

#define FIELD(name) offsetof(struct unpack_arguments, name)
static const struct option unpack_options[] = {
    COMMAND_JOBS(jobs),
    {"on-error", 0, OPT_ENUM, FIELD(on_error), .names = on_error_names,
     .help = "images whose records are damaged: end, or leave them out (default %d)"},
    {"json", 0, OPT_FLAG, FIELD(json), .help = "print one JSON object"},
    {"quiet", 'q', OPT_FLAG, FIELD(quiet), .help = "no progress"},
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage unpack_usage = {
    .command = "unpack",
    .positionals = "INDEX DEST",
    .min_positionals = 2,
    .max_positionals = 2,
    .summary = "Writes the images of an index as DEST/CLASS/NAME, bit for bit as they were packed.",
    .details =
        "Each record's CRC is checked. A class folder appears when it is complete; a second run "
        "finishes what was stopped. INDEX may be a single packed shard, too.",
    .example = "headrace unpack val.idx val/",
};

static struct status report_print_json(const char *dest, const struct unpack_report *report,
                                       const struct unpack_arguments *arguments)
{
    CLEANUP(json_free) struct json *object = json_object_new();
    json_set_integer(object, "version", 1);
    json_set_string(object, "folder", dest);
    json_set_integer(object, "images", (int64_t)report->images);
    json_set_integer(object, "bytes", (int64_t)report->image_bytes);
    json_set_integer(object, "kept", (int64_t)report->kept);
    json_set_integer(object, "lossy", (int64_t)report->lossy);
    json_set_string(object, "on_error", on_error_names[arguments->on_error]);
    problems_store(&report->problems, object);
    return command_print_json(object);
}

static struct status report_print(const char *dest, const struct unpack_report *report,
                                  const struct unpack_arguments *arguments)
{
    char bytes[16];
    if (report->lossy > 0)
        log_note("%" PRIu64 " images were packed with --lossy: they are not the original files",
                 report->lossy);
    problems_warn(&report->problems, "left out");
    if (arguments->json)
        return report_print_json(dest, report, arguments);
    printf("%s: %" PRIu64 " images written (%s), %" PRIu64 " were there", dest, report->images,
           format_bytes(report->image_bytes, bytes), report->kept);
    if (report->problems.count > 0)
        printf(", %zu were left out", report->problems.count);
    putchar('\n');
    return OK;
}

struct status cmd_unpack(int argc, char **argv)
{
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(unpack_report_done) struct unpack_report report = {0};
    struct option_parse parse;
    struct unpack_arguments arguments = {0};
    access_options_init(&arguments.access);
    TRY(command_parse(&unpack_usage, unpack_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    progress_set_quiet(arguments.quiet);
    const char *dest = parse.positionals[1];
    TRY(command_check_output(dest));
    TRY(access_open(&arguments.access, &access));
    TRY(command_open_index("unpack INDEX DEST", parse.positionals[0], access, &index));
    const struct unpack_options options = {
        .threads = command_threads(arguments.jobs),
        .skip = arguments.on_error == UNPACK_SKIP,
    };
    TRY(index_unpack(index, dest, &options, &report));
    return report_print(dest, &report, &arguments);
}
