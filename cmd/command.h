#ifndef HEADRACE_CMD_COMMAND_H
#define HEADRACE_CMD_COMMAND_H

/* The commands of the program. A command is one file cmd/NAME.c with one function cmd_NAME and one
 * row in the table of main.c. It reads its options, calls the library, and prints results to
 * stdout; its failure is printed by main, which turns the status into the exit status. */

#include <stdint.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/option.h"
#include "base/status.h"
#include "base/text_list.h"
#include "image/class_table.h"

/* argv[0] is the command's name. */
typedef struct status command_fn(int argc, char **argv);

command_fn cmd_bench;
command_fn cmd_eval;
command_fn cmd_extract;
command_fn cmd_fetch;
command_fn cmd_help;
command_fn cmd_info;
command_fn cmd_ls;
command_fn cmd_organize;
command_fn cmd_pack;
command_fn cmd_prep;
command_fn cmd_select;
command_fn cmd_show;
command_fn cmd_replay;
command_fn cmd_report;
command_fn cmd_train;
command_fn cmd_unpack;
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

/* A list on the command line: the name of a file with one entry a line, else entries separated by
 * commas. */
struct status command_list(const char *value, struct text_list *ret_lines);
/* Which classes of a table such a list names: a flag for each class, on the heap. NULL names all. A
 * key that is not there fails with STATUS_NOT_FOUND. */
struct status command_classes(const struct class_table *classes, const char *value,
                              bool **ret_wanted);

/* Prints text to stdout, control characters but line ends and tabs written out. */
struct status command_print_text(struct buffer *text);
/* Prints a value on one line. */
struct status command_print_json(const struct json *value);

#endif
