#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/pool.h"
#include "image/source.h"
#include "prep/extract_job.h"
#include "prep/extract_space.h"
#include "prep/train_inner.h"

/* The inner archives of a file that can be read in parallel. */
struct train_job {
    struct extract_job *job;
    const struct train_inner *inner;
};

void extract_note_count(struct extract_job *job, const char *class_name, uint64_t images)
{
    const struct class_table *table =
        job->options->devkit ? devkit_classes(job->options->devkit) : class_table_ilsvrc2012();
    int64_t label = class_table_find(table, class_name);
    uint32_t published = label < 0 ? 0 : class_table_at(table, (size_t)label)->train_images;
    if (!published || published == images)
        return;
    pthread_mutex_lock(&job->mutex);
    job->other_counts++;
    /* The first by name, so that the message does not depend on the threads. */
    if (!job->other_count_example || strcmp(class_name, job->other_count_example) < 0) {
        memory_free(job->other_count_example);
        job->other_count_example = NULL;
        status_ignore(string_format(&job->other_count_example,
                                    "%s has %" PRIu64 ", published are %" PRIu32, class_name,
                                    images, published));
    }
    pthread_mutex_unlock(&job->mutex);
}

static struct status extract_members(struct extract_job *job, struct archive_reader *reader,
                                     struct stage_unit *unit, uint64_t *ret_images,
                                     uint64_t *ret_done_bytes)
{
    struct archive_member member;
    bool found;
    for (;;) {
        TRY(archive_reader_next(reader, &member, &found));
        if (!found)
            return OK;
        if (member.is_folder)
            continue;
        if (!source_is_image_name(path_base(member.name))) {
            atomic_fetch_add(&job->ignored, 1);
            continue;
        }
        TRY(extract_member(job, reader, &member, unit, ret_done_bytes));
        ++*ret_images;
    }
}

/* Extracts one class from the reader of its inner archive. */
static struct status extract_class(struct extract_job *job, struct archive_reader *reader,
                                   const char *class_name, const struct archive_item *inner)
{
    CLEANUP(stage_unit_free) struct stage_unit *unit = NULL;
    uint64_t images = 0, done_bytes = 0;
    TRY(stage_unit_open(job->stage, class_name, &unit));
    TRY(extract_members(job, reader, unit, &images, &done_bytes));
    if (done_bytes < inner->size_bytes)
        progress_add(job->progress, 0, inner->size_bytes - done_bytes);
    extract_warnings(job, reader);
    extract_note_count(job, class_name, images);
    atomic_fetch_add(&job->extra, stage_unit_extra(unit));
    return stage_unit_finish(MOVE(unit));
}

/* --- In parallel --- */

static struct status extract_item(uint64_t i, unsigned thread, void *context)
{
    (void)thread;
    struct train_job *train = context;
    struct extract_job *job = train->job;
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    const struct archive_item *inner = train->inner->items[i];
    bool has_unit;
    TRY(stop_check());
    TRY(stage_has_unit(job->stage, train->inner->classes[i], &has_unit));
    TRY(archive_reader_open_range(job->file, inner->name, inner->offset, inner->size_bytes,
                                  has_unit && !job->is_comparing ? ARCHIVE_HEADERS : ARCHIVE_DATA,
                                  &reader));
    return extract_class(job, reader, train->inner->classes[i], inner);
}

static uint64_t inner_bytes(const struct train_inner *inner)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < inner->count; i++)
        bytes += inner->items[i]->size_bytes;
    return bytes;
}

static struct status extract_parallel(struct extract_job *job)
{
    CLEANUP(archive_listing_done) struct archive_listing outer = {0};
    CLEANUP(train_inner_done) struct train_inner inner = {0};
    CLEANUP(pool_close) struct pool *pool = NULL;
    TRY(archive_list(job->file, &outer));
    atomic_fetch_add(&job->warnings, outer.warnings);
    TRY(train_inner_find(job->file, &outer,
                         job->options->devkit ? devkit_classes(job->options->devkit) : NULL,
                         &inner));
    job->classes = inner.count;
    atomic_fetch_add(&job->ignored, outer.count - inner.count);
    struct train_job train = {job, &inner};
    TRY(extract_check_space(job));
    progress_set_total(job->progress, 0, inner_bytes(&inner));
    TRY(pool_open(job->options->threads, &pool));
    return pool_run(pool, inner.count, extract_item, &train);
}

/* --- From a compressed stream --- */

static struct status extract_stream(struct extract_job *job)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    struct archive_member member;
    bool found;
    TRY(archive_reader_open(job->file, ARCHIVE_DATA, &reader));
    for (;;) {
        CLEANUP(archive_reader_close) struct archive_reader *inner_reader = NULL;
        CLEANUP(memory_free) char *class_name = NULL;
        TRY(archive_reader_next(reader, &member, &found));
        if (!found)
            break;
        if (member.is_folder || archive_layout_of_member(member.name) != LAYOUT_TRAIN)
            continue;
        struct archive_item inner = {.name = member.name, .size_bytes = member.size_bytes};
        TRY(status_context(train_class_name(member.name, &class_name), "%s", job->file->path));
        TRY(archive_reader_open_member(reader, &member, &inner_reader));
        TRY(extract_class(job, inner_reader, class_name, &inner));
        job->classes++;
    }
    extract_warnings(job, reader);
    return OK;
}

struct status extract_train(struct extract_job *job)
{
    return job->file->is_gzip ? extract_stream(job) : extract_parallel(job);
}
