#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/stop.h"
#include "image/decode.h"
#include "prep/sniff.h"
#include "prep/verify_set.h"

/* A task of the pool, so that threads do not fight for single images. */
static const uint64_t images_per_task = 32;

/* Oddities of the published data that everybody has. */
static const char known_png[] = "n02105855_2933.JPEG";

struct image_scratch {
    struct decoder *decoder;
    struct buffer bytes;
    struct picture picture;
};

struct image_check {
    struct verify_set *set;
    const struct source *source;
    struct source_reader *reader; /* decoding reads whole images */
    int *shard_fds;               /* looking reads their first bytes; -1: a folder */
    struct image_scratch *scratch;
    unsigned threads;
    struct progress *progress;
    pthread_mutex_t mutex; /* guards the set and what follows */
    uint64_t disguised_pngs;
    char *disguised_example;
};

static void image_check_done(struct image_check *check)
{
    for (size_t i = 0; check->shard_fds && i < check->source->shard_count; i++)
        fd_close(check->shard_fds[i]);
    for (unsigned i = 0; check->scratch && i < check->threads; i++) {
        decoder_close(check->scratch[i].decoder);
        buffer_done(&check->scratch[i].bytes);
        picture_done(&check->scratch[i].picture);
    }
    memory_free(check->shard_fds);
    memory_free(check->scratch);
    memory_free(check->disguised_example);
    source_reader_close(check->reader);
    progress_close(check->progress);
    pthread_mutex_destroy(&check->mutex);
}
CLEANUP_VALUE(image_check_done, struct image_check)

static struct status item_path(const struct image_check *check, const struct source_item *item,
                               char **ret_path)
{
    if (check->set->is_flat)
        return string_copy(item->name, ret_path);
    return path_join(class_table_at(check->source->classes, item->label)->wnid, item->name,
                     ret_path);
}

static struct status found(struct image_check *check, const struct source_item *item,
                           enum finding_kind kind, const char *text)
{
    CLEANUP(memory_free) char *path = NULL;
    TRY(item_path(check, item, &path));
    pthread_mutex_lock(&check->mutex);
    struct status status = verify_found(check->set, kind, path, "%s", text);
    pthread_mutex_unlock(&check->mutex);
    return status;
}

/* A PNG under a JPEG's name decodes, so it is reported and not found fault with. */
static struct status note_png(struct image_check *check, const struct source_item *item)
{
    const char *dot = strrchr(item->name, '.');
    if (dot && strcasecmp(dot, ".png") == 0)
        return OK;
    if (strcmp(item->name, known_png) == 0)
        return OK;
    pthread_mutex_lock(&check->mutex);
    struct status status = OK;
    if (check->disguised_pngs++ == 0)
        status = item_path(check, item, &check->disguised_example);
    pthread_mutex_unlock(&check->mutex);
    return status;
}

static struct status check_kind(struct image_check *check, const struct source_item *item,
                                const uint8_t *bytes, size_t length, enum image_kind *ret_kind)
{
    const char *description;
    *ret_kind = image_kind_of(bytes, length);
    if (*ret_kind == IMAGE_PNG)
        return note_png(check, item);
    if (*ret_kind != IMAGE_UNKNOWN)
        return OK;
    size_t zeros = 0;
    while (zeros < length && bytes[zeros] == 0)
        zeros++;
    sniff(bytes, length, &description);
    return found(check, item, FOUND_NOT_AN_IMAGE, zeros == length ? "zeros only" : description);
}

/* --- Looking --- */

static struct status read_head(const struct image_check *check, const struct source_item *item,
                               uint8_t *bytes, size_t length)
{
    const struct source_shard *shard = &check->source->shards[item->shard];
    if (shard->kind != SHARD_FOLDER)
        return file_read_at(check->shard_fds[item->shard], shard->path, bytes, length,
                            item->offset);
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(fd_close) int fd = -1;
    const char *class_name = class_table_at(check->source->classes, item->label)->wnid;
    TRY(string_format(&path, "%s/%s/%s", shard->path, class_name, item->name));
    TRY(file_open_read(path, &fd));
    return file_read_at(fd, path, bytes, length, 0);
}

