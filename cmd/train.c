#include "cmd/command.h"

#include <stdio.h>

#include "base/stop.h"
#include "cmd/open_index.h"
#include "train/comm.h"
#include "train/forecast.h"
#include "train/ranks.h"
#include "train/setup.h"
#include "train/trainer.h"

static const struct option_usage usage = {
    .command = "train",
    .positionals = "[DIR]",
    .max_positionals = 1,
    .summary = "Trains a ResNet, from an index or from class folders.",
    .details =
        "DIR (or --data) holds train.idx and val.idx, or class folders train/ and val/. RUN_DIR "
        "gets checkpoint.safetensors and model_best.safetensors (weights under torchvision's "
        "names), a .state beside each that --resume goes on from, with --ema the average in "
        "ema.safetensors, and log.jsonl. SIGINT, SIGTERM and SIGUSR1 finish the step, or leave it "
        "where its images do not come, save, and end with status 75; when nobody reads the lines "
        "of "
        "the run any more (train | head), it goes on without them.\n\n"
        "Several processes train together when a launcher starts them: mpirun, srun, or torchrun "
        "--no-python. --batch-size is divided among them, each batch is the same as in one "
        "process, and rank 0 prints and saves. Each normalises over its own part of a batch "
        "unless --sync-bn is given. One that is lost ends the others, which name it; --resume "
        "auto goes on, with any number of processes.",
    .example = "headrace train --data datasets/imagenet --arch resnet101 --epochs 120 --batch-size "
               "256\n"
               "mpirun -np 4 headrace train --data datasets/imagenet --batch-size 256\n"
               "torchrun --no-python --nproc-per-node 4 headrace train --data datasets/imagenet\n"
               "headrace train -a resnet50 -b 256 --plan --plan-device h100\n"
               "headrace train --synthetic --synthetic-images 32 -b 8 -a resnet18 --image-size 32 "
               "--epochs 1",
};

/* What a run would take, in place of the run; of several processes rank 0 says it. */
static struct status plan_print(const struct train_options *options, struct comm *comm,
                                const struct checkpoint *checkpoint)
{
    CLEANUP(forecast_free) struct forecast *forecast = NULL;
    CLEANUP(buffer_done) struct buffer text = {0};
    if (comm_rank(comm) > 0)
        return OK;
    TRY(forecast_make(options, comm, checkpoint, &forecast));
    if (options->json) {
        CLEANUP(json_free) struct json *value = forecast_json(forecast);
        return command_print_json(value);
    }
    TRY(forecast_append(forecast, &text));
    return command_print_text(&text);
}

static struct status train(struct comm *comm, struct train_options *options,
                           struct option_parse *parse)
{
    CLEANUP(buffer_done) struct buffer recipe = {0};
    struct checkpoint *checkpoint = NULL;
    CLEANUP(trainer_close) struct trainer *trainer = NULL;
    struct metric_sums sums;
    TRY(ranks_settle(comm));
    TRY(setup_make(comm, options, parse, &recipe, &checkpoint));
    if (options->plan) {
        CLEANUP(checkpoint_free) struct checkpoint *resumed = checkpoint;
        return plan_print(options, comm, resumed);
    }
    if (!options->evaluate)
        stop_outlive_readers();
    TRY(trainer_open(options, comm, checkpoint, stdout, &trainer));
    return options->evaluate ? trainer_evaluate(trainer, &sums) : trainer_run(trainer);
}

struct status cmd_train(int argc, char **argv)
{
    struct train_options options;
    struct option_parse parse = {0};
    CLEANUP(comm_close) struct comm *comm = NULL;
    train_options_init(&options);
    TRY(cache_options_init(&options.cache));
    TRY(command_parse(&usage, train_option_table, argc, argv, &options, &parse));
    if (parse.help)
        return OK;
    TRY(command_check_output(options.out));
    const struct comm_options joining = {
        .launcher = (enum launcher)options.launcher,
        .silence_timeout_s = (unsigned)options.rank_timeout,
    };
    TRY(comm_open(&joining, &comm));
    struct status status = train(comm, &options, &parse);
    if (status.code != STATUS_DONE && status.code != STATUS_STOPPED)
        comm_abort(comm, status.code, status_message(&status));
    return status;
}
