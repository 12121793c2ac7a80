#include "binding/binding.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/pool.h"
#include "base/stop.h"
#include "binding/internal.h"
#include "index/folder_index.h"
#include "index/format.h"
#include "index/record_image.h"
#include "index/record_original.h"

/* Scratch above this is given back after each image, so that one large image does not cost every
 * worker of a data set its size for good. */
#define READER_KEPT_BYTES ((uint64_t)64 << 20)

struct binding_reader {
    struct index *index;
    struct cache_reader *cache; /* NULL: none */
    struct record_image *image;
    uint64_t number; /* of the record that `image` holds; UINT64_MAX: none */
    struct record record;
    struct picture picture;
    struct restorer restorer;
    struct buffer original;
};

uint32_t binding_version(void)
{
    return BINDING_VERSION;
}

const char *binding_release(void)
{
    return HEADRACE_VERSION;
}

/* Of a fixed size, since nobody would free it at a thread's end; paths may be cut off. */
static _Thread_local char message[4096];

/* What the library's messages advise is an option of the command line: who calls from another
 * language has an argument for it, or a variable of the environment. */
static const struct {
    const char *option, *name;
} option_names[] = {
    {"--ca-file", "ca_file"},  {"--cache DIR", "cache"}, {"--cache-size", "cache_size"},
    {"--memory", "memory"},    {"--origins", "origins"}, {"--password-file", "password"},
    {"--token-file", "token"}, {"--user", "user"},
};

/* The option that a text begins with, as a whole word: its number, or that of no row. */
static size_t option_find(const char *text)
{
    size_t i = 0;
    for (; i < ARRAY_LENGTH(option_names); i++) {
        size_t length = strlen(option_names[i].option);
        if (strncmp(text, option_names[i].option, length) == 0 && text[length] != '-' &&
            !isalnum((unsigned char)text[length]))
            break;
    }
    return i;
}

static void message_set(const char *text)
{
    size_t used = 0;
    bool is_word = true; /* begins here */
    while (*text && used + 1 < sizeof message) {
        size_t option = is_word ? option_find(text) : ARRAY_LENGTH(option_names);
        is_word = *text == ' ';
        if (option == ARRAY_LENGTH(option_names)) {
            message[used++] = *text++;
            continue;
        }
        text += strlen(option_names[option].option);
        for (const char *c = option_names[option].name; *c && used + 1 < sizeof message; c++)
            message[used++] = *c;
    }
    message[used] = '\0';
}

int binding_end(struct status status)
{
    int code = (int)status.code;
    if (status.code != STATUS_DONE)
        message_set(status_message(&status));
    status_clear(&status);
    return code;
}

const char *binding_message(void)
{
    return message;
}

void binding_follow(const uint8_t *closing)
{
    _Static_assert(sizeof(atomic_bool) == 1, "it is a byte for other languages");
    stop_follow((const atomic_bool *)closing);
}

struct status binding_word_find(const char *option, const char *const *names, const char *word,
                                int *ret_number)
{
    CLEANUP(buffer_done) struct buffer list = {0};
    const char *text;
    for (int i = 0; word && names[i]; i++)
        if (strcmp(names[i], word) == 0) {
            *ret_number = i;
            return OK;
        }
    for (size_t i = 0; names[i]; i++)
        TRY(buffer_append_text(&list, "%s%s",
                               i == 0         ? ""
                               : names[i + 1] ? ", "
                                              : " or ",
                               names[i]));
    TRY(buffer_text(&list, &text));
    FAIL(STATUS_USAGE, "%s is '%s', expected %s", option, word ? word : "", text);
}

/* ---- a node's cache ---- */

static struct status open_cache(const char *folder, const char *size, struct cache **ret_cache)
{
    struct cache_options options;
    TRY(cache_options_init(&options));
    if (folder)
        options.folder = folder;
    if (size && !number_parse_size(size, &options.bytes))
        FAIL(STATUS_USAGE, "cache_size is '%s', expected a size in bytes such as 200G", size);
    if (size && !(options.folder && options.folder[0]))
        FAIL(STATUS_USAGE, "cache_size goes with cache, the folder of a cache");
    return cache_open_options(&options, ret_cache);
}

int binding_cache_open(const char *folder, const char *size, struct cache **ret_cache)
{
    return binding_end(open_cache(folder, size, ret_cache));
}

void binding_cache_close(struct cache *cache)
{
    cache_close(cache);
}

int binding_cache_reader_open(struct index *index, struct cache *cache,
                              struct cache_reader **ret_reader)
{
    return binding_end(cache_reader_open(index, cache, ret_reader));
}

void binding_cache_reader_close(struct cache_reader *reader)
{
    cache_reader_close(reader);
}

/* ---- an index ---- */

