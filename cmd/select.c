/* headrace select: subsets, splits, unions and relabellings, as small indexes over the same shards.
 */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "index/index_source.h"
#include "index/select.h"
#include "index/writer.h"

struct select_arguments {
    const char *out, *rest, *classes, *relabel, *list;
    bool keep_labels, force;
    int64_t every, per_class, seed;
    double split;
    struct access_options access;
};

#define FIELD(name) offsetof(struct select_arguments, name)
static const struct option select_options[] = {
    {"out", 'o', OPT_STRING, FIELD(out), .value = "NAME.idx", .required = true,
     .help = "the index to write"},
    {"rest", 0, OPT_STRING, FIELD(rest), .value = "NAME.idx",
     .help = "a second index, of all records that are not selected"},
    {"relabel", 0, OPT_STRING, FIELD(relabel), .value = "FILE",
     .help =
         "first give classes new keys: lines \"KEY NEWKEY [WORDS]\"; equal ones become one class"},
    {"classes", 0, OPT_STRING, FIELD(classes), .value = "FILE|WNID,…",
     .help = "these classes, from a file or separated by commas"},
    {"keep-labels", 0, OPT_FLAG, FIELD(keep_labels),
     .help = "with --classes: the others stay in the class table, without images"},
    {"list", 0, OPT_STRING, FIELD(list), .value = "FILE",
     .help = "the records in a list of lines CLASS/NAME or NAME"},
    {"every", 0, OPT_INT, FIELD(every), .min = 1, .max = 1e15, .value = "N",
     .help = "every n-th record"},
    {"per-class", 0, OPT_INT, FIELD(per_class), .min = 1, .max = 1e15, .value = "N",
     .help = "the first n of each class"},
    {"split", 0, OPT_REAL, FIELD(split), .min = 1e-9, .max = 1, .value = "SHARE",
     .help = "this share of each class, drawn at random; --rest takes the others"},
    {"seed", 0, OPT_INT, FIELD(seed), .max = 9007199254740992, .value = "N",
     .help = "of the split (default %d)"},
    {"force", 'f', OPT_FLAG, FIELD(force), .help = "replace indexes that exist"},
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage select_usage = {
    .command = "select",
    .positionals = "INDEX...",
    .min_positionals = 1,
    .max_positionals = OPTION_MAX_POSITIONALS,
    .summary = "Makes a new index of some records of one index, or of several together.",
    .details =
        "No image is copied. The selections are applied in the order of this list, each to what "
        "the "
        "ones before left. Several indexes become one, their classes united by key. Packed shards "
        "may stand in the place of indexes: so a lost index is made again. Of an index behind a "
        "URL, the new one names the shards by their URLs.",
    .example =
        "headrace select train.idx --split 0.9 --seed 1 -o fit.idx --rest tune.idx\n"
        "headrace select train.idx --classes n01440764,n01443537 --per-class 100 -o two.idx\n"
        "headrace select train-*.shard -o train.idx",
};

/* The open indexes of the command line. */
struct inputs {
    struct access *access;
    struct index **indexes;
    struct source **sources;
    size_t count;
};

static void inputs_done(struct inputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        index_close(inputs->indexes[i]);
        source_free(inputs->sources[i]);
    }
    memory_free(inputs->indexes);
    memory_free(inputs->sources);
    access_close(inputs->access);
}
CLEANUP_VALUE(inputs_done, struct inputs)

static struct status inputs_open(const struct access_options *access,
                                 const struct option_parse *parse, struct inputs *inputs)
{
    TRY(access_open(access, &inputs->access));
    TRY(memory_alloc(parse->positional_count, sizeof *inputs->indexes, &inputs->indexes));
    TRY(memory_alloc(parse->positional_count, sizeof *inputs->sources, &inputs->sources));
    inputs->count = parse->positional_count;
    for (size_t i = 0; i < inputs->count; i++) {
        TRY(command_open_index("select INDEX -o NAME.idx", parse->positionals[i], inputs->access,
                               &inputs->indexes[i]));
        TRY(index_source_open(inputs->indexes[i], &inputs->sources[i]));
    }
    return OK;
}

/* What was done to which provenances. Lists are told by their length: their names are paths. */
static struct status provenance_make(const struct select_arguments *arguments,
                                     const struct select_options *options,
                                     const struct inputs *inputs, const char *part,
                                     struct buffer *text)
{
    CLEANUP(json_free) struct json *object = json_object_new();
    struct json *from = json_array_new();
    json_set_string(object, "program", "headrace " HEADRACE_VERSION);
    json_set_string(object, "command", "select");
    json_set_string(object, "part", part);
    json_set_boolean(object, "relabel", arguments->relabel);
    if (options->classes)
        json_set_integer(object, "classes", (int64_t)options->classes->count);
    if (options->names)
        json_set_integer(object, "list", (int64_t)options->names->count);
    if (options->every)
        json_set_integer(object, "every", (int64_t)options->every);
    if (options->per_class)
        json_set_integer(object, "per_class", (int64_t)options->per_class);
    if (options->split > 0) {
        json_set_real(object, "split", options->split);
        json_set_integer(object, "seed", (int64_t)options->seed);
    }
    json_set(object, "from", from);
    for (size_t i = 0; i < inputs->count; i++) {
        const char *provenance = index_provenance(inputs->indexes[i]);
        struct json *value;
        TRY(status_context(json_parse(provenance, strlen(provenance), "provenance", &value), "'%s'",
                           index_path(inputs->indexes[i])));
        json_append(from, value);
    }
    return json_write(object, false, text);
}

