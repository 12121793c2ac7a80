#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "prep/verify_set.h"

/* Numbers in names beyond this are no numbers of ILSVRC2012. */
static const uint64_t max_image_number = 1000000;

struct counting {
    struct verify_set *set;
    const struct verify_options *options;
    const struct source *source;
    const struct class_table *table; /* or NULL */
    uint64_t *images;                /* by the source's labels */
    bool *is_seen;                   /* flat or validation images, by number */
    uint32_t *val_labels;            /* by number - 1, where the published ones can be compared */
    uint64_t max_number;
};

static void counting_done(struct counting *counting)
{
    memory_free(counting->images);
    memory_free(counting->is_seen);
    memory_free(counting->val_labels);
}
CLEANUP_VALUE(counting_done, struct counting)

static bool less_is_fine(const struct verify_options *options)
{
    return options->is_subset || options->has_expected;
}

/* How many images of a class are published; 0 if unknown. */
static uint64_t published_images(const struct counting *counting, size_t label)
{
    const struct devkit *devkit = counting->options->devkit;
    switch (counting->set->set) {
    case IMAGE_SET_TRAIN:
        return class_table_at(counting->table, label)->train_images;
    case IMAGE_SET_VAL:
        if (devkit && devkit_val_count(devkit))
            return devkit_val_count_of(devkit, (uint32_t)label);
        return counting->table == class_table_ilsvrc2012() ? ILSVRC2012_VAL_IMAGES_PER_CLASS : 0;
    default:
        return 0;
    }
}

static bool has_ground_truth(const struct counting *counting)
{
    const struct devkit *devkit = counting->options->devkit;
    return counting->set->set == IMAGE_SET_VAL && devkit && devkit_val_count(devkit);
}

/* --- Classes --- */

/* Its folder is found fault with already, and how many images are in it is not known. */
static bool is_unreadable(const struct source *source, const char *wnid)
{
    for (size_t i = 0; i < source->failure_count; i++)
        if (strcmp(source->failures[i].path, wnid) == 0)
            return true;
    return false;
}

static struct status compare_class(struct counting *counting, size_t label)
{
    struct verify_set *set = counting->set;
    const char *wnid = class_table_at(counting->source->classes, label)->wnid;
    uint64_t images = counting->images[label];
    int64_t known = counting->table ? class_table_find(counting->table, wnid) : -1;
    if (counting->table && known < 0)
        return verify_found(set, FOUND_CLASS_UNEXPECTED, wnid,
                            "no such class (images: %" PRIu64 ")", images);
    /* Validation images that are missing are named one by one where the ground truth is there. */
    bool is_less_told = less_is_fine(counting->options) || has_ground_truth(counting);
    if (images == 0 && is_unreadable(counting->source, wnid))
        return OK;
    if (images == 0)
        return is_less_told ? OK : verify_found(set, FOUND_CLASS_EMPTY, wnid, "no images");
    uint64_t published = known < 0 ? 0 : published_images(counting, (size_t)known);
    if (!published || images == published)
        return OK;
    if (images < published && is_less_told)
        return OK;
    return verify_found(set, FOUND_COUNT, wnid, "has %" PRIu64 ", published are %" PRIu64, images,
                        published);
}

static struct status compare_classes(struct counting *counting)
{
    const struct class_table *found = counting->source->classes;
    for (size_t i = 0; i < class_table_count(found); i++)
        TRY(compare_class(counting, i));
    if (!counting->table || less_is_fine(counting->options))
        return OK;
    for (size_t i = 0; i < class_table_count(counting->table); i++) {
        const struct class_entry *entry = class_table_at(counting->table, i);
        if (class_table_find(found, entry->wnid) < 0)
            TRY(verify_found(counting->set, FOUND_CLASS_MISSING, entry->wnid, "%s", entry->words));
    }
    return OK;
}

/* --- Names --- */

static struct status found_misplaced(struct verify_set *set, const char *class_name,
                                     const struct source_item *item, const char *belongs_to)
{
    CLEANUP(memory_free) char *path = NULL;
    TRY(path_join(class_name, item->name, &path));
    return verify_found(set, FOUND_MISPLACED, path, "belongs to %s", belongs_to);
}

static struct status check_number(struct counting *counting, const struct source_item *item,
                                  const struct image_name *name)
{
    if (name->number > counting->max_number)
        return OK;
    bool *is_seen = &counting->is_seen[name->number];
    if (*is_seen) {
        CLEANUP(memory_free) char *path = NULL;
        TRY(verify_item_path(counting->set, counting->source, item, &path));
        return verify_found(counting->set, FOUND_IMAGE_TWICE, path,
                            "another image has the same number");
    }
    *is_seen = true;
    return OK;
}

