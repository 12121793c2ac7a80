#ifndef HEADRACE_CMD_COMMAND_H
#define HEADRACE_CMD_COMMAND_H

/* The commands of the program. A command is one file cmd/NAME.c with one function cmd_NAME and one
 * row in the table of main.c. It reads its options, calls the library, and prints results to
 * stdout; its failure is printed by main, which turns the status into the exit status. */

#include <stdint.h>

#include "base/json.h"
#include "base/option.h"
#include "base/status.h"

/* argv[0] is the command's name. */
typedef struct status command_fn(int argc, char **argv);

command_fn cmd_bench;
command_fn cmd_help;
command_fn cmd_pack;
command_fn cmd_prep;
command_fn cmd_extract;
command_fn cmd_organize;
command_fn cmd_eval;
command_fn cmd_train;
command_fn cmd_verify;

/* Parses a command line over the defaults that `arguments` holds. Where --help was asked for, it is
 * printed, ret_parse->help is set and the command has nothing left to do. */
struct status command_parse(const struct option_usage *usage, const struct option *table, int argc,
                            char **argv, void *arguments, struct option_parse *ret_parse);

/* The option -j, for tables of options; 0, its default, stands for all cores. */
#define COMMAND_JOBS(field)                                                                        \
    {                                                                                              \
        "jobs", 'j', OPT_INT, FIELD(field),                                                        \
            .max = 1024, .alias = "workers", .value = "N",                                         \
            .help = "threads; 0: as many as there are cores to use (default %d)"                   \
    }
unsigned command_threads(int64_t jobs);

/* Prints a value on one line. */
struct status command_print_json(const struct json *value);

#endif
