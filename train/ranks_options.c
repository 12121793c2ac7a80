#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/option_value.h"
#include "train/options.h"
#include "train/ranks.h"

/* Paths and numbers of threads may differ from machine to machine. */
static const char *const of_a_machine[] = {"data",    "train",  "val", "threads",
                                           "workers", "memory", NULL};
/* What no checkpoint stores, and all ranks do alike. */
static const char *const of_a_start[] = {"rank-timeout", "resume",      "weights",
                                         "force-dtype",  "start-epoch", "steps",
                                         "evaluate",     "plan",        NULL};

static bool is_among(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

/* "--lr is 0.1"; of a checkpoint, which rank 0 alone reads, only whether one is named. */
static struct status option_append(const struct option *row, const struct train_options *options,
                                   struct buffer *text)
{
    TRY(buffer_append_text(text, "--%s is ", row->name));
    if (row->type != OPT_STRING || !row->not_stored)
        return option_value_print(row, options, text);
    const char *value;
    memcpy(&value, (const char *)options + row->offset, sizeof value);
    return buffer_append_text(text, "%s", value ? "given" : "not given");
}

/* A line for each option that all ranks have in common. */
static struct status options_append(const struct train_options *options, struct buffer *text)
{
    for (const struct option *row = train_option_table; row->type != OPT_END; row++) {
        if (row->not_stored ? !is_among(row->name, of_a_start) : is_among(row->name, of_a_machine))
            continue;
        TRY(option_append(row, options, text));
        TRY(buffer_append_text(text, "\n"));
    }
    return OK;
}

/* The first line of two texts that differs: "--lr is 0.5, expected 0.1"; "" where none does. What
 * does not fit is cut. */
static void difference_find(const char *own, const char *expected, char *ret_text, size_t bytes)
{
    ret_text[0] = '\0';
    while (*own && *expected) {
        size_t length = strcspn(own, "\n"), wanted = strcspn(expected, "\n");
        if (length != wanted || memcmp(own, expected, length) != 0) {
            static const char between[] = " is ";
            const char *value = strstr(expected, between) + sizeof between - 1;
            snprintf(ret_text, bytes, "%.*s, expected %.*s", (int)length, own,
                     (int)(wanted - (size_t)(value - expected)), value);
            return;
        }
        own += length + 1;
        expected += wanted + 1;
    }
}

struct status ranks_agree_options(struct comm *comm, const struct train_options *options)
{
    enum { DIFFERENCE_BYTES = 256 };
    CLEANUP(memory_free) char(*all)[DIFFERENCE_BYTES] = NULL;
    CLEANUP(buffer_done) struct buffer buffer = {0};
    CLEANUP(memory_free) char *expected = NULL;
    char difference[DIFFERENCE_BYTES] = {0};
    const char *own;
    if (comm_size(comm) == 1)
        return OK;
    TRY(options_append(options, &buffer));
    TRY(buffer_text(&buffer, &own));
    if (comm_rank(comm) == 0)
        TRY(string_copy(own, &expected));
    TRY(ranks_share_text(comm, &expected));
    difference_find(own, expected, difference, sizeof difference);
    TRY(memory_alloc(comm_size(comm), sizeof *all, &all));
    TRY(comm_gather(comm, difference, sizeof difference, all));
    for (unsigned rank = 1; rank < comm_size(comm); rank++)
        if (all[rank][0])
            FAIL(STATUS_USAGE,
                 "the command line of rank %u is not that of rank 0: %s; start all ranks with the "
                 "same options",
                 rank, all[rank]);
    return OK;
}
