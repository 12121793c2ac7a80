#include "index/select.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/permutation.h"
#include "base/random.h"

/* --- Building one source out of another --- */

/* Copies a source's items with new labels and shard numbers. NULL: unchanged. Items whose label
 * becomes NO_LABEL and those that `keep` is false for are left out. */
struct transfer {
    const struct source *from;
    const uint32_t *labels;
    const uint32_t *shards;
    const bool *keep;
    bool keep_value; /* take those items whose `keep` is this */
};
#define NO_LABEL UINT32_MAX

static struct status items_transfer(const struct transfer *transfer, struct source *to)
{
    const struct source *from = transfer->from;
    for (size_t i = 0; i < from->item_count; i++) {
        struct source_item item = from->items[i];
        if (transfer->keep && transfer->keep[i] != transfer->keep_value)
            continue;
        if (transfer->labels)
            item.label = transfer->labels[item.label];
        if (transfer->shards)
            item.shard = transfer->shards[item.shard];
        if (item.label != NO_LABEL)
            TRY(source_add_item(to, &item, item.name, strlen(item.name)));
    }
    return OK;
}

/* Adds a shard unless one of its path is there. */
static struct status shard_unite(struct source *to, const struct source_shard *shard,
                                 uint32_t *ret_number)
{
    for (size_t i = 0; i < to->shard_count; i++) {
        if (strcmp(to->shards[i].path, shard->path) == 0) {
            *ret_number = (uint32_t)i;
            return OK;
        }
    }
    return source_add_shard(to, shard->path, shard->size_bytes, shard->kind, ret_number);
}

/* --- Merging --- */

static int key_compare(const void *a, const void *b)
{
    return strcmp(((const struct class_entry *)a)->wnid, ((const struct class_entry *)b)->wnid);
}

/* Leaves one entry of each key, with what is known of it. Returns how many there are. */
static size_t classes_unite(struct class_entry *entries, size_t count)
{
    size_t kept = 0;
    if (count > 0)
        qsort(entries, count, sizeof *entries, key_compare);
    for (size_t i = 0; i < count; i++) {
        struct class_entry *last = kept ? &entries[kept - 1] : NULL;
        if (!last || strcmp(last->wnid, entries[i].wnid) != 0) {
            entries[kept++] = entries[i];
            continue;
        }
        if (last->words[0] == '\0')
            last->words = entries[i].words;
        if (last->train_images == 0)
            last->train_images = entries[i].train_images;
    }
    return kept;
}

static struct status classes_merge(struct source *const *sources, size_t count,
                                   struct class_table **ret_table)
{
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    size_t total = 0, filled = 0;
    for (size_t i = 0; i < count; i++)
        total += class_table_count(sources[i]->classes);
    TRY(memory_alloc(total, sizeof *entries, &entries));
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < class_table_count(sources[i]->classes); k++)
            entries[filled++] = *class_table_at(sources[i]->classes, k);
    }
    return class_table_make(entries, classes_unite(entries, total), ret_table);
}

static struct status source_merge(struct source *merged, const struct source *source)
{
    CLEANUP(memory_free) uint32_t *labels = NULL;
    CLEANUP(memory_free) uint32_t *shards = NULL;
    size_t class_count = class_table_count(source->classes);
    TRY(memory_alloc(class_count, sizeof *labels, &labels));
    TRY(memory_alloc(source->shard_count, sizeof *shards, &shards));
    for (size_t i = 0; i < class_count; i++)
        labels[i] =
            (uint32_t)class_table_find(merged->classes, class_table_at(source->classes, i)->wnid);
    for (size_t i = 0; i < source->shard_count; i++)
        TRY(shard_unite(merged, &source->shards[i], &shards[i]));
    const struct transfer transfer = {.from = source, .labels = labels, .shards = shards};
    return items_transfer(&transfer, merged);
}

struct status select_merge(struct source *const *sources, size_t count, struct source **ret_merged)
{
    CLEANUP(source_free) struct source *merged = NULL;
    TRY(source_new(&merged));
    TRY(string_copy(count == 1 ? sources[0]->kind : "merged", &merged->kind));
    TRY(classes_merge(sources, count, &merged->classes));
    for (size_t i = 0; i < count; i++)
        TRY(source_merge(merged, sources[i]));
    TRY(source_finish(merged));
    *ret_merged = MOVE(merged);
    return OK;
}

