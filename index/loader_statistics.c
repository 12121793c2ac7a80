#include "index/loader_statistics.h"

#include <stdio.h>

#include "base/progress.h"

/* Records that were in the cache. A few may be fetched that no image was made of yet. */
static uint64_t cache_hits(const struct loader_statistics *statistics)
{
    return statistics->images > statistics->fetched ? statistics->images - statistics->fetched : 0;
}

const char *loader_statistics_text(const struct loader_statistics *statistics,
                                   char text[LOADER_STATISTICS_TEXT_BYTES])
{
    const size_t size = LOADER_STATISTICS_TEXT_BYTES;
    double thread_seconds = statistics->seconds * statistics->threads;
    double percent = thread_seconds > 0 ? 100 / thread_seconds : 0;
    char bytes[16];
    int length =
        snprintf(text, size,
                 "loader: read %.0f %%, decode %.0f %%, waited for batches %.3g s of %.3g s",
                 statistics->read_seconds * percent, statistics->decode_seconds * percent,
                 statistics->wait_seconds, statistics->seconds);
    if (statistics->has_cache)
        snprintf(text + length, size - (size_t)length,
                 "; cache: %llu of %llu in it, %s fetched, %llu made dct",
                 (unsigned long long)cache_hits(statistics), (unsigned long long)statistics->images,
                 format_bytes(statistics->fetched_bytes, bytes),
                 (unsigned long long)statistics->converted);
    return text;
}

void loader_statistics_store(const struct loader_statistics *statistics, struct json *object)
{
    json_set_integer(object, "images", (int64_t)statistics->images);
    json_set_integer(object, "bytes", (int64_t)statistics->bytes);
    json_set_integer(object, "bad_records", (int64_t)statistics->bad_records);
    json_set_integer(object, "threads", statistics->threads);
    json_set_real(object, "seconds", statistics->seconds);
    json_set_real(object, "read_seconds", statistics->read_seconds);
    json_set_real(object, "decode_seconds", statistics->decode_seconds);
    json_set_real(object, "wait_seconds", statistics->wait_seconds);
    json_set_integer(object, "memory_bytes", (int64_t)statistics->memory_bytes);
    if (!statistics->has_cache)
        return;
    json_set_integer(object, "cache_hits", (int64_t)cache_hits(statistics));
    json_set_integer(object, "fetched", (int64_t)statistics->fetched);
    json_set_integer(object, "fetched_bytes", (int64_t)statistics->fetched_bytes);
    json_set_integer(object, "converted", (int64_t)statistics->converted);
    json_set_real(object, "fetch_wait_seconds", statistics->fetch_wait_seconds);
}
