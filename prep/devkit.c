#include "prep/devkit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "prep/archive.h"
#include "prep/image_name.h"
#include "prep/kaggle.h"
#include "prep/kaggle_zip.h"
#include "prep/meta_mat.h"
#include "prep/official.h"
#include "prep/zip.h"

/* The real files have 177 kB and 195 kB. */
static const size_t max_file_bytes = 64 << 20;
static const int max_folder_depth = 5;
static const char meta_name[] = "meta.mat";
static const char truth_suffix[] = "validation_ground_truth.txt";

struct devkit {
    char *path;
    bool is_built_in;
    struct class_table *classes;
    int64_t *label_of_id; /* [1 … id_count] */
    size_t id_count;
    uint32_t *val_labels; /* [0 … val_count - 1]: image 1 first */
    size_t val_count;
    uint64_t *val_counts; /* by label */
};

/* The two files, wherever they were found. */
struct devkit_files {
    struct buffer meta, truth;
    char *meta_path, *truth_path; /* for messages; NULL: not found */
    /* Kaggle's, where there is no meta.mat. */
    struct buffer solution, mapping;
    char *solution_path, *mapping_path;
};

static void devkit_files_done(struct devkit_files *files)
{
    buffer_done(&files->meta);
    buffer_done(&files->truth);
    memory_free(files->meta_path);
    memory_free(files->truth_path);
    buffer_done(&files->solution);
    buffer_done(&files->mapping);
    memory_free(files->solution_path);
    memory_free(files->mapping_path);
}
CLEANUP_VALUE(devkit_files_done, struct devkit_files)

static bool is_truth_name(const char *name)
{
    size_t length = strlen(name), suffix = strlen(truth_suffix);
    return length >= suffix && strcmp(name + length - suffix, truth_suffix) == 0;
}

/* Which of the two files a name stands for, if it is still wanted. */
static bool file_wanted(struct devkit_files *files, const char *name, struct buffer **ret_content,
                        char ***ret_path)
{
    bool is_meta = strcmp(name, meta_name) == 0;
    if (!is_meta && !is_truth_name(name))
        return false;
    *ret_content = is_meta ? &files->meta : &files->truth;
    *ret_path = is_meta ? &files->meta_path : &files->truth_path;
    return **ret_path == NULL;
}

/* --- Finding the files --- */

static struct status read_member(struct archive_reader *reader, const struct archive_member *member,
                                 struct buffer *content)
{
    if (member->size_bytes > max_file_bytes)
        return archive_reader_fail(reader, STATUS_CORRUPT, "the file is too large for a devkit's");
    for (size_t length = 1; length;) {
        const void *bytes;
        TRY(archive_reader_data(reader, &bytes, &length));
        TRY(buffer_append(content, bytes, length));
    }
    return OK;
}

static struct status read_archive(const char *path, struct devkit_files *files)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    struct archive_member member;
    struct buffer *content;
    char **file_path;
    bool found;
    TRY(archive_file_open(path, &file));
    TRY(archive_reader_open(file, ARCHIVE_HEADERS, &reader));
    for (;;) {
        TRY(archive_reader_next(reader, &member, &found));
        if (!found)
            return OK;
        if (member.is_folder || !file_wanted(files, path_base(member.name), &content, &file_path))
            continue;
        TRY(string_format(file_path, "%s: %s", path, member.name));
        TRY(read_member(reader, &member, content));
    }
}

/* Whether a folder may lead to the devkit's files; folders of images, with their thousands of
 * entries, do not. */
static bool is_devkit_folder_name(const char *name)
{
    return strcasestr(name, "devkit") || strcmp(name, "data") == 0;
}

static struct status read_folder(const char *path, int depth, struct devkit_files *files)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(folder_list_read(path, &list));
    for (size_t i = 0; i < list.count; i++) {
        const struct folder_entry *entry = &list.entries[i];
        struct buffer *content;
        char **file_path;
        CLEANUP(memory_free) char *child = NULL;
        TRY(path_join(path, entry->name, &child));
        if (entry->is_file && file_wanted(files, entry->name, &content, &file_path)) {
            TRY(file_read_all(child, max_file_bytes, content));
            *file_path = MOVE(child);
        } else if (entry->is_folder && depth > 0 && is_devkit_folder_name(entry->name)) {
            TRY(read_folder(child, depth - 1, files));
        }
    }
    return OK;
}

