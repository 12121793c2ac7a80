/* headrace info: what an index holds. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/progress.h"
#include "base/shell.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "index/summary.h"

struct info_arguments {
    bool classes, json;
    struct access_options access;
};

#define FIELD(name) offsetof(struct info_arguments, name)
static const struct option info_options[] = {
    {"classes", 0, OPT_FLAG, FIELD(classes), .help = "list the classes too: label, key, words"},
    {"json", 0, OPT_FLAG, FIELD(json), .help = "print one JSON object"},
    ACCESS_OPTIONS(access),
    {0},
};

static const struct option_usage info_usage = {
    .command = "info",
    .positionals = "INDEX",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Describes an index: records, classes, shards, where it came from.",
    .example = "headrace info train.idx",
};

static struct status classes_print(const struct class_table *classes)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    for (size_t i = 0; i < class_table_count(classes); i++) {
        const struct class_entry *entry = class_table_at(classes, i);
        TRY(buffer_append_text(&text, "%zu\t", i));
        TRY(shell_append_printable(&text, entry->wnid, ""));
        TRY(buffer_append_u8(&text, '\t'));
        TRY(shell_append_printable(&text, entry->words, ""));
        TRY(buffer_append_u8(&text, '\n'));
    }
    return command_print_text(&text);
}

static void shards_print(const struct index *index)
{
    const size_t most = 10;
    size_t count = index_shard_count(index);
    for (size_t i = 0; i < count && i < most; i++) {
        const struct source_shard *shard = index_shard(index, i);
        char bytes[16] = "";
        if (!shard_is_folder(shard))
            format_bytes(shard->size_bytes, bytes);
        printf("shard %-7zu %s, %s %s\n", i, shard->path, shard_kind_name(shard->kind), bytes);
    }
    if (count > most)
        printf("              … and %zu more\n", count - most);
}

static void encodings_print(const struct index_summary *s)
{
    const char *separator = "encodings     ";
    for (unsigned i = 0; i < ENCODINGS; i++) {
        if (s->encodings[i] == 0)
            continue;
        printf("%s%" PRIu64 " %s", separator, s->encodings[i], record_encoding_name((uint8_t)i));
        separator = ", ";
    }
    printf("%s", s->records ? "\n" : "");
}

static void info_print(const struct index *index, const struct index_summary *s)
{
    char all[16], least[16], mean[16], most[16];
    uint64_t sized = s->records - s->size_unknown;
    printf("index         %s\n", index_path(index));
    printf("images        %" PRIu64 ", %s; %s to %s each, %s on average\n", s->records,
           format_bytes(s->record_bytes, all), format_bytes(s->least_bytes, least),
           format_bytes(s->most_bytes, most),
           format_bytes(s->records ? s->record_bytes / s->records : 0, mean));
    printf("classes       %" PRIu64 " (hash %016" PRIx64 "), %" PRIu64 " without images; %" PRIu64
           " to %" PRIu64 " images in the others\n",
           s->classes, class_table_hash(index_classes(index)), s->empty_classes, s->least_per_class,
           s->most_per_class);
    if (sized > 0)
        printf("sizes         at most %u x %u; %.2f megapixels on average\n", s->most_width,
               s->most_height, (double)s->pixels / (double)sized / 1e6);
    if (s->size_unknown > 0)
        printf("sizes         not known of %" PRIu64 " images\n", s->size_unknown);
    encodings_print(s);
    if (s->lossy > 0)
        printf("lossy         %" PRIu64 " images: shrunk or encoded anew, not the original files\n",
               s->lossy);
    printf("CRCs          known of %" PRIu64 " images\n", s->records - s->crc_unknown);
    shards_print(index);
    printf("provenance    %s\n", index_provenance(index));
}

static struct json *classes_json(const struct class_table *classes)
{
    struct json *array = json_array_new();
    for (size_t i = 0; i < class_table_count(classes); i++) {
        const struct class_entry *entry = class_table_at(classes, i);
        struct json *object = json_object_new();
        json_set_integer(object, "label", (int64_t)i);
        json_set_string(object, "key", entry->wnid);
        json_set_string(object, "words", entry->words);
        json_append(array, object);
    }
    return array;
}

static struct status info_print_json(const struct index *index, const struct index_summary *s,
                                     bool with_classes)
{
    CLEANUP(json_free) struct json *object = json_object_new();
    struct json *shards = json_array_new(), *encodings = json_object_new(), *provenance = NULL;
    char hash[20];
    json_set_integer(object, "version", 1);
    json_set_string(object, "index", index_path(index));
    json_set_integer(object, "images", (int64_t)s->records);
    json_set_integer(object, "image_bytes", (int64_t)s->record_bytes);
    json_set_integer(object, "classes", (int64_t)s->classes);
    json_set_integer(object, "empty_classes", (int64_t)s->empty_classes);
    json_set_integer(object, "least_per_class", (int64_t)s->least_per_class);
    json_set_integer(object, "most_per_class", (int64_t)s->most_per_class);
    snprintf(hash, sizeof hash, "%016" PRIx64, class_table_hash(index_classes(index)));
    json_set_string(object, "class_hash", hash);
    json_set_integer(object, "crc_unknown", (int64_t)s->crc_unknown);
    json_set_integer(object, "size_unknown", (int64_t)s->size_unknown);
    json_set_integer(object, "lossy", (int64_t)s->lossy);
    for (unsigned i = 0; i < ENCODINGS; i++)
        json_set_integer(encodings, record_encoding_name((uint8_t)i), (int64_t)s->encodings[i]);
    json_set(object, "encodings", encodings);
    for (size_t i = 0; i < index_shard_count(index); i++) {
        const struct source_shard *entry = index_shard(index, i);
        struct json *shard = json_object_new();
        json_set_string(shard, "path", entry->path);
        json_set_string(shard, "kind", shard_kind_name(entry->kind));
        json_set_integer(shard, "bytes", (int64_t)entry->size_bytes);
        json_append(shards, shard);
    }
    json_set(object, "shards", shards);
    const char *text = index_provenance(index);
    TRY(json_parse(text, strlen(text), "provenance", &provenance));
    json_set(object, "provenance", provenance);
    if (with_classes)
        json_set(object, "class_table", classes_json(index_classes(index)));
    return command_print_json(object);
}

struct status cmd_info(int argc, char **argv)
{
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(index_close) struct index *index = NULL;
    struct option_parse parse;
    struct info_arguments arguments = {0};
    struct index_summary summary;
    access_options_init(&arguments.access);
    TRY(command_parse(&info_usage, info_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    TRY(access_open(&arguments.access, &access));
    TRY(command_open_index("info INDEX", parse.positionals[0], access, &index));
    TRY(index_summarise(index, &summary));
    if (arguments.json)
        return info_print_json(index, &summary, arguments.classes);
    info_print(index, &summary);
    if (arguments.classes)
        TRY(classes_print(index_classes(index)));
    return OK;
}
