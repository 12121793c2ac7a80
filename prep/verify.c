#include "prep/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/shell.h"
#include "image/folder_source.h"
#include "prep/archive_listing.h"
#include "prep/archive_source.h"
#include "prep/flat_source.h"
#include "prep/known_subset.h"
#include "prep/layout.h"
#include "prep/official.h"
#include "prep/verify_set.h"

/* train/ and val/. */
#define MAX_SETS 2

/* --- Reports --- */

static void verify_set_done(struct verify_set *set)
{
    memory_free(set->path);
    memory_free(set->findings);
    memory_free(set->oddities);
    memory_free(set->notes);
    arena_done(&set->strings);
}

void verify_report_free(struct verify_report *report)
{
    if (!report)
        return;
    for (size_t i = 0; i < report->set_count; i++)
        verify_set_done(&report->sets[i]);
    memory_free(report->sets);
    memory_free(report->path);
    memory_free(report);
}

struct status verify_report_new(const char *path, size_t set_count,
                                struct verify_report **ret_report)
{
    CLEANUP(verify_report_free) struct verify_report *report = NULL;
    TRY(memory_alloc(1, sizeof *report, &report));
    TRY(string_copy(path, &report->path));
    TRY(memory_alloc(set_count, sizeof *report->sets, &report->sets));
    report->set_count = set_count;
    *ret_report = MOVE(report);
    return OK;
}

static struct status copy_formatted(struct arena *strings, const char *format, va_list arguments,
                                    const char **ret_text)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    return arena_copy(strings, text, strlen(text), ret_text);
}

struct status verify_found(struct verify_set *set, enum finding_kind kind, const char *path,
                           const char *format, ...)
{
    TRY(memory_grow(set->finding_count + 1, sizeof *set->findings, &set->findings,
                    &set->finding_capacity));
    struct finding *finding = &set->findings[set->finding_count];
    finding->kind = kind;
    finding->record = UINT64_MAX;
    TRY(arena_copy(&set->strings, path, strlen(path), &finding->path));
    va_list arguments;
    va_start(arguments, format);
    struct status status = copy_formatted(&set->strings, format, arguments, &finding->text);
    va_end(arguments);
    TRY(status);
    set->finding_count++;
    return OK;
}

struct status verify_note(struct verify_set *set, const char *format, ...)
{
    TRY(memory_grow(set->note_count + 1, sizeof *set->notes, &set->notes, &set->note_capacity));
    va_list arguments;
    va_start(arguments, format);
    struct status status =
        copy_formatted(&set->strings, format, arguments, &set->notes[set->note_count]);
    va_end(arguments);
    TRY(status);
    set->note_count++;
    return OK;
}

struct status verify_oddity(struct verify_set *set, enum oddity_kind kind, const char *path,
                            bool is_known)
{
    TRY(memory_grow(set->oddity_count + 1, sizeof *set->oddities, &set->oddities,
                    &set->oddity_capacity));
    struct oddity *oddity = &set->oddities[set->oddity_count];
    *oddity = (struct oddity){.kind = kind, .is_known = is_known};
    TRY(arena_copy(&set->strings, path, strlen(path), &oddity->path));
    set->oddity_count++;
    return OK;
}

struct status verify_item_path(const struct verify_set *set, const struct source *source,
                               const struct source_item *item, char **ret_path)
{
    if (set->is_flat)
        return string_copy(item->name, ret_path);
    return path_join(class_table_at(source->classes, item->label)->wnid, item->name, ret_path);
}

static int oddity_compare(const void *a, const void *b)
{
    return strcmp(((const struct oddity *)a)->path, ((const struct oddity *)b)->path);
}

static int finding_compare(const void *a, const void *b)
{
    const struct finding *p = a, *q = b;
    if (p->kind != q->kind)
        return p->kind < q->kind ? -1 : 1;
    int order = strcmp(p->path, q->path);
    return order ? order : strcmp(p->text, q->text);
}

/* --- Archives as files --- */

struct md5_progress {
    struct progress *progress;
    uint64_t before_bytes;
};

static void md5_progress(uint64_t done_bytes, void *context)
{
    struct md5_progress *state = context;
    progress_add(state->progress, 0, done_bytes - state->before_bytes);
    state->before_bytes = done_bytes;
}

