#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/pool.h"
#include "prep/extract_job.h"
#include "prep/extract_space.h"

/* One part of the file: its images by class. */
struct zip_job {
    struct extract_job *job;
    struct kaggle_images *images;
    size_t *starts; /* of the classes in `images`; one more, its end */
    size_t class_count;
    struct zip_reader **readers; /* by thread */
    unsigned threads;
};

static void zip_job_done(struct zip_job *zip)
{
    for (unsigned i = 0; zip->readers && i < zip->threads; i++)
        zip_reader_close(zip->readers[i]);
    memory_free(zip->readers);
    memory_free(zip->starts);
}
CLEANUP_VALUE(zip_job_done, struct zip_job)

/* --- Which image belongs where --- */

/* Validation images lie flat; the devkit's ground truth, which may be the file's own CSV, says
 * their classes. */
static struct status sort_val(struct extract_job *job)
{
    const struct devkit *devkit = job->options->devkit;
    struct kaggle_images *images = &job->zip->val;
    CLEANUP(memory_free) bool *is_seen = NULL;
    TRY(memory_alloc(devkit_val_count(devkit) + 1, sizeof *is_seen, &is_seen));
    for (size_t i = 0; i < images->count; i++) {
        struct kaggle_image *image = &images->items[i];
        uint32_t label;
        TRY(status_context(devkit_label_of_name(devkit, image->name, &label), "%s",
                           job->options->archive));
        const char *wnid = class_table_at(devkit_classes(devkit), label)->wnid;
        image->wnid_number = (uint32_t)strtoul(wnid + 1, NULL, 10);
        is_seen[image_name_parse(image->name).number] = true;
    }
    if (images->count)
        qsort(images->items, images->count, sizeof *images->items, kaggle_image_compare);
    extract_note_missing(job, is_seen);
    return OK;
}

static struct status find_classes(struct zip_job *zip)
{
    const struct kaggle_images *images = zip->images;
    size_t capacity = 0;
    for (size_t i = 0; i <= images->count; i++) {
        if (i > 0 && i < images->count &&
            images->items[i].wnid_number == images->items[i - 1].wnid_number)
            continue;
        TRY(memory_grow(zip->class_count + 1, sizeof *zip->starts, &zip->starts, &capacity));
        zip->starts[zip->class_count++] = i;
    }
    zip->class_count--;
    return OK;
}

static struct status check_classes(const struct zip_job *zip)
{
    const struct devkit *devkit = zip->job->options->devkit;
    char wnid[WNID_LENGTH + 1];
    for (size_t i = 0; devkit && i < zip->class_count; i++) {
        kaggle_wnid(zip->images->items[zip->starts[i]].wnid_number, wnid);
        if (class_table_find(devkit_classes(devkit), wnid) < 0)
            FAIL(STATUS_CORRUPT, "%s has images of %s, which is none of the %zu classes of %s",
                 zip->job->options->archive, wnid, class_table_count(devkit_classes(devkit)),
                 devkit_path(devkit));
    }
    return OK;
}

/* --- Extraction --- */

struct zip_input {
    struct zip_reader *reader;
    const struct kaggle_image *image;
    bool has_begun;
};

static struct status read_image(void *context, const void **ret_bytes, size_t *ret_length)
{
    struct zip_input *input = context;
    if (!input->has_begun)
        TRY(zip_reader_begin(input->reader, &input->image->place, input->image->name));
    input->has_begun = true;
    return zip_reader_data(input->reader, ret_bytes, ret_length);
}

static struct status extract_class(uint64_t class_index, unsigned thread, void *context)
{
    struct zip_job *zip = context;
    struct extract_job *job = zip->job;
    CLEANUP(stage_unit_free) struct stage_unit *unit = NULL;
    size_t start = zip->starts[class_index], end = zip->starts[class_index + 1];
    char wnid[WNID_LENGTH + 1];
    TRY(stop_check());
    kaggle_wnid(zip->images->items[start].wnid_number, wnid);
    TRY(stage_unit_open(job->stage, wnid, &unit));
    for (size_t i = start; i < end; i++) {
        struct zip_input source = {.reader = zip->readers[thread], .image = &zip->images->items[i]};
        const struct extract_input input = {.name = source.image->name,
                                            .size_bytes = source.image->place.size_bytes,
                                            .stored_bytes = source.image->place.packed_bytes,
                                            .read = read_image,
                                            .context = &source};
        TRY(extract_image(job, &input, unit));
    }
    if (job->layout == LAYOUT_TRAIN)
        extract_note_count(job, wnid, end - start);
    atomic_fetch_add(&job->extra, stage_unit_extra(unit));
    return stage_unit_finish(MOVE(unit));
}

static struct status choose_images(struct zip_job *zip)
{
    struct extract_job *job = zip->job;
    const char *path = job->options->archive;
    bool is_val = job->layout == LAYOUT_VAL;
    zip->images = is_val ? &job->zip->val : &job->zip->train;
    if (zip->images->count == 0)
        FAIL(STATUS_NOT_FOUND, "%s holds no images in " KAGGLE_IMAGES "/%s", path,
             is_val ? "val" : "train");
    if (!is_val)
        return OK;
    if (!job->options->devkit)
        FAIL(STATUS_USAGE,
             "%s has flat validation images; give --devkit ILSVRC2012_devkit_t12.tar.gz, which "
             "says their classes",
             path);
    return sort_val(job);
}

static uint64_t stored_bytes(const struct kaggle_images *images)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < images->count; i++)
        bytes += images->items[i].place.packed_bytes;
    return bytes;
}

struct status extract_zip(struct extract_job *job)
{
    CLEANUP(zip_job_done) struct zip_job zip = {.job = job};
    CLEANUP(pool_close) struct pool *pool = NULL;
    TRY(choose_images(&zip));
    TRY(find_classes(&zip));
    TRY(check_classes(&zip));
    TRY(extract_check_space(job));
    progress_set_total(job->progress, zip.images->count, stored_bytes(zip.images));
    job->classes = zip.class_count;
    job->ignored = job->layout == LAYOUT_TRAIN ? job->zip->other_count : 0;
    TRY(pool_open(job->options->threads, &pool));
    TRY(memory_alloc(pool_threads(pool), sizeof *zip.readers, &zip.readers));
    zip.threads = pool_threads(pool);
    for (unsigned i = 0; i < zip.threads; i++)
        TRY(zip_reader_open(job->zip->file, &zip.readers[i]));
    return pool_run(pool, zip.class_count, extract_class, &zip);
}
