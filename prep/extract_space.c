#include "prep/extract_space.h"

#include <pthread.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/pool.h"
#include "base/stop.h"
#include "image/source.h"
#include "prep/kaggle_zip.h"
#include "prep/train_inner.h"

/* Of a training image. */
static const uint64_t mean_image_bytes = 110000;
/* Counting takes a read for each header, which is hours on slow disks. Where there is room for so
 * many times the images that are expected, it is left out. */
static const uint64_t spare_factor = 8;

struct count_job {
    const struct extract_options *options;
    const struct stage *stage;
    bool is_fresh;
    const struct kaggle_zip *zip; /* opened already, or NULL */
    const struct archive_file *file;
    const struct train_inner *inner;
    pthread_mutex_t mutex;
    struct stage_need need;
};

bool extract_is_roomy(const struct stage *stage, uint64_t archive_bytes)
{
    struct stage_need need = {0};
    stage_need_guess(&need, stage, archive_bytes, spare_factor * archive_bytes / mean_image_bytes);
    return stage_has_room(stage, &need);
}

static struct status is_wanted(const struct count_job *job, const char *class_name,
                               bool *ret_wanted)
{
    bool has_unit = false;
    if (!job->is_fresh)
        TRY(stage_has_unit(job->stage, class_name, &has_unit));
    *ret_wanted = !has_unit;
    return OK;
}

static struct status count_members(struct archive_reader *reader, const struct stage *stage,
                                   struct stage_need *need)
{
    struct archive_member member;
    bool found;
    for (;;) {
        TRY(stop_check());
        TRY(archive_reader_next(reader, &member, &found));
        if (!found)
            return OK;
        if (!member.is_folder && source_is_image_name(path_base(member.name)))
            stage_need_add(need, stage, member.size_bytes);
    }
}

/* --- Training --- */

static struct status count_class(uint64_t item, unsigned thread, void *context)
{
    (void)thread;
    struct count_job *job = context;
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    const struct archive_item *inner = job->inner->items[item];
    struct stage_need need = {0};
    bool wanted;
    TRY(is_wanted(job, job->inner->classes[item], &wanted));
    if (!wanted)
        return OK;
    TRY(archive_reader_open_range(job->file, inner->name, inner->offset, inner->size_bytes,
                                  ARCHIVE_HEADERS, &reader));
    stage_need_add(&need, job->stage, 1); /* the folder */
    TRY(count_members(reader, job->stage, &need));
    pthread_mutex_lock(&job->mutex);
    job->need.bytes += need.bytes;
    job->need.files += need.files;
    pthread_mutex_unlock(&job->mutex);
    return OK;
}

static struct status count_train(struct count_job *job)
{
    CLEANUP(archive_listing_done) struct archive_listing outer = {0};
    CLEANUP(train_inner_done) struct train_inner inner = {0};
    CLEANUP(pool_close) struct pool *pool = NULL;
    const struct devkit *devkit = job->options->devkit;
    TRY(archive_list(job->file, &outer));
    TRY(train_inner_find(job->file, &outer, devkit ? devkit_classes(devkit) : NULL, &inner));
    job->inner = &inner;
    TRY(pool_open(job->options->threads, &pool));
    return pool_run(pool, inner.count, count_class, job);
}

/* --- The others --- */

/* Folders for sorted validation images: at most one for each. */
static void add_folders(struct count_job *job)
{
    const struct devkit *devkit = job->options->devkit;
    uint64_t folders = devkit ? class_table_count(devkit_classes(devkit)) : 0;
    if (folders > job->need.files)
        folders = job->need.files;
    for (uint64_t i = 0; i < folders; i++)
        stage_need_add(&job->need, job->stage, 1);
}

static struct status count_flat(struct count_job *job)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    TRY(archive_reader_open(job->file, ARCHIVE_HEADERS, &reader));
    TRY(count_members(reader, job->stage, &job->need));
    add_folders(job);
    return OK;
}

static struct status count_zip(struct count_job *job)
{
    CLEANUP(kaggle_zip_close) struct kaggle_zip *own = NULL;
    if (!job->zip)
        TRY(kaggle_zip_open(job->options->archive, &own));
    const struct kaggle_zip *zip = job->zip ? job->zip : own;
    const struct kaggle_images *images =
        job->options->part == IMAGE_SET_VAL ? &zip->val : &zip->train;
    uint32_t class_now = 0;
    bool wanted = true;
    for (size_t i = 0; i < images->count; i++) {
        const struct kaggle_image *image = &images->items[i];
        char wnid[WNID_LENGTH + 1];
        if (image->wnid_number != class_now) {
            class_now = image->wnid_number;
            TRY(is_wanted(job, kaggle_wnid(class_now, wnid), &wanted));
            if (wanted)
                stage_need_add(&job->need, job->stage, 1);
        }
        if (wanted)
            stage_need_add(&job->need, job->stage, image->place.size_bytes);
    }
    if (job->options->part == IMAGE_SET_VAL)
        add_folders(job);
    return OK;
}

static struct status count_tar(struct count_job *job)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    enum archive_layout layout;
    TRY(archive_file_open(job->options->archive, &file));
    job->file = file;
    if (file->is_gzip) {
        stage_need_guess(&job->need, job->stage, file->size_bytes,
                         file->size_bytes / mean_image_bytes);
        return OK;
    }
    TRY(archive_layout_find(file, &layout));
    return layout == LAYOUT_TRAIN ? count_train(job) : count_flat(job);
}

static struct status count(struct count_job *job, struct stage_need *need)
{
    pthread_mutex_init(&job->mutex, NULL);
    struct status status = zip_recognise(job->options->archive) ? count_zip(job) : count_tar(job);
    pthread_mutex_destroy(&job->mutex);
    need->bytes += job->need.bytes;
    need->files += job->need.files;
    return status;
}

struct status extract_count(const struct extract_options *options, const struct stage *stage,
                            struct stage_need *need)
{
    struct count_job counting = {.options = options, .stage = stage, .is_fresh = true};
    return count(&counting, need);
}

struct status extract_check_space(const struct extract_job *job)
{
    struct count_job counting = {.options = job->options, .stage = job->stage, .zip = job->zip};
    struct stage_need need = {0};
    struct stat info;
    if (stat(job->options->archive, &info) || extract_is_roomy(job->stage, (uint64_t)info.st_size))
        return OK;
    TRY(count(&counting, &need));
    return stage_check_space(job->stage, &need);
}
