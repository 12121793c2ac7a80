#include "index/pack.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/stop.h"
#include "image/decode.h"
#include "image/shard_reader.h"
#include "index/index.h"
#include "index/shard_writer.h"
#include "index/writer.h"

/* The source is worked through in windows of consecutive images, several at a time: reading, CRC
 * and probing go on in parallel, each window in a slot of a ring. Finished windows are committed in
 * order, by whichever thread finishes the one whose turn it is, so that no thread waits for another
 * while there are free slots. Windows are small enough to stay in a core's cache between reading
 * and writing. */
static const uint64_t window_bytes = (uint64_t)256 << 10;
enum { SLOTS_PER_THREAD = 4 };

struct window {
    size_t first, count;
    uint64_t padded_bytes;
};

/* What was found out about an image. */
struct finding {
    struct source_item item;
    bool is_png;
    char *problem; /* NULL: none */
};

struct slot {
    struct buffer bytes; /* the window's images as they stand in a shard */
    struct finding *findings;
    size_t finding_count, finding_capacity;
    bool is_ready; /* filled, not yet committed */
};

/* Of one thread. */
struct scratch {
    struct decoder *decoder;
    struct picture picture;
};

struct packer {
    const struct source *source;
    const struct pack_options *options;
    struct pack_report *report;
    struct shard_reader *reader;
    struct file_writer *index_file; /* open from the start: keeps other processes away */
    struct shard_writer *writer;    /* NULL: in place */
    struct source_item *kept;       /* in place: the items that go into the index */
    size_t kept_count;
    struct window *windows;
    size_t window_count;
    struct scratch *scratch;
    unsigned threads;
    struct progress *progress;

    struct slot *slots; /* window n uses slot n % slot_count */
    size_t slot_count;
    pthread_mutex_t lock; /* guards what follows, and the slots' is_ready */
    pthread_cond_t turn_changed;
    size_t turn; /* the window that is to be committed next */
    bool is_committing;
    bool failed;
};

static void findings_clear(struct slot *slot)
{
    for (size_t i = 0; i < slot->finding_count; i++)
        memory_free(slot->findings[i].problem);
    slot->finding_count = 0;
}

static void packer_done(struct packer *packer)
{
    for (unsigned i = 0; packer->scratch && i < packer->threads; i++) {
        decoder_close(packer->scratch[i].decoder);
        picture_done(&packer->scratch[i].picture);
    }
    for (size_t i = 0; packer->slots && i < packer->slot_count; i++) {
        findings_clear(&packer->slots[i]);
        memory_free(packer->slots[i].findings);
        buffer_done(&packer->slots[i].bytes);
    }
    memory_free(packer->slots);
    memory_free(packer->scratch);
    memory_free(packer->windows);
    memory_free(packer->kept);
    progress_close(packer->progress);
    shard_reader_close(packer->reader);
    shard_writer_free(packer->writer);
    file_writer_free(packer->index_file);
    pthread_mutex_destroy(&packer->lock);
    pthread_cond_destroy(&packer->turn_changed);
}
CLEANUP_VALUE(packer_done, struct packer)

static struct status windows_plan(struct packer *packer)
{
    const struct source *source = packer->source;
    size_t capacity = 0;
    struct window *window = NULL;
    for (size_t i = 0; i < source->item_count; i++) {
        uint64_t bytes = shard_padded(source->items[i].length);
        if (!window || window->padded_bytes + bytes > window_bytes) {
            TRY(memory_grow(packer->window_count + 1, sizeof *window, &packer->windows, &capacity));
            window = &packer->windows[packer->window_count++];
            *window = (struct window){.first = i};
        }
        window->count++;
        window->padded_bytes += bytes;
    }
    return OK;
}

/* Where a window's images lie close together in one file, their reading starts at once. */
static void window_read_ahead(const struct packer *packer, const struct window *window)
{
    const struct source_item *first = &packer->source->items[window->first];
    const struct source_item *last = first + window->count - 1;
    if (last->shard == first->shard && last->offset > first->offset &&
        last->offset - first->offset < 2 * window->padded_bytes)
        shard_read_ahead(packer->reader, first->shard, first->offset,
                         last->offset + last->length - first->offset);
}

