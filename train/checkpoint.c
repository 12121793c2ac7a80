#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/memory.h"
#include "train/safetensors.h"

static const char weights_ending[] = ".safetensors";
static const char previous_ending[] = ".previous.safetensors";
static const char state_ending[] = ".state";

/* Keys of the state's metadata. */
static const char state_key[] = "headrace_state";
static const char state_crc_key[] = "headrace_state_crc32c";
static const char data_crc_key[] = "headrace_data_crc32c";

static bool text_cut(char *text, const char *ending)
{
    size_t length = strlen(text), ending_length = strlen(ending);
    if (length <= ending_length || strcmp(text + length - ending_length, ending) != 0)
        return false;
    text[length - ending_length] = '\0';
    return true;
}

struct status checkpoint_stem(const char *path, const char *name, char **ret_stem)
{
    if (path_is_folder(path))
        return path_join(path, name, ret_stem);
    CLEANUP(memory_free) char *stem = NULL;
    TRY(string_copy(path, &stem));
    if (!text_cut(stem, weights_ending))
        text_cut(stem, state_ending);
    *ret_stem = MOVE(stem);
    return OK;
}

bool checkpoint_exists(const char *stem)
{
    CLEANUP(memory_free) char *path = NULL;
    struct status status = string_format(&path, "%s%s", stem, state_ending);
    bool exists = status.code == STATUS_DONE && path_exists(path);
    status_ignore(status);
    return exists;
}

/* Bytes on their way into a file, counted and summed. */
struct file_sink {
    struct file_writer *writer;
    uint32_t crc;
};

static struct status sink_write(const void *bytes, size_t length, void *context)
{
    struct file_sink *sink = context;
    sink->crc = crc32c_update(sink->crc, bytes, length);
    return file_writer_write(sink->writer, bytes, length);
}

static struct json *format_metadata(void)
{
    struct json *metadata = json_object_new();
    json_set_string(metadata, "format", "pt");
    return metadata;
}

static struct status weights_write(const struct weights *weights, struct file_sink *sink)
{
    CLEANUP(memory_free) struct safetensor *tensors = NULL;
    size_t count;
    TRY(weights_describe_values(weights, &tensors, &count));
    TRY(safetensors_write(tensors, count, format_metadata(), sink_write, sink));
    return file_writer_prepare(sink->writer);
}

static void crc_set(struct json *object, const char *key, uint32_t crc)
{
    char text[9];
    snprintf(text, sizeof text, "%08" PRIx32, crc);
    json_set_string(object, key, text);
}

/* The state as one line of JSON. */
static struct status document_write(const struct run_state *state,
                                    const struct class_table *classes, const struct json *options,
                                    const struct file_sink *weights, struct buffer *text)
{
    CLEANUP(json_free) struct json *document = json_object_new();
    struct json *identity = json_object_new();
    json_set_integer(identity, "size_bytes", (int64_t)file_writer_position(weights->writer));
    crc_set(identity, "crc32c", weights->crc);
    run_state_store(state, classes, document);
    json_set(document, "weights", identity);
    json_set_copy(document, "options", options);
    return json_write(document, false, text);
}

static struct status state_write(const struct weights *weights, const struct buffer *document,
                                 struct file_sink *sink)
{
    CLEANUP(arena_done) struct arena names = {0};
    CLEANUP(memory_free) struct safetensor *tensors = NULL;
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *document_text;
    size_t count;
    TRY(weights_describe_state(weights, &names, &tensors, &count));
    TRY(buffer_append(&text, document->data, document->length));
    TRY(buffer_text(&text, &document_text));
    uint32_t data_crc = 0;
    for (size_t i = 0; i < count; i++)
        data_crc = crc32c_update(data_crc, tensors[i].data, tensors[i].count * sizeof(float));
    struct json *metadata = format_metadata();
    json_set_string(metadata, state_key, document_text);
    crc_set(metadata, state_crc_key, crc32c_update(0, text.data, text.length));
    crc_set(metadata, data_crc_key, data_crc);
    TRY(safetensors_write(tensors, count, metadata, sink_write, sink));
    return file_writer_prepare(sink->writer);
}

