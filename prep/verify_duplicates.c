#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/path.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/stop.h"
#include "prep/verify_set.h"

/* An image whose length another one has too. */
struct candidate {
    uint64_t length;
    size_t set, item;
    bool is_read;
    uint8_t digest[SHA256_BYTES];
};

struct duplicate_search {
    struct verify_report *report;
    const struct source *const *sources; /* of the report's sets */
    struct candidate *candidates;
    size_t count;
    struct source_reader **readers; /* of the sources */
    struct buffer *scratch;         /* of each thread */
    unsigned threads;
    struct progress *progress;
};

static void duplicate_search_done(struct duplicate_search *search)
{
    for (unsigned i = 0; search->scratch && i < search->threads; i++)
        buffer_done(&search->scratch[i]);
    memory_free(search->scratch);
    memory_free(search->candidates);
    for (size_t i = 0; search->readers && i < search->report->set_count; i++)
        source_reader_close(search->readers[i]);
    memory_free(search->readers);
    progress_close(search->progress);
}
CLEANUP_VALUE(duplicate_search_done, struct duplicate_search)

static int length_compare(const void *a, const void *b)
{
    const struct candidate *p = a, *q = b;
    if (p->length != q->length)
        return p->length < q->length ? -1 : 1;
    if (p->set != q->set)
        return p->set < q->set ? -1 : 1;
    return p->item < q->item ? -1 : p->item > q->item;
}

static int digest_compare(const void *a, const void *b)
{
    const struct candidate *p = a, *q = b;
    int order = memcmp(p->digest, q->digest, sizeof p->digest);
    return order ? order : length_compare(a, b);
}

/* Only images of equal length can be the same, so only those are read. Empty ones are found fault
 * with already. Returns their bytes. */
static uint64_t keep_equal_lengths(struct duplicate_search *search)
{
    const struct candidate *all = search->candidates;
    size_t kept = 0, count = search->count;
    uint64_t bytes = 0, before = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t length = all[i].length, after = i + 1 < count ? all[i + 1].length : 0;
        if (length && (length == before || length == after)) {
            search->candidates[kept++] = all[i];
            bytes += length;
        }
        before = length;
    }
    search->count = kept;
    return bytes;
}

/* What cannot be read is found fault with elsewhere. */
static struct status digest_one(uint64_t i, unsigned thread, void *context)
{
    struct duplicate_search *search = context;
    struct candidate *candidate = &search->candidates[i];
    struct buffer *bytes = &search->scratch[thread];
    TRY(stop_check());
    struct status status = source_read(search->readers[candidate->set], candidate->item, bytes);
    if (status.code == STATUS_NO_MEMORY)
        return status;
    candidate->is_read = status.code == STATUS_DONE;
    if (candidate->is_read)
        digest_sha256_bytes(bytes->data, bytes->length, candidate->digest);
    status_clear(&status);
    progress_add(search->progress, 1, candidate->length);
    return OK;
}

/* As the finding's set names it; with its set's folder, or archive, where that is another one. */
static struct status path_of(const struct duplicate_search *search,
                             const struct candidate *candidate, size_t seen_from, char **ret_path)
{
    CLEANUP(memory_free) char *path = NULL;
    const struct source *source = search->sources[candidate->set];
    const struct verify_set *set = &search->report->sets[candidate->set];
    TRY(verify_item_path(set, source, &source->items[candidate->item], &path));
    if (candidate->set == seen_from)
        *ret_path = MOVE(path);
    else
        TRY(path_join(path_base(set->path), path, ret_path));
    return OK;
}

static struct status report_equal(const struct duplicate_search *search)
{
    const struct candidate *first = NULL;
    for (size_t i = 0; i < search->count; i++) {
        const struct candidate *candidate = &search->candidates[i];
        CLEANUP(memory_free) char *path = NULL;
        CLEANUP(memory_free) char *first_path = NULL;
        if (!candidate->is_read)
            continue;
        if (!first || memcmp(first->digest, candidate->digest, sizeof first->digest) != 0) {
            first = candidate;
            continue;
        }
        TRY(path_of(search, first, candidate->set, &first_path));
        TRY(path_of(search, candidate, candidate->set, &path));
        TRY(verify_found(&search->report->sets[candidate->set], FOUND_DUPLICATE, path,
                         "the same bytes as %s", first_path));
    }
    return OK;
}

/* All images of all sets. */
static struct status collect(struct duplicate_search *search)
{
    size_t set_count = search->report->set_count, count = 0;
    TRY(memory_alloc(set_count, sizeof *search->readers, &search->readers));
    for (size_t set = 0; set < set_count; set++)
        count += search->sources[set] ? search->sources[set]->item_count : 0;
    TRY(memory_alloc(count, sizeof *search->candidates, &search->candidates));
    for (size_t set = 0; set < set_count; set++) {
        const struct source *source = search->sources[set];
        if (!source)
            continue;
        TRY(source_reader_open(source, &search->readers[set]));
        for (size_t i = 0; i < source->item_count; i++)
            search->candidates[search->count++] =
                (struct candidate){.length = source->items[i].length, .set = set, .item = i};
    }
    return OK;
}

struct status verify_duplicates(struct verify_report *report, const struct verify_options *options,
                                const struct source *const *sources)
{
    CLEANUP(duplicate_search_done)
    struct duplicate_search search = {.report = report,
                                      .sources = sources,
                                      .threads = options->threads};
    CLEANUP(pool_close) struct pool *pool = NULL;
    TRY(collect(&search));
    qsort(search.candidates, search.count, sizeof *search.candidates, length_compare);
    uint64_t bytes = keep_equal_lengths(&search);
    TRY(memory_alloc(search.threads, sizeof *search.scratch, &search.scratch));
    TRY(progress_open("compare", "images", search.count, bytes, &search.progress));
    TRY(pool_open(options->threads, &pool));
    TRY(pool_run(pool, search.count, digest_one, &search));
    qsort(search.candidates, search.count, sizeof *search.candidates, digest_compare);
    return report_equal(&search);
}
