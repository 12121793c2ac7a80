#include "prep/official.h"

#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

static const struct official_file files[] = {
    {OFFICIAL_TRAIN, "ILSVRC2012_img_train.tar", 147897477120, "1d675b47d978889d74fa0da5fadfb00e",
     "training images, 138 GiB"},
    {OFFICIAL_VAL, "ILSVRC2012_img_val.tar", 6744924160, "29b22e2961454d5413ddabcf34fc5622",
     "validation images, 6.3 GiB"},
    {OFFICIAL_DEVKIT, "ILSVRC2012_devkit_t12.tar.gz", 2568145, "fa75699e90414af021442c21a62c3abf",
     "development kit, 2.5 MB"},
    {OFFICIAL_TEST, "ILSVRC2012_img_test.tar", 0, "fe64ceb247e473635708aed23ab6d839",
     "test images, about 13 GB"},
    {OFFICIAL_TEST, "ILSVRC2012_img_test_v10102019.tar", 0, "e1b8681fff3d63731c599df9b4b6fc02",
     "test images, revision of 2019"},
    {OFFICIAL_DOGS, "ILSVRC2012_img_train_t3.tar", 0, "ccaf1013018ac1037801578038d370da",
     "training images of the 120 dog breeds of task 3 only"},
};

const struct official_file *official_files(size_t *ret_count)
{
    *ret_count = ARRAY_LENGTH(files);
    return files;
}

const struct official_file *official_by_name(const char *path)
{
    const char *name = path_base(path);
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        if (strcmp(files[i].name, name) == 0)
            return &files[i];
    return NULL;
}

const struct official_file *official_by_size(uint64_t size_bytes)
{
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        if (size_bytes && files[i].size_bytes == size_bytes)
            return &files[i];
    return NULL;
}

const struct official_file *official_by_md5(const char *md5_hex)
{
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        if (strcmp(files[i].md5, md5_hex) == 0)
            return &files[i];
    return NULL;
}

struct status official_describe(const char *path, uint64_t size_bytes, const char *md5_hex,
                                struct buffer *text, bool *ret_wrong)
{
    const struct official_file *same = official_by_md5(md5_hex), *named = official_by_name(path);
    const struct official_file *sized = official_by_size(size_bytes);
    *ret_wrong = same ? same->role == OFFICIAL_DOGS || (named && named != same) : sized != NULL;
    if (same && same->role == OFFICIAL_DOGS)
        return buffer_append_text(
            text, "%s: this is %s (%s); all 1000 classes are in ILSVRC2012_img_train.tar", md5_hex,
            same->name, same->what);
    if (same && *ret_wrong)
        return buffer_append_text(text,
                                  "%s: this is %s (%s), not what its name says; the published "
                                  "%s has %s",
                                  md5_hex, same->name, same->what, named->name, named->md5);
    if (same)
        return buffer_append_text(text, "MD5 %s: the published %s", md5_hex, same->name);
    if (sized)
        return buffer_append_text(text,
                                  "%s, but the published %s of the same size has %s: the file is "
                                  "damaged, download it again",
                                  md5_hex, sized->name, sized->md5);
    return buffer_append_text(text,
                              "MD5 %s: not the published file%s%s%s, so only structure and counts "
                              "speak for it",
                              md5_hex, named ? " (MD5 " : "", named ? named->md5 : "",
                              named ? ")" : "");
}

struct status official_append_hint(const char *path, uint64_t size_bytes, struct buffer *text)
{
    const struct official_file *file = official_by_name(path);
    if (!file || !file->size_bytes || file->size_bytes == size_bytes)
        return OK;
    return buffer_append_text(text,
                              "; it has %" PRIu64 " bytes, the published %s has %" PRIu64
                              " and MD5 %s",
                              size_bytes, file->name, file->size_bytes, file->md5);
}
