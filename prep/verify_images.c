#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/stop.h"
#include "image/decode.h"
#include "prep/sniff.h"
#include "prep/verify_set.h"

/* A task of the pool, so that threads do not fight for single images. */
static const uint64_t images_per_task = 32;

struct image_scratch {
    struct decoder *decoder;
    struct buffer bytes;
    struct picture picture;
};

struct image_check {
    struct verify_set *set;
    const struct source *source;
    bool is_decoding;
    struct source_reader *reader; /* of whole images */
    int *shard_fds;               /* for first and last bytes; -1: a folder */
    struct image_scratch *scratch;
    unsigned threads;
    struct progress *progress;
    pthread_mutex_t mutex; /* guards the set */
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
    source_reader_close(check->reader);
    progress_close(check->progress);
    pthread_mutex_destroy(&check->mutex);
}
CLEANUP_VALUE(image_check_done, struct image_check)

static struct status found(struct image_check *check, const struct source_item *item,
                           enum finding_kind kind, const char *text)
{
    CLEANUP(memory_free) char *path = NULL;
    TRY(verify_item_path(check->set, check->source, item, &path));
    pthread_mutex_lock(&check->mutex);
    struct status status = verify_found(check->set, kind, path, "%s", text);
    pthread_mutex_unlock(&check->mutex);
    return status;
}

static struct status note_oddity(struct image_check *check, const struct source_item *item,
                                 const struct image_info *info)
{
    CLEANUP(memory_free) char *path = NULL;
    enum oddity_kind kind = oddity_of(item->name, info);
    if (kind == ODDITY_NONE)
        return OK;
    TRY(verify_item_path(check->set, check->source, item, &path));
    pthread_mutex_lock(&check->mutex);
    struct status status =
        verify_oddity(check->set, kind, path, kind == oddity_published(item->name));
    pthread_mutex_unlock(&check->mutex);
    return status;
}

/* Finds fault with what is neither a JPEG nor a PNG; *ret_kind is IMAGE_UNKNOWN then. */
static struct status check_kind(struct image_check *check, const struct source_item *item,
                                const uint8_t *bytes, size_t length, enum image_kind *ret_kind)
{
    const char *description;
    *ret_kind = image_kind_of(bytes, length);
    if (*ret_kind != IMAGE_UNKNOWN)
        return OK;
    if (length == 2 && bytes[0] == 0xff && bytes[1] == 0xd8)
        return found(check, item, FOUND_TRUNCATED, "a JPEG image that ends after 2 bytes");
    size_t zeros = 0;
    while (zeros < length && bytes[zeros] == 0)
        zeros++;
    sniff(bytes, length, &description);
    return found(check, item, FOUND_NOT_AN_IMAGE, zeros == length ? "zeros only" : description);
}

/* --- Decoding --- */

static struct status decode(struct image_check *check, size_t index, struct image_scratch *scratch)
{
    const struct source_item *item = &check->source->items[index];
    const struct buffer *bytes = &scratch->bytes;
    struct image_info info = {.kind = IMAGE_UNKNOWN};
    struct status status = source_read(check->reader, index, &scratch->bytes);
    bool is_read = status.code == STATUS_DONE;
    if (is_read) {
        TRY(check_kind(check, item, bytes->data, bytes->length, &info.kind));
        if (info.kind == IMAGE_UNKNOWN)
            return OK;
        status = image_probe(bytes->data, bytes->length, &info);
    }
    if (status.code == STATUS_DONE)
        status = decoder_decode(scratch->decoder, bytes->data, bytes->length, NULL,
                                &scratch->picture, NULL);
    if (status.code == STATUS_DONE)
        return note_oddity(check, item, &info);
    if (status.code == STATUS_NO_MEMORY)
        return status;
    bool is_cut = is_read && info.kind == IMAGE_JPEG && !jpeg_has_end(bytes->data, bytes->length);
    struct status recorded =
        found(check, item, is_cut ? FOUND_TRUNCATED : FOUND_UNREADABLE, status_message(&status));
    status_clear(&status);
    return recorded;
}

/* --- Looking --- */

struct image_ends {
    uint8_t head[SNIFF_BYTES], tail[JPEG_TAIL_BYTES];
    size_t head_length, tail_length;
};

static struct status read_ends(const struct image_check *check, const struct source_item *item,
                               struct image_ends *ends)
{
    const struct source_shard *shard = &check->source->shards[item->shard];
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(fd_close) int own_fd = -1;
    ends->head_length = item->length < SNIFF_BYTES ? (size_t)item->length : SNIFF_BYTES;
    ends->tail_length = item->length < JPEG_TAIL_BYTES ? (size_t)item->length : JPEG_TAIL_BYTES;
    if (shard_is_folder(shard)) {
        const char *class_name = class_table_at(check->source->classes, item->label)->wnid;
        TRY(shard_record_path(shard, class_name, item->name, &path));
        TRY(file_open_read(path, &own_fd));
    }
    int fd = path ? own_fd : check->shard_fds[item->shard];
    const char *name = path ? path : shard->path;
    TRY(file_read_at(fd, name, ends->head, ends->head_length, item->offset));
    return file_read_at(fd, name, ends->tail, ends->tail_length,
                        item->offset + item->length - ends->tail_length);
}

/* Most images are told by their ends; those that are not are decoded, and so are the few whose
 * oddity is known and would not show. */
static struct status look_at(struct image_check *check, size_t index, struct image_scratch *scratch)
{
    const struct source_item *item = &check->source->items[index];
    struct image_ends ends;
    struct image_info info = {.kind = IMAGE_UNKNOWN};
    struct status status = read_ends(check, item, &ends);
    if (status.code != STATUS_DONE) {
        struct status recorded = found(check, item, FOUND_UNREADABLE, status_message(&status));
        status_clear(&status);
        return recorded;
    }
    TRY(check_kind(check, item, ends.head, ends.head_length, &info.kind));
    if (info.kind == IMAGE_JPEG &&
        (!jpeg_has_end(ends.tail, ends.tail_length) || oddity_published(item->name) != ODDITY_NONE))
        return decode(check, index, scratch);
    return info.kind == IMAGE_UNKNOWN ? OK : note_oddity(check, item, &info);
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
        else if (check->is_decoding)
            TRY(decode(check, i, &check->scratch[thread]));
        else
            TRY(look_at(check, i, &check->scratch[thread]));
        bytes += item->length;
    }
    progress_add(check->progress, end - task * images_per_task, check->is_decoding ? bytes : 0);
    return OK;
}

static struct status open_shards(struct image_check *check)
{
    const struct source *source = check->source;
    TRY(memory_alloc(source->shard_count, sizeof *check->shard_fds, &check->shard_fds));
    for (size_t i = 0; i < source->shard_count; i++)
        check->shard_fds[i] = -1;
    for (size_t i = 0; i < source->shard_count; i++)
        if (!shard_is_folder(&source->shards[i]))
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
                                .is_decoding = options->decode,
                                .threads = options->threads,
                                .mutex = PTHREAD_MUTEX_INITIALIZER};
    TRY(open_decoders(&check));
    if (!options->decode)
        TRY(open_shards(&check));
    TRY(pool_open(options->threads, &pool));
    TRY(progress_open(options->decode ? "decode" : "verify", "images", source->item_count,
                      options->decode ? set->bytes : 0, &check.progress));
    uint64_t tasks = (source->item_count + images_per_task - 1) / images_per_task;
    TRY(pool_run(pool, tasks, check_task, &check));
    set->decoded = options->decode ? source->item_count : 0;
    return OK;
}
