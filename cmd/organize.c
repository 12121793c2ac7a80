#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "cmd/command.h"
#include "prep/organize.h"

struct organize_arguments {
    const char *devkit;
    int folders;
    bool dry_run, link, quiet;
};
#define FIELD(name) offsetof(struct organize_arguments, name)

/* As enum folder_numbers. */
static const char *const folders_names[] = {"none", "labels", "ids", NULL};

static const struct option options[] = {
    {"devkit", 0, OPT_STRING, FIELD(devkit), .value = "PATH",
     .help =
         "the devkit, its archive or folder, or Kaggle's LOC_val_solution.csv; not needed where "
         "each name ends in its class (ILSVRC2012_val_00000293_n01440764.JPEG)"},
    {"folders", 0, OPT_ENUM, FIELD(folders), .names = folders_names,
     .help =
         "renames class folders that are numbers: labels (0 … 999 in the order of sorted WNIDs, "
         "as in ImageNet-V2), or ids (the devkit's ILSVRC2012_IDs, 1 … 1000) (default %d)"},
    {"dry-run", 'n', OPT_FLAG, FIELD(dry_run), .help = "prints what would be moved, moves nothing"},
    {"link", 0, OPT_FLAG, FIELD(link),
     .help = "makes hard links; the flat images stay where they are"},
    {"quiet", 'q', OPT_FLAG, FIELD(quiet), .help = "no summary"},
    {0},
};

static const struct option_usage usage = {
    .command = "organize",
    .positionals = "VAL_DIR",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Sorts flat validation images into class folders (VAL_DIR/n01440764/…).",
    .details =
        "Images are paired with the devkit's ground truth by the number in their names. Without a "
        "devkit, Hugging "
        "Face's names, which end in a WNID, say the classes, of training images too. Each is "
        "moved by one rename, so the command can be stopped and run again; on a sorted folder "
        "it does nothing.",
    .output = "images are sorted within VAL_DIR: headrace organize VAL_DIR",
    .example = "headrace organize imagenet/val --devkit ILSVRC2012_devkit_t12.tar.gz\n"
               "headrace organize ILSVRC/Data/CLS-LOC/val --devkit LOC_val_solution.csv\n"
               "headrace organize imagenetv2-matched-frequency-format-val --folders labels",
};

static struct status print_plan(const struct organize_plan *plan)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    for (size_t i = 0; i < plan->count; i++)
        TRY(buffer_append_text(&text, "%s -> %s/%s\n", plan->moves[i].name, plan->moves[i].wnid,
                               plan->moves[i].name));
    return command_print_text(&text);
}

static struct status organize_folders(const char *dir, const struct devkit *devkit,
                                      const struct organize_arguments *arguments)
{
    CLEANUP(organize_plan_done) struct organize_plan plan = {0};
    if (arguments->folders == FOLDER_NUMBERS_IDS && !arguments->devkit)
        FAIL(STATUS_USAGE, "--folders ids needs --devkit, which says what the IDs stand for");
    if (arguments->link)
        FAIL(STATUS_USAGE, "--link is for images; folders are renamed");
    TRY(organize_plan_folders(dir, devkit, (enum folder_numbers)arguments->folders, &plan));
    if (arguments->dry_run) {
        for (size_t i = 0; i < plan.count; i++)
            printf("%s -> %s\n", plan.moves[i].name, plan.moves[i].wnid);
        return OK;
    }
    TRY(organize_apply_folders(&plan));
    if (!arguments->quiet && plan.count)
        printf("%s: %zu folders named by WNID\n", dir, plan.count);
    else if (!arguments->quiet)
        printf("%s: no folder's name is a number, so there is nothing to rename\n", dir);
    return OK;
}

static void print_summary(const struct organize_plan *plan, size_t placed, bool link)
{
    if (plan->missing)
        log_note("%" PRIu64 " images of the ground truth are not in %s (the first is "
                 "ILSVRC2012_val_%08" PRIu64 ".JPEG)",
                 plan->missing, plan->val_dir, plan->first_missing);
    if (placed)
        printf("%s: %zu images %s class folders\n", plan->val_dir, placed,
               link ? "linked into" : "moved into");
    else
        printf("%s: sorted already\n", plan->val_dir);
}

struct status cmd_organize(int argc, char **argv)
{
    struct organize_arguments arguments = {0};
    struct option_parse parse;
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    CLEANUP(organize_plan_done) struct organize_plan plan = {0};
    TRY(command_parse(&usage, options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    TRY(arguments.devkit ? devkit_open(arguments.devkit, &devkit) : devkit_open_built_in(&devkit));
    if (arguments.folders != FOLDER_NUMBERS_NONE)
        return organize_folders(parse.positionals[0], devkit, &arguments);
    TRY(organize_plan_make(parse.positionals[0], devkit, &plan));
    if (arguments.dry_run)
        return print_plan(&plan);
    size_t placed;
    TRY(organize_apply(&plan, arguments.link, &placed));
    if (!arguments.quiet)
        print_summary(&plan, placed, arguments.link);
    return OK;
}
