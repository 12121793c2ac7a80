#include "index/pack.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "index/pack_provenance.h"
#include "index/pack_windows.h"
#include "index/writer.h"

/* What is open while an index is packed. */
struct packing {
    struct packer packer;
    struct file_writer *index_file; /* open from the start: keeps other processes away */
};

static void packing_done(struct packing *packing)
{
    memory_free(packing->packer.kept);
    shard_reader_close(packing->packer.from.reader);
    shard_writer_free(packing->packer.writer);
    file_writer_free(packing->index_file);
}
CLEANUP_VALUE(packing_done, struct packing)

static struct status index_finish(struct packing *packing, const struct index_contents *contents,
                                  const char *path)
{
    struct shard_writer *writer = packing->packer.writer;
    TRY(index_prepare(contents, path, packing->index_file));
    if (writer && !packing->packer.from.options->force)
        TRY(shard_writer_check(writer));
    /* Never an old index over new shards: a kill between these steps leaves shards without an
     * index. */
    TRY(file_remove(path));
    if (writer)
        TRY(shard_writer_publish(writer));
    return file_writer_publish(packing->index_file);
}

/* Ends the shards, and says in the contents what they hold. */
static struct status shards_finish(struct packer *packer, struct index_contents *contents)
{
    struct pack_report *report = packer->report;
    TRY(shard_writer_finish(packer->writer));
    contents->shards = shard_writer_shards(packer->writer, &contents->shard_count);
    contents->items = shard_writer_items(packer->writer, &contents->item_count);
    report->shards = contents->shard_count;
    for (size_t i = 0; i < contents->shard_count; i++)
        report->written_bytes += contents->shards[i].size_bytes;
    return OK;
}

static struct status pack_finish(struct packing *packing, const char *path)
{
    CLEANUP(buffer_done) struct buffer provenance = {0};
    struct packer *packer = &packing->packer;
    struct pack_report *report = packer->report;
    const struct source *source = packer->from.source;
    struct index_contents contents = {
        .classes = source->classes,
        .shards = source->shards,
        .shard_count = source->shard_count,
        .items = packer->kept,
        .item_count = packer->kept_count,
    };
    if (packer->writer)
        TRY(shards_finish(packer, &contents));
    report->images = contents.item_count;
    for (uint64_t i = 0; i < contents.item_count; i++)
        report->image_bytes += contents.items[i].length;
    if (report->images == 0)
        FAIL(STATUS_CORRUPT, "none of the %zu images can be read; the first: %s: %s",
             source->item_count, report->problems.items[0].record,
             report->problems.items[0].reason);
    TRY(pack_provenance_make(source, packer->from.options, report, &provenance));
    TRY(buffer_text(&provenance, &contents.provenance));
    return index_finish(packing, &contents, path);
}

/* `folder` is that of the output, or a parent of it. */
static struct status space_require(const struct source *source, const struct pack_options *options,
                                   const char *folder)
{
    struct pack_prediction prediction;
    if (options->prediction)
        prediction = *options->prediction;
    else
        TRY(pack_predict(source, options, &prediction));
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

static struct status images_pack(struct packer *packer)
{
    const struct source *source = packer->from.source;
    const struct pack_options *options = packer->from.options;
    if (!options->in_place || options->crc || options->decode)
        return pack_windows_run(packer);
    memcpy(packer->kept, source->items, source->item_count * sizeof *source->items);
    packer->kept_count = source->item_count;
    for (size_t i = 0; i < source->item_count; i++)
        packer->report->encodings[source->items[i].encoding]++;
    return OK;
}

struct status pack_check_output(const struct source *source, const char *path, bool makes_folder,
                                const struct pack_options *options)
{
    CLEANUP(memory_free) char *prefix = NULL;
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) char *nearest = NULL;
    TRY(pack_prefix(path, &prefix));
    TRY(path_folder(path, &folder));
    if (!makes_folder || path_exists(folder))
        TRY(file_writer_check(path));
    TRY(folder_check_writable(folder, &nearest));
    if (!options->in_place)
        TRY(source_protect(source, prefix));
    return space_require(source, options, nearest);
}

struct status pack_run(const struct source *source, const char *path,
                       const struct pack_options *options, struct pack_report *report)
{
    CLEANUP(memory_free) char *prefix = NULL;
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(packing_done)
    struct packing packing = {
        .packer = {.from = {.source = source, .options = options}, .report = report}};
    struct packer *packer = &packing.packer;
    TRY(pack_prefix(path, &prefix));
    TRY(path_folder(path, &folder));
    TRY(file_writer_open(path, &packing.index_file));
    if (!options->in_place)
        TRY(source_protect(source, prefix));
    TRY(space_require(source, options, folder));
    TRY(shard_reader_open(source->shards, source->shard_count, &packer->from.reader));
    if (options->in_place)
        TRY(memory_alloc(source->item_count, sizeof *packer->kept, &packer->kept));
    else
        TRY(shard_writer_open(prefix, source->classes, options->shard_bytes, &packer->writer));
    TRY(images_pack(packer));
    return pack_finish(&packing, path);
}

void pack_report_done(struct pack_report *report)
{
    problem_list_done(&report->problems);
    *report = (struct pack_report){0};
}