static struct status compare_md5(struct verify_set *set, uint64_t size_bytes)
{
    CLEANUP(progress_close) struct progress *progress = NULL;
    CLEANUP(buffer_done) struct buffer text = {0};
    char md5[MD5_HEX_LENGTH + 1];
    const char *shown;
    bool is_wrong;
    TRY(progress_open("md5", "files", 0, size_bytes, &progress));
    struct md5_progress state = {progress, 0};
    TRY(digest_md5_file(set->path, md5_progress, &state, md5));
    TRY(official_describe(set->path, size_bytes, md5, &text, &is_wrong));
    TRY(buffer_text(&text, &shown));
    return is_wrong ? verify_found(set, FOUND_MD5, set->path, "%s", shown)
                    : verify_note(set, "%s", shown);
}

struct status verify_official(struct verify_set *set, const struct verify_options *options,
                              uint64_t size_bytes)
{
    if (options->md5)
        return compare_md5(set, size_bytes);
    const struct official_file *sized = official_by_size(size_bytes);
    if (sized)
        return verify_note(set, "size of the published %s; --md5 compares the content too",
                           sized->name);
    return OK;
}

/* --- Sets --- */

static struct status flat_archive_open(const struct archive_file *file, struct source **ret_source)
{
    CLEANUP(archive_listing_done) struct archive_listing listing = {0};
    CLEANUP(source_free) struct source *source = NULL;
    uint32_t shard;
    TRY(archive_list(file, &listing));
    TRY(source_new(&source));
    TRY(string_copy("flat-tar", &source->kind));
    TRY(flat_classes(&source->classes));
    TRY(source_add_shard(source, file->path, file->size_bytes, SHARD_TAR, &shard));
    for (size_t i = 0; i < listing.count; i++) {
        const char *name = path_base(listing.items[i].name);
        struct source_item item = {.offset = listing.items[i].offset,
                                   .length = listing.items[i].size_bytes,
                                   .shard = shard};
        if (source_is_image_name(name))
            TRY(source_add_item(source, &item, name, strlen(name)));
        else
            source->ignored++;
    }
    TRY(source_finish(source));
    *ret_source = MOVE(source);
    return OK;
}

/* Opening it checks all there is; what is left is whether it is the published one. */
static struct status verify_devkit(struct verify_set *set)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    TRY(devkit_open(set->path, &devkit));
    const struct class_table *classes = devkit_classes(devkit);
    set->classes = class_table_count(classes);
    set->is_as_published = devkit_is_published(devkit);
    return verify_note(set, "its ground truth is that of %zu validation images",
                       devkit_val_count(devkit));
}

/* *ret_source stays NULL for an archive without images. */
static struct status open_archive(struct verify_set *set, const struct verify_options *options,
                                  struct source **ret_source)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    enum archive_layout layout;
    TRY(archive_file_open(set->path, &file));
    TRY(archive_layout_find(file, &layout));
    TRY(verify_official(set, options, file->size_bytes));
    set->form = archive_layout_name(layout);
    if (layout == LAYOUT_DEVKIT)
        return verify_devkit(set);
    if (layout == LAYOUT_TRAIN_FLAT)
        return archive_fail_train_flat(set->path, "train");
    TRY(archive_file_check_ranges(file));
    if (options->prefix && layout != LAYOUT_CLASS_FOLDERS)
        return archive_fail_prefix(set->path, archive_layout_name(layout));
    switch (layout) {
    case LAYOUT_TRAIN:
        set->set = IMAGE_SET_TRAIN;
        return train_source_open(file, NULL, options->threads, ret_source);
    case LAYOUT_VAL:
        set->set = IMAGE_SET_VAL;
        set->is_flat = !options->devkit;
        return options->devkit ? val_source_open(file, options->devkit, ret_source)
                               : flat_archive_open(file, ret_source);
    case LAYOUT_TEST:
        set->set = IMAGE_SET_TEST;
        set->is_flat = true;
        return flat_archive_open(file, ret_source);
    case LAYOUT_CLASS_FOLDERS:
        return tar_source_open(file, options->prefix, NULL, ret_source);
    default:
        FAIL(STATUS_CORRUPT, "%s is %s, which has no images to verify", set->path,
             archive_layout_name(layout));
    }
}

/* By the folder's name, else by an image's. */
static enum image_set guess_set(const char *path, const struct source *source)
{
    const char *base = path_base(path);
    if (strncmp(base, "train", 5) == 0)
        return IMAGE_SET_TRAIN;
    if (strncmp(base, "val", 3) == 0)
        return IMAGE_SET_VAL;
    enum image_set set = image_name_parse(source->items[source->item_count / 2].name).set;
    return set == IMAGE_SET_OTHER ? IMAGE_SET_TRAIN : set;
}

/* The classes to compare with: the devkit's, or the built-in ones where most found are among them
 * (a folder too many must not end the comparison), or those that the training set beside has. */
