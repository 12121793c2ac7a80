#include "prep/kaggle_zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "image/source.h"
#include "prep/kaggle.h"

static const char images_folder[] = KAGGLE_IMAGES "/";
static const char train_folder[] = "train/";
static const char val_folder[] = "val/";
static const char test_folder[] = "test/";

const char *kaggle_wnid(uint32_t wnid_number, char text[WNID_LENGTH + 1])
{
    snprintf(text, WNID_LENGTH + 1, "n%08" PRIu32, wnid_number);
    return text;
}

static struct status add_image(struct kaggle_zip *zip, struct kaggle_images *images,
                               const struct zip_member *member, const char *name,
                               uint32_t wnid_number)
{
    TRY(memory_grow(images->count + 1, sizeof *images->items, &images->items, &images->capacity));
    struct kaggle_image *image = &images->items[images->count];
    image->place = member->place;
    image->wnid_number = wnid_number;
    TRY(arena_copy(&zip->names, name, strlen(name), &image->name));
    images->count++;
    return OK;
}

/* The part of `name` behind `folder`, or NULL. */
static const char *below(const char *name, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(name, folder, length) == 0 ? name + length : NULL;
}

static struct status take_train(struct kaggle_zip *zip, const struct zip_member *member,
                                const char *name)
{
    const char *file = path_base(name);
    if (!is_wnid_prefix(name) || file != name + WNID_LENGTH + 1 || !source_is_image_name(file)) {
        zip->other_count++;
        return OK;
    }
    return add_image(zip, &zip->train, member, file, (uint32_t)strtoul(name + 1, NULL, 10));
}

static struct status take_val(struct kaggle_zip *zip, const struct zip_member *member,
                              const char *name)
{
    if (strchr(name, '/') || !source_is_image_name(name)) {
        zip->other_count++;
        return OK;
    }
    return add_image(zip, &zip->val, member, name, 0);
}

static struct status take_member(const struct zip_member *member, void *context)
{
    struct kaggle_zip *zip = context;
    const char *rest = strstr(member->name, images_folder), *name;
    if (!member->is_regular)
        return OK;
    const char *base = path_base(member->name);
    if (strcmp(base, KAGGLE_SOLUTION) == 0 || strcmp(base, KAGGLE_MAPPING) == 0)
        return add_image(zip, &zip->texts, member, base, 0);
    if (!rest || (rest != member->name && rest[-1] != '/'))
        return OK;
    rest += strlen(images_folder);
    if ((name = below(rest, train_folder)))
        return take_train(zip, member, name);
    if ((name = below(rest, val_folder)))
        return take_val(zip, member, name);
    zip->test_count += below(rest, test_folder) != NULL;
    return OK;
}

int kaggle_image_compare(const void *a, const void *b)
{
    const struct kaggle_image *p = a, *q = b;
    if (p->wnid_number != q->wnid_number)
        return p->wnid_number < q->wnid_number ? -1 : 1;
    return p->place.header_offset < q->place.header_offset
               ? -1
               : p->place.header_offset > q->place.header_offset;
}

struct status kaggle_zip_open(const char *path, struct kaggle_zip **ret_zip)
{
    CLEANUP(kaggle_zip_close) struct kaggle_zip *zip = NULL;
    TRY(memory_alloc(1, sizeof *zip, &zip));
    TRY(zip_open(path, &zip->file));
    TRY(zip_walk(zip->file, take_member, zip));
    if (zip->train.count == 0 && zip->val.count == 0 && zip->texts.count == 0)
        FAIL(STATUS_CORRUPT,
             "%s is a zip file, but not Kaggle's of ILSVRC2012 (it has no " KAGGLE_IMAGES
             "/train/WNID/NAME): unpack it with unzip first",
             path);
    if (zip->train.count)
        qsort(zip->train.items, zip->train.count, sizeof *zip->train.items, kaggle_image_compare);
    *ret_zip = MOVE(zip);
    return OK;
}

void kaggle_zip_close(struct kaggle_zip *zip)
{
    if (!zip)
        return;
    zip_close(zip->file);
    memory_free(zip->train.items);
    memory_free(zip->val.items);
    memory_free(zip->texts.items);
    arena_done(&zip->names);
    memory_free(zip);
}

struct status kaggle_zip_read_text(const struct kaggle_zip *zip, const char *name, size_t max_bytes,
                                   struct buffer *text, char **ret_path)
{
    CLEANUP(zip_reader_close) struct zip_reader *reader = NULL;
    const struct kaggle_image *file = NULL;
    for (size_t i = 0; i < zip->texts.count && !file; i++)
        if (strcmp(zip->texts.items[i].name, name) == 0)
            file = &zip->texts.items[i];
    if (!file)
        return OK;
    if (file->place.size_bytes > max_bytes)
        FAIL(STATUS_CORRUPT, "%s: %s is too large for a label file", zip->file->path, name);
    TRY(zip_reader_open(zip->file, &reader));
    TRY(zip_reader_begin(reader, &file->place, name));
    for (size_t length = 1; length;) {
        const void *bytes;
        TRY(zip_reader_data(reader, &bytes, &length));
        TRY(buffer_append(text, bytes, length));
    }
    return string_format(ret_path, "%s: %s", zip->file->path, name);
}
