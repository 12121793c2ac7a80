#include "prep/extract.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/shell.h"
#include "image/source.h"
#include "prep/extract_job.h"
#include "prep/extract_space.h"
#include "prep/image_name.h"

void extract_result_done(struct extract_result *result)
{
    memory_free(result->other_count_example);
    result->other_count_example = NULL;
}

/* --- One image, one class: shared by all layouts --- */

static struct status write_file(const struct extract_input *input, struct stage_unit *unit)
{
    TRY(stage_unit_begin(unit, input->name));
    for (;;) {
        const void *bytes;
        size_t length;
        TRY(input->read(input->context, &bytes, &length));
        if (length == 0)
            return stage_unit_end(unit);
        TRY(stage_unit_write(unit, bytes, length));
    }
}

/* Reads the published file beside the archive's data. */
static struct status compare_file(const struct extract_input *input, const struct stage_unit *unit)
{
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(fd_close) int fd = -1;
    CLEANUP(buffer_done) struct buffer own = {0};
    uint64_t size_bytes, done_bytes = 0;
    TRY(path_join(stage_unit_path(unit), input->name, &path));
    TRY(file_open_read(path, &fd));
    TRY(file_size(fd, path, &size_bytes));
    bool is_same = size_bytes == input->size_bytes;
    while (is_same && done_bytes < size_bytes) {
        const void *bytes;
        size_t length;
        TRY(input->read(input->context, &bytes, &length));
        TRY(buffer_resize(&own, length));
        TRY(file_read_at(fd, path, own.data, length, done_bytes));
        is_same = length > 0 && memcmp(own.data, bytes, length) == 0;
        done_bytes += length;
    }
    if (!is_same)
        FAIL(STATUS_CORRUPT, "'%s' has other bytes than the archive", path);
    return OK;
}

struct status extract_image(struct extract_job *job, const struct extract_input *input,
                            struct stage_unit *unit)
{
    bool keeps = true;
    TRY(stop_check());
    if (job->is_comparing)
        TRY(compare_file(input, unit));
    else
        TRY(stage_unit_keeps(unit, input->name, input->size_bytes, &keeps));
    if (!keeps)
        TRY(write_file(input, unit));
    progress_add(job->progress, 1, input->stored_bytes);
    atomic_fetch_add(&job->images, 1);
    atomic_fetch_add(&job->bytes, input->size_bytes);
    atomic_fetch_add(&job->kept, keeps);
    return OK;
}

static struct status read_member(void *context, const void **ret_bytes, size_t *ret_length)
{
    return archive_reader_data(context, ret_bytes, ret_length);
}

struct status extract_member(struct extract_job *job, struct archive_reader *reader,
                             const struct archive_member *member, struct stage_unit *unit,
                             uint64_t *done_bytes)
{
    const struct extract_input input = {
        .name = path_base(member->name),
        .size_bytes = member->size_bytes,
        .stored_bytes = 512 + ((member->size_bytes + 511) & ~(uint64_t)511),
        .read = read_member,
        .context = reader,
    };
    *done_bytes += input.stored_bytes;
    return extract_image(job, &input, unit);
}

void extract_warnings(struct extract_job *job, const struct archive_reader *reader)
{
    atomic_fetch_add(&job->warnings, archive_reader_warnings(reader));
    if (!job->is_comparing)
        archive_reader_show_warnings(reader);
}

/* --- Flat archives --- */

void extract_note_missing(struct extract_job *job, const bool *is_seen)
{
    for (size_t number = devkit_val_count(job->options->devkit); number >= 1; number--) {
        if (is_seen[number])
            continue;
        job->missing++;
        job->first_missing = number;
    }
}

struct flat_job {
    struct extract_job *job;
    struct stage_unit **units; /* by label; one if images stay flat */
    size_t unit_count;
    bool *is_seen; /* by number, from 1 */
};

static void flat_job_done(struct flat_job *flat)
{
    for (size_t i = 0; flat->units && i < flat->unit_count; i++)
        stage_unit_free(flat->units[i]);
    memory_free(flat->units);
    memory_free(flat->is_seen);
}
CLEANUP_VALUE(flat_job_done, struct flat_job)

static struct status flat_unit(struct flat_job *flat, const char *name,
                               struct stage_unit **ret_unit)
{
    struct extract_job *job = flat->job;
    const struct devkit *devkit = job->options->devkit;
    const char *folder = "";
    uint32_t label = 0;
    if (!job->is_flat) {
        TRY(status_context(devkit_label_of_name(devkit, name, &label), "%s", job->file->path));
        folder = class_table_at(devkit_classes(devkit), label)->wnid;
        flat->is_seen[image_name_parse(name).number] = true;
    } else {
        job->names_without_class += !*image_name_parse(name).wnid;
    }
    if (!flat->units[label])
        TRY(stage_unit_open(job->stage, folder, &flat->units[label]));
    *ret_unit = flat->units[label];
    return OK;
}