static const struct class_table *choose_table(const struct verify_options *options,
                                              const struct source *source,
                                              const struct class_table *beside)
{
    const struct class_table *built_in = class_table_ilsvrc2012();
    if (options->devkit)
        return devkit_classes(options->devkit);
    size_t known = 0, count = class_table_count(source->classes);
    for (size_t i = 0; i < count; i++)
        known += class_table_find(built_in, class_table_at(source->classes, i)->wnid) >= 0;
    return 2 * known > count ? built_in : beside;
}

/* The classes to compare with, NULL if none, and a note where that needs to be known. */
static struct status find_table(struct verify_set *set, const struct verify_options *options,
                                const struct source *source, const struct class_table *beside,
                                const struct class_table **ret_table)
{
    const char *subset = known_subset_name(source->classes);
    *ret_table = NULL;
    if (set->is_flat)
        return OK;
    if (subset && !options->devkit) {
        set->is_own_split = true;
        *ret_table = beside;
        return verify_note(set, "these are the ten classes of %s, whose counts are its own",
                           subset);
    }
    *ret_table = choose_table(options, source, beside);
    if (*ret_table)
        return OK;
    return verify_note(set,
                       "the classes (%s, …) are not those of ILSVRC2012, whose folders are named "
                       "like n01440764: nothing to compare them with",
                       class_table_at(source->classes, 0)->wnid);
}

/* Whether what the set was compared with is all that is published of it: where --subset or --expect
 * let something pass, or only the training classes beside were there, it is not. */
static void judge(struct verify_set *set, const struct verify_options *options,
                  const struct class_table *table)
{
    bool is_whole = set->is_compared && !set->finding_count && !options->is_subset &&
                    !options->has_expected &&
                    (set->set == IMAGE_SET_TRAIN || set->set == IMAGE_SET_VAL);
    bool is_converted = false;
    for (size_t i = 0; i < set->oddity_count; i++)
        is_converted = is_converted || set->oddities[i].kind == ODDITY_CONVERTED;
    set->is_as_devkit = is_whole && options->devkit;
    set->is_as_published = is_whole && !is_converted &&
                           (options->devkit ? devkit_is_published(options->devkit)
                                            : set->is_flat || table == class_table_ilsvrc2012());
}

static void sort_results(struct verify_set *set)
{
    if (set->finding_count)
        qsort(set->findings, set->finding_count, sizeof *set->findings, finding_compare);
    if (set->oddity_count)
        qsort(set->oddities, set->oddity_count, sizeof *set->oddities, oddity_compare);
}

/* What verifying one set leaves for the end. */
struct verify_run {
    const struct verify_options *options;
    struct verify_report *report;
    struct class_table *classes_beside; /* of the first set */
    struct source *sources[MAX_SETS];
    const struct class_table *tables[MAX_SETS]; /* that the sets were compared with */
};

static void verify_run_done(struct verify_run *run)
{
    for (size_t i = 0; i < MAX_SETS; i++)
        source_free(run->sources[i]);
    class_table_free(run->classes_beside);
    verify_report_free(run->report);
}
CLEANUP_VALUE(verify_run_done, struct verify_run)

/* Flat images are as good as sorted ones where something tells their classes, and test images have
 * none. */
static struct status find_flat(struct verify_set *set, const struct verify_options *options)
{
    CLEANUP(devkit_free) struct devkit *labels = NULL;
    enum image_set images;
    TRY(layout_flat_set(set->path, &images));
    if (images == IMAGE_SET_VAL && !options->devkit)
        TRY(layout_open_labels(set->path, &labels));
    set->is_flat =
        images == IMAGE_SET_TEST || labels || (images == IMAGE_SET_VAL && options->devkit);
    if (!set->is_flat)
        return OK;
    set->form = "flat images";
    set->set = images;
    if (!labels)
        return OK;
    return verify_note(set, "their classes are in %s; headrace pack takes them as they lie",
                       devkit_is_built_in(labels) ? "their names" : devkit_path(labels));
}

static struct status open_folder(struct verify_set *set, const struct verify_options *options,
                                 struct source **ret_source)
{
    set->form = "class folders";
    TRY(find_flat(set, options));
    if (set->is_flat)
        return flat_source_open(set->path, NULL, NULL, options->threads, ret_source);
    TRY(layout_check_classes(set->path));
    TRY(folder_source_survey(set->path, options->threads, ret_source));
    for (size_t i = 0; i < (*ret_source)->failure_count; i++) {
        const struct source_failure *failure = &(*ret_source)->failures[i];
        TRY(verify_found(set, FOUND_UNREADABLE, failure->path, "%s", failure->reason));
    }
    return OK;
}

