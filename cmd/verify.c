#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/number.h"
#include "base/path.h"
#include "base/progress.h"
#include "cmd/command.h"
#include "cmd/verify_index.h"
#include "index/index.h"
#include "index/url.h"
#include "prep/repair.h"

struct verify_arguments {
    const char *devkit, *expect, *prefix;
    int64_t jobs;
    const char *repair;
    bool subset, decode, duplicates, md5, json, quiet;
    struct access_options access;
};
#define FIELD(name) offsetof(struct verify_arguments, name)

static const struct option options[] = {
    {"devkit", 0, OPT_STRING, FIELD(devkit), .value = "PATH",
     .help = "compares with this devkit's tables instead of the built-in one of ILSVRC2012"},
    {"subset", 0, OPT_FLAG, FIELD(subset),
     .help = "fewer classes and images than published are fine"},
    {"expect", 0, OPT_STRING, FIELD(expect), .value = "CLASSES/IMAGES",
     .help = "the numbers that there have to be, instead of the published ones"},
    {"decode", 0, OPT_FLAG, FIELD(decode),
     .help = "decodes every image, not only those whose first and last bytes are odd"},
    {"duplicates", 0, OPT_FLAG, FIELD(duplicates),
     .help = "finds images that have the same bytes, also in training and validation"},
    {"repair", 0, OPT_STRING, FIELD(repair), .value = "ARCHIVE",
     .help = "of a folder: extracts from ARCHIVE what is missing, damaged or of another size, and "
             "verifies again"},
    {"md5", 0, OPT_FLAG, FIELD(md5),
     .help = "of an archive: compares its MD5 with the published ones"},
    {"prefix", 0, OPT_STRING, FIELD(prefix), .value = "FOLDER",
     .help = "of an archive with class folders, also that of --repair: the folder in it that holds "
             "them"},
    COMMAND_JOBS(jobs),
    {"json", 0, OPT_FLAG, FIELD(json), .help = "prints the whole report as one line of JSON"},
    {"quiet", 'q', OPT_FLAG, FIELD(quiet),
     .help = "no progress; the report is printed all the same"},
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage usage = {
    .command = "verify",
    .positionals = "PATH",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Checks a prepared folder or an archive against what is published.",
    .details =
        "PATH is a folder of class folders, a folder with train/ and val/, an archive, or an "
        "index. "
        "Folders and archives are compared with what is published: looked for are missing, "
        "unexpected "
        "and empty classes, wrong numbers of images, missing, misplaced and double images, strays, "
        "empty, truncated and unreadable files and files that are no images. The 23 images of "
        "ILSVRC2012 that are published as PNG or CMYK are known. Of an index the sections, the "
        "shards and the "
        "CRC of "
        "each record are checked. Nothing is changed, except by --repair, which adds and replaces "
        "images and removes none.",
    .example =
        "headrace verify imagenet\n"
        "headrace verify ILSVRC2012_img_val.tar --devkit ILSVRC2012_devkit_t12.tar.gz --md5\n"
        "headrace verify tiny/train --expect 10/500 --decode\n"
        "headrace verify imagenet/train --repair ILSVRC2012_img_train.tar\n"
        "headrace verify imagenet.idx",
};

/* "1000/1281167" */
static struct status parse_expect(const char *text, struct verify_options *verify_options)
{
    CLEANUP(memory_free) char *classes = NULL;
    const char *slash = text ? strchr(text, '/') : NULL;
    if (!text)
        return OK;
    if (slash)
        TRY(string_format(&classes, "%.*s", (int)(slash - text), text));
    if (!slash || !number_parse_u64(classes, &verify_options->expected_classes) ||
        !number_parse_u64(slash + 1, &verify_options->expected_images))
        FAIL(STATUS_USAGE, "--expect is \"%s\", expected CLASSES/IMAGES, for instance 1000/1281167",
             text);
    verify_options->has_expected = true;
    return OK;
}

static struct status verify_any(const struct verify_options *verify_options,
                                const struct access_options *access_options,
                                struct verify_report **ret_report)
{
    CLEANUP(access_close) struct access *access = NULL;
    const char *path = verify_options->path;
    bool is_index = false;
    TRY(url_refuse_kind(path));
    if (url_is(path) || (path_exists(path) && !path_is_folder(path)))
        TRY(index_recognise(path, &is_index));
    if (!is_index)
        return verify(verify_options, ret_report);
    TRY(access_open(access_options, &access));
    return verify_index(verify_options, access, ret_report);
}

/* Repairs, and replaces the report by one of what is there now. */
static struct status repair_and_verify(const struct verify_options *verify_options,
                                       const struct verify_arguments *arguments,
                                       struct verify_report **report)
{
    struct verify_options repair_options = *verify_options;
    const char *archive = arguments->repair;
    struct repair_result result;
    char bytes[16];
    repair_options.prefix = arguments->prefix;
    TRY(repair(*report, &repair_options, archive, &result));
    if (result.images)
        log_note("%" PRIu64 " images (%s) were extracted from %s", result.images,
                 format_bytes(result.bytes, bytes), archive);
    else
        log_note("nothing in %s had to be extracted", archive);
    verify_report_free(MOVE(*report));
    return verify(verify_options, report);
}

static struct status print_report(const struct verify_report *report, bool as_json)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    if (as_json) {
        CLEANUP(json_free) struct json *json = verify_report_json(report);
        return command_print_json(json);
    }
    TRY(verify_report_text(report, &text));
    return command_print_text(&text);
}

struct status cmd_verify(int argc, char **argv)
{
    struct verify_arguments arguments = {0};
    struct option_parse parse;
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    CLEANUP(verify_report_free) struct verify_report *report = NULL;
    access_options_init(&arguments.access);
    TRY(command_parse(&usage, options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    progress_set_quiet(arguments.quiet);
    struct verify_options verify_options = {.path = parse.positionals[0],
                                            .prefix = arguments.repair ? NULL : arguments.prefix,
                                            .is_subset = arguments.subset,
                                            .decode = arguments.decode,
                                            .duplicates = arguments.duplicates,
                                            .md5 = arguments.md5,
                                            .threads = command_threads(arguments.jobs)};
    TRY(parse_expect(arguments.expect, &verify_options));
    if (arguments.devkit)
        TRY(devkit_open(arguments.devkit, &devkit));
    verify_options.devkit = devkit;
    if (arguments.repair && !path_is_folder(verify_options.path))
        FAIL(STATUS_USAGE, "--repair is for folders of class folders; %s is not a folder",
             verify_options.path);
    TRY(verify_any(&verify_options, &arguments.access, &report));
    if (arguments.repair)
        TRY(repair_and_verify(&verify_options, &arguments, &report));
    TRY(print_report(report, arguments.json));
    return verify_report_status(report);
}