/* --- Relabelling --- */

/* Splits "KEY NEWKEY WORDS…" in place of `text`; the words may be "". */
static struct status relabel_parse(char *text, const struct text_line *line, const char *list_name,
                                   const char **ret_key, struct class_entry *entry)
{
    static const char blanks[] = " \t";
    char *key = text, *new_key = text + strcspn(text, blanks);
    if (*new_key)
        *new_key++ = '\0';
    new_key += strspn(new_key, blanks);
    char *words = new_key + strcspn(new_key, blanks);
    if (*words)
        *words++ = '\0';
    words += strspn(words, blanks);
    if (*new_key == '\0')
        FAIL(STATUS_CORRUPT, "'%s' line %zu: expected KEY NEWKEY, found '%s'", list_name,
             line->number, key);
    *ret_key = key;
    *entry = (struct class_entry){.wnid = new_key, .words = words};
    return OK;
}

static struct status relabel_apply(const struct source *source, const struct text_list *relabel,
                                   const char *list_name, struct arena *texts,
                                   struct class_entry *entries)
{
    for (size_t i = 0; i < relabel->count; i++) {
        const struct text_line *line = &relabel->items[i];
        const char *copy, *key = NULL;
        struct class_entry entry;
        TRY(arena_copy(texts, line->text, strlen(line->text), &copy));
        TRY(relabel_parse((char *)copy, line, list_name, &key, &entry));
        int64_t label = class_table_find(source->classes, key);
        if (label < 0)
            FAIL(STATUS_NOT_FOUND, "'%s' line %zu: there is no class '%s'", list_name, line->number,
                 key);
        if (strcmp(entries[label].wnid, key) != 0 && strcmp(entries[label].wnid, entry.wnid) != 0)
            FAIL(STATUS_CORRUPT, "'%s' line %zu: class '%s' was given the key '%s' before",
                 list_name, line->number, key, entries[label].wnid);
        entries[label] = entry;
    }
    return OK;
}

static struct status relabel_build(const struct source *source, const struct class_entry *entries,
                                   struct source *to)
{
    CLEANUP(memory_free) struct class_entry *united = NULL;
    CLEANUP(memory_free) uint32_t *labels = NULL;
    size_t count = class_table_count(source->classes);
    TRY(memory_alloc(count, sizeof *united, &united));
    TRY(memory_alloc(count, sizeof *labels, &labels));
    memcpy(united, entries, count * sizeof *united);
    TRY(class_table_make(united, classes_unite(united, count), &to->classes));
    for (size_t i = 0; i < count; i++)
        labels[i] = (uint32_t)class_table_find(to->classes, entries[i].wnid);
    const struct transfer transfer = {.from = source, .labels = labels};
    return items_transfer(&transfer, to);
}

struct status select_relabel(const struct source *source, const struct text_list *relabel,
                             const char *list_name, struct source **ret_relabelled)
{
    CLEANUP(arena_done) struct arena texts = {0};
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    CLEANUP(source_free) struct source *to = NULL;
    size_t count = class_table_count(source->classes);
    TRY(memory_alloc(count, sizeof *entries, &entries));
    for (size_t i = 0; i < count; i++)
        entries[i] = *class_table_at(source->classes, i);
    TRY(relabel_apply(source, relabel, list_name, &texts, entries));
    TRY(source_new(&to));
    TRY(string_copy(source->kind, &to->kind));
    for (size_t i = 0; i < source->shard_count; i++) {
        uint32_t number;
        TRY(shard_unite(to, &source->shards[i], &number));
    }
    TRY(relabel_build(source, entries, to));
    TRY(source_finish(to));
    *ret_relabelled = MOVE(to);
    return OK;
}

/* --- Selecting --- */

static struct status classes_mark(const struct source *source, const struct select_options *options,
                                  bool *wanted)
{
    for (size_t i = 0; i < options->classes->count; i++) {
        const struct text_line *line = &options->classes->items[i];
        int64_t label = class_table_find(source->classes, line->text);
        if (label < 0)
            FAIL(STATUS_NOT_FOUND, "%s: there is no class '%s' among the %zu classes (first: %s)",
                 options->classes_name, line->text, class_table_count(source->classes),
                 class_table_at(source->classes, 0)->wnid);
        wanted[label] = true;
    }
    return OK;
}

