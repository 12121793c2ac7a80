#ifndef HEADRACE_CMD_COMMAND_H
#define HEADRACE_CMD_COMMAND_H

/* The commands of the program. A command is one file cmd/NAME.c with one function cmd_NAME and one
 * row in the table of main.c. It reads its options, calls the library, and prints results to
 * stdout; its failure is printed by main, which turns the status into the exit status. */

#include "base/status.h"

/* argv[0] is the command's name. */
typedef struct status command_fn(int argc, char **argv);

command_fn cmd_help;

#endif