/* The published archive, packed or unpacked by gunzip, in a folder of downloads. */
static struct status read_archive_in(const char *folder, struct devkit_files *files)
{
    static const char *const names[] = {"ILSVRC2012_devkit_t12.tar.gz",
                                        "ILSVRC2012_devkit_t12.tar"};
    for (size_t i = 0; i < ARRAY_LENGTH(names) && !files->meta_path; i++) {
        CLEANUP(memory_free) char *path = NULL;
        TRY(path_join(folder, names[i], &path));
        if (path_exists(path) && !path_is_folder(path))
            TRY(read_archive(path, files));
    }
    return OK;
}

static bool is_solution_name(const char *path)
{
    const char *dot = strrchr(path_base(path), '.');
    return dot && strcasecmp(dot, ".csv") == 0;
}

/* The mapping lies beside the solution; without one the classes have to be the published ones. */
static struct status read_kaggle_files(const char *solution_path, struct devkit_files *files)
{
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) char *mapping_path = NULL;
    TRY(string_copy(solution_path, &files->solution_path));
    TRY(file_read_all(solution_path, max_file_bytes, &files->solution));
    TRY(path_folder(solution_path, &folder));
    TRY(path_join(folder, KAGGLE_MAPPING, &mapping_path));
    if (!path_exists(mapping_path))
        return OK;
    files->mapping_path = MOVE(mapping_path);
    return file_read_all(files->mapping_path, max_file_bytes, &files->mapping);
}

static struct status find_solution_in(const char *folder, struct devkit_files *files)
{
    CLEANUP(memory_free) char *path = NULL;
    TRY(path_join(folder, KAGGLE_SOLUTION, &path));
    return path_exists(path) ? read_kaggle_files(path, files) : OK;
}

/* Kaggle's zip file holds its label files itself. */
static struct status read_kaggle_zip(const char *path, struct devkit_files *files)
{
    CLEANUP(kaggle_zip_close) struct kaggle_zip *zip = NULL;
    TRY(kaggle_zip_open(path, &zip));
    TRY(kaggle_zip_read_text(zip, KAGGLE_SOLUTION, max_file_bytes, &files->solution,
                             &files->solution_path));
    if (!files->solution_path)
        FAIL(STATUS_NOT_FOUND,
             "%s has no " KAGGLE_SOLUTION ", which tells the classes of its validation images; "
             "download it again",
             path);
    return kaggle_zip_read_text(zip, KAGGLE_MAPPING, max_file_bytes, &files->mapping,
                                &files->mapping_path);
}

static struct status find_files(const char *path, struct devkit_files *files)
{
    if (is_solution_name(path) && path_exists(path)) {
        TRY(read_kaggle_files(path, files));
    } else if (path_is_folder(path)) {
        TRY(read_folder(path, max_folder_depth, files));
        if (!files->meta_path)
            TRY(read_archive_in(path, files));
        if (!files->meta_path)
            TRY(find_solution_in(path, files));
    } else if (strcmp(path_base(path), meta_name) == 0) {
        CLEANUP(memory_free) char *folder = NULL;
        TRY(path_folder(path, &folder));
        TRY(read_folder(folder, 0, files));
    } else {
        TRY(read_archive(path, files));
    }
    if (!files->meta_path && !files->solution_path)
        FAIL(STATUS_NOT_FOUND,
             "%s is not a devkit: it has no meta.mat; expected ILSVRC2012_devkit_t12.tar.gz or the "
             "folder that was unpacked from it (or Kaggle's " KAGGLE_SOLUTION ")",
             path);
    return OK;
}

/* --- meta.mat --- */

static int synset_compare(const void *a, const void *b)
{
    const struct synset *p = a, *q = b;
    return p->id < q->id ? -1 : p->id > q->id;
}

/* Leaves have the IDs 1, 2, 3, …; inner nodes of WordNet follow. */
static struct status check_ids(struct synset_list *list, const char *name, size_t *ret_leaf_count)
{
    size_t leaves = 0;
    qsort(list->items, list->count, sizeof *list->items, synset_compare);
    for (size_t i = 0; i < list->count; i++) {
        const struct synset *synset = &list->items[i];
        if (i && synset->id == synset[-1].id)
            FAIL(STATUS_CORRUPT, "%s: ILSVRC2012_ID %" PRIu32 " occurs twice (%s and %s)", name,
                 synset->id, synset[-1].wnid, synset->wnid);
        if (synset->child_count)
            continue;
        leaves++;
        if (synset->id != leaves || i + 1 != leaves)
            FAIL(STATUS_CORRUPT,
                 "%s: class %s has the ILSVRC2012_ID %" PRIu32 ", expected %zu: the classes' IDs "
                 "have to be 1, 2, 3, … without gaps",
                 name, synset->wnid, synset->id, leaves);
    }
    if (leaves == 0)
        FAIL(STATUS_CORRUPT, "%s has no classes (synsets without children)", name);
    *ret_leaf_count = leaves;
    return OK;
}