static struct status check_name(struct counting *counting, const struct source_item *item)
{
    struct verify_set *set = counting->set;
    struct image_name name = image_name_parse(item->name);
    const char *class_name = class_table_at(counting->source->classes, item->label)->wnid;
    if (name.set == IMAGE_SET_VAL || name.set == IMAGE_SET_TEST)
        TRY(check_number(counting, item, &name));
    if (set->is_flat)
        return OK;
    if (name.set != IMAGE_SET_OTHER && name.set != set->set && !set->is_own_split)
        return found_misplaced(set, class_name, item, "another set");
    if (*name.wnid && strcmp(name.wnid, class_name) != 0)
        return found_misplaced(set, class_name, item, name.wnid);
    if (counting->val_labels && name.set == IMAGE_SET_VAL && name.number >= 1 &&
        name.number <= ILSVRC2012_VAL_IMAGES)
        counting->val_labels[name.number - 1] =
            (uint32_t)class_table_find(counting->table, class_name);
    if (!has_ground_truth(counting) || name.set != IMAGE_SET_VAL)
        return OK;

    const struct devkit *devkit = counting->options->devkit;
    if (name.number < 1 || name.number > devkit_val_count(devkit))
        return found_misplaced(set, class_name, item,
                               "no class: its number is beyond the ground truth");
    uint32_t label = devkit_val_label(devkit, (size_t)name.number);
    const char *wnid = class_table_at(devkit_classes(devkit), label)->wnid;
    return strcmp(wnid, class_name) == 0 ? OK : found_misplaced(set, class_name, item, wnid);
}

static struct status name_missing(struct counting *counting)
{
    uint64_t count = 0;
    if (less_is_fine(counting->options))
        return OK;
    if (has_ground_truth(counting))
        count = devkit_val_count(counting->options->devkit);
    else if (counting->set->is_flat && counting->set->set == IMAGE_SET_VAL)
        count = ILSVRC2012_VAL_IMAGES;
    for (uint64_t number = 1; number <= count && number <= counting->max_number; number++) {
        char name[64];
        if (counting->is_seen[number])
            continue;
        snprintf(name, sizeof name, "ILSVRC2012_val_%08" PRIu64 ".JPEG", number);
        TRY(verify_found(counting->set, FOUND_IMAGE_MISSING, name, "not there"));
    }
    return OK;
}

/* Without a devkit it is known only whether all validation images together lie where they belong.
 */
static struct status compare_val_labels(const struct counting *counting)
{
    if (!counting->val_labels)
        return OK;
    for (size_t number = 1; number <= ILSVRC2012_VAL_IMAGES; number++)
        if (!counting->is_seen[number])
            return OK;
    if (devkit_val_labels_crc(counting->val_labels, ILSVRC2012_VAL_IMAGES) ==
        ILSVRC2012_VAL_LABELS_CRC)
        return OK;
    return verify_found(counting->set, FOUND_MISPLACED, ".",
                        "the images are in other classes than the published ground truth says; to "
                        "see which, add --devkit ILSVRC2012_devkit_t12.tar.gz");
}

/* --- All --- */

struct status verify_expected(struct verify_set *set, const struct verify_options *options)
{
    if (!options->has_expected)
        return OK;
    if (set->classes != options->expected_classes)
        TRY(verify_found(set, FOUND_COUNT, ".", "%" PRIu64 " classes, expected are %" PRIu64,
                         set->classes, options->expected_classes));
    if (set->images != options->expected_images)
        TRY(verify_found(set, FOUND_COUNT, ".", "%" PRIu64 " images, expected are %" PRIu64,
                         set->images, options->expected_images));
    return OK;
}

struct status verify_counts(struct verify_set *set, const struct verify_options *options,
                            const struct source *source, const struct class_table *table)
{
    CLEANUP(counting_done)
    struct counting counting = {.set = set, .options = options, .source = source, .table = table};
    TRY(memory_alloc(class_table_count(source->classes), sizeof *counting.images,
                     &counting.images));
    counting.max_number = max_image_number;
    TRY(memory_alloc(max_image_number + 1, sizeof *counting.is_seen, &counting.is_seen));
    if (set->set == IMAGE_SET_VAL && !options->devkit && table == class_table_ilsvrc2012())
        TRY(memory_alloc(ILSVRC2012_VAL_IMAGES, sizeof *counting.val_labels, &counting.val_labels));
    for (size_t i = 0; i < source->item_count; i++) {
        counting.images[source->items[i].label]++;
        set->bytes += source->items[i].length;
        TRY(check_name(&counting, &source->items[i]));
    }
    set->images = source->item_count;
    set->classes = set->is_flat ? 0 : class_table_count(source->classes);
    set->is_compared = table || (set->is_flat && set->set == IMAGE_SET_VAL);
    if (!set->is_flat)
        TRY(compare_classes(&counting));
    TRY(name_missing(&counting));
    TRY(compare_val_labels(&counting));
    return verify_expected(set, options);
}
