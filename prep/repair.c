#include "prep/repair.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/progress.h"
#include "base/stage.h"
#include "base/stop.h"
#include "prep/archive_listing.h"
#include "prep/archive_source.h"

struct repair_job {
    const struct verify_set *set;
    const struct source *source; /* the archive */
    const char **bad;            /* paths of damaged images below the set, sorted */
    size_t bad_count;
    bool has_leftovers; /* of a killed run, which opening a stage removes */
    size_t *items;      /* of the source: what is to be written, in its order */
    size_t item_count;
    uint64_t bytes;
};

static void repair_job_done(struct repair_job *job)
{
    memory_free(job->bad);
    memory_free(job->items);
}
CLEANUP_VALUE(repair_job_done, struct repair_job)

static int path_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_damage(enum finding_kind kind)
{
    return kind == FOUND_EMPTY_FILE || kind == FOUND_NOT_AN_IMAGE || kind == FOUND_TRUNCATED ||
           kind == FOUND_UNREADABLE;
}

static struct status collect_bad(struct repair_job *job)
{
    const struct verify_set *set = job->set;
    TRY(memory_alloc(set->finding_count, sizeof *job->bad, &job->bad));
    for (size_t i = 0; i < set->finding_count; i++) {
        if (is_damage(set->findings[i].kind))
            job->bad[job->bad_count++] = set->findings[i].path;
        job->has_leftovers = job->has_leftovers || set->findings[i].kind == FOUND_UNFINISHED;
    }
    qsort(job->bad, job->bad_count, sizeof *job->bad, path_compare);
    return OK;
}

static struct status needs_item(const struct repair_job *job, const struct source_item *item,
                                bool *ret_needs)
{
    CLEANUP(memory_free) char *below = NULL;
    CLEANUP(memory_free) char *path = NULL;
    struct stat info;
    TRY(verify_item_path(job->set, job->source, item, &below));
    TRY(path_join(job->set->path, below, &path));
    const char *key = below;
    *ret_needs = stat(path, &info) != 0 || (uint64_t)info.st_size != item->length ||
                 bsearch(&key, job->bad, job->bad_count, sizeof *job->bad, path_compare);
    return OK;
}

static struct status collect_items(struct repair_job *job)
{
    TRY(memory_alloc(job->source->item_count, sizeof *job->items, &job->items));
    for (size_t i = 0; i < job->source->item_count; i++) {
        bool needs;
        TRY(needs_item(job, &job->source->items[i], &needs));
        if (!needs)
            continue;
        job->items[job->item_count++] = i;
        job->bytes += job->source->items[i].length;
    }
    return OK;
}

/* --- Writing --- */

static struct status write_item(struct source_reader *reader, const struct repair_job *job,
                                size_t item, struct buffer *bytes, struct stage_unit *unit)
{
    TRY(stop_check());
    TRY(source_read(reader, item, bytes));
    TRY(stage_unit_begin(unit, job->source->items[item].name));
    TRY(stage_unit_write(unit, bytes->data, bytes->length));
    return stage_unit_end(unit);
}

/* Writes what is needed of the class that job->items[first] belongs to. */
static struct status write_class(struct stage *stage, struct source_reader *reader,
                                 const struct repair_job *job, size_t first, size_t *ret_next)
{
    CLEANUP(stage_unit_free) struct stage_unit *unit = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    const struct source_item *items = job->source->items;
    uint32_t label = items[job->items[first]].label;
    size_t i = first;
    TRY(stage_unit_open(stage, class_table_at(job->source->classes, label)->wnid, &unit));
    for (; i < job->item_count && items[job->items[i]].label == label; i++)
        TRY(write_item(reader, job, job->items[i], &bytes, unit));
    *ret_next = i;
    return stage_unit_finish(MOVE(unit));
}

static struct status write_items(const struct repair_job *job)
{
    CLEANUP(stage_close) struct stage *stage = NULL;
    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    CLEANUP(progress_close) struct progress *progress = NULL;
    struct stage_need need = {0};
    TRY(stage_open(job->set->path, &stage));
    for (size_t i = 0; i < job->item_count; i++)
        stage_need_add(&need, stage, job->source->items[job->items[i]].length);
    TRY(stage_check_space(stage, &need));
    TRY(source_reader_open(job->source, &reader));
    TRY(progress_open("repair", "images", job->item_count, 0, &progress));
    for (size_t i = 0, next; i < job->item_count; i = next) {
        TRY(write_class(stage, reader, job, i, &next));
        progress_add(progress, next - i, 0);
    }
    return stage_publish(stage);
}

/* --- Which set --- */

static struct status find_set(const struct verify_report *report, const char *archive,
                              const struct verify_set **ret_set)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    enum archive_layout layout;
    TRY(archive_file_open(archive, &file));
    TRY(archive_layout_find(file, &layout));
    enum image_set wanted = layout == LAYOUT_TRAIN ? IMAGE_SET_TRAIN
                            : layout == LAYOUT_VAL ? IMAGE_SET_VAL
                                                   : IMAGE_SET_OTHER;
    for (size_t i = 0; i < report->set_count; i++) {
        *ret_set = &report->sets[i];
        if ((*ret_set)->is_flat)
            continue;
        if ((*ret_set)->set == wanted || (wanted == IMAGE_SET_OTHER && report->set_count == 1))
            return OK;
    }
    if (report->set_count == 1 && report->sets[0].is_flat)
        FAIL(STATUS_USAGE, "--repair is for class folders, and the images in %s lie flat",
             report->path);
    FAIL(STATUS_USAGE, "%s is %s, which cannot repair %s", archive, archive_layout_name(layout),
         report->path);
}

struct status repair(const struct verify_report *report, const struct verify_options *options,
                     const char *archive, struct repair_result *ret_result)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(repair_job_done) struct repair_job job = {0};
    TRY(find_set(report, archive, &job.set));
    TRY(archive_source_open(archive, options->devkit, options->prefix, options->threads, &source));
    job.source = source;
    TRY(collect_bad(&job));
    TRY(collect_items(&job));
    if (job.item_count || job.has_leftovers)
        TRY(write_items(&job));
    *ret_result = (struct repair_result){job.item_count, job.bytes};
    return OK;
}
