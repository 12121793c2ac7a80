#include "index/pack_provenance.h"

#include <string.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "base/json.h"
#include "index/index.h"
#include "index/pack_image.h"
#include "index/summary.h"

/* Stands for the lengths of all images of a source, where those of the records are others. */
static uint32_t lengths_crc(const struct source *source)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < source->item_count; i++) {
        uint8_t length[8];
        store_le64(length, source->items[i].length);
        crc = crc32c_update(crc, length, sizeof length);
    }
    return crc;
}

/* --- Making --- */

static struct json *lossy_make(const struct pack_options *options)
{
    struct json *lossy = json_object_new();
    json_set_integer(lossy, "max_side", options->max_side);
    json_set_integer(lossy, "quality", options->quality);
    return lossy;
}

static struct json *refusals_make(const struct pack_report *report)
{
    struct json *refusals = json_object_new();
    for (unsigned reason = 0; reason < JPEG_REFUSALS; reason++) {
        if (report->refusals[reason] > 0)
            json_set_integer(refusals, jpeg_refusal_name(reason),
                             (int64_t)report->refusals[reason]);
    }
    return refusals;
}

struct status pack_provenance_make(const struct source *source, const struct pack_options *options,
                                   const struct pack_report *report, struct buffer *text)
{
    CLEANUP(json_free) struct json *object = json_object_new();
    json_set_string(object, "program", "headrace " HEADRACE_VERSION);
    json_set_string(object, "command", "pack");
    json_set_string(object, "source", source->kind);
    json_set_string(object, "encoding", record_encoding_name((uint8_t)options->encoding));
    json_set_boolean(object, "in_place", options->in_place);
    json_set_integer(object, "images", (int64_t)report->images);
    if (options->encoding == ENCODING_DCT)
        json_set(object, "kept_as_jpeg", refusals_make(report));
    if (pack_is_lossy(options)) {
        json_set(object, "lossy", lossy_make(options));
        json_set_integer(object, "shrunk", (int64_t)report->shrunk);
    }
    if (pack_converts(source, options))
        json_set_integer(object, "source_lengths_crc32c", lengths_crc(source));
    if (options->on_error == PACK_SKIP && report->problems.count > 0) {
        struct json *skipped = json_array_new();
        for (size_t i = 0; i < report->problems.count; i++)
            json_append_string(skipped, report->problems.items[i].record);
        json_set(object, "skipped", skipped);
    }
    return json_write(object, false, text);
}

/* --- Comparing --- */

/* Whether an index was made of such images in this way, so that its records need not have their
 * lengths. */
static bool same_conversion(const struct json *provenance, const struct source *source,
                            const struct pack_options *options)
{
    const struct json *lossy = json_get(provenance, "lossy");
    const char *encoding = "";
    int64_t crc = -1, max_side = 0, quality = 0;
    status_ignore(json_get_string(provenance, "encoding", &encoding));
    status_ignore(json_get_integer(provenance, "source_lengths_crc32c", &crc));
    if (lossy) {
        status_ignore(json_get_integer(lossy, "max_side", &max_side));
        status_ignore(json_get_integer(lossy, "quality", &quality));
    }
    return strcmp(encoding, record_encoding_name((uint8_t)options->encoding)) == 0 &&
           crc == lengths_crc(source) && max_side == options->max_side &&
           quality == options->quality;
}

static bool same_record(const struct record *record, const struct source_item *item,
                        const struct pack_options *options, bool is_converted)
{
    bool is_same =
        is_converted || (record->length == item->length && record->encoding == item->encoding);
    return is_same && (record->crc_known || !options->crc);
}

/* Whether the index has the source's images one by one; those that it lacks have to be as many as
 * were skipped when it was made. */
static struct status same_records(const struct source *source, const struct index *index,
                                  const struct pack_options *options, bool *ret_same)
{
    CLEANUP(json_free) struct json *provenance = NULL;
    const char *text = index_provenance(index);
    uint64_t skipped = 0, next = 0;
    TRY(json_parse(text, strlen(text), "provenance", &provenance));
    if (options->on_error == PACK_SKIP)
        skipped = json_length(json_get(provenance, "skipped"));
    bool is_converted = pack_converts(source, options);
    *ret_same = index_count(index) + skipped == source->item_count &&
                class_table_hash(index_classes(index)) == class_table_hash(source->classes) &&
                (!is_converted || same_conversion(provenance, source, options));
    for (uint64_t i = 0; *ret_same && i < index_count(index); i++, next++) {
        struct record record;
        const char *name;
        TRY(index_record(index, i, &record));
        TRY(index_name(index, i, &name));
        while (next < source->item_count && (source->items[next].label != record.label ||
                                             strcmp(source->items[next].name, name) != 0))
            next++;
        *ret_same = next < source->item_count &&
                    same_record(&record, &source->items[next], options, is_converted);
    }
    return OK;
}

static bool shard_is_complete(const struct source_shard *shard, const struct pack_options *options)
{
    struct stat info;
    if ((shard->kind != SHARD_PACKED) != options->in_place || stat(shard->path, &info) != 0)
        return false;
    return shard->kind != SHARD_PACKED || (uint64_t)info.st_size == shard->size_bytes;
}

bool pack_is_done(const struct source *source, const char *path, const struct pack_options *options)
{
    CLEANUP(index_close) struct index *index = NULL;
    bool is_same = false;
    struct status status = index_open(path, &index);
    if (status.code == STATUS_DONE)
        status = same_records(source, index, options, &is_same);
    status_ignore(status);
    for (size_t i = 0; is_same && i < index_shard_count(index); i++)
        is_same = shard_is_complete(index_shard(index, i), options);
    return is_same;
}
