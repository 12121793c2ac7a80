#include "prep/prep.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/shell.h"
#include "prep/extract_job.h"
#include "prep/extract_space.h"
#include "prep/layout.h"
#include "prep/official.h"

struct prep_inputs {
    char *train, *val, *devkit; /* paths; NULL: not found */
};

static void prep_inputs_done(struct prep_inputs *inputs)
{
    memory_free(inputs->train);
    memory_free(inputs->val);
    memory_free(inputs->devkit);
}
CLEANUP_VALUE(prep_inputs_done, struct prep_inputs)

/* Where they go. */
struct prep_parts {
    char *train, *val;
};

static void prep_parts_done(struct prep_parts *parts)
{
    memory_free(parts->train);
    memory_free(parts->val);
}
CLEANUP_VALUE(prep_parts_done, struct prep_parts)

void prep_result_done(struct prep_result *result)
{
    extract_result_done(&result->train);
    extract_result_done(&result->val);
    verify_report_free(result->report);
    memory_free(result->train_archive);
    memory_free(result->val_archive);
    memory_free(result->devkit);
    *result = (struct prep_result){0};
}

/* --- Finding the inputs --- */

/* Where a file of this layout goes; NULL if nowhere. */
static char **slot_of(struct prep_inputs *inputs, enum archive_layout layout)
{
    switch (layout) {
    case LAYOUT_TRAIN:
        return &inputs->train;
    case LAYOUT_VAL:
        return &inputs->val;
    case LAYOUT_DEVKIT:
        return &inputs->devkit;
    default:
        return NULL;
    }
}

static struct status find_by_name(const char *src, struct prep_inputs *inputs)
{
    static const struct {
        const char *name;
        enum archive_layout layout;
    } names[] = {
        {"ILSVRC2012_img_train.tar", LAYOUT_TRAIN},
        {"ILSVRC2012_img_val.tar", LAYOUT_VAL},
        {"ILSVRC2012_devkit_t12.tar.gz", LAYOUT_DEVKIT},
        {"ILSVRC2012_devkit_t12", LAYOUT_DEVKIT}, /* unpacked */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        CLEANUP(memory_free) char *path = NULL;
        char **slot = slot_of(inputs, names[i].layout);
        TRY(path_join(src, names[i].name, &path));
        if (!*slot && path_exists(path))
            *slot = MOVE(path);
    }
    return OK;
}

/* Most files in a folder of downloads are no archives, and that is no failure. */
static enum archive_layout layout_of_file(const char *path)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    enum archive_layout layout = LAYOUT_UNKNOWN;
    struct status status = archive_file_open(path, &file);
    if (status.code == STATUS_DONE)
        status = archive_layout_find(file, &layout);
    if (status.code != STATUS_DONE)
        layout = LAYOUT_UNKNOWN;
    status_clear(&status);
    return layout;
}

/* Kaggle's zip file has all three. */
static struct status take_zip(const char *path, struct prep_inputs *inputs)
{
    CLEANUP(kaggle_zip_close) struct kaggle_zip *zip = NULL;
    TRY(kaggle_zip_open(path, &zip));
    if (!inputs->train && zip->train.count)
        TRY(string_copy(path, &inputs->train));
    if (!inputs->val && zip->val.count)
        TRY(string_copy(path, &inputs->val));
    if (!inputs->devkit)
        TRY(string_copy(path, &inputs->devkit));
    return OK;
}

static struct status find_zip(const char *src, const struct folder_list *list,
                              struct prep_inputs *inputs)
{
    for (size_t i = 0; i < list->count; i++) {
        CLEANUP(memory_free) char *path = NULL;
        TRY(path_join(src, list->entries[i].name, &path));
        if (zip_recognise(path))
            return take_zip(path, inputs);
    }
    return OK;
}