static struct status flat_read(struct flat_job *flat, struct archive_reader *reader)
{
    struct archive_member member;
    struct stage_unit *unit = NULL;
    uint64_t done_bytes = 0;
    bool found;
    for (;;) {
        TRY(archive_reader_next(reader, &member, &found));
        if (!found)
            return OK;
        if (member.is_folder)
            continue;
        const char *name = path_base(member.name);
        if (!source_is_image_name(name)) {
            atomic_fetch_add(&flat->job->ignored, 1);
            continue;
        }
        TRY(flat_unit(flat, name, &unit));
        TRY(extract_member(flat->job, reader, &member, unit, &done_bytes));
    }
}

static struct status flat_finish(struct flat_job *flat)
{
    struct extract_job *job = flat->job;
    for (size_t i = 0; i < flat->unit_count; i++) {
        struct stage_unit *unit = flat->units[i];
        if (!unit)
            continue;
        job->classes++;
        if (!job->is_flat)
            atomic_fetch_add(&job->extra, stage_unit_extra(unit));
        flat->units[i] = NULL;
        TRY(stage_unit_finish(unit));
    }
    if (!job->is_flat)
        extract_note_missing(job, flat->is_seen);
    return OK;
}

/* The class folders of another set have the same names, and would be mixed with. The first image
 * whose name tells its set speaks for all. */
static struct status check_class_folder(const struct extract_job *job, const char *class_name,
                                        bool *is_known)
{
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(path_join(job->options->dest, class_name, &path));
    TRY(folder_list_read(path, &list));
    for (size_t i = 0; i < list.count && !*is_known; i++) {
        enum image_set set = image_name_parse(list.entries[i].name).set;
        bool is_train = set == IMAGE_SET_TRAIN;
        *is_known = is_train || set == IMAGE_SET_VAL;
        if (*is_known && is_train != (job->layout == LAYOUT_TRAIN))
            FAIL(STATUS_FAILED,
                 "'%s' has %s images (%s/%s, …), which those of %s would be mixed with: choose "
                 "another folder",
                 job->options->dest, is_train ? "training" : "validation", class_name,
                 list.entries[i].name, job->options->archive);
    }
    return OK;
}

static struct status fail_unsorted(const struct extract_job *job, const char *image)
{
    CLEANUP(memory_free) char *command = NULL;
    const char *dest = job->options->dest;
    TRY(shell_command(&command, "headrace organize %s --devkit %s", dest,
                      devkit_path(job->options->devkit)));
    FAIL(STATUS_FAILED, "'%s' has images outside class folders (%s, …); sort them first: %s", dest,
         image, command);
}

/* What one kind of run leaves, the other would mix itself into. */
static struct status check_dest(const struct extract_job *job)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    const char *dest = job->options->dest;
    bool is_known = false;
    TRY(folder_list_read(dest, &list));
    for (size_t i = 0; i < list.count; i++) {
        const struct folder_entry *entry = &list.entries[i];
        if (job->is_flat && entry->is_folder && is_wnid(entry->name))
            FAIL(
                STATUS_FAILED,
                "'%s' has class folders already (%s, …); images of %s would lie flat between them: "
                "choose another folder%s",
                dest, entry->name, job->options->archive,
                job->layout == LAYOUT_VAL ? ", or give --devkit" : "");
        if (!job->is_flat && !is_known && entry->is_folder && is_wnid(entry->name))
            TRY(check_class_folder(job, entry->name, &is_known));
        if (!job->is_flat && job->layout == LAYOUT_VAL && entry->is_file &&
            source_is_image_name(entry->name))
            return fail_unsorted(job, entry->name);
    }
    return OK;
}

static struct status extract_flat(struct extract_job *job)
{
    CLEANUP(flat_job_done) struct flat_job flat = {.job = job};
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    const struct devkit *devkit = job->options->devkit;
    CLEANUP(folder_list_done) struct folder_list present = {0};
    TRY(folder_list_read(job->options->dest, &present));
    if (present.count == 0)
        TRY(extract_check_space(job));
    flat.unit_count = job->is_flat ? 1 : class_table_count(devkit_classes(devkit));
    TRY(memory_alloc(flat.unit_count, sizeof *flat.units, &flat.units));
    TRY(memory_alloc(job->is_flat ? 1 : devkit_val_count(devkit) + 1, sizeof *flat.is_seen,
                     &flat.is_seen));
    progress_set_total(job->progress, 0, job->file->size_bytes);
    TRY(archive_reader_open(job->file,
                            present.count && !job->is_comparing ? ARCHIVE_HEADERS : ARCHIVE_DATA,
                            &reader));
    TRY(flat_read(&flat, reader));
    extract_warnings(job, reader);
    return flat_finish(&flat);
}