static int line_compare(const void *a, const void *b)
{
    return strcmp(((const struct text_line *)a)->text, ((const struct text_line *)b)->text);
}

/* Marks a line as found by giving it the number 0. */
static bool line_find(struct text_list *sorted, const char *text)
{
    const struct text_line key = {.text = text};
    struct text_line *found =
        bsearch(&key, sorted->items, sorted->count, sizeof *sorted->items, line_compare);
    if (!found)
        return false;
    found->number = 0;
    return true;
}

static struct status names_match(const struct source *source, struct text_list *sorted, bool *keep)
{
    CLEANUP(buffer_done) struct buffer path = {0};
    for (size_t i = 0; i < source->item_count; i++) {
        const struct source_item *item = &source->items[i];
        const char *text;
        path.length = 0;
        TRY(buffer_append_text(&path, "%s/%s", class_table_at(source->classes, item->label)->wnid,
                               item->name));
        TRY(buffer_text(&path, &text));
        bool found = line_find(sorted, text);
        keep[i] = (line_find(sorted, item->name) || found) && keep[i];
    }
    return OK;
}

static struct status names_keep(const struct source *source, const struct select_options *options,
                                bool *keep)
{
    CLEANUP(memory_free) struct text_line *lines = NULL;
    size_t count = 0;
    TRY(memory_alloc(options->names->count, sizeof *lines, &lines));
    if (options->names->count > 0) {
        memcpy(lines, options->names->items, options->names->count * sizeof *lines);
        qsort(lines, options->names->count, sizeof *lines, line_compare);
    }
    for (size_t i = 0; i < options->names->count; i++) { /* twice in the list is once */
        if (count == 0 || strcmp(lines[count - 1].text, lines[i].text) != 0)
            lines[count++] = lines[i];
    }
    struct text_list sorted = {.items = lines, .count = count};
    TRY(names_match(source, &sorted, keep));
    for (size_t i = 0; i < count; i++) {
        if (lines[i].number > 0)
            FAIL(STATUS_NOT_FOUND, "'%s' line %zu: there is no record '%s'", options->names_name,
                 lines[i].number, lines[i].text);
    }
    return OK;
}

static void every_keep(const struct source *source, uint64_t every, bool *keep)
{
    uint64_t position = 0;
    for (size_t i = 0; i < source->item_count; i++) {
        if (keep[i])
            keep[i] = position++ % every == 0;
    }
}

static void per_class_keep(const struct source *source, uint64_t per_class, bool *keep)
{
    uint64_t taken = 0;
    for (size_t i = 0; i < source->item_count; i++) {
        if (i == 0 || source->items[i].label != source->items[i - 1].label)
            taken = 0;
        if (keep[i])
            keep[i] = taken++ < per_class;
    }
}

/* How many records of the classes so far were there, and were drawn. */
struct split_progress {
    uint64_t seen, drawn;
};

/* Draws `split` of the kept records of one class, items [first, end). What rounding takes from one
 * class the next gets, so that the whole has its share even where classes are small. */
static void split_class(const struct source *source, const struct select_options *options,
                        size_t first, size_t end, struct split_progress *progress, bool *keep)
{
    uint64_t count = 0, position = 0;
    for (size_t i = first; i < end; i++)
        count += keep[i];
    progress->seen += count;
    uint64_t wanted = (uint64_t)((double)progress->seen * options->split + .5) - progress->drawn;
    wanted = wanted < count ? wanted : count;
    progress->drawn += wanted;
    struct random_stream stream =
        random_stream_make(options->seed, RANDOM_SPLIT, 0, source->items[first].label);
    struct permutation order = permutation_make(count, random_u64(&stream), 0);
    for (size_t i = first; i < end; i++) {
        if (keep[i])
            keep[i] = permutation_position(&order, position++) < wanted;
    }
}

