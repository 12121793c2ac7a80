#include "index/check.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/stop.h"
#include "image/shard_reader.h"
#include "index/record_image.h"
#include "index/record_original.h"

/* Records that one thread takes at a time. */
enum { RUN_RECORDS = 64 };

/* Of one thread. */
struct scratch {
    struct record_image *image;
    struct picture picture;
    struct restorer restorer;
    struct buffer original;
};

struct checker {
    struct index *index;
    const struct check_options *options;
    struct check_report *report;
    struct scratch *scratch;
    unsigned threads;
    struct progress *progress;
    bool *shards_told; /* of each shard: a finding says already what is wrong with it as a whole */
    bool *shards_gone; /* that none of its records can be read; not written once they are checked */
    pthread_mutex_t lock; /* guards the report and shards_told */
};

static void checker_done(struct checker *checker)
{
    for (unsigned i = 0; checker->scratch && i < checker->threads; i++) {
        record_image_close(checker->scratch[i].image);
        picture_done(&checker->scratch[i].picture);
        restorer_done(&checker->scratch[i].restorer);
        buffer_done(&checker->scratch[i].original);
    }
    memory_free(checker->scratch);
    memory_free(checker->shards_told);
    memory_free(checker->shards_gone);
    progress_close(checker->progress);
    pthread_mutex_destroy(&checker->lock);
}
CLEANUP_VALUE(checker_done, struct checker)

static void finding_done(struct check_finding *finding)
{
    memory_free(finding->where);
    memory_free(finding->what);
}

void check_report_done(struct check_report *report)
{
    for (size_t i = 0; i < report->finding_count; i++)
        finding_done(&report->findings[i]);
    memory_free(report->findings);
    memory_free(report->class_counts);
    *report = (struct check_report){0};
}

/* Keeps a finding; the caller holds the lock. */
static struct status finding_keep(struct check_report *report, uint64_t record, const char *where,
                                  const char *what)
{
    TRY(memory_grow(report->finding_count + 1, sizeof *report->findings, &report->findings,
                    &report->finding_capacity));
    struct check_finding *finding = &report->findings[report->finding_count];
    *finding = (struct check_finding){.record = record};
    struct status status = string_copy(where, &finding->where);
    if (status.code == STATUS_DONE)
        status = string_copy(what, &finding->what);
    if (status.code == STATUS_DONE)
        report->finding_count++;
    else
        finding_done(finding);
    return status;
}

/* Turns a failure into a finding, but for those that say nothing of the data. */
static struct status finding_add(struct checker *checker, uint64_t record, const char *where,
                                 struct status failure)
{
    if (failure.code == STATUS_DONE || failure.code == STATUS_NO_MEMORY ||
        failure.code == STATUS_STOPPED)
        return failure;
    pthread_mutex_lock(&checker->lock);
    struct status status = finding_keep(checker->report, record, where, status_message(&failure));
    pthread_mutex_unlock(&checker->lock);
    status_clear(&failure);
    return status;
}

/* Whether a file behind a URL is there and has its size, which each answer tells. */
static struct status remote_size_check(const struct source_shard *shard)
{
    uint8_t byte;
    const struct shard_range first = {.length = sizeof byte};
    return shard->size_bytes ? shard->remote->read(shard->remote, &first, &byte) : OK;
}

static struct status file_size_check(const struct source_shard *shard)
{
    CLEANUP(fd_close) int fd = -1;
    uint64_t size_bytes;
    TRY(file_open_read(shard->path, &fd));
    TRY(file_size(fd, shard->path, &size_bytes));
    if (size_bytes != shard->size_bytes)
        FAIL(STATUS_CORRUPT, "it has %" PRIu64 " bytes, expected %" PRIu64, size_bytes,
             shard->size_bytes);
    return OK;
}

/* Whether there is anything to read. */
static struct status shard_reach(const struct source_shard *shard)
{
    CLEANUP(fd_close) int fd = -1;
    if (shard->remote)
        return remote_size_check(shard);
    if (!shard_is_folder(shard))
        return file_open_read(shard->path, &fd);
    if (!path_is_folder(shard->path))
        FAIL(STATUS_NOT_FOUND, "the folder is not there");
    return OK;
}

/* Of one that can be reached. */
static struct status shard_check(const struct index *index, const struct source_shard *shard)
{
    CLEANUP(index_close) struct index *trailer = NULL;
    if (shard_is_folder(shard))
        return OK;
    if (!shard->remote)
        TRY(file_size_check(shard));
    if (shard->kind != SHARD_PACKED)
        return OK;
    TRY(index_open_with(shard->path, index_access(index), &trailer));
    return index_check_sections(trailer);
}

static uint64_t shard_records(const struct index *index, size_t shard)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct record record;
        struct status status = index_record(index, i, &record);
        count += status.code == STATUS_DONE && record.shard == shard;
        status_clear(&status); /* the record's own finding */
    }
    return count;
}

