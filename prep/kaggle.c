#include "prep/kaggle.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text_list.h"
#include "prep/image_name.h"

static const char solution_header[] = "ImageId,";
static const uint32_t no_label = UINT32_MAX;

/* "n01440764 tench, Tinca tinca" */
static struct status parse_class(const struct text_line *line, const char *path,
                                 struct arena *wnids, struct class_entry *entry)
{
    size_t length = strcspn(line->text, " \t");
    if (!is_wnid_prefix(line->text) || length != WNID_LENGTH)
        FAIL(STATUS_CORRUPT,
             "%s, line %zu: found \"%.40s\", expected a WNID and its words (n01440764 tench, "
             "Tinca tinca)",
             path, line->number, line->text);
    entry->words = line->text + length + strspn(line->text + length, " \t");
    return arena_copy(wnids, line->text, length, &entry->wnid);
}

/* Published counts stand for these classes only where all of them are published ones. */
static void add_counts(struct class_entry *entries, size_t count)
{
    const struct class_table *published = class_table_ilsvrc2012();
    for (size_t i = 0; i < count; i++)
        if (class_table_find(published, entries[i].wnid) < 0)
            return;
    for (size_t i = 0; i < count; i++) {
        size_t label = (size_t)class_table_find(published, entries[i].wnid);
        entries[i].train_images = class_table_at(published, label)->train_images;
    }
}

struct status kaggle_parse_mapping(const struct kaggle_text *text, struct class_table **ret_classes)
{
    const char *path = text->path;
    CLEANUP(text_list_done) struct text_list lines = {0};
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    CLEANUP(arena_done) struct arena wnids = {0};
    TRY(text_list_parse(text->bytes, text->length, path, &lines));
    if (lines.count == 0)
        FAIL(STATUS_CORRUPT, "%s is empty", path);
    TRY(memory_alloc(lines.count, sizeof *entries, &entries));
    for (size_t i = 0; i < lines.count; i++)
        TRY(parse_class(&lines.items[i], path, &wnids, &entries[i]));
    add_counts(entries, lines.count);
    return status_context(class_table_make(entries, lines.count, ret_classes), "%s", path);
}

/* "ILSVRC2012_val_00048981,n03995372 85 1 499 272": boxes follow the class, which is the same in
 * all of them. */
static struct status parse_image(const struct text_line *line, const char *path,
                                 const struct class_table *classes, uint64_t *ret_number,
                                 uint32_t *ret_label)
{
    const char *comma = strchr(line->text, ',');
    char name[64] = "", wnid[WNID_LENGTH + 1] = "";
    if (comma && (size_t)(comma - line->text) < sizeof name - sizeof ".JPEG")
        snprintf(name, sizeof name, "%.*s.JPEG", (int)(comma - line->text), line->text);
    struct image_name parsed = image_name_parse(name);
    if (parsed.set != IMAGE_SET_VAL || parsed.number < 1 || !is_wnid_prefix(comma + 1))
        FAIL(STATUS_CORRUPT,
             "%s, line %zu: found \"%.60s\", expected an image and its class "
             "(ILSVRC2012_val_00048981,n03995372 …)",
             path, line->number, line->text);
    memcpy(wnid, comma + 1, WNID_LENGTH);
    int64_t label = class_table_find(classes, wnid);
    if (label < 0)
        FAIL(STATUS_CORRUPT, "%s, line %zu: %s is none of the %zu classes", path, line->number,
             wnid, class_table_count(classes));
    *ret_number = parsed.number;
    *ret_label = (uint32_t)label;
    return OK;
}

struct status kaggle_parse_solution(const struct kaggle_text *text,
                                    const struct class_table *classes, uint32_t **ret_labels,
                                    size_t *ret_count)
{
    const char *path = text->path;
    CLEANUP(text_list_done) struct text_list lines = {0};
    CLEANUP(memory_free) uint32_t *labels = NULL;
    TRY(text_list_parse(text->bytes, text->length, path, &lines));
    size_t first = lines.count &&
                   strncmp(lines.items[0].text, solution_header, sizeof solution_header - 1) == 0;
    size_t count = lines.count - first;
    if (count == 0)
        FAIL(STATUS_CORRUPT, "%s has no images", path);
    TRY(memory_alloc(count, sizeof *labels, &labels));
    for (size_t i = 0; i < count; i++)
        labels[i] = no_label;
    for (size_t i = first; i < lines.count; i++) {
        uint64_t number = 0;
        uint32_t label = 0;
        TRY(parse_image(&lines.items[i], path, classes, &number, &label));
        if (number > count)
            FAIL(STATUS_CORRUPT,
                 "%s, line %zu: image %.*s, but the file lists only %zu, so others are missing: "
                 "download it again",
                 path, lines.items[i].number, (int)strcspn(lines.items[i].text, ","),
                 lines.items[i].text, count);
        if (labels[number - 1] != no_label)
            FAIL(STATUS_CORRUPT, "%s, line %zu: image %.40s is listed twice", path,
                 lines.items[i].number, lines.items[i].text);
        labels[number - 1] = label;
    }
    *ret_labels = MOVE(labels);
    *ret_count = count;
    return OK;
}
