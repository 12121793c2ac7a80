#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/path.h"
#include "base/progress.h"
#include "base/shell.h"
#include "cmd/command.h"
#include "cmd/extract_summary.h"
#include "cmd/open_index.h"
#include "prep/extract.h"
#include "prep/zip.h"

struct extract_arguments {
    const char *devkit;
    int64_t jobs;
    bool delete_source, subset, quiet;
};
#define FIELD(name) offsetof(struct extract_arguments, name)

static const struct option options[] = {
    {"devkit", 0, OPT_STRING, FIELD(devkit), .value = "PATH",
     .help = "the devkit (archive or folder): puts validation images into class folders"},
    {"delete-source", 0, OPT_FLAG, FIELD(delete_source),
     .help =
         "removes ARCHIVE at the end, once its counts are as published and every extracted byte "
         "was compared with it"},
    {"subset", 0, OPT_FLAG, FIELD(subset),
     .help = "with --delete-source: fewer classes and images than published are fine"},
    COMMAND_JOBS(jobs),
    {"quiet", 'q', OPT_FLAG, FIELD(quiet), .help = "no progress, no summary"},
    {0},
};

static const struct option_usage usage = {
    .command = "extract",
    .positionals = "ARCHIVE DEST",
    .min_positionals = 2,
    .max_positionals = 2,
    .summary = "Unpacks one ILSVRC2012 archive: training, validation or test images.",
    .details =
        "Training images go into class folders (DEST/n01440764/…), the inner archives in parallel. "
        "Validation images go into class folders when --devkit says which they belong to, else "
        "flat "
        "into DEST; test images are always flat. Of Kaggle's zip file "
        "(imagenet-object-localization-challenge.zip) both parts are extracted, DEST/train and "
        "DEST/val, the latter sorted by the file's own LOC_val_solution.csv.\n\n"
        "A class folder appears when it is complete. The command can be stopped at any moment and "
        "run "
        "again: it does only what is unfinished, and nothing when all is there. ARCHIVE stays as "
        "it "
        "is unless --delete-source is given.",
    .example = "headrace extract ILSVRC2012_img_train.tar imagenet/train\n"
               "headrace extract ILSVRC2012_img_val.tar imagenet/val "
               "--devkit ILSVRC2012_devkit_t12.tar.gz",
};

static void print_notes(const struct extract_result *result, const char *dest)
{
    if (result->ignored)
        log_note("%" PRIu64 " members of the archive are no images and were left out",
                 result->ignored);
    if (result->extra)
        log_note("%" PRIu64
                 " files in class folders of %s are not in the archive; they were left as "
                 "they are",
                 result->extra, dest);
    if (result->other_counts)
        log_note("%" PRIu64 " of %" PRIu64 " classes have another number of images than published "
                 "(%s): as expected of a subset only",
                 result->other_counts, result->classes,
                 result->other_count_example ? result->other_count_example : "");
    if (result->missing)
        log_note("%" PRIu64 " images of the ground truth are not in the archive (the first is "
                 "ILSVRC2012_val_%08" PRIu64 ".JPEG)",
                 result->missing, result->first_missing);
}

static struct status print_next_step(const struct extract_result *result, const char *dest)
{
    CLEANUP(memory_free) char *command = NULL;
    if (!result->is_flat || result->layout != LAYOUT_VAL)
        return OK;
    TRY(shell_command(&command, "headrace organize %s", dest));
    log_note("the images lie flat; to sort them into class folders: %s%s", command,
             result->names_tell_classes ? "" : " --devkit ILSVRC2012_devkit_t12.tar.gz");
    return OK;
}

/* Kaggle's zip file has both parts, and the validation images' classes. */
static struct status extract_zip_parts(const struct extract_options *given, bool is_quiet)
{
    static const struct {
        enum image_set set;
        const char *folder;
    } parts[] = {{IMAGE_SET_TRAIN, "train"}, {IMAGE_SET_VAL, "val"}};
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    if (!given->devkit)
        TRY(devkit_open(given->archive, &devkit));
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        CLEANUP(extract_result_done) struct extract_result result = {0};
        CLEANUP(memory_free) char *dest = NULL;
        struct extract_options part = *given;
        TRY(path_join(given->dest, parts[i].folder, &dest));
        part.dest = dest;
        part.part = parts[i].set;
        if (devkit)
            part.devkit = devkit;
        TRY(extract(&part, &result));
        if (is_quiet)
            continue;
        print_notes(&result, dest);
        extract_summary_print(&result, dest);
    }
    return OK;
}

static struct status delete_source(const struct extract_options *extract_options,
                                   const struct extract_result *result, bool is_quiet)
{
    TRY(extract_delete_source(extract_options, result));
    if (!is_quiet)
        printf("%s: removed\n", extract_options->archive);
    return OK;
}

static struct status refuse_folder(const char *archive, const char *dest)
{
    CLEANUP(memory_free) char *command = NULL;
    if (!path_is_folder(archive))
        return OK;
    TRY(shell_command(&command, "headrace prep %s %s", archive, dest));
    FAIL(STATUS_USAGE, "%s is a folder, expected one archive; for all archives in a folder: %s",
         archive, command);
}

struct status cmd_extract(int argc, char **argv)
{
    struct extract_arguments arguments = {0};
    struct option_parse parse;
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    CLEANUP(extract_result_done) struct extract_result result = {0};
    TRY(command_parse(&usage, options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    progress_set_quiet(arguments.quiet);
    TRY(command_check_output(parse.positionals[1]));
    TRY(refuse_folder(parse.positionals[0], parse.positionals[1]));
    if (arguments.devkit)
        TRY(devkit_open(arguments.devkit, &devkit));
    const struct extract_options extract_options = {.archive = parse.positionals[0],
                                                    .dest = parse.positionals[1],
                                                    .devkit = devkit,
                                                    .threads = command_threads(arguments.jobs),
                                                    .is_subset = arguments.subset};
    if (arguments.subset && !arguments.delete_source)
        FAIL(STATUS_USAGE, "--subset goes with --delete-source: extracting takes any archive");
    if (arguments.delete_source)
        TRY(extract_check_removable(extract_options.archive));
    if (zip_recognise(extract_options.archive))
        return extract_zip_parts(&extract_options, arguments.quiet);
    TRY(extract(&extract_options, &result));
    if (!arguments.quiet) {
        print_notes(&result, parse.positionals[1]);
        TRY(print_next_step(&result, parse.positionals[1]));
        extract_summary_print(&result, parse.positionals[1]);
    }
    return arguments.delete_source ? delete_source(&extract_options, &result, arguments.quiet) : OK;
}