/* A shard's failure with how many records it takes along. */
static struct status gone_tell(const struct index *index, size_t shard, struct status status)
{
    char text[64];
    snprintf(text, sizeof text, "none of its %" PRIu64 " records can be read",
             shard_records(index, shard));
    return status_advise(status, text);
}

static struct status shards_check(struct checker *checker)
{
    for (size_t i = 0; i < index_shard_count(checker->index); i++) {
        const struct source_shard *shard = index_shard(checker->index, i);
        struct status status = shard_reach(shard);
        checker->shards_gone[i] = status.code != STATUS_DONE;
        status = status.code == STATUS_DONE ? shard_check(checker->index, shard)
                                            : gone_tell(checker->index, i, status);
        checker->shards_told[i] = status.code != STATUS_DONE;
        TRY(finding_add(checker, CHECK_NO_RECORD, shard->path, status));
    }
    return OK;
}

/* Whether a shard's own index has a record where ours says that it is. */
static struct status trailer_check(const struct index *trailer, const struct record *record)
{
    for (uint64_t i = 0; i < index_count(trailer); i++) {
        struct record other;
        TRY(index_record(trailer, i, &other));
        if (other.offset == record->offset && other.length == record->length &&
            (!record->crc_known || other.crc32c == record->crc32c))
            return OK;
    }
    FAIL(STATUS_CORRUPT,
         "it is a shard of another index: it never had these %" PRIu32 " bytes at offset %" PRIu64,
         record->length, record->offset);
}

/* Whether a finding told of a shard before this call. */
static bool shard_tell(struct checker *checker, uint32_t shard)
{
    pthread_mutex_lock(&checker->lock);
    bool is_told = checker->shards_told[shard];
    checker->shards_told[shard] = true;
    pthread_mutex_unlock(&checker->lock);
    return is_told;
}

/* After a bad record: a shard that was exchanged for another one of the same size has many of them,
 * and they do not tell why. Looked at once for each shard. */
static struct status shard_suspect(struct checker *checker, uint64_t i)
{
    CLEANUP(index_close) struct index *trailer = NULL;
    struct record record;
    struct status status = index_record(checker->index, i, &record);
    if (status.code != STATUS_DONE) { /* the record's own finding */
        status_clear(&status);
        return OK;
    }
    const struct source_shard *shard = index_shard(checker->index, record.shard);
    if (shard->kind != SHARD_PACKED || shard_tell(checker, record.shard))
        return OK;
    status = index_open_with(shard->path, index_access(checker->index), &trailer);
    if (status.code == STATUS_DONE)
        status = trailer_check(trailer, &record);
    return finding_add(checker, CHECK_NO_RECORD, shard->path, status);
}

/* What the index says of a record, and that it stands behind its predecessor. */
static struct status record_check_place(const struct checker *checker, uint64_t i,
                                        struct record *record, const char **ret_name)
{
    TRY(index_record(checker->index, i, record));
    TRY(index_name(checker->index, i, ret_name));
    if (i == 0)
        return OK;
    struct record before;
    const char *name_before;
    struct status status = index_record(checker->index, i - 1, &before);
    if (status.code == STATUS_DONE)
        status = index_name(checker->index, i - 1, &name_before);
    if (status.code != STATUS_DONE) { /* the predecessor's own finding */
        status_clear(&status);
        return OK;
    }
    int order = before.label != record->label ? (before.label < record->label ? -1 : 1)
                                              : strcmp(name_before, *ret_name);
    if (order == 0)
        FAIL(STATUS_CORRUPT, "its class has two records of this name: %" PRIu64 " and %" PRIu64,
             i - 1, i);
    if (order > 0)
        FAIL(STATUS_CORRUPT,
             "it stands behind record %" PRIu64 ", but comes before it by label and name", i - 1);
    return OK;
}

static struct status record_check_image(const struct checker *checker, struct scratch *scratch,
                                        const struct record *record)
{
    struct image_info info;
    TRY(record_image_probe(scratch->image, &info));
    if (record->width && (record->width != info.width || record->height != info.height))
        FAIL(STATUS_CORRUPT,
             "the image has %" PRIu32 " x %" PRIu32 " pixels, the index says %u x %u", info.width,
             info.height, record->width, record->height);
    if (!checker->options->decode)
        return OK;
    return record_image_decode(scratch->image, NULL, &scratch->picture);
}

/* Of a record that was read. */
static struct status record_check_content(const struct checker *checker, struct scratch *scratch,
                                          uint64_t i, const struct record *record)
{
    struct status status = record_check_image(checker, scratch, record);
    TRY(index_blame_bytes(checker->index, i, status));
    if (!checker->options->decode || record->encoding == ENCODING_JPEG)
        return OK;
    return record_original(&scratch->restorer, checker->index, i, &scratch->original);
}