/* The names of one checkpoint's files. */
struct paths {
    char *weights, *previous, *state;
};

static void paths_done(struct paths *paths)
{
    memory_free(paths->weights);
    memory_free(paths->previous);
    memory_free(paths->state);
}
CLEANUP_VALUE(paths_done, struct paths)

static struct status paths_make(const char *stem, struct paths *paths)
{
    TRY(string_format(&paths->weights, "%s%s", stem, weights_ending));
    TRY(string_format(&paths->previous, "%s%s", stem, previous_ending));
    return string_format(&paths->state, "%s%s", stem, state_ending);
}

/* Keeps the old weights under a second name; where hard links are not to be had, by renaming. */
static struct status weights_keep(const struct paths *paths)
{
    if (!path_exists(paths->weights))
        return OK;
    TRY(file_remove(paths->previous));
    struct status status = file_link(paths->weights, paths->previous);
    if (status.code == STATUS_DONE)
        return OK;
    status_ignore(status);
    return file_rename(paths->weights, paths->previous);
}

/* A file that waits under a temporary name: written by us, or another name of one that exists. */
struct pending {
    struct file_writer *writer;
    char *link;
};

static void pending_done(struct pending *pending)
{
    file_writer_free(pending->writer);
    if (pending->link)
        status_ignore(file_remove(pending->link));
    memory_free(pending->link);
}
CLEANUP_VALUE(pending_done, struct pending)

static struct status pending_publish(struct pending *pending, const char *path)
{
    if (pending->writer)
        return file_writer_publish(pending->writer);
    return file_rename(pending->link, path);
}

static struct status pair_replace(const struct paths *paths, struct pending *weights,
                                  struct pending *state)
{
    TRY(weights_keep(paths));
    TRY(pending_publish(weights, paths->weights));
    TRY(pending_publish(state, paths->state));
    return file_remove(paths->previous);
}

/* Replaces the pair; a failure leaves the old one. */
static struct status pair_publish(const char *stem, const struct paths *paths,
                                  struct pending *weights, struct pending *state)
{
    struct status status = pair_replace(paths, weights, state);
    if (status.code != STATUS_DONE)
        status_ignore(checkpoint_recover(stem));
    return status;
}

struct status checkpoint_save(const char *stem, const struct weights *weights,
                              const struct run_state *state, const struct class_table *classes,
                              const struct json *options)
{
    CLEANUP(paths_done) struct paths paths = {0};
    CLEANUP(pending_done) struct pending new_weights = {0};
    CLEANUP(pending_done) struct pending new_state = {0};
    CLEANUP(buffer_done) struct buffer document = {0};
    TRY(paths_make(stem, &paths));
    TRY(file_writer_open(paths.weights, &new_weights.writer));
    struct file_sink weights_sink = {.writer = new_weights.writer};
    TRY(weights_write(weights, &weights_sink));
    TRY(document_write(state, classes, options, &weights_sink, &document));
    TRY(file_writer_open(paths.state, &new_state.writer));
    struct file_sink state_sink = {.writer = new_state.writer};
    TRY(state_write(weights, &document, &state_sink));
    return pair_publish(stem, &paths, &new_weights, &new_state);
}

struct status checkpoint_save_average(const char *stem, const struct weights *weights)
{
    CLEANUP(paths_done) struct paths paths = {0};
    CLEANUP(pending_done) struct pending file = {0};
    const struct weights average = weights_average_view(weights);
    TRY(paths_make(stem, &paths));
    TRY(file_writer_open(paths.weights, &file.writer));
    struct file_sink sink = {.writer = file.writer};
    TRY(weights_write(&average, &sink));
    return pending_publish(&file, paths.weights);
}

/* Copies through memory: for file systems without hard links. */
static struct status pair_rewrite(const char *from, const char *stem)
{
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    TRY(checkpoint_load(from, &checkpoint));
    return checkpoint_save(stem, checkpoint->weights, &checkpoint->state, checkpoint->classes,
                           checkpoint_options(checkpoint));
}

