#include "index/summary.h"

#include "base/memory.h"

const char *shard_kind_name(enum shard_kind kind)
{
    switch (kind) {
    case SHARD_PACKED:
        return "packed";
    case SHARD_TAR:
        return "tar";
    case SHARD_FOLDER:
        return "folder";
    case SHARD_FLAT:
        return "flat folder";
    case SHARD_KINDS:
        break;
    }
    return "unknown";
}

const char *record_encoding_name(uint8_t encoding)
{
    static const char *const names[ENCODINGS] = {
        [ENCODING_JPEG] = "jpeg",
        [ENCODING_DCT] = "dct",
    };
    return encoding < ENCODINGS ? names[encoding] : "unknown";
}

static void record_count(struct index_summary *summary, const struct record *record)
{
    summary->records++;
    summary->record_bytes += record->length;
    summary->crc_unknown += !record->crc_known;
    summary->lossy += record->is_lossy;
    if (record->encoding < ENCODINGS)
        summary->encodings[record->encoding]++;
    summary->size_unknown += record->width == 0;
    summary->pixels += (uint64_t)record->width * record->height;
    if (record->length < summary->least_bytes)
        summary->least_bytes = record->length;
    if (record->length > summary->most_bytes)
        summary->most_bytes = record->length;
    if (record->width > summary->most_width)
        summary->most_width = record->width;
    if (record->height > summary->most_height)
        summary->most_height = record->height;
}

static void classes_count(struct index_summary *summary, const uint64_t *counts)
{
    for (uint64_t i = 0; i < summary->classes; i++) {
        if (counts[i] == 0) {
            summary->empty_classes++;
            continue;
        }
        if (counts[i] < summary->least_per_class)
            summary->least_per_class = counts[i];
        if (counts[i] > summary->most_per_class)
            summary->most_per_class = counts[i];
    }
}

struct status index_summarise(const struct index *index, struct index_summary *ret_summary)
{
    CLEANUP(memory_free) uint64_t *counts = NULL;
    struct index_summary summary = {
        .classes = class_table_count(index_classes(index)),
        .least_per_class = UINT64_MAX,
        .least_bytes = UINT64_MAX,
    };
    TRY(memory_alloc(summary.classes, sizeof *counts, &counts));
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct record record;
        TRY(index_record(index, i, &record));
        record_count(&summary, &record);
        counts[record.label]++;
    }
    classes_count(&summary, counts);
    if (summary.records == 0)
        summary.least_per_class = summary.least_bytes = 0;
    *ret_summary = summary;
    return OK;
}