int binding_access_open(const char *origins, const char *user, const char *password,
                        const char *token, const char *ca_file, struct access **ret_access)
{
    struct access_options options;
    access_options_init(&options);
    if (origins)
        options.origins = origins;
    if (user)
        options.user = user;
    if (password)
        options.password = password;
    if (token)
        options.token = token;
    if (ca_file)
        options.ca_file = ca_file;
    return binding_end(access_open(&options, ret_access));
}

void binding_access_close(struct access *access)
{
    access_close(access);
}

int binding_index_open(const char *path, struct access *access, struct index **ret_index)
{
    if (path_is_folder(path))
        return binding_end(folder_index_open(path, NULL, cores_available(), ret_index));
    if (access)
        return binding_end(index_open_with(path, access, ret_index));
    return binding_end(index_open(path, ret_index));
}

void binding_index_close(struct index *index)
{
    index_close(index);
}

void binding_index_describe(const struct index *index, struct binding_index *ret_description)
{
    *ret_description = (struct binding_index){
        .count = index_count(index),
        .classes = (uint32_t)class_table_count(index_classes(index)),
        .shards = (uint32_t)index_shard_count(index),
        .path = index_path(index),
        .provenance = index_provenance(index),
    };
}

int binding_index_column(const struct index *index, uint32_t section, const void **ret_column)
{
    const int32_t *labels;
    if (section != SECTION_LABELS)
        return binding_end(index_column(index, section, ret_column));
    int code = binding_end(index_labels(index, &labels));
    if (!code)
        *ret_column = labels;
    return code;
}

void binding_index_class(const struct index *index, uint32_t label, const char **ret_wnid,
                         const char **ret_words)
{
    const struct class_entry *entry = class_table_at(index_classes(index), label);
    *ret_wnid = entry->wnid;
    *ret_words = entry->words;
}

const char *binding_index_shard(const struct index *index, uint32_t shard)
{
    return index_shard(index, shard)->path;
}

int binding_index_name(const struct index *index, uint64_t i, const char **ret_name)
{
    return binding_end(index_name(index, i, ret_name));
}

int binding_index_find(const struct index *index, uint32_t label, const char *name, uint64_t *ret_i)
{
    return binding_end(index_find(index, label, name, ret_i));
}

/* ---- records ---- */

static struct status reader_open(struct index *index, struct cache_reader *cache,
                                 const char *pixels, struct binding_reader **ret_reader)
{
    CLEANUP(binding_reader_close) struct binding_reader *reader = NULL;
    int kind;
    TRY(binding_word_find("pixels", pixels_names, pixels, &kind));
    TRY(memory_alloc(1, sizeof *reader, &reader));
    reader->index = index;
    reader->cache = cache;
    reader->number = UINT64_MAX;
    TRY(record_image_open(index, (enum pixels)kind, &reader->image));
    record_image_read_through(reader->image, cache);
    *ret_reader = MOVE(reader);
    return OK;
}

int binding_reader_open(struct index *index, struct cache_reader *cache, const char *pixels,
                        struct binding_reader **ret_reader)
{
    return binding_end(reader_open(index, cache, pixels, ret_reader));
}

void binding_reader_close(struct binding_reader *reader)
{
    if (!reader)
        return;
    record_image_close(reader->image);
    picture_done(&reader->picture);
    restorer_done(&reader->restorer);
    buffer_done(&reader->original);
    memory_free(reader);
}

/* Ends a call about a record: a failure says which. */
static int reader_end(const struct binding_reader *reader, uint64_t i, struct status status)
{
    return binding_end(index_blame(reader->index, i, status));
}

static struct status reader_original(struct binding_reader *reader, uint64_t i)
{
    if (reader->cache)
        return record_original_through(&reader->restorer, reader->index, reader->cache, i,
                                       &reader->original);
    return record_original(&reader->restorer, reader->index, i, &reader->original);
}

int binding_reader_original(struct binding_reader *reader, uint64_t i, const uint8_t **ret_bytes,
                            uint64_t *ret_length)
{
    int code = reader_end(reader, i, reader_original(reader, i));
    if (!code) {
        *ret_bytes = reader->original.data;
        *ret_length = reader->original.length;
    }
    return code;
}

static struct status original_into(struct binding_reader *reader, uint64_t i, uint8_t *out,
                                   uint64_t length)
{
    struct record record;
    TRY(index_record(reader->index, i, &record));
    bool is_stored = !reader->cache && record.encoding == ENCODING_JPEG;
    if (!is_stored)
        TRY(reader_original(reader, i));
    uint64_t found = is_stored ? record.length : reader->original.length;
    if (found != length)
        FAIL(STATUS_USAGE, "the file has %" PRIu64 " bytes, memory for %" PRIu64 " is given", found,
             length);
    if (is_stored)
        return index_read_into(reader->index, i, out);
    memcpy(out, reader->original.data, length);
    return OK;
}

int binding_reader_original_into(struct binding_reader *reader, uint64_t i, uint8_t *out,
                                 uint64_t length)
{
    return reader_end(reader, i, original_into(reader, i, out, length));
}