static struct status part_prepare(const struct source *part, const char *provenance,
                                  const char *path, bool force, struct file_writer **ret_writer)
{
    CLEANUP(file_writer_free) struct file_writer *writer = NULL;
    const struct index_contents contents = {
        .classes = part->classes,
        .shards = part->shards,
        .shard_count = part->shard_count,
        .items = part->items,
        .item_count = part->item_count,
        .provenance = provenance,
    };
    bool is_same;
    TRY(file_writer_open(path, &writer));
    TRY(index_prepare(&contents, path, writer));
    TRY(file_writer_matches(writer, &is_same));
    if (path_exists(path) && !is_same && !force)
        FAIL(STATUS_FAILED,
             "'%s' exists and is another index; give --force to replace it, or another name", path);
    *ret_writer = MOVE(writer);
    return OK;
}

/* Writes both indexes, then gives both their names. What a run that was killed between the names
 * left is the same, and no obstacle. */
static struct status parts_write(const struct select_arguments *arguments,
                                 const struct select_options *options, const struct inputs *inputs,
                                 const struct source *selected, const struct source *rest)
{
    CLEANUP(buffer_done) struct buffer selected_text = {0};
    CLEANUP(buffer_done) struct buffer rest_text = {0};
    CLEANUP(file_writer_free) struct file_writer *selected_file = NULL;
    CLEANUP(file_writer_free) struct file_writer *rest_file = NULL;
    const char *text;
    TRY(provenance_make(arguments, options, inputs, "selected", &selected_text));
    TRY(buffer_text(&selected_text, &text));
    TRY(part_prepare(selected, text, arguments->out, arguments->force, &selected_file));
    if (rest) {
        TRY(provenance_make(arguments, options, inputs, "rest", &rest_text));
        TRY(buffer_text(&rest_text, &text));
        TRY(part_prepare(rest, text, arguments->rest, arguments->force, &rest_file));
        TRY(file_writer_publish(rest_file));
    }
    return file_writer_publish(selected_file);
}

static struct status output_check(const char *path)
{
    size_t length = path ? strlen(path) : 0;
    if (path)
        TRY(command_check_output(path));
    if (path && (length < 5 || strcmp(path + length - 4, ".idx") != 0))
        FAIL(STATUS_USAGE, "the index '%s' needs a name that ends in .idx", path);
    return OK;
}

/* Two spellings of one file meet the writer's lock; the plain case deserves a plain sentence. */
static struct status outputs_check(const struct select_arguments *arguments)
{
    TRY(output_check(arguments->out));
    TRY(output_check(arguments->rest));
    if (arguments->rest && strcmp(arguments->out, arguments->rest) == 0)
        FAIL(STATUS_USAGE, "--out and --rest are both '%s'; they need two names", arguments->out);
    if (arguments->keep_labels && !arguments->classes)
        FAIL(STATUS_USAGE, "--keep-labels goes with --classes: all labels stay without it");
    return OK;
}

static void part_print(const char *path, const struct source *part)
{
    printf("%s: %zu images in %zu classes\n", path, part->item_count,
           class_table_count(part->classes));
}

static struct status sources_select(const struct select_arguments *arguments,
                                    struct select_options *options, const struct inputs *inputs)
{
    CLEANUP(source_free) struct source *merged = NULL;
    CLEANUP(source_free) struct source *relabelled = NULL;
    CLEANUP(source_free) struct source *selected = NULL;
    CLEANUP(source_free) struct source *rest = NULL;
    CLEANUP(text_list_done) struct text_list classes = {0};
    CLEANUP(text_list_done) struct text_list names = {0};
    CLEANUP(text_list_done) struct text_list relabel = {0};
    TRY(select_merge(inputs->sources, inputs->count, &merged));
    if (arguments->relabel) {
        TRY(text_list_read(arguments->relabel, &relabel));
        TRY(select_relabel(merged, &relabel, arguments->relabel, &relabelled));
    }
    if (arguments->classes) {
        TRY(command_list(arguments->classes, &classes));
        options->classes = &classes;
    }
    if (arguments->list) {
        TRY(text_list_read(arguments->list, &names));
        options->names = &names;
    }
    TRY(select_run(relabelled ? relabelled : merged, options, &selected,
                   arguments->rest ? &rest : NULL));
    TRY(parts_write(arguments, options, inputs, selected, rest));
    part_print(arguments->out, selected);
    if (rest)
        part_print(arguments->rest, rest);
    return OK;
}

struct status cmd_select(int argc, char **argv)
{
    CLEANUP(inputs_done) struct inputs inputs = {0};
    struct option_parse parse;
    struct select_arguments arguments = {0};
    access_options_init(&arguments.access);
    TRY(command_parse(&select_usage, select_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    TRY(outputs_check(&arguments));
    if (option_given(&parse, select_options, "seed") && !(arguments.split > 0))
        FAIL(STATUS_USAGE, "--seed goes with --split: nothing else is drawn at random");
    struct select_options options = {
        .classes_name = arguments.classes,
        .keep_classes = arguments.keep_labels,
        .names_name = arguments.list,
        .every = (uint64_t)arguments.every,
        .per_class = (uint64_t)arguments.per_class,
        .split = arguments.split,
        .seed = (uint64_t)arguments.seed,
    };
    TRY(inputs_open(&arguments.access, &parse, &inputs));
    return sources_select(&arguments, &options, &inputs);
}
