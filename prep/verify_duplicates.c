#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/stop.h"
#include "prep/verify_set.h"

/* An image whose length another one has too. */
struct candidate {
    uint64_t length;
    size_t item;
    bool is_read;
    uint8_t digest[SHA256_BYTES];
};

struct duplicate_search {
    const struct source *source;
    struct candidate *candidates;
    size_t count;
    struct source_reader *reader;
    struct buffer *scratch; /* of each thread */
    unsigned threads;
    struct progress *progress;
};

static void duplicate_search_done(struct duplicate_search *search)
{
    for (unsigned i = 0; search->scratch && i < search->threads; i++)
        buffer_done(&search->scratch[i]);
    memory_free(search->scratch);
    memory_free(search->candidates);
    source_reader_close(search->reader);
    progress_close(search->progress);
}
CLEANUP_VALUE(duplicate_search_done, struct duplicate_search)

static int length_compare(const void *a, const void *b)
{
    const struct candidate *p = a, *q = b;
    if (p->length != q->length)
        return p->length < q->length ? -1 : 1;
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
    struct status status = source_read(search->reader, candidate->item, bytes);
    if (status.code == STATUS_NO_MEMORY)
        return status;
    candidate->is_read = status.code == STATUS_DONE;
    if (candidate->is_read)
        digest_sha256_bytes(bytes->data, bytes->length, candidate->digest);
    status_clear(&status);
    progress_add(search->progress, 1, candidate->length);
    return OK;
}

static struct status report_equal(struct verify_set *set, const struct duplicate_search *search)
{
    const struct source *source = search->source;
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
        TRY(verify_item_path(set, source, &source->items[first->item], &first_path));
        TRY(verify_item_path(set, source, &source->items[candidate->item], &path));
        TRY(verify_found(set, FOUND_DUPLICATE, path, "the same bytes as %s", first_path));
    }
    return OK;
}

struct status verify_duplicates(struct verify_set *set, const struct verify_options *options,
                                const struct source *source)
{
    CLEANUP(duplicate_search_done)
    struct duplicate_search search = {.source = source,
                                      .count = source->item_count,
                                      .threads = options->threads};
    CLEANUP(pool_close) struct pool *pool = NULL;
    TRY(memory_alloc(search.count, sizeof *search.candidates, &search.candidates));
    for (size_t i = 0; i < search.count; i++)
        search.candidates[i] = (struct candidate){.length = source->items[i].length, .item = i};
    qsort(search.candidates, search.count, sizeof *search.candidates, length_compare);
    uint64_t bytes = keep_equal_lengths(&search);
    TRY(memory_alloc(search.threads, sizeof *search.scratch, &search.scratch));
    TRY(source_reader_open(source, &search.reader));
    TRY(progress_open("compare", "images", search.count, bytes, &search.progress));
    TRY(pool_open(options->threads, &pool));
    TRY(pool_run(pool, search.count, digest_one, &search));
    qsort(search.candidates, search.count, sizeof *search.candidates, digest_compare);
    return report_equal(set, &search);
}
