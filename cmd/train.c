#include "cmd/command.h"

#include <stdio.h>

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
        "names), a .state beside each that --resume goes on from, and log.jsonl. SIGINT, SIGTERM "
        "and SIGUSR1 finish the step, save, and end with status 75.",
    .example = "headrace train --data datasets/imagenet --arch resnet101 --epochs 120 --batch-size "
               "256\n"
               "headrace train --synthetic --synthetic-images 32 -b 8 -a resnet18 --image-size 32 "
               "--epochs 1",
};

struct status cmd_train(int argc, char **argv)
{
    struct train_options options;
    struct option_parse parse = {0};
    CLEANUP(buffer_done) struct buffer recipe = {0};
    struct checkpoint *checkpoint = NULL;
    CLEANUP(trainer_close) struct trainer *trainer = NULL;
    struct metric_sums sums;
    train_options_init(&options);
    TRY(command_parse(&usage, train_option_table, argc, argv, &options, &parse));
    if (parse.help)
        return OK;
    TRY(setup_make(&options, &parse, &recipe, &checkpoint));
    TRY(trainer_open(&options, checkpoint, stdout, &trainer));
    return options.evaluate ? trainer_evaluate(trainer, &sums) : trainer_run(trainer);
}