static void split_keep(const struct source *source, const struct select_options *options,
                       bool *keep)
{
    struct split_progress progress = {0};
    for (size_t first = 0, end; first < source->item_count; first = end) {
        end = first + 1;
        while (end < source->item_count && source->items[end].label == source->items[first].label)
            end++;
        split_class(source, options, first, end, &progress, keep);
    }
}

static struct status records_mark(const struct source *source, const struct select_options *options,
                                  const bool *wanted_classes, bool *keep)
{
    for (size_t i = 0; i < source->item_count; i++)
        keep[i] = wanted_classes[source->items[i].label];
    if (options->names)
        TRY(names_keep(source, options, keep));
    if (options->every > 0)
        every_keep(source, options->every, keep);
    if (options->per_class > 0)
        per_class_keep(source, options->per_class, keep);
    if (options->split > 0)
        split_keep(source, options, keep);
    return OK;
}

/* The shards that the chosen records stand in, numbered anew. */
static struct status shards_copy(const struct transfer *transfer, struct source *to,
                                 uint32_t *numbers)
{
    const struct source *from = transfer->from;
    CLEANUP(memory_free) bool *used = NULL;
    TRY(memory_alloc(from->shard_count, sizeof *used, &used));
    for (size_t i = 0; i < from->item_count; i++) {
        if (transfer->keep[i] == transfer->keep_value)
            used[from->items[i].shard] = true;
    }
    for (size_t i = 0; i < from->shard_count; i++) {
        if (used[i])
            TRY(shard_unite(to, &from->shards[i], &numbers[i]));
    }
    return OK;
}

/* The classes that `wanted` marks (NULL: all), and their new labels. */
static struct status classes_copy(const struct source *from, const bool *wanted, struct source *to,
                                  uint32_t *labels)
{
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    size_t count = class_table_count(from->classes), kept = 0;
    TRY(memory_alloc(count, sizeof *entries, &entries));
    for (size_t i = 0; i < count; i++) {
        labels[i] = NO_LABEL;
        if (wanted && !wanted[i])
            continue;
        labels[i] = (uint32_t)kept;
        entries[kept++] = *class_table_at(from->classes, i);
    }
    return class_table_make(entries, kept, &to->classes);
}

static struct status part_build(struct transfer transfer, const bool *wanted_classes,
                                const char *what, struct source **ret_part)
{
    CLEANUP(source_free) struct source *part = NULL;
    CLEANUP(memory_free) uint32_t *labels = NULL;
    CLEANUP(memory_free) uint32_t *shards = NULL;
    const struct source *from = transfer.from;
    TRY(source_new(&part));
    TRY(string_copy(from->kind, &part->kind));
    TRY(memory_alloc(class_table_count(from->classes), sizeof *labels, &labels));
    TRY(memory_alloc(from->shard_count, sizeof *shards, &shards));
    TRY(classes_copy(from, wanted_classes, part, labels));
    TRY(shards_copy(&transfer, part, shards));
    transfer.labels = labels;
    transfer.shards = shards;
    TRY(items_transfer(&transfer, part));
    if (part->item_count == 0)
        FAIL(STATUS_NOT_FOUND, "%s has no records", what);
    TRY(source_finish(part));
    *ret_part = MOVE(part);
    return OK;
}

struct status select_run(const struct source *source, const struct select_options *options,
                         struct source **ret_selected, struct source **ret_rest)
{
    CLEANUP(memory_free) bool *keep = NULL;
    CLEANUP(memory_free) bool *wanted = NULL;
    CLEANUP(source_free) struct source *selected = NULL;
    size_t class_count = class_table_count(source->classes);
    TRY(memory_alloc(source->item_count, sizeof *keep, &keep));
    TRY(memory_alloc(class_count, sizeof *wanted, &wanted));
    if (options->classes)
        TRY(classes_mark(source, options, wanted));
    else
        memset(wanted, true, class_count * sizeof *wanted);
    TRY(records_mark(source, options, wanted, keep));

    struct transfer transfer = {.from = source, .keep = keep, .keep_value = true};
    TRY(part_build(transfer, options->keep_classes ? NULL : wanted, "the selection", &selected));
    transfer.keep_value = false;
    if (ret_rest)
        TRY(part_build(transfer, NULL, "what the selection leaves", ret_rest));
    *ret_selected = MOVE(selected);
    return OK;
}