static struct status look_at(struct image_check *check, const struct source_item *item)
{
    uint8_t head[SNIFF_BYTES];
    size_t length = item->length < sizeof head ? (size_t)item->length : sizeof head;
    enum image_kind kind;
    struct status status = read_head(check, item, head, length);
    if (status.code == STATUS_DONE)
        return check_kind(check, item, head, length, &kind);
    struct status recorded = found(check, item, FOUND_UNREADABLE, status_message(&status));
    status_clear(&status);
    return recorded;
}

/* --- Decoding --- */

static struct status decode(struct image_check *check, size_t index, struct image_scratch *scratch)
{
    const struct source_item *item = &check->source->items[index];
    enum image_kind kind = IMAGE_UNKNOWN;
    struct status status = source_read(check->reader, index, &scratch->bytes);
    if (status.code == STATUS_DONE) {
        TRY(check_kind(check, item, scratch->bytes.data, scratch->bytes.length, &kind));
        if (kind == IMAGE_UNKNOWN)
            return OK;
        status = decoder_decode(scratch->decoder, scratch->bytes.data, scratch->bytes.length, NULL,
                                &scratch->picture, NULL);
    }
    if (status.code == STATUS_DONE || status.code == STATUS_NO_MEMORY)
        return status;
    struct status recorded = found(check, item, FOUND_UNREADABLE, status_message(&status));
    status_clear(&status);
    return recorded;
}

/* --- All images --- */

static struct status check_task(uint64_t task, unsigned thread, void *context)
{
    struct image_check *check = context;
    uint64_t end = (task + 1) * images_per_task, bytes = 0;
    if (end > check->source->item_count)
        end = check->source->item_count;
    TRY(stop_check());
    for (uint64_t i = task * images_per_task; i < end; i++) {
        const struct source_item *item = &check->source->items[i];
        if (item->length == 0)
            TRY(found(check, item, FOUND_EMPTY_FILE, "0 bytes"));
        else if (check->reader)
            TRY(decode(check, i, &check->scratch[thread]));
        else
            TRY(look_at(check, item));
        bytes += item->length;
    }
    progress_add(check->progress, end - task * images_per_task, check->reader ? bytes : 0);
    return OK;
}

static struct status open_shards(struct image_check *check)
{
    const struct source *source = check->source;
    TRY(memory_alloc(source->shard_count, sizeof *check->shard_fds, &check->shard_fds));
    for (size_t i = 0; i < source->shard_count; i++)
        check->shard_fds[i] = -1;
    for (size_t i = 0; i < source->shard_count; i++)
        if (source->shards[i].kind != SHARD_FOLDER)
            TRY(file_open_read(source->shards[i].path, &check->shard_fds[i]));
    return OK;
}

static struct status open_decoders(struct image_check *check)
{
    TRY(source_reader_open(check->source, &check->reader));
    TRY(memory_alloc(check->threads, sizeof *check->scratch, &check->scratch));
    for (unsigned i = 0; i < check->threads; i++)
        TRY(decoder_open(&check->scratch[i].decoder));
    return OK;
}

struct status verify_images(struct verify_set *set, const struct verify_options *options,
                            const struct source *source)
{
    CLEANUP(pool_close) struct pool *pool = NULL;
    CLEANUP(image_check_done)
    struct image_check check = {.set = set,
                                .source = source,
                                .threads = options->threads,
                                .mutex = PTHREAD_MUTEX_INITIALIZER};
    TRY(options->decode ? open_decoders(&check) : open_shards(&check));
    TRY(pool_open(options->threads, &pool));
    TRY(progress_open(options->decode ? "decode" : "verify", "images", source->item_count,
                      options->decode ? set->bytes : 0, &check.progress));
    uint64_t tasks = (source->item_count + images_per_task - 1) / images_per_task;
    TRY(pool_run(pool, tasks, check_task, &check));
    set->decoded = options->decode ? source->item_count : 0;
    if (check.disguised_pngs)
        TRY(verify_note(set,
                        "%" PRIu64 " PNG images have JPEG names (%s, …); headrace reads them as "
                        "what they are",
                        check.disguised_pngs, check.disguised_example));
    return OK;
}
