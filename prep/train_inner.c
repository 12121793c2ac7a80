#include "prep/train_inner.h"

#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/path.h"

/* Task 3's archive has 120 breeds of dogs; their WNIDs lie in this range, in which ILSVRC2012 has
 * hardly anything else. */
static const char first_dog[] = "n02085620";
static const char last_dog[] = "n02116738";
static const size_t max_dogs = 125;
static const size_t max_names_shown = 5;

void train_inner_done(struct train_inner *inner)
{
    memory_free(inner->items);
    memory_free(inner->classes);
    arena_done(&inner->names);
}

struct status train_class_name(const char *inner_name, char **ret_class_name)
{
    const char *base = path_base(inner_name);
    int length = (int)(strlen(base) - strlen(".tar"));
    if (length < 1 || *base == '.')
        FAIL(STATUS_CORRUPT, "the inner archive %s is not named after a class", inner_name);
    return string_format(ret_class_name, "%.*s", length, base);
}

static struct status collect(const struct archive_listing *outer, struct train_inner *inner)
{
    TRY(memory_alloc(outer->count, sizeof *inner->items, &inner->items));
    TRY(memory_alloc(outer->count, sizeof *inner->classes, &inner->classes));
    for (size_t i = 0; i < outer->count; i++) {
        CLEANUP(memory_free) char *name = NULL;
        if (archive_layout_of_member(outer->items[i].name) != LAYOUT_TRAIN)
            continue;
        TRY(train_class_name(outer->items[i].name, &name));
        TRY(arena_copy(&inner->names, name, strlen(name), &inner->classes[inner->count]));
        inner->items[inner->count++] = &outer->items[i];
    }
    return OK;
}

/* Appends the keys of `table` that `other` does not have, the first few by name; their number is
 * *ret_count. */
static struct status append_missing(const struct class_table *table,
                                    const struct class_table *other, struct buffer *text,
                                    size_t *ret_count)
{
    *ret_count = 0;
    for (size_t i = 0; i < class_table_count(table); i++) {
        const char *wnid = class_table_at(table, i)->wnid;
        if (class_table_find(other, wnid) >= 0)
            continue;
        if (++*ret_count <= max_names_shown)
            TRY(buffer_append_text(text, "%s%s", *ret_count > 1 ? ", " : "", wnid));
    }
    if (*ret_count > max_names_shown)
        TRY(buffer_append_text(text, ", …"));
    return OK;
}

static struct status check_against(const struct archive_file *file, const struct class_table *found,
                                   const struct class_table *expected)
{
    CLEANUP(buffer_done) struct buffer unexpected = {0}, missing = {0};
    size_t unexpected_count, missing_count;
    const char *unexpected_text, *missing_text;
    TRY(append_missing(found, expected, &unexpected, &unexpected_count));
    TRY(append_missing(expected, found, &missing, &missing_count));
    TRY(buffer_text(&unexpected, &unexpected_text));
    TRY(buffer_text(&missing, &missing_text));
    if (unexpected_count)
        FAIL(STATUS_CORRUPT,
             "%s has %zu classes that the devkit's %zu do not have (%s) and lacks %zu%s%s%s; is it "
             "the "
             "archive of another year? Leave --devkit out to take it as it is",
             file->path, unexpected_count, class_table_count(expected), unexpected_text,
             missing_count, missing_count ? " (" : "", missing_text, missing_count ? ")" : "");
    return OK;
}

static void warn_of_mix_ups(const struct archive_file *file, const struct class_table *found)
{
    size_t count = class_table_count(found), known = 0, dogs = 0;
    for (size_t i = 0; i < count; i++) {
        const char *wnid = class_table_at(found, i)->wnid;
        known += class_table_find(class_table_ilsvrc2012(), wnid) >= 0;
        dogs += strcmp(wnid, first_dog) >= 0 && strcmp(wnid, last_dog) <= 0;
    }
    if (dogs == count && count > max_dogs / 2 && count <= max_dogs)
        log_warning(
            "%s has only dogs, %zu classes of them: it is the archive of task 3 "
            "(ILSVRC2012_img_train_t3.tar); all 1000 classes are in ILSVRC2012_img_train.tar",
            file->path, count);
    if (known && known < count)
        log_warning("%s has %zu classes, and %zu of them are not in ILSVRC2012", file->path, count,
                    count - known);
}

struct status train_inner_find(const struct archive_file *file, const struct archive_listing *outer,
                               const struct class_table *classes, struct train_inner *ret_inner)
{
    CLEANUP(train_inner_done) struct train_inner inner = {0};
    CLEANUP(class_table_free) struct class_table *found = NULL;
    TRY(status_context(collect(outer, &inner), "%s", file->path));
    if (inner.count == 0)
        FAIL(STATUS_NOT_FOUND, "%s holds no class archives (n01440764.tar, …)", file->path);
    TRY(status_context(class_table_from_names(inner.classes, inner.count, NULL, &found), "%s",
                       file->path));
    if (classes)
        TRY(check_against(file, found, classes));
    else
        warn_of_mix_ups(file, found);
    *ret_inner = inner;
    inner = (struct train_inner){0};
    return OK;
}