/* Gives a file another name, the temporary one that `path` will be made from. */
static struct status pending_link(const char *from, const char *path, struct pending *pending)
{
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) char *name = NULL;
    TRY(path_folder(path, &folder));
    TRY(string_format(&name, "%s/.%s.tmp.%ld", folder, path_base(path), (long)getpid()));
    TRY(file_link(from, name));
    pending->link = MOVE(name);
    return OK;
}

struct status checkpoint_copy(const char *from, const char *stem)
{
    CLEANUP(paths_done) struct paths source = {0};
    CLEANUP(paths_done) struct paths paths = {0};
    CLEANUP(pending_done) struct pending weights = {0};
    CLEANUP(pending_done) struct pending state = {0};
    TRY(paths_make(from, &source));
    TRY(paths_make(stem, &paths));
    struct status status = pending_link(source.weights, paths.weights, &weights);
    if (status.code == STATUS_DONE)
        status = pending_link(source.state, paths.state, &state);
    if (status.code == STATUS_IO) {
        status_ignore(status);
        return pair_rewrite(from, stem);
    }
    TRY(status);
    return pair_publish(stem, &paths, &weights, &state);
}

static struct status crc_check(const char *path, const char *what, const char *expected,
                               uint32_t crc)
{
    char text[9];
    snprintf(text, sizeof text, "%08" PRIx32, crc);
    if (!expected || strcmp(text, expected) != 0)
        FAIL(STATUS_CORRUPT, "'%s': the CRC-32C of %s is %s, expected %s: the file was damaged",
             path, what, text, expected ? expected : "one in the metadata");
    return OK;
}

static struct status document_parse(const struct safetensors *file, const char *path,
                                    struct json **ret_document)
{
    const char *text = safetensors_metadata(file, state_key);
    if (!text)
        FAIL(STATUS_CORRUPT, "'%s' is no state of a headrace run", path);
    TRY(crc_check(path, "the state", safetensors_metadata(file, state_crc_key),
                  crc32c_update(0, text, strlen(text))));
    TRY(crc_check(path, "momentum and average", safetensors_metadata(file, data_crc_key),
                  safetensors_data_crc(file)));
    return json_parse(text, strlen(text), path, ret_document);
}

/* What the state says of its weights' file. */
struct identity {
    int64_t size_bytes;
    const char *crc;
};

static struct status identity_get(const struct json *document, struct identity *identity)
{
    const struct json *weights = json_get(document, "weights");
    TRY(json_get_integer(weights, "size_bytes", &identity->size_bytes));
    return json_get_string(weights, "crc32c", &identity->crc);
}

static struct status weights_check(const char *path, const struct safetensors *file,
                                   const struct identity *identity)
{
    if (safetensors_size_bytes(file) != (uint64_t)identity->size_bytes)
        FAIL(STATUS_CORRUPT, "'%s' has %" PRIu64 " bytes, its state says %" PRId64, path,
             safetensors_size_bytes(file), identity->size_bytes);
    return crc_check(path, "the weights", identity->crc, safetensors_crc(file));
}

/* Opens the weights at `path` if they are those of `identity`. */
static struct status weights_open_checked(const char *path, const struct identity *identity,
                                          struct safetensors **ret_file)
{
    CLEANUP(safetensors_close) struct safetensors *file = NULL;
    TRY(safetensors_open(path, &file));
    TRY(weights_check(path, file, identity));
    *ret_file = MOVE(file);
    return OK;
}

/* The weights that belong to the state, under either name. */
static struct status weights_find(const struct paths *paths, const struct identity *identity,
                                  struct safetensors **ret_file, const char **ret_path)
{
    *ret_path = paths->weights;
    struct status status = weights_open_checked(paths->weights, identity, ret_file);
    if (status.code == STATUS_DONE || !path_exists(paths->previous))
        return status;
    *ret_path = paths->previous;
    struct status second = weights_open_checked(paths->previous, identity, ret_file);
    status_ignore(second.code == STATUS_DONE ? status : second);
    return second.code == STATUS_DONE ? OK : status;
}