static struct status make_classes(struct devkit *devkit, struct devkit_files *files)
{
    CLEANUP(synset_list_done) struct synset_list list = {0};
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    TRY(meta_mat_parse(files->meta.data, files->meta.length, files->meta_path, &list));
    TRY(check_ids(&list, files->meta_path, &devkit->id_count));
    TRY(memory_alloc(devkit->id_count, sizeof *entries, &entries));
    for (size_t i = 0; i < devkit->id_count; i++)
        entries[i] = (struct class_entry){list.items[i].wnid, list.items[i].words,
                                          list.items[i].train_images};
    TRY(status_context(class_table_make(entries, devkit->id_count, &devkit->classes), "%s",
                       files->meta_path));
    TRY(memory_alloc(devkit->id_count + 1, sizeof *devkit->label_of_id, &devkit->label_of_id));
    for (size_t i = 0; i < devkit->id_count; i++)
        devkit->label_of_id[i + 1] = class_table_find(devkit->classes, list.items[i].wnid);
    return OK;
}

/* --- Ground truth --- */

static struct status parse_line(const struct devkit *devkit, const char *line, size_t length,
                                size_t number, const char *path, uint32_t *ret_label)
{
    uint64_t id = 0;
    bool is_number = length > 0 && length < 10;
    for (size_t i = 0; i < length && is_number; i++) {
        is_number = line[i] >= '0' && line[i] <= '9';
        id = id * 10 + (uint64_t)(line[i] - '0');
    }
    if (!is_number || id < 1 || id > devkit->id_count)
        FAIL(STATUS_CORRUPT,
             "%s, line %zu: found \"%.*s\", expected an ILSVRC2012_ID from 1 to %zu", path, number,
             (int)(length < 40 ? length : 40), line, devkit->id_count);
    *ret_label = (uint32_t)devkit->label_of_id[id];
    return OK;
}

/* Windows' line ends, its byte order mark and blank lines at the end are as good as none. */
static struct status parse_truth(struct devkit *devkit, const struct devkit_files *files)
{
    const char *text = (const char *)files->truth.data;
    size_t length = files->truth.length, at = 0, capacity = 0;
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (length > at && strchr("\r\n \t", text[length - 1]))
        length--;
    for (size_t end; at < length; at = end + 1) {
        const char *newline = memchr(text + at, '\n', length - at);
        end = newline ? (size_t)(newline - text) : length;
        size_t line_length = end - at;
        if (line_length && text[end - 1] == '\r')
            line_length--;
        uint32_t label = 0;
        TRY(parse_line(devkit, text + at, line_length, devkit->val_count + 1, files->truth_path,
                       &label));
        TRY(memory_grow(devkit->val_count + 1, sizeof *devkit->val_labels, &devkit->val_labels,
                        &capacity));
        devkit->val_labels[devkit->val_count++] = label;
    }
    if (devkit->val_count == 0 && files->truth_path)
        FAIL(STATUS_CORRUPT, "%s is empty", files->truth_path);
    return OK;
}

static struct status count_labels(struct devkit *devkit)
{
    TRY(memory_alloc(class_table_count(devkit->classes), sizeof *devkit->val_counts,
                     &devkit->val_counts));
    for (size_t i = 0; i < devkit->val_count; i++)
        devkit->val_counts[devkit->val_labels[i]]++;
    return OK;
}

/* --- Kaggle --- */

static struct status parse_kaggle(struct devkit *devkit, const struct devkit_files *files)
{
    const struct kaggle_text mapping = {files->mapping_path, files->mapping.data,
                                        files->mapping.length};
    const struct kaggle_text solution = {files->solution_path, files->solution.data,
                                         files->solution.length};
    TRY(files->mapping_path ? kaggle_parse_mapping(&mapping, &devkit->classes)
                            : class_table_copy(class_table_ilsvrc2012(), &devkit->classes));
    return kaggle_parse_solution(&solution, devkit->classes, &devkit->val_labels,
                                 &devkit->val_count);
}

/* --- Interface --- */