/* What a run of records adds to the report. */
struct tally {
    uint64_t read_bytes, crc_unknown, lossy;
    uint64_t left_out; /* of shards that are gone */
};

static struct status record_check(struct checker *checker, struct scratch *scratch, uint64_t i,
                                  struct tally *tally, const char **ret_name)
{
    struct record record;
    TRY(record_check_place(checker, i, &record, ret_name));
    __atomic_fetch_add(&checker->report->class_counts[record.label], 1, __ATOMIC_RELAXED);
    tally->crc_unknown += !record.crc_known;
    tally->lossy += record.is_lossy;
    if (checker->shards_gone[record.shard]) {
        tally->left_out++;
        return OK;
    }
    if (!checker->options->read && !checker->options->decode)
        return OK;
    TRY(record_image_read(scratch->image, i, &record));
    tally->read_bytes += record.length;
    return record_check_content(checker, scratch, i, &record);
}

/* "CLASS/NAME" of a record, or its number where the index does not tell. */
static struct status record_describe(const struct index *index, uint64_t i, const char *name,
                                     char **ret_text)
{
    struct record record;
    struct status status = index_record(index, i, &record);
    if (status.code != STATUS_DONE || !name) {
        status_clear(&status);
        return string_format(ret_text, "record %" PRIu64, i);
    }
    return string_format(ret_text, "%s/%s",
                         class_table_at(index_classes(index), record.label)->wnid, name);
}

static struct status run_check(uint64_t run, unsigned thread, void *context)
{
    struct checker *checker = context;
    uint64_t first = run * RUN_RECORDS, end = first + RUN_RECORDS;
    uint64_t count = index_count(checker->index);
    struct tally tally = {0};
    TRY(stop_check());
    end = end < count ? end : count;
    for (uint64_t i = first; i < end; i++) {
        CLEANUP(memory_free) char *where = NULL;
        const char *name = NULL;
        struct status status = record_check(checker, &checker->scratch[thread], i, &tally, &name);
        if (status.code == STATUS_DONE)
            continue;
        struct status described = record_describe(checker->index, i, name, &where);
        if (described.code != STATUS_DONE) {
            status_clear(&status);
            return described;
        }
        if (name)
            status = status_context(status, "record %" PRIu64, i);
        TRY(finding_add(checker, i, where, status));
        TRY(shard_suspect(checker, i));
    }
    pthread_mutex_lock(&checker->lock);
    checker->report->records += end - first - tally.left_out;
    checker->report->read_bytes += tally.read_bytes;
    checker->report->crc_unknown += tally.crc_unknown;
    checker->report->lossy += tally.lossy;
    pthread_mutex_unlock(&checker->lock);
    progress_add(checker->progress, end - first, tally.read_bytes);
    return OK;
}

static int finding_compare(const void *a, const void *b)
{
    const struct check_finding *p = a, *q = b;
    if (p->record == q->record)
        return strcmp(p->where, q->where);
    return p->record + 1 < q->record + 1 ? -1 : 1; /* + 1: CHECK_NO_RECORD comes first */
}

static struct status records_check(struct checker *checker)
{
    CLEANUP(pool_close) struct pool *pool = NULL;
    uint64_t count = index_count(checker->index);
    TRY(progress_open("verify", "images", count, 0, &checker->progress));
    TRY(pool_open(checker->threads, &pool));
    TRY(memory_alloc(checker->threads, sizeof *checker->scratch, &checker->scratch));
    for (unsigned i = 0; i < checker->threads; i++)
        TRY(record_image_open(checker->index, PIXELS_PILLOW, &checker->scratch[i].image));
    return pool_run(pool, (count + RUN_RECORDS - 1) / RUN_RECORDS, run_check, checker);
}

struct status index_check(struct index *index, const struct check_options *options,
                          struct check_report *report)
{
    CLEANUP(checker_done)
    struct checker checker = {
        .index = index,
        .options = options,
        .report = report,
        .threads = options->threads,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    TRY(memory_alloc(class_table_count(index_classes(index)), sizeof *report->class_counts,
                     &report->class_counts));
    TRY(memory_alloc(index_shard_count(index), sizeof *checker.shards_told, &checker.shards_told));
    TRY(memory_alloc(index_shard_count(index), sizeof *checker.shards_gone, &checker.shards_gone));
    TRY(finding_add(&checker, CHECK_NO_RECORD, index_path(index), index_check_sections(index)));
    if (report->finding_count > 0)
        return OK;
    TRY(shards_check(&checker));
    TRY(records_check(&checker));
    if (report->finding_count > 0)
        qsort(report->findings, report->finding_count, sizeof *report->findings, finding_compare);
    return OK;
}
