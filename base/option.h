#ifndef HEADRACE_BASE_OPTION_H
#define HEADRACE_BASE_OPTION_H

/* Options as data: one table gives parsing, ranges, --help, the printed configuration and what a
 * checkpoint stores.
 *
 *     #define FIELD(name) offsetof(struct pack_arguments, name)
 *     static const struct option pack_options[] = {
 *         {"encoding", 0, OPT_ENUM, FIELD(encoding), .names = encoding_names,
 *          .help = "how records are stored (default %d)"},
 *         {"workers", 'j', OPT_INT, FIELD(workers), .min = 1, .max = 1024, .help = "threads"},
 *         {0},
 *     };
 *
 * Accepted forms: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, --flag, --no-flag (flags whose
 * default is on); `_` may stand for `-` in names; options and positional arguments mix; "--" ends
 * options. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/status.h"

enum option_type {
    OPT_END = 0,
    OPT_FLAG,   /* bool */
    OPT_INT,    /* int64_t, in [min, max] */
    OPT_SIZE,   /* uint64_t bytes; suffixes k, M, G, T (1000) and Ki, Mi, Gi, Ti (1024) */
    OPT_REAL,   /* double, in [min, max] */
    OPT_STRING, /* const char *, borrowed from argv or the recipe's text */
    OPT_ENUM,   /* int, index into names */
    OPT_LIST,   /* struct option_list: comma-separated or repeated strings */
};

struct option_list {
    const char **values; /* heap; the strings are borrowed */
    size_t count;
};

struct option {
    const char *name; /* without dashes */
    char letter;      /* 0: none */
    enum option_type type;
    size_t offset;            /* into the arguments struct */
    double min, max;          /* numbers only; both 0: any */
    const char *const *names; /* OPT_ENUM, ends in NULL */
    const char *alias;        /* a second long name (--wd for --weight-decay), or NULL */
    const char *value;        /* the placeholder in --help: "FILE", "N" */
    const char *help;         /* one line; "%d" is replaced by the default value */
    bool required;
    bool hidden;     /* parsed, but not in --help */
    bool not_stored; /* does not belong to the configuration that a checkpoint stores */
};

/* One command line as a whole. */
struct option_usage {
    const char *command;     /* "pack" */
    const char *positionals; /* "SRC", "CHECKPOINT INDEX", "[DIR]" */
    size_t min_positionals, max_positionals;
    const char *summary; /* one sentence */
    const char *details; /* paragraphs, or NULL */
    const char *output;  /* where results go, for who types -o to a command without; NULL: stdout */
    const char *example; /* one or more lines that work as they stand */
};

/* As many as a set of shards may have on one command line. */
enum { OPTION_MAX_POSITIONALS = 1024 };

/* Which options were given, by index in the table (for "refused together with" and for recipes,
 * whose values the command line overrides). */
struct option_parse {
    uint64_t given[4]; /* a bit per table row */
    const char *positionals[OPTION_MAX_POSITIONALS];
    size_t positional_count;
    bool help; /* --help was asked for: print option_help and leave with 0 */
};

/* Parses argv[1 …]. `arguments` holds the defaults already. Failures have STATUS_USAGE, name the
 * option, say what is accepted and suggest the nearest name for an unknown one. */
struct status option_parse_arguments(const struct option_usage *usage, const struct option *table,
                                     int argc, char **argv, void *arguments,
                                     struct option_parse *ret_parse);

/* Sets options from text with one or more "--name value" per line and `#` comments (a recipe).
 * Options that `parse` says were given are left alone. `text` is borrowed for as long as the
 * arguments live; `name` is for messages. Words are cut at spaces; '…' and "…" hold them together.
 * What the text sets counts as given afterwards. */
struct status option_parse_text(const struct option *table, char *text, const char *name,
                                void *arguments, struct option_parse *parse);

bool option_given(const struct option_parse *parse, const struct option *table, const char *name);

/* The text of --help: usage line, summary, options with defaults, details, example, exit status. */
struct status option_help(const struct option_usage *usage, const struct option *table,
                          const void *defaults, struct buffer *text);

/* The arguments as a JSON object, in the table's order, without `not_stored` ones. */
struct status option_store(const struct option *table, const void *arguments, struct json *object);
/* Sets from such an object every option of the table that it has, unless given in `parse`. Strings
 * are borrowed from the object, which has to outlive the arguments. Fails with STATUS_CORRUPT for a
 * value that the table does not accept. */
struct status option_restore(const struct option *table, const struct json *object, void *arguments,
                             const struct option_parse *parse);

void option_list_done(struct option_list *list);

#endif