static struct status document_open(const struct paths *paths, struct safetensors **ret_state,
                                   struct json **ret_document)
{
    CLEANUP(safetensors_close) struct safetensors *state = NULL;
    TRY(safetensors_open(paths->state, &state));
    TRY(document_parse(state, paths->state, ret_document));
    *ret_state = MOVE(state);
    return OK;
}

struct status checkpoint_prepare(struct checkpoint *checkpoint)
{
    TRY(run_state_restore(checkpoint->document, &checkpoint->state, &checkpoint->classes));
    TRY(network_open(checkpoint->state.arch, checkpoint->state.classes, &checkpoint->network));
    return weights_open(checkpoint->network, &checkpoint->weights);
}

static struct status checkpoint_fill(struct checkpoint *checkpoint, const struct paths *paths)
{
    CLEANUP(safetensors_close) struct safetensors *state_file = NULL;
    CLEANUP(safetensors_close) struct safetensors *weights_file = NULL;
    struct identity identity;
    const char *weights_path;
    TRY(document_open(paths, &state_file, &checkpoint->document));
    TRY(status_context(checkpoint_prepare(checkpoint), "'%s'", paths->state));
    TRY(status_context(identity_get(checkpoint->document, &identity), "'%s'", paths->state));
    TRY(weights_find(paths, &identity, &weights_file, &weights_path));
    TRY(weights_from_safetensors(checkpoint->weights, weights_file, weights_path, NULL));
    return weights_state_from_safetensors(checkpoint->weights, state_file, paths->state);
}

static struct status checkpoint_load_once(const char *stem, const struct paths *paths,
                                          struct checkpoint **ret_checkpoint)
{
    CLEANUP(checkpoint_free) struct checkpoint *checkpoint = NULL;
    TRY(memory_alloc(1, sizeof *checkpoint, &checkpoint));
    TRY(path_folder(stem, &checkpoint->folder));
    TRY(checkpoint_fill(checkpoint, paths));
    *ret_checkpoint = MOVE(checkpoint);
    return OK;
}

struct status checkpoint_load(const char *stem, struct checkpoint **ret_checkpoint)
{
    CLEANUP(paths_done) struct paths paths = {0};
    TRY(paths_make(stem, &paths));
    struct status status = checkpoint_load_once(stem, &paths, ret_checkpoint);
    if (status.code != STATUS_CORRUPT)
        return status;
    /* A run that is writing may have replaced the pair between our two looks. */
    status_ignore(status);
    return checkpoint_load_once(stem, &paths, ret_checkpoint);
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    memory_free(checkpoint->folder);
    weights_close(checkpoint->weights);
    network_close(checkpoint->network);
    class_table_free(checkpoint->classes);
    json_free(checkpoint->document);
    memory_free(checkpoint);
}

const struct json *checkpoint_options(const struct checkpoint *checkpoint)
{
    return json_get(checkpoint->document, "options");
}

struct status checkpoint_recover(const char *stem)
{
    CLEANUP(paths_done) struct paths paths = {0};
    CLEANUP(json_free) struct json *document = NULL;
    CLEANUP(safetensors_close) struct safetensors *state = NULL;
    CLEANUP(safetensors_close) struct safetensors *weights = NULL;
    struct identity identity;
    const char *path;
    size_t count;
    TRY(paths_make(stem, &paths));
    TRY(file_writer_sweep(paths.weights, &count));
    TRY(file_writer_sweep(paths.state, &count));
    if (!path_exists(paths.previous) || !path_exists(paths.state))
        return file_remove(paths.previous);
    TRY(document_open(&paths, &state, &document));
    TRY(status_context(identity_get(document, &identity), "'%s'", paths.state));
    TRY(weights_find(&paths, &identity, &weights, &path));
    if (path == paths.previous)
        return file_rename(paths.previous, paths.weights);
    return file_remove(paths.previous);
}
