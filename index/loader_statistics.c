#include "index/loader_statistics.h"

#include <stdio.h>

const char *loader_statistics_text(const struct loader_statistics *statistics, char text[128])
{
    double thread_seconds = statistics->seconds * statistics->threads;
    double percent = thread_seconds > 0 ? 100 / thread_seconds : 0;
    snprintf(text, 128, "loader: read %.0f %%, decode %.0f %%, waited for batches %.3g s of %.3g s",
             statistics->read_seconds * percent, statistics->decode_seconds * percent,
             statistics->wait_seconds, statistics->seconds);
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
}