static struct status find_by_content(const char *src, struct prep_inputs *inputs)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    struct prep_inputs named = *inputs; /* what has an official name is not looked for */
    TRY(folder_list_read(src, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLEANUP(memory_free) char *path = NULL;
        if (!list.entries[i].is_file || list.entries[i].name[0] == '.')
            continue;
        TRY(path_join(src, list.entries[i].name, &path));
        enum archive_layout layout = layout_of_file(path);
        char **slot = slot_of(inputs, layout), **named_slot = slot_of(&named, layout);
        if (!slot || *named_slot)
            continue;
        if (*slot)
            FAIL(STATUS_USAGE, "%s and %s are each %s; name the right one with headrace extract",
                 *slot, path, archive_layout_name(layout));
        *slot = MOVE(path);
    }
    if (!inputs->train || !inputs->val || !inputs->devkit)
        TRY(find_zip(src, &list, inputs));
    return OK;
}

/* Whether a folder is an unpacked devkit, under whatever name. One that is damaged is met later. */
static bool is_devkit(const char *path)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    struct status status = devkit_open(path, &devkit);
    bool is_one = status.code != STATUS_NOT_FOUND && status.code != STATUS_IO;
    status_clear(&status);
    return is_one;
}

/* An unpacked devkit in `src`, or the files of one. */
static struct status find_devkit_folder(const char *src, struct prep_inputs *inputs)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    if (is_devkit(src))
        return string_copy(src, &inputs->devkit);
    TRY(folder_list_read(src, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLEANUP(memory_free) char *path = NULL;
        if (!list.entries[i].is_folder || list.entries[i].name[0] == '.')
            continue;
        TRY(path_join(src, list.entries[i].name, &path));
        if (!is_devkit(path))
            continue;
        if (inputs->devkit)
            FAIL(STATUS_USAGE, "%s and %s are each an unpacked devkit; leave the right one there",
                 inputs->devkit, path);
        inputs->devkit = MOVE(path);
    }
    return OK;
}

/* What to do where something is missing. */
static struct status fail_missing(const char *src, const struct prep_inputs *inputs)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *message;
    const char *const paths[] = {inputs->train, inputs->val, inputs->devkit};
    static const enum official_role roles[] = {OFFICIAL_TRAIN, OFFICIAL_VAL, OFFICIAL_DEVKIT};
    size_t file_count;
    const struct official_file *files = official_files(&file_count);
    for (size_t i = 0; i < file_count; i++)
        for (size_t k = 0; k < ARRAY_LENGTH(roles); k++)
            if (files[i].role == roles[k])
                TRY(buffer_append_text(&text, "\n  %-28s  %12" PRIu64 " bytes  MD5 %s  %s",
                                       files[i].name, files[i].size_bytes, files[i].md5,
                                       paths[k] ? "(there)" : "MISSING"));
    TRY(buffer_text(&text, &message));
    FAIL(STATUS_NOT_FOUND,
         "%s lacks what is marked below; log in at https://image-net.org, take the links of "
         "ILSVRC2012 "
         "from its download page and put the files there (curl -C - -O LINK goes on with a broken "
         "download; for one archive alone there is headrace extract):%s",
         src, message);
}

/* Flat validation images are fine where something tells their classes. */
static struct status check_val_folder(const char *val)
{
    CLEANUP(devkit_free) struct devkit *labels = NULL;
    TRY(layout_open_labels(val, &labels));
    return labels ? OK : layout_check_classes(val);
}

/* Images in folders need no preparation from archives, only the commands that sort and check. */
static struct status refuse_images(const char *src)
{
    CLEANUP(memory_free) char *root = NULL;
    CLEANUP(memory_free) char *train = NULL;
    CLEANUP(memory_free) char *val = NULL;
    TRY(layout_find_root(src, &root));
    TRY(path_join(root, "train", &train));
    TRY(path_join(root, "val", &val));
    if (!path_is_folder(train))
        return OK;
    TRY(layout_check_classes(train));
    if (path_is_folder(val))
        TRY(check_val_folder(val));
    CLEANUP(memory_free) char *check = NULL;
    CLEANUP(memory_free) char *pack = NULL;
    TRY(shell_command(&check, "headrace verify %s", src));
    TRY(shell_command(&pack, "headrace pack %s -o DIR/", src));
    FAIL(STATUS_USAGE,
         "%s has folders of images already, not archives, so there is nothing to extract; check "
         "them: %s; pack them: %s",
         src, check, pack);
}

