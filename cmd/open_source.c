#include "cmd/open_source.h"

#include "base/file.h"
#include "base/log.h"
#include "image/folder_source.h"
#include "index/index_source.h"
#include "index/url.h"
#include "prep/archive_listing.h"
#include "prep/archive_source.h"
#include "prep/flat_source.h"
#include "prep/layout.h"

/* The places of two parts below one folder. */
struct parts {
    char *train, *val;
    bool are_folders;
};

static void parts_done(struct parts *parts)
{
    memory_free(parts->train);
    memory_free(parts->val);
}
CLEANUP_VALUE(parts_done, struct parts)

/* Looks for PATH/TRAIN and PATH/VAL. */
static struct status parts_find_named(const char *path, const char *train, const char *val,
                                      struct parts *parts, bool *ret_found)
{
    parts_done(parts);
    *parts = (struct parts){0};
    TRY(path_join(path, train, &parts->train));
    TRY(path_join(path, val, &parts->val));
    parts->are_folders = path_is_folder(parts->train) && path_is_folder(parts->val);
    *ret_found =
        parts->are_folders || (path_exists(parts->train) && path_exists(parts->val) &&
                               !path_is_folder(parts->train) && !path_is_folder(parts->val));
    return OK;
}

static struct status parts_find(const char *path, struct parts *parts, bool *ret_found)
{
    CLEANUP(memory_free) char *root = NULL;
    TRY(layout_find_root(path, &root));
    TRY(parts_find_named(root, "train", "val", parts, ret_found));
    if (*ret_found && parts->are_folders)
        return OK;
    return parts_find_named(path, "ILSVRC2012_img_train.tar", "ILSVRC2012_img_val.tar", parts,
                            ret_found);
}

/* The devkit that was named, or the one that lies in a folder, or none. */
static struct status devkit_find(const char *named, const char *folder, struct devkit **ret_devkit)
{
    if (named)
        return devkit_open(named, ret_devkit);
    struct status status = devkit_open(folder, ret_devkit);
    if (status.code != STATUS_NOT_FOUND)
        return status;
    status_clear(&status);
    return OK;
}

static struct status archive_layout_at(const char *path, enum archive_layout *ret_layout)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    TRY(archive_file_open(path, &file));
    return archive_layout_find(file, ret_layout);
}

/* One archive with class folders below train/ and val/. */
static struct status prefixes_open_pair(const char *path, struct source **ret_train,
                                        struct source **ret_val)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    CLEANUP(source_free) struct source *train = NULL;
    TRY(archive_file_open(path, &file));
    TRY(archive_file_check_ranges(file));
    TRY(tar_source_open(file, "train", NULL, &train));
    TRY(tar_source_open(file, "val", train->classes, ret_val));
    *ret_train = MOVE(train);
    return OK;
}

/* Who did not choose one part may want both. */
static struct status advise_pair(const char *path, struct status status)
{
    CLEANUP(source_free) struct source *train = NULL;
    CLEANUP(source_free) struct source *val = NULL;
    struct status pair = prefixes_open_pair(path, &train, &val);
    if (pair.code == STATUS_DONE)
        return status_advise(status, "or give a folder for both, with a slash at its end: -o DIR/");
    status_clear(&pair);
    return status;
}

static struct status archive_open(const struct source_request *request, struct source **ret_source)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    CLEANUP(memory_free) char *folder = NULL;
    enum archive_layout layout;
    TRY(path_folder(request->path, &folder));
    TRY(archive_layout_at(request->path, &layout));
    if (layout == LAYOUT_TRAIN_FLAT && !request->prefix)
        return archive_fail_train_flat(request->path, "train");
    if (layout == LAYOUT_DEVKIT)
        FAIL(STATUS_USAGE,
             "'%s' is the devkit, which has no images; it is for --devkit, beside a SRC that has "
             "validation images",
             request->path);
    if (request->devkit || layout == LAYOUT_VAL)
        TRY(devkit_find(request->devkit, folder, &devkit));
    struct status status =
        archive_source_open(request->path, devkit, request->prefix, request->threads, ret_source);
    if (status.code == STATUS_USAGE && layout == LAYOUT_CLASS_FOLDERS && !request->prefix)
        return advise_pair(request->path, status);
    return status;
}

/* What tells the classes of flat images in a folder: what was named, or what is found; NULL for
 * nothing, and for a folder of class folders. */
static struct status labels_open(const struct source_request *request, const char *folder,
                                 struct devkit **ret_labels)
{
    enum image_set images;
    *ret_labels = NULL;
    TRY(layout_flat_set(folder, &images));
    if (images == IMAGE_SET_OTHER || images == IMAGE_SET_TEST)
        return OK;
    if (request->devkit)
        return devkit_open(request->devkit, ret_labels);
    TRY(layout_open_labels(folder, ret_labels));
    if (*ret_labels)
        log_note("%s has flat images, whose classes are in %s", folder,
                 devkit_is_built_in(*ret_labels) ? "their names" : devkit_path(*ret_labels));
    return OK;
}

/* A folder of one set: class folders, or flat images whose classes are known. Labels count
 * `classes`, if they are not NULL. */