static struct status open_set(struct verify_set *set, const struct verify_options *options,
                              struct source **ret_source)
{
    return path_is_folder(set->path) ? open_folder(set, options, ret_source)
                                     : open_archive(set, options, ret_source);
}

static struct status verify_set(struct verify_run *run, size_t index)
{
    struct verify_set *set = &run->report->sets[index];
    const struct verify_options *options = run->options;
    TRY(open_set(set, options, &run->sources[index]));
    const struct source *source = run->sources[index];
    if (!source) /* a devkit */
        return OK;
    bool is_folder = path_is_folder(set->path);
    if ((!is_folder || set->is_flat) && source->ignored)
        TRY(verify_note(set, "%" PRIu64 " other %s were passed over", source->ignored,
                        is_folder ? "files and folders" : "members"));
    if (set->set == IMAGE_SET_OTHER)
        set->set = guess_set(set->path, source);
    TRY(find_table(set, options, source, run->classes_beside, &run->tables[index]));
    TRY(verify_counts(set, options, source, run->tables[index]));
    if (is_folder && !set->is_flat)
        TRY(verify_strays(set, source));
    TRY(verify_images(set, options, source));
    return run->classes_beside ? OK : class_table_copy(source->classes, &run->classes_beside);
}

/* --- Paths --- */

/* What a folder without images has instead, and which command that is for. */
static struct status advise_folder(const char *path, struct status status)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    if (status.code != STATUS_NOT_FOUND || !path_is_folder(path))
        return status;
    status_ignore(folder_list_read(path, &list));
    for (size_t i = 0; i < list.count; i++) {
        const char *name = list.entries[i].name, *dot = strrchr(name, '.');
        bool is_index = dot && strcmp(dot, ".idx") == 0;
        if (!is_index && !(dot && strcmp(dot, ".tar") == 0))
            continue;
        status_clear(&status);
        CLEANUP(memory_free) char *below = NULL;
        CLEANUP(memory_free) char *command = NULL;
        TRY(path_join(path, name, &below));
        TRY(shell_command(&command, "headrace verify %s", below));
        FAIL(STATUS_NOT_FOUND, "%s holds no images but %s %s; name that: %s", path,
             is_index ? "an index," : "archives:", name, command);
    }
    return status;
}

/* A folder that holds train/ or val/ stands for both of them. */
static struct status find_sets(const char *path, struct verify_report **ret_report)
{
    CLEANUP(memory_free) char *root = NULL;
    CLEANUP(memory_free) char *train = NULL;
    CLEANUP(memory_free) char *val = NULL;
    TRY(layout_find_root(path, &root));
    TRY(path_join(root, "train", &train));
    TRY(path_join(root, "val", &val));
    char **parts[] = {&train, &val};
    bool has_train = path_is_folder(train), has_val = path_is_folder(val);
    TRY(verify_report_new(path, has_train && has_val ? 2 : 1, ret_report));
    struct verify_set *sets = (*ret_report)->sets;
    if (!has_train && !has_val)
        return string_copy(path, &sets[0].path);
    for (size_t i = has_train ? 0 : 1, k = 0; k < (*ret_report)->set_count; i++, k++)
        sets[k].path = MOVE(*parts[i]);
    return OK;
}

struct status verify(const struct verify_options *options, struct verify_report **ret_report)
{
    CLEANUP(verify_run_done) struct verify_run run = {.options = options};
    if (!path_exists(options->path))
        FAIL(STATUS_NOT_FOUND, "%s does not exist", options->path);
    if (options->prefix && path_is_folder(options->path))
        return archive_fail_prefix(options->path, "a folder");
    if (options->md5 && path_is_folder(options->path))
        FAIL(STATUS_USAGE, "--md5 recognises published archives; %s is a folder", options->path);
    TRY(find_sets(options->path, &run.report));
    struct verify_set *sets = run.report->sets;
    if (options->has_expected && run.report->set_count > 1)
        FAIL(STATUS_USAGE, "--expect is for one set; verify %s and %s one after the other",
             sets[0].path, sets[1].path);
    for (size_t i = 0; i < run.report->set_count; i++)
        TRY(advise_folder(sets[i].path, verify_set(&run, i)));
    if (options->duplicates)
        TRY(verify_duplicates(run.report, options, (const struct source *const *)run.sources));
    for (size_t i = 0; i < run.report->set_count; i++) {
        sort_results(&sets[i]);
        if (run.sources[i])
            judge(&sets[i], options, run.tables[i]);
    }
    *ret_report = MOVE(run.report);
    return OK;
}
