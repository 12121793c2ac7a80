#include "tests/support/train_run.h"

#include <string.h>

#include "base/memory.h"
#include "train/ranks.h"
#include "train/setup.h"
#include "train/trainer.h"

static struct status run(struct comm *comm, const char *arguments, FILE *lines,
                         void (*prepare)(struct trainer *), struct metric_sums *ret_sums)
{
    char text[2048], *argv[64] = {text};
    int argc = 0;
    snprintf(text, sizeof text, "train %s", arguments);
    for (char *p = text; p && argc < 63;) {
        argv[argc++] = p;
        p = strchr(p, ' ');
        if (p)
            *p++ = '\0';
    }
    const struct option_usage usage = {.command = "train", .max_positionals = 1};
    struct train_options options;
    CLEANUP(memory_free) struct option_parse *parse = NULL;
    CLEANUP(buffer_done) struct buffer recipe = {0};
    struct checkpoint *checkpoint = NULL;
    CLEANUP(trainer_close) struct trainer *trainer = NULL;
    train_options_init(&options);
    TRY(memory_alloc(1, sizeof *parse, &parse));
    TRY(option_parse_arguments(&usage, train_option_table, argc, argv, &options, parse));
    TRY(setup_make(comm, &options, parse, &recipe, &checkpoint));
    TRY(trainer_open(&options, comm, checkpoint, lines, &trainer));
    if (prepare)
        prepare(trainer);
    return options.evaluate ? trainer_evaluate(trainer, ret_sums) : trainer_run(trainer);
}

static struct status run_alone(const char *arguments, FILE *lines,
                               void (*prepare)(struct trainer *), struct metric_sums *ret_sums)
{
    CLEANUP(comm_close) struct comm *comm = NULL;
    const struct comm_options options = {.launcher = LAUNCHER_ALONE};
    TRY(comm_open(&options, &comm));
    return run(comm, arguments, lines, prepare, ret_sums);
}

struct status train_run_sums(const char *arguments, FILE *lines, struct metric_sums *ret_sums)
{
    return run_alone(arguments, lines, NULL, ret_sums);
}

struct status train_run_prepared(const char *arguments, void (*prepare)(struct trainer *))
{
    return run_alone(arguments, NULL, prepare, NULL);
}

struct status train_run(const char *arguments)
{
    return run_alone(arguments, NULL, NULL, NULL);
}

struct status train_run_with(struct comm *comm, const char *arguments,
                             void (*prepare)(struct trainer *), struct metric_sums *ret_sums)
{
    TRY(ranks_settle(comm));
    return run(comm, arguments, NULL, prepare, ret_sums);
}