/* The data set in another form: opening such a file fails with what it is and the way out. */
static struct status refuse_other_forms(const char *folder)
{
    static const char *const endings[] = {".parquet", ".zip"};
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(folder_list_read(folder, &list));
    for (size_t i = 0; i < list.count; i++) {
        const char *dot = strrchr(list.entries[i].name, '.');
        for (size_t k = 0; dot && k < ARRAY_LENGTH(endings); k++) {
            CLEANUP(memory_free) char *path = NULL;
            CLEANUP(archive_file_close) struct archive_file *file = NULL;
            if (strcmp(dot, endings[k]) != 0)
                continue;
            TRY(path_join(folder, list.entries[i].name, &path));
            TRY(archive_file_open(path, &file));
        }
    }
    return OK;
}

/* Its training images come in several archives, which class folders are made of by other commands.
 */
static struct status refuse_flat_archives(const char *folder, const char *dest)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(folder_list_read(folder, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLEANUP(memory_free) char *path = NULL;
        TRY(path_join(folder, list.entries[i].name, &path));
        if (list.entries[i].is_file && layout_of_file(path) == LAYOUT_TRAIN_FLAT)
            return archive_fail_train_flat(path, dest);
    }
    return OK;
}

/* Hugging Face's snapshots have a folder data/. */
static struct status refuse_snapshot(const char *src, const char *dest)
{
    CLEANUP(memory_free) char *data = NULL;
    TRY(refuse_other_forms(src));
    TRY(refuse_flat_archives(src, dest));
    TRY(path_join(src, "data", &data));
    if (!path_is_folder(data))
        return OK;
    TRY(refuse_other_forms(data));
    return refuse_flat_archives(data, dest);
}

/* An archive that an earlier run removed is not missed. */
static bool is_complete(const struct prep_inputs *inputs, const struct prep_parts *parts)
{
    return (inputs->train || path_is_folder(parts->train)) &&
           (inputs->val || path_is_folder(parts->val)) && inputs->devkit;
}

static struct status find_inputs(const char *src, const struct prep_parts *parts,
                                 struct prep_inputs *inputs)
{
    if (!path_exists(src))
        FAIL(STATUS_NOT_FOUND, "%s does not exist; prep looks for the archives in a folder", src);
    if (zip_recognise(src))
        return take_zip(src, inputs);
    if (!path_is_folder(src))
        FAIL(STATUS_USAGE,
             "%s is not a folder; prep looks for the archives in a folder, headrace "
             "extract takes one archive",
             src);
    TRY(find_by_name(src, inputs));
    if (!inputs->train || !inputs->val || !inputs->devkit)
        TRY(find_by_content(src, inputs));
    if (!inputs->devkit)
        TRY(find_devkit_folder(src, inputs));
    if (is_complete(inputs, parts))
        return OK;
    TRY(refuse_images(src));
    TRY(refuse_snapshot(src, parts->train));
    return fail_missing(src, inputs);
}

/* A wrong file is met before hours went into the other one. */
static struct status check_archive(const char *path, enum archive_layout expected,
                                   bool is_to_be_removed)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    enum archive_layout layout;
    if (!path)
        return OK;
    if (zip_recognise(path)) /* find_zip looked into it */
        return is_to_be_removed ? extract_check_removable(path) : OK;
    TRY(archive_file_open(path, &file));
    TRY(archive_layout_find(file, &layout));
    if (layout != expected)
        FAIL(STATUS_CORRUPT, "%s is %s, expected %s", path, archive_layout_name(layout),
             archive_layout_name(expected));
    return is_to_be_removed ? extract_check_removable(path) : OK;
}

/* --- Doing the work --- */

struct part_to_fill {
    const char *archive, *dest;
    enum image_set set;
};

static bool is_to_be_counted(const struct part_to_fill *part)
{
    return part->archive && !path_exists(part->dest);
}

/* Both archives have to fit, and that is known before the first is unpacked. A part that is there
 * already is left to its own extraction, which checks again. */
