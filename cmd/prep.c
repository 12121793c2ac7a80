#include <stdio.h>

#include "base/bytes.h"
#include "base/progress.h"
#include "cmd/command.h"
#include "cmd/extract_summary.h"
#include "cmd/open_index.h"
#include "prep/prep.h"

struct prep_arguments {
    int64_t jobs;
    bool subset, decode, delete_source, quiet;
};
#define FIELD(name) offsetof(struct prep_arguments, name)

static const struct option options[] = {
    {"subset", 0, OPT_FLAG, FIELD(subset),
     .help = "fewer classes and images than published are fine"},
    {"decode", 0, OPT_FLAG, FIELD(decode), .help = "verifies by decoding every image"},
    {"delete-source", 0, OPT_FLAG, FIELD(delete_source),
     .help = "removes the two archives at the end, once nothing was found and every extracted byte "
             "was compared with them"},
    COMMAND_JOBS(jobs),
    {"quiet", 'q', OPT_FLAG, FIELD(quiet), .help = "no progress, no summary"},
    {0},
};

static const struct option_usage usage = {
    .command = "prep",
    .positionals = "SRC DEST",
    .min_positionals = 2,
    .max_positionals = 2,
    .summary = "Makes verified class folders, DEST/train and DEST/val, from the archives in SRC.",
    .details =
        "SRC holds ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and "
        "ILSVRC2012_devkit_t12.tar.gz, or the same under other names, or Kaggle's "
        "imagenet-object-localization-challenge.zip. The archives stay as they "
        "are unless --delete-source is given. The command can be stopped at any moment and run "
        "again: it does only what is "
        "unfinished. What the verification finds is listed, and the exit status is 3 then.",
    .example = "headrace prep downloads imagenet\n"
               "headrace prep tiny-downloads tiny --subset",
};

static struct status print_result(const struct prep_result *result)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    if (result->train_archive)
        extract_summary_print(&result->train, result->report->sets[0].path);
    if (result->val_archive)
        extract_summary_print(&result->val, result->report->sets[1].path);
    TRY(verify_report_text(result->report, &text));
    return command_print_text(&text);
}

struct status cmd_prep(int argc, char **argv)
{
    struct prep_arguments arguments = {0};
    struct option_parse parse;
    CLEANUP(prep_result_done) struct prep_result result = {0};
    TRY(command_parse(&usage, options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    progress_set_quiet(arguments.quiet);
    const struct prep_options prep_options = {.src = parse.positionals[0],
                                              .dest = parse.positionals[1],
                                              .is_subset = arguments.subset,
                                              .decode = arguments.decode,
                                              .delete_source = arguments.delete_source,
                                              .threads = command_threads(arguments.jobs)};
    TRY(command_check_output(prep_options.dest));
    TRY(prep(&prep_options, &result));
    if (!arguments.quiet)
        TRY(print_result(&result));
    if (arguments.delete_source)
        TRY(prep_delete_sources(&prep_options, &result));
    return verify_report_status(result.report);
}