static struct status set_open(const struct source_request *request, const char *folder,
                              const struct class_table *classes, struct source **ret_source)
{
    CLEANUP(devkit_free) struct devkit *labels = NULL;
    TRY(labels_open(request, folder, &labels));
    if (labels)
        return flat_source_open(folder, labels, classes, request->threads, ret_source);
    TRY(layout_check_classes(folder));
    return folder_source_open(folder, classes, request->threads, ret_source);
}

/* A devkit that would not be looked at is refused. */
static struct status refuse_devkit(const struct source_request *request, const char *what)
{
    CLEANUP(memory_free) char *shown = NULL;
    if (!request->devkit)
        return OK;
    TRY(url_shown(request->path, &shown));
    FAIL(STATUS_USAGE,
         "--devkit tells the classes of flat validation images, but '%s' %s; leave it out", shown,
         what);
}

static struct status refuse_devkit_of_folder(const struct source_request *request,
                                             const char *folder)
{
    enum image_set images;
    TRY(layout_flat_set(folder, &images));
    if (images != IMAGE_SET_OTHER)
        return OK;
    return refuse_devkit(request, "has class folders, whose names are the classes");
}

static struct status folder_open(const struct source_request *request, struct source **ret_source)
{
    CLEANUP(parts_done) struct parts parts = {0};
    bool has_parts;
    TRY(parts_find(request->path, &parts, &has_parts));
    if (has_parts)
        FAIL(STATUS_USAGE,
             "'%s' holds a training and a validation part; name one of them (%s), or give a folder "
             "for both, with a slash at its end: -o DIR/",
             request->path, parts.train);
    TRY(refuse_devkit_of_folder(request, request->path));
    return set_open(request, request->path, NULL, ret_source);
}

static struct status index_open_source(const struct source_request *request,
                                       struct source **ret_source)
{
    CLEANUP(index_close) struct index *index = NULL;
    TRY(index_open_with(request->path, request->access, &index));
    return index_source_open(index, ret_source);
}

struct status source_open_any(const struct source_request *request, struct source **ret_source)
{
    CLEANUP(memory_free) char *shown = NULL;
    bool is_folder = path_is_folder(request->path), is_index = false;
    TRY(url_shown(request->path, &shown));
    if (!is_folder)
        TRY(index_recognise(request->path, &is_index));
    if (request->prefix && (is_folder || is_index))
        return archive_fail_prefix(shown, is_folder ? "a folder" : "an index");
    if (is_folder)
        return folder_open(request, ret_source);
    if (is_index)
        TRY(refuse_devkit(request, "is an index, which has its labels"));
    if (is_index)
        return index_open_source(request, ret_source);
    return archive_open(request, ret_source);
}

static struct status folders_open_pair(const struct source_request *request,
                                       const struct parts *parts, struct source **ret_train,
                                       struct source **ret_val)
{
    CLEANUP(source_free) struct source *train = NULL;
    TRY(refuse_devkit_of_folder(request, parts->val));
    TRY(set_open(request, parts->train, NULL, &train));
    TRY(set_open(request, parts->val, train->classes, ret_val));
    *ret_train = MOVE(train);
    return OK;
}

static struct status archives_open_pair(const struct source_request *request,
                                        const struct parts *parts, struct source **ret_train,
                                        struct source **ret_val)
{
    CLEANUP(source_free) struct source *train = NULL;
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    TRY(devkit_find(request->devkit, request->path, &devkit));
    TRY(archive_source_open(parts->train, devkit, NULL, request->threads, &train));
    TRY(archive_source_open(parts->val, devkit, NULL, request->threads, ret_val));
    *ret_train = MOVE(train);
    return OK;
}

struct status source_open_pair(const struct source_request *request, struct source **ret_train,
                               struct source **ret_val)
{
    CLEANUP(parts_done) struct parts parts = {0};
    CLEANUP(memory_free) char *shown = NULL;
    bool has_parts;
    if (request->prefix)
        FAIL(STATUS_USAGE, "--prefix names one set; for both parts leave it out, for one give -o "
                           "NAME.idx");
    TRY(url_refuse_kind(request->path));
    if (url_is(request->path)) {
        TRY(url_shown(request->path, &shown));
        FAIL(STATUS_USAGE, "'%s' is one index; give -o NAME.idx", shown);
    }
    if (!path_is_folder(request->path))
        TRY(refuse_devkit(request, "is taken for an archive of class folders"));
    if (!path_is_folder(request->path))
        return status_context(prefixes_open_pair(request->path, ret_train, ret_val),
                              "a training and a validation part were expected, since the output is "
                              "a folder");
    TRY(parts_find(request->path, &parts, &has_parts));
    if (!has_parts)
        FAIL(STATUS_USAGE,
             "'%s' has neither folders train/ and val/ nor the archives ILSVRC2012_img_train.tar "
             "and ILSVRC2012_img_val.tar; to pack one set, give -o NAME.idx",
             request->path);
    if (parts.are_folders)
        return folders_open_pair(request, &parts, ret_train, ret_val);
    return archives_open_pair(request, &parts, ret_train, ret_val);
}