struct status devkit_open(const char *path, struct devkit **ret_devkit)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    CLEANUP(devkit_files_done) struct devkit_files files = {0};
    TRY(memory_alloc(1, sizeof *devkit, &devkit));
    TRY(string_copy(path, &devkit->path));
    /* A zip file is more than a devkit, so its own messages say what is wrong with it. */
    if (zip_recognise(path))
        TRY(read_kaggle_zip(path, &files));
    else
        TRY(status_context(find_files(path, &files), "devkit"));
    if (files.meta_path) {
        TRY(make_classes(devkit, &files));
        TRY(parse_truth(devkit, &files));
    } else {
        TRY(parse_kaggle(devkit, &files));
    }
    TRY(count_labels(devkit));
    *ret_devkit = MOVE(devkit);
    return OK;
}

struct status devkit_open_built_in(struct devkit **ret_devkit)
{
    CLEANUP(devkit_free) struct devkit *devkit = NULL;
    TRY(memory_alloc(1, sizeof *devkit, &devkit));
    devkit->is_built_in = true;
    TRY(string_copy("the built-in table", &devkit->path));
    TRY(class_table_copy(class_table_ilsvrc2012(), &devkit->classes));
    TRY(count_labels(devkit));
    *ret_devkit = MOVE(devkit);
    return OK;
}

void devkit_free(struct devkit *devkit)
{
    if (!devkit)
        return;
    class_table_free(devkit->classes);
    memory_free(devkit->path);
    memory_free(devkit->label_of_id);
    memory_free(devkit->val_labels);
    memory_free(devkit->val_counts);
    memory_free(devkit);
}

const char *devkit_path(const struct devkit *devkit)
{
    return devkit->path;
}

bool devkit_is_built_in(const struct devkit *devkit)
{
    return devkit->is_built_in;
}

const struct class_table *devkit_classes(const struct devkit *devkit)
{
    return devkit->classes;
}

int64_t devkit_label_of_id(const struct devkit *devkit, uint64_t id)
{
    return id >= 1 && id <= devkit->id_count ? devkit->label_of_id[id] : -1;
}

size_t devkit_val_count(const struct devkit *devkit)
{
    return devkit->val_count;
}

uint32_t devkit_val_label(const struct devkit *devkit, size_t number)
{
    return devkit->val_labels[number - 1];
}

uint64_t devkit_val_count_of(const struct devkit *devkit, uint32_t label)
{
    return devkit->val_counts[label];
}

uint32_t devkit_val_labels_crc(const uint32_t *labels, size_t count)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[4];
        store_le32(bytes, labels[i]);
        crc = crc32c_update(crc, bytes, sizeof bytes);
    }
    return crc;
}

bool devkit_is_published(const struct devkit *devkit)
{
    const struct class_table *published = class_table_ilsvrc2012();
    if (class_table_hash(devkit->classes) != class_table_hash(published))
        return false;
    for (size_t i = 0; i < class_table_count(published); i++)
        if (class_table_at(devkit->classes, i)->train_images !=
            class_table_at(published, i)->train_images)
            return false;
    return devkit->val_count == ILSVRC2012_VAL_IMAGES &&
           devkit_val_labels_crc(devkit->val_labels, devkit->val_count) ==
               ILSVRC2012_VAL_LABELS_CRC;
}

struct status devkit_label_of_name(const struct devkit *devkit, const char *name,
                                   uint32_t *ret_label)
{
    struct image_name parsed = image_name_parse(name);
    int64_t named = *parsed.wnid ? class_table_find(devkit->classes, parsed.wnid) : -1;
    if (devkit->val_count == 0 && named >= 0) {
        *ret_label = (uint32_t)named;
        return OK;
    }
    if (devkit->val_count == 0)
        FAIL(STATUS_NOT_FOUND,
             "the name %s does not tell the image's class, and %s has no "
             "ILSVRC2012_validation_ground_truth.txt; give --devkit ILSVRC2012_devkit_t12.tar.gz "
             "(or Kaggle's " KAGGLE_SOLUTION ")",
             name, devkit->path);
    if (parsed.set != IMAGE_SET_VAL)
        FAIL(STATUS_CORRUPT,
             "%s is not named like a validation image (ILSVRC2012_val_00000001.JPEG), so its class "
             "is not known",
             name);
    if (parsed.number < 1 || parsed.number > devkit->val_count)
        FAIL(STATUS_CORRUPT, "%s has a number beyond the ground truth, which ends at %zu", name,
             devkit->val_count);
    uint32_t label = devkit_val_label(devkit, (size_t)parsed.number);
    const char *wnid = class_table_at(devkit->classes, label)->wnid;
    if (*parsed.wnid && strcmp(parsed.wnid, wnid) != 0)
        FAIL(STATUS_CORRUPT, "%s names class %s, the ground truth says %s", name, parsed.wnid,
             wnid);
    *ret_label = label;
    return OK;
}