/* Probes an image, and decodes it where that was asked for. */
static struct status image_examine(const struct packer *packer, struct scratch *scratch,
                                   const uint8_t *bytes, struct finding *finding)
{
    struct image_info info;
    struct source_item *item = &finding->item;
    TRY(image_probe(bytes, item->length, &info));
    finding->is_png = info.kind == IMAGE_PNG;
    if (packer->options->decode)
        TRY(decoder_decode(scratch->decoder, bytes, item->length, NULL, &scratch->picture, NULL));
    if (info.width <= UINT16_MAX && info.height <= UINT16_MAX) {
        item->width = (uint16_t)info.width;
        item->height = (uint16_t)info.height;
    }
    return OK;
}

static struct status image_read(const struct packer *packer, struct scratch *scratch, size_t i,
                                uint8_t *bytes, struct finding *finding)
{
    struct shard_range range = source_range(packer->source, i);
    *finding = (struct finding){.item = packer->source->items[i]};
    if (finding->item.encoding != ENCODING_JPEG)
        FAIL(STATUS_UNSUPPORTED, "it has encoding %u, which this program cannot pack",
             finding->item.encoding);
    TRY(shard_read(packer->reader, &range, bytes));
    if (!finding->item.crc_known) {
        finding->item.crc32c = crc32c_update(0, bytes, range.length);
        finding->item.crc_known = true;
    }
    struct status status = image_examine(packer, scratch, bytes, finding);
    if (status.code == STATUS_DONE)
        return status;
    if (packer->options->on_error == PACK_FAIL && status.code != STATUS_NO_MEMORY) {
        struct status advised =
            status_make(status.code,
                        "%s; --on-error skip leaves such images out, --on-error keep packs them",
                        status_message(&status));
        status_clear(&status);
        return advised;
    }
    if (status.code == STATUS_NO_MEMORY)
        return status;
    finding->problem = MOVE(status.message);
    return OK;
}

/* Reads a window's images to where they will stand in a shard, with zeros between them. */
static struct status window_read(struct packer *packer, const struct window *window,
                                 struct scratch *scratch, struct slot *slot)
{
    const struct source *source = packer->source;
    findings_clear(slot);
    slot->bytes.ceiling_bytes = SIZE_MAX;
    slot->bytes.length = 0; /* so that growing copies nothing */
    TRY(buffer_reserve(&slot->bytes, window->padded_bytes + SHARD_PADDING));
    TRY(memory_grow(window->count, sizeof *slot->findings, &slot->findings,
                    &slot->finding_capacity));
    if (packer->options->decode && !scratch->decoder)
        TRY(decoder_open(&scratch->decoder));
    window_read_ahead(packer, window);

    uint8_t *bytes = slot->bytes.data;
    for (size_t i = window->first; i < window->first + window->count; i++) {
        const struct source_item *item = &source->items[i];
        uint64_t padded = shard_padded(item->length);
        memset(bytes + item->length, 0, padded - item->length + SHARD_PADDING);
        slot->finding_count++;
        TRY(status_context(image_read(packer, scratch, i, bytes,
                                      &slot->findings[i - window->first]),
                           "%s/%s", class_table_at(source->classes, item->label)->wnid,
                           item->name));
        bytes += padded;
    }
    return OK;
}

static struct status problem_add(struct packer *packer, struct finding *finding)
{
    struct pack_report *report = packer->report;
    TRY(memory_grow(report->problem_count + 1, sizeof *report->problems, &report->problems,
                    &report->problem_capacity));
    struct pack_problem *problem = &report->problems[report->problem_count];
    TRY(string_format(&problem->record, "%s/%s",
                      class_table_at(packer->source->classes, finding->item.label)->wnid,
                      finding->item.name));
    problem->reason = MOVE(finding->problem);
    report->problem_count++;
    return OK;
}

