/* headrace ls: the records of an index, one a line. */

#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/shell.h"
#include "base/stop.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "index/summary.h"

struct ls_arguments {
    const char *classes;
    int64_t first, from;
    bool json;
    struct access_options access;
};

#define FIELD(name) offsetof(struct ls_arguments, name)
static const struct option ls_options[] = {
    {"classes", 0, OPT_STRING, FIELD(classes), .value = "FILE|WNID,…",
     .help = "only these classes, from a file or separated by commas"},
    {"from", 0, OPT_INT, FIELD(from), .max = 1e15, .value = "I", .help = "begin at record I"},
    {"first", 'n', OPT_INT, FIELD(first), .max = 1e15, .value = "N",
     .help = "at most N records; 0: all"},
    {"json", 0, OPT_FLAG, FIELD(json), .help = "print one JSON object for each record"},
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage ls_usage = {
    .command = "ls",
    .positionals = "INDEX",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Lists the records of an index.",
    .details =
        "The columns are: record, label, class and name, bytes, width x height (- where not "
        "known), shard and offset, separated by tabs. Control characters in names are written "
        "out (\\x0a); --json has names as they are, encodings, CRCs, and whether an image was "
        "packed "
        "with --lossy.",
    .example = "headrace ls val.idx --classes n01440764 -n 10",
};

static struct status record_print_json(const struct index *index, uint64_t i,
                                       const struct record *record, const char *name)
{
    CLEANUP(json_free) struct json *object = json_object_new();
    char crc[16];
    json_set_integer(object, "version", 1);
    json_set_integer(object, "record", (int64_t)i);
    json_set_integer(object, "label", record->label);
    json_set_string(object, "class", class_table_at(index_classes(index), record->label)->wnid);
    json_set_string(object, "name", name);
    json_set_integer(object, "bytes", record->length);
    json_set_integer(object, "width", record->width);
    json_set_integer(object, "height", record->height);
    json_set_string(object, "encoding", record_encoding_name(record->encoding));
    json_set_boolean(object, "lossy", record->is_lossy);
    snprintf(crc, sizeof crc, "%08" PRIx32, record->crc32c);
    json_set_string(object, "crc32c", record->crc_known ? crc : NULL);
    json_set_string(object, "shard", index_shard(index, record->shard)->path);
    json_set_integer(object, "offset", (int64_t)record->offset);
    return command_print_json(object);
}

static struct status record_print(const struct index *index, uint64_t i,
                                  const struct record *record, const char *name)
{
    CLEANUP(buffer_done) struct buffer line = {0};
    char size[16] = "-";
    if (record->width)
        snprintf(size, sizeof size, "%u x %u", record->width, record->height);
    TRY(buffer_append_text(&line, "%" PRIu64 "\t%" PRIu32 "\t", i, record->label));
    TRY(shell_append_printable(&line, class_table_at(index_classes(index), record->label)->wnid,
                               ""));
    TRY(buffer_append_u8(&line, '/'));
    TRY(shell_append_printable(&line, name, ""));
    TRY(buffer_append_text(&line, "\t%" PRIu32 "\t%s\t", record->length, size));
    TRY(shell_append_printable(&line, index_shard(index, record->shard)->path, ""));
    TRY(buffer_append_text(&line, "\t%" PRIu64 "\n", record->offset));
    fwrite(line.data, 1, line.length, stdout);
    return OK;
}

static struct status records_list(const struct index *index, const struct ls_arguments *arguments,
                                  const bool *wanted)
{
    uint64_t count = index_count(index);
    if (arguments->from > 0 && (uint64_t)arguments->from >= count)
        FAIL(STATUS_USAGE, "--from %" PRId64 " is beyond the last of the %" PRIu64 " records",
             (int64_t)arguments->from, count);
    uint64_t left = arguments->first ? (uint64_t)arguments->first : UINT64_MAX;
    for (uint64_t i = (uint64_t)arguments->from; i < count && left > 0; i++) {
        struct record record;
        const char *name;
        TRY(stop_check());
        TRY(index_record(index, i, &record));
        if (!wanted[record.label])
            continue;
        TRY(index_name(index, i, &name));
        if (arguments->json)
            TRY(record_print_json(index, i, &record, name));
        else
            TRY(record_print(index, i, &record, name));
        left--;
    }
    return OK;
}

struct status cmd_ls(int argc, char **argv)
{
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(memory_free) bool *wanted = NULL;
    struct option_parse parse;
    struct ls_arguments arguments = {0};
    access_options_init(&arguments.access);
    TRY(command_parse(&ls_usage, ls_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    TRY(access_open(&arguments.access, &access));
    TRY(command_open_index("ls INDEX", parse.positionals[0], access, &index));
    TRY(command_classes(index_classes(index), arguments.classes, &wanted));
    return records_list(index, &arguments, wanted);
}