static struct status check_space(const struct prep_options *options, const struct stage *stage,
                                 const struct prep_inputs *inputs, const struct prep_parts *parts,
                                 const struct devkit *devkit)
{
    const struct part_to_fill both[] = {{inputs->train, parts->train, IMAGE_SET_TRAIN},
                                        {inputs->val, parts->val, IMAGE_SET_VAL}};
    struct stage_need need = {0};
    uint64_t total_bytes = 0;
    struct stat info;
    for (size_t i = 0; i < ARRAY_LENGTH(both); i++)
        if (is_to_be_counted(&both[i]) && stat(both[i].archive, &info) == 0)
            total_bytes += (uint64_t)info.st_size;
    if (extract_is_roomy(stage, total_bytes))
        return OK;
    for (size_t i = 0; i < ARRAY_LENGTH(both); i++)
        if (is_to_be_counted(&both[i]))
            TRY(extract_count(&(struct extract_options){.archive = both[i].archive,
                                                        .devkit = devkit,
                                                        .threads = options->threads,
                                                        .part = both[i].set},
                              stage, &need));
    return stage_check_space(stage, &need);
}

static struct status extract_part(const struct prep_options *options, const char *archive,
                                  const char *part, enum image_set set, const struct devkit *devkit,
                                  struct extract_result *result)
{
    if (!archive) {
        log_note("%s has no archive of %s any more; what is there is verified as it is",
                 options->src, part);
        return OK;
    }
    return extract(&(struct extract_options){.archive = archive,
                                             .dest = part,
                                             .devkit = devkit,
                                             .threads = options->threads,
                                             .part = set},
                   result);
}

struct status prep(const struct prep_options *options, struct prep_result *ret_result)
{
    CLEANUP(prep_inputs_done) struct prep_inputs inputs = {0};
    CLEANUP(prep_parts_done) struct prep_parts parts = {0};
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    CLEANUP(stage_close) struct stage *stage = NULL;
    CLEANUP(prep_result_done) struct prep_result result = {0};

    TRY(path_join(options->dest, "train", &parts.train));
    TRY(path_join(options->dest, "val", &parts.val));
    TRY(find_inputs(options->src, &parts, &inputs));
    TRY(devkit_open(inputs.devkit, &devkit));
    TRY(check_archive(inputs.train, LAYOUT_TRAIN, options->delete_source));
    TRY(check_archive(inputs.val, LAYOUT_VAL, options->delete_source));
    TRY(stage_open(options->dest, &stage));
    TRY(check_space(options, stage, &inputs, &parts, devkit));
    TRY(extract_part(options, inputs.train, parts.train, IMAGE_SET_TRAIN, devkit, &result.train));
    TRY(extract_part(options, inputs.val, parts.val, IMAGE_SET_VAL, devkit, &result.val));
    TRY(verify(&(struct verify_options){.path = options->dest,
                                        .devkit = devkit,
                                        .is_subset = options->is_subset,
                                        .decode = options->decode,
                                        .threads = options->threads},
               &result.report));
    result.train_archive = MOVE(inputs.train);
    result.val_archive = MOVE(inputs.val);
    result.devkit = MOVE(inputs.devkit);
    *ret_result = result;
    result = (struct prep_result){0};
    return OK;
}

struct status prep_delete_sources(const struct prep_options *options,
                                  const struct prep_result *result)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    const struct {
        const char *archive;
        const struct extract_result *extracted;
        const char *part;
    } sources[] = {{result->train_archive, &result->train, result->report->sets[0].path},
                   {result->val_archive, &result->val, result->report->sets[1].path}};
    if (verify_finding_count(result->report))
        return OK;
    TRY(devkit_open(result->devkit, &devkit));
    for (size_t i = 0; i < ARRAY_LENGTH(sources); i++)
        if (sources[i].archive)
            TRY(extract_delete_source(&(struct extract_options){.archive = sources[i].archive,
                                                                .dest = sources[i].part,
                                                                .devkit = devkit,
                                                                .threads = options->threads,
                                                                .is_subset = options->is_subset},
                                      sources[i].extracted));
    return OK;
}