/* Adds a window's images to the shards and the index. One thread at a time. */
static struct status window_commit(struct packer *packer, struct slot *slot)
{
    const uint8_t *bytes = slot->bytes.data;
    uint64_t source_bytes = 0;
    for (size_t i = 0; i < slot->finding_count; i++) {
        struct finding *finding = &slot->findings[i];
        const struct source_item *item = &finding->item;
        bool is_skipped = finding->problem && packer->options->on_error == PACK_SKIP;
        if (finding->problem)
            TRY(problem_add(packer, finding));
        if (!is_skipped) {
            if (packer->writer)
                TRY(shard_writer_add(packer->writer, item, bytes));
            else
                packer->kept[packer->kept_count++] = *item;
            packer->report->png_count += finding->is_png;
        }
        bytes += shard_padded(item->length);
        source_bytes += item->length;
    }
    progress_add(packer->progress, slot->finding_count, source_bytes);
    return packer->writer ? shard_writer_flush(packer->writer) : OK;
}

/* Waits until the window that used the slot before is committed; false when packing failed. */
static bool slot_wait(struct packer *packer, size_t window)
{
    pthread_mutex_lock(&packer->lock);
    while (window >= packer->turn + packer->slot_count && !packer->failed)
        pthread_cond_wait(&packer->turn_changed, &packer->lock);
    bool is_free = !packer->failed;
    pthread_mutex_unlock(&packer->lock);
    return is_free;
}

static void packer_fail(struct packer *packer)
{
    pthread_mutex_lock(&packer->lock);
    packer->failed = true;
    pthread_cond_broadcast(&packer->turn_changed);
    pthread_mutex_unlock(&packer->lock);
}

/* Commits all windows that are ready and have their turn. Called, and left, with the lock held. */
static struct status ready_commit(struct packer *packer)
{
    struct status status = OK;
    packer->is_committing = true;
    for (;;) {
        struct slot *slot = &packer->slots[packer->turn % packer->slot_count];
        if (!slot->is_ready || packer->failed)
            break;
        pthread_mutex_unlock(&packer->lock);
        status = window_commit(packer, slot);
        pthread_mutex_lock(&packer->lock);
        slot->is_ready = false;
        packer->failed = packer->failed || status.code != STATUS_DONE;
        packer->turn++;
        pthread_cond_broadcast(&packer->turn_changed);
    }
    packer->is_committing = false;
    return status;
}

static struct status window_finish(struct packer *packer, struct slot *slot)
{
    struct status status = OK;
    pthread_mutex_lock(&packer->lock);
    slot->is_ready = true;
    if (!packer->is_committing)
        status = ready_commit(packer);
    pthread_mutex_unlock(&packer->lock);
    return status;
}

static struct status window_pack(uint64_t number, unsigned thread, void *context)
{
    struct packer *packer = context;
    struct slot *slot = &packer->slots[number % packer->slot_count];
    if (!slot_wait(packer, number))
        return OK; /* whoever failed reports it */
    struct status status = stop_check();
    if (status.code == STATUS_DONE)
        status = window_read(packer, &packer->windows[number], &packer->scratch[thread], slot);
    if (status.code == STATUS_DONE)
        status = window_finish(packer, slot);
    if (status.code != STATUS_DONE)
        packer_fail(packer);
    return status;
}

static struct status images_read(struct packer *packer)
{
    CLEANUP(pool_close) struct pool *pool = NULL;
    const struct source *source = packer->source;
    uint64_t total_bytes = 0;
    for (size_t i = 0; i < source->item_count; i++)
        total_bytes += source->items[i].length;
    TRY(progress_open(packer->writer ? "pack" : "read", "images", source->item_count, total_bytes,
                      &packer->progress));
    TRY(pool_open(packer->threads, &pool));
    TRY(memory_alloc(packer->threads, sizeof *packer->scratch, &packer->scratch));
    packer->slot_count = (size_t)packer->threads * SLOTS_PER_THREAD;
    TRY(memory_alloc(packer->slot_count, sizeof *packer->slots, &packer->slots));
    TRY(windows_plan(packer));
    return pool_run(pool, packer->window_count, window_pack, packer);
}