static struct status reader_load(struct binding_reader *reader, uint64_t i)
{
    if (reader->number == i)
        return OK;
    reader->number = UINT64_MAX;
    TRY(record_image_read(reader->image, i, &reader->record));
    reader->number = i;
    return OK;
}

static struct status reader_size(struct binding_reader *reader, uint64_t i, uint32_t *ret_width,
                                 uint32_t *ret_height)
{
    struct record record;
    TRY(index_record(reader->index, i, &record));
    struct image_info info = {.width = record.width, .height = record.height};
    if (record.width == 0 || record.height == 0) {
        TRY(reader_load(reader, i));
        TRY(index_blame_bytes(reader->index, i, record_image_probe(reader->image, &info)));
    }
    *ret_width = info.width;
    *ret_height = info.height;
    return OK;
}

int binding_reader_size(struct binding_reader *reader, uint64_t i, uint32_t *ret_width,
                        uint32_t *ret_height)
{
    return reader_end(reader, i, reader_size(reader, i, ret_width, ret_height));
}

/* Gives back what a large image took. */
static void reader_shrink(struct binding_reader *reader, uint32_t width, uint32_t height)
{
    if (record_image_scratch_bytes(&reader->record, width, height) <= READER_KEPT_BYTES)
        return;
    record_image_shrink(reader->image);
    reader->number = UINT64_MAX;
}

static struct status reader_decode(struct binding_reader *reader, uint64_t i,
                                   const struct rectangle *region)
{
    struct picture *picture = &reader->picture;
    if (picture->capacity_bytes > READER_KEPT_BYTES)
        picture_done(picture);
    TRY(reader_load(reader, i));
    struct status status = record_image_decode(reader->image, region, picture);
    TRY(index_blame_bytes(reader->index, i, status));
    reader_shrink(reader, picture->width, picture->height);
    return OK;
}

static struct rectangle rectangle_of(const uint32_t numbers[4])
{
    return (struct rectangle){numbers[0], numbers[1], numbers[2], numbers[3]};
}

/* The picture may hold more than the region. */
static struct binding_image image_of(const struct picture *picture, const struct rectangle *region)
{
    struct rectangle all = {picture->origin_x, picture->origin_y, picture->width, picture->height};
    if (!region)
        region = &all;
    return (struct binding_image){
        .pixels = picture->pixels + (region->y - all.y) * picture->stride_bytes +
                  (size_t)(region->x - all.x) * 3,
        .stride_bytes = picture->stride_bytes,
        .width = region->width,
        .height = region->height,
    };
}

int binding_reader_image(struct binding_reader *reader, uint64_t i, const uint32_t region[4],
                         struct binding_image *ret_image)
{
    struct rectangle rectangle, *wanted = NULL;
    if (region) {
        rectangle = rectangle_of(region);
        wanted = &rectangle;
    }
    int code = reader_end(reader, i, reader_decode(reader, i, wanted));
    if (!code)
        *ret_image = image_of(&reader->picture, wanted);
    return code;
}

/* Rectangles lie in what they are of, so that nothing is read or written beyond it. */
static struct status crop_read(struct binding_reader *reader, uint64_t i,
                               const struct binding_crop *given, struct crop *crop)
{
    const uint32_t most_side = UINT16_MAX;
    uint32_t width, height;
    *crop = (struct crop){.box = rectangle_of(given->box),
                          .out_width = given->out_width,
                          .out_height = given->out_height,
                          .window = rectangle_of(given->window),
                          .flip = given->flip};
    if (crop->out_width == 0 || crop->out_width > most_side || crop->out_height == 0 ||
        crop->out_height > most_side)
        FAIL(STATUS_USAGE, "an image of %u x %u pixels is wanted, expected 1 to %u a side",
             crop->out_width, crop->out_height, most_side);
    TRY(rectangle_check_region(&crop->window, crop->out_width, crop->out_height));
    TRY(reader_size(reader, i, &width, &height));
    return rectangle_check_region(&crop->box, width, height);
}

static struct status reader_crop(struct binding_reader *reader, uint64_t i,
                                 const struct binding_crop *given, uint8_t *out)
{
    const struct tensor_format bytes = {.type = TENSOR_U8, .layout = TENSOR_NHWC};
    struct crop crop;
    TRY(crop_read(reader, i, given, &crop));
    TRY(reader_load(reader, i));
    struct status status = record_image_tensor(reader->image, &crop, &bytes, out);
    TRY(index_blame_bytes(reader->index, i, status));
    reader_shrink(reader, crop.box.width, crop.box.height);
    return OK;
}

int binding_reader_crop(struct binding_reader *reader, uint64_t i, const struct binding_crop *crop,
                        uint8_t *out)
{
    return reader_end(reader, i, reader_crop(reader, i, crop, out));
}
