#include "index/unpack.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/stage.h"
#include "base/stop.h"
#include "index/record_original.h"

struct scratch {
    struct restorer restorer;
    struct buffer bytes;
};

struct unpacker {
    struct index *index;
    struct stage *stage;
    uint64_t *begins;        /* first record of each class, and the number of records behind them */
    struct scratch *scratch; /* of each thread */
    const struct unpack_options *options;
    struct unpack_report *report;
    pthread_mutex_t lock; /* guards report->problems */
    struct progress *progress;
    atomic_uint_fast64_t images, image_bytes, kept;
};

static void unpacker_done(struct unpacker *unpacker)
{
    for (unsigned i = 0; unpacker->scratch && i < unpacker->options->threads; i++) {
        restorer_done(&unpacker->scratch[i].restorer);
        buffer_done(&unpacker->scratch[i].bytes);
    }
    memory_free(unpacker->scratch);
    memory_free(unpacker->begins);
    progress_close(unpacker->progress);
    stage_close(unpacker->stage);
    pthread_mutex_destroy(&unpacker->lock);
}
CLEANUP_VALUE(unpacker_done, struct unpacker)

/* Finds where the records of each class begin. */
static struct status classes_bound(struct unpacker *unpacker)
{
    const int32_t *labels;
    uint64_t count = index_count(unpacker->index), record = 0;
    size_t class_count = class_table_count(index_classes(unpacker->index));
    TRY(index_labels(unpacker->index, &labels));
    TRY(memory_alloc(class_count + 1, sizeof *unpacker->begins, &unpacker->begins));
    for (size_t label = 0; label < class_count; label++) {
        unpacker->begins[label] = record;
        while (record < count && (size_t)labels[record] == label)
            record++;
    }
    unpacker->begins[class_count] = count;
    if (record < count)
        FAIL(STATUS_CORRUPT,
             "'%s': record %" PRIu64 " stands behind a class that comes after its own",
             index_path(unpacker->index), record);
    return OK;
}

/* What the files of an index take; those of `dct` records a little less than that. Counts lossy
 * records on the way. */
static struct status space_check(struct unpacker *unpacker)
{
    struct stage_need need = {0};
    uint64_t count = index_count(unpacker->index);
    for (uint64_t i = 0; i < count; i++) {
        struct record record;
        TRY(index_record(unpacker->index, i, &record));
        stage_need_add(&need, unpacker->stage, record.length);
        unpacker->report->lossy += record.is_lossy;
    }
    return stage_check_space(unpacker->stage, &need);
}

/* Notes a record that does not hold; what it was is told by its class and name. */
static struct status problem_note(struct unpacker *unpacker, const struct record *record,
                                  uint64_t i, const char *name, struct status failure)
{
    const char *class_name = class_table_at(index_classes(unpacker->index), record->label)->wnid;
    pthread_mutex_lock(&unpacker->lock);
    struct status status = problem_list_add(&unpacker->report->problems, i, class_name, name,
                                            status_message(&failure));
    pthread_mutex_unlock(&unpacker->lock);
    status_clear(&failure);
    return status;
}

/* Reads the original file of a record into scratch->bytes. One that does not hold fails, or is
 * noted and left out. */
static struct status record_read(struct unpacker *unpacker, const struct record *record, uint64_t i,
                                 const char *name, struct scratch *scratch, bool *ret_left_out)
{
    struct index *index = unpacker->index;
    struct status status = record_original(&scratch->restorer, index, i, &scratch->bytes);
    *ret_left_out = status.code == STATUS_CORRUPT && unpacker->options->skip;
    if (*ret_left_out) {
        progress_add(unpacker->progress, 1, 0);
        return problem_note(unpacker, record, i, name, status);
    }
    if (status.code == STATUS_CORRUPT)
        status = status_advise(status, "--on-error skip leaves such images out");
    return index_blame(index, i, status);
}

/* Writes a file unless it is there. How long that of a `dct` record is shows only when it is
 * restored. */
static struct status record_unpack(struct unpacker *unpacker, struct stage_unit *unit, uint64_t i,
                                   struct scratch *scratch)
{
    struct record record;
    const char *name;
    bool is_there = false, is_left_out = false;
    struct buffer *bytes = &scratch->bytes;
    TRY(index_record(unpacker->index, i, &record));
    TRY(index_name(unpacker->index, i, &name));
    bool is_restored = record.encoding != ENCODING_JPEG;
    if (is_restored)
        TRY(record_read(unpacker, &record, i, name, scratch, &is_left_out));
    if (is_left_out)
        return OK;
    TRY(stage_unit_keeps(unit, name, is_restored ? bytes->length : record.length, &is_there));
    if (!is_restored && !is_there)
        TRY(record_read(unpacker, &record, i, name, scratch, &is_left_out));
    if (is_left_out)
        return OK;
    progress_add(unpacker->progress, 1, is_there ? 0 : record.length);
    if (is_there) {
        unpacker->kept++;
        return OK;
    }
    TRY(stage_unit_begin(unit, name));
    TRY(stage_unit_write(unit, bytes->data, bytes->length));
    TRY(stage_unit_end(unit));
    unpacker->images++;
    unpacker->image_bytes += bytes->length;
    return OK;
}

static struct status class_unpack(uint64_t label, unsigned thread, void *context)
{
    struct unpacker *unpacker = context;
    CLEANUP(stage_unit_free) struct stage_unit *unit = NULL;
    uint64_t first = unpacker->begins[label], end = unpacker->begins[label + 1];
    if (first == end)
        return OK;
    TRY(stage_unit_open(unpacker->stage,
                        class_table_at(index_classes(unpacker->index), label)->wnid, &unit));
    for (uint64_t i = first; i < end; i++) {
        TRY(stop_check());
        TRY(record_unpack(unpacker, unit, i, &unpacker->scratch[thread]));
    }
    return stage_unit_finish(MOVE(unit));
}

struct status index_unpack(struct index *index, const char *dest,
                           const struct unpack_options *options, struct unpack_report *report)
{
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(unpacker_done)
    struct unpacker unpacker = {.index = index,
                                .options = options,
                                .report = report,
                                .lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t count = index_count(index);
    TRY(classes_bound(&unpacker));
    TRY(stage_open(dest, &unpacker.stage));
    TRY(space_check(&unpacker));
    TRY(progress_open("unpack", "images", count, 0, &unpacker.progress));
    TRY(pool_open(options->threads, &pool));
    TRY(memory_alloc(options->threads, sizeof *unpacker.scratch, &unpacker.scratch));
    TRY(pool_run(pool, class_table_count(index_classes(index)), class_unpack, &unpacker));
    TRY(stage_publish(unpacker.stage));
    report->images = unpacker.images;
    report->image_bytes = unpacker.image_bytes;
    report->kept = unpacker.kept;
    problem_list_sort(&report->problems);
    if (count > 0 && report->problems.count == count)
        FAIL(STATUS_CORRUPT, "none of the %" PRIu64 " images can be read; the first: %s: %s", count,
             report->problems.items[0].record, report->problems.items[0].reason);
    return OK;
}

void unpack_report_done(struct unpack_report *report)
{
    problem_list_done(&report->problems);
    *report = (struct unpack_report){0};
}