static struct status provenance_make(const struct packer *packer, struct buffer *text)
{
    CLEANUP(json_free) struct json *object = json_object_new();
    const struct pack_report *report = packer->report;
    json_set_string(object, "program", "headrace " HEADRACE_VERSION);
    json_set_string(object, "command", "pack");
    json_set_string(object, "source", packer->source->kind);
    json_set_string(object, "encoding", "jpeg");
    json_set_boolean(object, "in_place", packer->options->in_place);
    json_set_integer(object, "images", (int64_t)report->images);
    if (packer->options->on_error == PACK_SKIP && report->problem_count > 0) {
        struct json *skipped = json_array_new();
        for (size_t i = 0; i < report->problem_count; i++)
            json_append_string(skipped, report->problems[i].record);
        json_set(object, "skipped", skipped);
    }
    return json_write(object, false, text);
}

static struct status index_finish(struct packer *packer, const struct index_contents *contents,
                                  const char *path)
{
    TRY(index_prepare(contents, path, packer->index_file));
    if (packer->writer && !packer->options->force)
        TRY(shard_writer_check(packer->writer));
    /* Never an old index over new shards: a kill between these steps leaves shards without an
     * index. */
    TRY(file_remove(path));
    if (packer->writer)
        TRY(shard_writer_publish(packer->writer));
    return file_writer_publish(packer->index_file);
}

static struct status pack_finish(struct packer *packer, const char *path)
{
    CLEANUP(buffer_done) struct buffer provenance = {0};
    struct pack_report *report = packer->report;
    struct index_contents contents = {
        .classes = packer->source->classes,
        .shards = packer->source->shards,
        .shard_count = packer->source->shard_count,
        .items = packer->kept,
        .item_count = packer->kept_count,
    };
    if (packer->writer) {
        TRY(shard_writer_finish(packer->writer));
        contents.shards = shard_writer_shards(packer->writer, &contents.shard_count);
        contents.items = shard_writer_items(packer->writer, &contents.item_count);
        report->shards = contents.shard_count;
        for (size_t i = 0; i < contents.shard_count; i++)
            report->written_bytes += contents.shards[i].size_bytes;
    }
    report->images = contents.item_count;
    for (uint64_t i = 0; i < contents.item_count; i++)
        report->image_bytes += contents.items[i].length;
    if (report->images == 0)
        FAIL(STATUS_CORRUPT, "none of the %zu images can be read; the first: %s: %s",
             packer->source->item_count, report->problems[0].record, report->problems[0].reason);
    TRY(provenance_make(packer, &provenance));
    TRY(buffer_text(&provenance, &contents.provenance));
    return index_finish(packer, &contents, path);
}

static struct status space_require(const struct packer *packer, const char *path)
{
    CLEANUP(memory_free) char *folder = NULL;
    struct pack_prediction prediction;
    pack_predict(packer->source, packer->options, &prediction);
    TRY(path_folder(path, &folder));
    return folder_require_space(folder, prediction.shard_bytes + prediction.index_bytes);
}

struct status pack_prefix(const char *path, char **ret_prefix)
{
    size_t length = strlen(path);
    if (length < 5 || strcmp(path + length - 4, ".idx") != 0 || path[length - 5] == '/')
        FAIL(STATUS_USAGE, "the index '%s' needs a name that ends in .idx", path);
    return string_format(ret_prefix, "%.*s", (int)length - 4, path);
}

/* A source may be an index whose shards have the names of those to be written. Were they replaced,
 * a kill in the middle would lose images, and the source's index would fit nothing any more. */
static struct status source_protect(const struct source *source, const char *prefix)
{
    for (size_t i = 0; i < source->shard_count; i++) {
        struct stat shard, output;
        CLEANUP(memory_free) char *path = NULL;
        TRY(shard_path(prefix, 0, &path));
        for (size_t number = 0; stat(path, &output) == 0; number++) {
            if (stat(source->shards[i].path, &shard) == 0 && shard.st_dev == output.st_dev &&
                shard.st_ino == output.st_ino)
                FAIL(STATUS_USAGE,
                     "'%s' holds images of the source and would be replaced; give another name",
                     path);
            memory_free(MOVE(path));
            TRY(shard_path(prefix, number + 1, &path));
        }
    }
    return OK;
}