/* --- Any archive --- */

static struct status fail_class_folders(const char *path, const char *dest)
{
    CLEANUP(memory_free) char *unpack = NULL;
    CLEANUP(memory_free) char *pack = NULL;
    TRY(shell_command(&unpack, "mkdir -p %s && tar -xf %s -C %s", dest, path, dest));
    TRY(shell_command(&pack, "headrace pack %s", path));
    FAIL(STATUS_USAGE,
         "%s has class folders already: unpack it with: %s; or pack it as it is: %s -o NAME.idx",
         path, unpack, pack);
}

/* Refuses what has nothing to extract before anything is made. */
static struct status check_layout(const struct extract_job *job)
{
    const char *path = job->options->archive;
    if (job->zip)
        return OK;
    switch (job->layout) {
    case LAYOUT_TRAIN:
    case LAYOUT_VAL:
        return OK;
    case LAYOUT_TEST:
        if (!job->options->devkit)
            return OK;
        FAIL(STATUS_USAGE,
             "--devkit tells the classes of validation images; %s has test images, whose classes "
             "are not published",
             path);
    case LAYOUT_DEVKIT:
        FAIL(STATUS_USAGE, "%s is a devkit; it needs no unpacking: give it with --devkit", path);
    case LAYOUT_TRAIN_FLAT:
        return archive_fail_train_flat(path, job->options->dest);
    case LAYOUT_CLASS_FOLDERS:
        return fail_class_folders(path, job->options->dest);
    default:
        FAIL(STATUS_CORRUPT,
             "%s is neither a training archive (nWNID.tar members) nor a validation or "
             "test archive (ILSVRC2012_val_….JPEG members)",
             path);
    }
}

static struct status extract_by_layout(struct extract_job *job)
{
    TRY(check_dest(job));
    if (job->zip)
        return extract_zip(job);
    return job->layout == LAYOUT_TRAIN ? extract_train(job) : extract_flat(job);
}

static void fill_result(struct extract_job *job, struct extract_result *result)
{
    *result = (struct extract_result){
        .layout = job->layout,
        .is_flat = job->is_flat,
        .names_tell_classes = job->is_flat && job->names_without_class == 0,
        .classes = job->is_flat ? 0 : job->classes,
        .images = job->images,
        .bytes = job->bytes,
        .kept = job->kept,
        .ignored = job->ignored,
        .extra = job->extra,
        .other_counts = job->other_counts,
        .other_count_example = MOVE(job->other_count_example),
        .missing = job->missing,
        .first_missing = job->first_missing,
        .warnings = job->warnings,
    };
}

static void extract_job_done(struct extract_job *job)
{
    progress_close(job->progress);
    stage_close(job->stage);
    archive_file_close(job->file);
    kaggle_zip_close(job->zip);
    memory_free(job->other_count_example);
    pthread_mutex_destroy(&job->mutex);
}
CLEANUP_VALUE(extract_job_done, struct extract_job)

static struct status open_archive(struct extract_job *job)
{
    const char *path = job->options->archive;
    if (zip_recognise(path)) {
        job->layout = job->options->part == IMAGE_SET_VAL ? LAYOUT_VAL : LAYOUT_TRAIN;
        return kaggle_zip_open(path, &job->zip);
    }
    TRY(archive_file_open(path, &job->file));
    if (!job->file->is_seekable)
        FAIL(STATUS_UNSUPPORTED,
             "%s is a pipe; its kind cannot be found out before it is read: save it "
             "as a file",
             path);
    TRY(archive_layout_find(job->file, &job->layout));
    job->is_flat =
        job->layout == LAYOUT_TEST || (job->layout == LAYOUT_VAL && !job->options->devkit);
    return OK;
}

struct status extract_run(const struct extract_options *options, bool is_comparing,
                          struct extract_result *ret_result)
{
    CLEANUP(extract_job_done)
    struct extract_job job = {.options = options,
                              .is_comparing = is_comparing,
                              .mutex = PTHREAD_MUTEX_INITIALIZER};
    TRY(open_archive(&job));
    TRY(check_layout(&job));
    TRY(stage_open(options->dest, &job.stage));
    TRY(progress_open(is_comparing ? "compare" : "extract", "images", 0, 0, &job.progress));

    struct status status = extract_by_layout(&job);
    struct status published = stage_publish(job.stage);
    if (status.code != STATUS_DONE) {
        status_clear(&published);
        return status;
    }
    TRY(published);
    if (job.images == 0)
        FAIL(STATUS_NOT_FOUND, "%s holds no images", options->archive);
    fill_result(&job, ret_result);
    return OK;
}

struct status extract(const struct extract_options *options, struct extract_result *ret_result)
{
    return extract_run(options, false, ret_result);
}
