/* The program: finds the command, runs it, prints its failure and turns it into the exit status. */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/status.h"
#include "base/stop.h"
#include "cmd/command.h"

struct command {
    const char *name;
    const char *summary;
    command_fn *run;
};

/* In the order in which a person meets them. */
static const struct command commands[] = {
    {"prep", "makes verified class folders from the archives", cmd_prep},
    {"extract", "unpacks an archive into class folders", cmd_extract},
    {"organize", "sorts flat validation images into class folders", cmd_organize},
    {"verify", "checks a folder or an archive against what is published", cmd_verify},
    {"pack", "makes an index and shards from archives, folders or an index", cmd_pack},
    {"info", "describes an index", cmd_info},
    {"ls", "lists the records of an index", cmd_ls},
    {"select", "makes an index of a subset, a split or a union", cmd_select},
    {"unpack", "writes the original files back", cmd_unpack},
    {"show", "draws a contact sheet", cmd_show},
    {"fetch", "fills a node's cache with an index's records", cmd_fetch},
    {"bench", "measures how fast the loader makes batches", cmd_bench},
    {"train", "trains a ResNet", cmd_train},
    {"eval", "measures the accuracy of a trained network", cmd_eval},
    {"replay", "shows the very images that a step trained on", cmd_replay},
    {"report", "draws a run as one HTML page", cmd_report},
    {"help", "shows this, or the help of a command", cmd_help},
};

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LENGTH(commands); i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static struct status command_unknown(const char *name)
{
    struct nearest nearest = nearest_begin(name);
    for (size_t i = 0; i < ARRAY_LENGTH(commands); i++)
        nearest_offer(&nearest, commands[i].name);
    const char *suggestion = nearest_found(&nearest);
    if (suggestion)
        FAIL(STATUS_USAGE, "there is no command \"%s\"; did you mean \"headrace %s\"?", name,
             suggestion);
    FAIL(STATUS_USAGE, "there is no command \"%s\"; \"headrace --help\" lists them", name);
}

static void help_print(FILE *out)
{
    fputs("From the ILSVRC2012 tarballs to a trained ResNet.\n\n"
          "Usage: headrace COMMAND [OPTION]... [ARGUMENT]...\n\nCommands:\n",
          out);
    for (size_t i = 0; i < ARRAY_LENGTH(commands); i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n\"headrace COMMAND --help\" shows a command's options and an example; \"headrace "
          "--version\" the version.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 3 a check found something, 75 stopped on "
          "request and resumable.\n",
          out);
}

struct status cmd_help(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-') {
        help_print(stdout);
        return OK;
    }
    const struct command *command = command_find(argv[1]);
    if (!command)
        return command_unknown(argv[1]);
    if (command->run == cmd_help)
        return cmd_help(1, argv);
    char help[] = "--help";
    char *arguments[] = {argv[1], help, NULL};
    return command->run(2, arguments);
}

static struct status run(int argc, char **argv)
{
    if (argc < 2) {
        help_print(stderr);
        FAIL(STATUS_USAGE, "a command is missing");
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("headrace " HEADRACE_VERSION);
        return OK;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return cmd_help(1, argv);
    const struct command *command = command_find(argv[1]);
    if (!command)
        return command_unknown(argv[1]);
    return command->run(argc - 1, argv + 1);
}

/* What a command printed has to have arrived: a full disk behind stdout is a failure. */
static struct status output_finish(struct status status)
{
    if (status.code == STATUS_DONE && (fflush(stdout) != 0 || ferror(stdout)))
        FAIL(STATUS_IO, "the results could not be written to stdout");
    return status;
}

/* A caller may have closed stdin, stdout or stderr. The next file opened would take the number, and
 * what is printed would end up in it. Printing fails instead. */
static void standard_streams_occupy(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd < STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

/* Readers keep all shards open, which may be more than the usual soft limit allows. */
static void file_limit_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit); /* where it may not, few files may do */
}

int main(int argc, char **argv)
{
    standard_streams_occupy();
    file_limit_raise();
    stop_install();
    struct status status = output_finish(run(argc, argv));
    if (status.code != STATUS_DONE && *status_message(&status))
        log_error("%s", status_message(&status));
    int exit_status = status_exit_code(status.code);
    status_clear(&status);
    return exit_status;
}
