#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "base/file.h"
#include "image/class_table.h"
#include "prep/extract_job.h"

struct status extract_check_removable(const char *archive)
{
    struct stat info;
    if (lstat(archive, &info))
        return status_errno(errno, "cannot read '%s'", archive);
    if (!S_ISREG(info.st_mode))
        FAIL(STATUS_USAGE, "--delete-source: '%s' is %s and not the archive itself; name that",
             archive, S_ISLNK(info.st_mode) ? "a link" : "no regular file");
    if (zip_recognise(archive))
        FAIL(STATUS_USAGE,
             "--delete-source: '%s' holds more than is extracted from it (test images, "
             "annotations); remove it yourself if you do not need them",
             archive);
    return OK;
}

/* What speaks against deleting an archive of training images. */
static struct status check_train_counts(const struct extract_options *options,
                                        const struct extract_result *result)
{
    size_t published = class_table_count(options->devkit ? devkit_classes(options->devkit)
                                                         : class_table_ilsvrc2012());
    if (result->classes != published)
        FAIL(STATUS_FAILED, "it has %" PRIu64 " classes, published are %zu", result->classes,
             published);
    if (result->other_counts)
        FAIL(STATUS_FAILED,
             "%" PRIu64 " of its classes have another number of images than published (%s)",
             result->other_counts, result->other_count_example ? result->other_count_example : "");
    return OK;
}

static struct status check_val_counts(const struct extract_options *options,
                                      const struct extract_result *result)
{
    size_t published = options->devkit ? devkit_val_count(options->devkit) : ILSVRC2012_VAL_IMAGES;
    if (result->images != published)
        FAIL(STATUS_FAILED, "it has %" PRIu64 " images, published are %zu", result->images,
             published);
    return OK;
}

static struct status check_counts(const struct extract_options *options,
                                  const struct extract_result *result)
{
    if (result->warnings)
        FAIL(STATUS_FAILED, "there were warnings about it, so it may be incomplete");
    if (options->is_subset || result->layout == LAYOUT_TEST)
        return OK;
    struct status status = result->layout == LAYOUT_TRAIN ? check_train_counts(options, result)
                                                          : check_val_counts(options, result);
    if (status.code == STATUS_DONE)
        return OK;
    struct status advised =
        status_make(STATUS_FAILED, "%s; if that is as it should be, say --subset",
                    status_message(&status));
    status_clear(&status);
    return advised;
}

static struct status compare(const struct extract_options *options,
                             const struct extract_result *result)
{
    CLEANUP(extract_result_done) struct extract_result compared = {0};
    TRY(extract_run(options, true, &compared));
    if (compared.images != result->images || compared.bytes != result->bytes)
        FAIL(STATUS_FAILED,
             "it has %" PRIu64 " images now, %" PRIu64 " were extracted: it was changed meanwhile",
             compared.images, result->images);
    return OK;
}

struct status extract_delete_source(const struct extract_options *options,
                                    const struct extract_result *result)
{
    static const char kept[] = "the images are extracted, but '%s' is kept";
    TRY(status_context(extract_check_removable(options->archive), kept, options->archive));
    TRY(status_context(check_counts(options, result), kept, options->archive));
    TRY(status_context(compare(options, result), kept, options->archive));
    return file_remove(options->archive);
}