struct status pack_run(const struct source *source, const char *path,
                       const struct pack_options *options, struct pack_report *report)
{
    CLEANUP(memory_free) char *prefix = NULL;
    CLEANUP(packer_done)
    struct packer packer = {
        .source = source,
        .options = options,
        .report = report,
        .threads = options->threads,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .turn_changed = PTHREAD_COND_INITIALIZER,
    };
    TRY(pack_prefix(path, &prefix));
    TRY(file_writer_open(path, &packer.index_file));
    if (!options->in_place)
        TRY(source_protect(source, prefix));
    TRY(space_require(&packer, path));
    TRY(shard_reader_open(source->shards, source->shard_count, &packer.reader));
    if (options->in_place)
        TRY(memory_alloc(source->item_count, sizeof *packer.kept, &packer.kept));
    else
        TRY(shard_writer_open(prefix, source->classes, options->shard_bytes, &packer.writer));
    if (!options->in_place || options->crc || options->decode) {
        TRY(images_read(&packer));
    } else {
        memcpy(packer.kept, source->items, source->item_count * sizeof *source->items);
        packer.kept_count = source->item_count;
    }
    return pack_finish(&packer, path);
}

void pack_predict(const struct source *source, const struct pack_options *options,
                  struct pack_prediction *ret_prediction)
{
    struct pack_prediction prediction = {.images = source->item_count};
    uint64_t names_bytes = 0;
    for (size_t i = 0; i < source->item_count; i++) {
        prediction.source_bytes += source->items[i].length;
        names_bytes += strlen(source->items[i].name);
    }
    prediction.index_bytes = index_estimate_bytes(source->classes, source->item_count, names_bytes);
    if (!options->in_place) {
        shard_layout(source, options->shard_bytes, &prediction.shards, &prediction.shard_bytes);
        /* Each trailer has all classes, all trailers together the records of the index. */
        prediction.shard_bytes += prediction.index_bytes +
                                  prediction.shards * index_estimate_bytes(source->classes, 0, 0);
    }
    *ret_prediction = prediction;
}

void pack_report_done(struct pack_report *report)
{
    for (size_t i = 0; i < report->problem_count; i++) {
        memory_free(report->problems[i].record);
        memory_free(report->problems[i].reason);
    }
    memory_free(report->problems);
    *report = (struct pack_report){0};
}

/* How many images the packing of an index skipped. */
static struct status skipped_count(const struct index *index, uint64_t *ret_count)
{
    CLEANUP(json_free) struct json *provenance = NULL;
    const char *text = index_provenance(index);
    TRY(json_parse(text, strlen(text), "provenance", &provenance));
    *ret_count = json_length(json_get(provenance, "skipped"));
    return OK;
}

/* Whether the index has the source's images one by one; those that it lacks have to be as many as
 * were skipped when it was made. */
static struct status same_records(const struct source *source, const struct index *index,
                                  const struct pack_options *options, bool *ret_same)
{
    uint64_t skipped = 0, next = 0;
    if (options->on_error == PACK_SKIP)
        TRY(skipped_count(index, &skipped));
    *ret_same = index_count(index) + skipped == source->item_count &&
                class_table_hash(index_classes(index)) == class_table_hash(source->classes);
    for (uint64_t i = 0; *ret_same && i < index_count(index); i++, next++) {
        struct record record;
        const char *name;
        TRY(index_record(index, i, &record));
        TRY(index_name(index, i, &name));
        while (next < source->item_count && (source->items[next].label != record.label ||
                                             strcmp(source->items[next].name, name) != 0))
            next++;
        *ret_same = next < source->item_count && record.length == source->items[next].length &&
                    (record.crc_known || !options->crc);
    }
    return OK;
}

static bool shard_is_complete(const struct source_shard *shard, const struct pack_options *options)
{
    struct stat info;
    if ((shard->kind != SHARD_PACKED) != options->in_place || stat(shard->path, &info) != 0)
        return false;
    return shard->kind != SHARD_PACKED || (uint64_t)info.st_size == shard->size_bytes;
}

bool pack_is_done(const struct source *source, const char *path, const struct pack_options *options)
{
    CLEANUP(index_close) struct index *index = NULL;
    bool is_same = false;
    struct status status = index_open(path, &index);
    if (status.code == STATUS_DONE)
        status = same_records(source, index, options, &is_same);
    status_ignore(status);
    for (size_t i = 0; is_same && i < index_shard_count(index); i++)
        is_same = shard_is_complete(index_shard(index, i), options);
    return is_same;
}
