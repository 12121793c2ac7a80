/* headrace fetch: fills a node's cache ahead of time. */

#include <inttypes.h>
#include <stdio.h>

#include "base/number.h"
#include "base/progress.h"
#include "cmd/command.h"
#include "cmd/open_index.h"
#include "index/access.h"
#include "index/cache_fetch.h"

struct fetch_arguments {
    struct access_options access;
    struct cache_options cache;
    const char *part;
    int64_t jobs;
    bool as_stored, json, quiet;
};

#define FIELD(name) offsetof(struct fetch_arguments, name)
static const struct option fetch_options[] = {
    CACHE_OPTIONS(cache),
    {"part", 0, OPT_STRING, FIELD(part), .value = "R/W",
     .help = "only the part R, from 0, of W equal ones, in the index's order"},
    {"as-stored", 0, OPT_FLAG, FIELD(as_stored),
     .help = "keep JPEG files as they are, instead of making dct records of them"},
    ACCESS_OPTIONS(access),
    COMMAND_JOBS(jobs),
    {"json", 0, OPT_FLAG, FIELD(json), .help = "print one JSON object"},
    {"quiet", 'q', OPT_FLAG, FIELD(quiet), .help = "no progress"},
    {0},
};

static const struct option_usage fetch_usage = {
    .command = "fetch",
    .positionals = "INDEX",
    .min_positionals = 1,
    .max_positionals = 1,
    .summary = "Brings the records of an index into a node's cache, so that the first epoch reads "
               "them from there.",
    .details =
        "What is in the cache already stays. When it is full, what nobody reads any more goes; the "
        "rest of the records is left out. JPEG files become dct records, where a thirty-second "
        "part of the cache stays free; -j is the number of threads for that. Train with the same "
        "--cache. A part is a run of neighbours in the index, as classes stand there, for machines "
        "that share a set out among them. It is not what rank R of W reads first: a shuffled epoch "
        "takes each rank's records from the whole set, so that a cache which holds all of it needs "
        "no --part.",
    .output = "records go into the folder of --cache: headrace fetch INDEX --cache DIR",
    .example = "headrace fetch train.idx --cache /nvme/cache --cache-size 200G",
};

static struct status part_parse(const char *text, uint64_t *ret_part, uint64_t *ret_parts)
{
    CLEANUP(memory_free) char *copy = NULL;
    *ret_part = 0;
    *ret_parts = 1;
    if (!text)
        return OK;
    TRY(string_copy(text, &copy));
    char *rest = copy, *first = strsep(&rest, "/");
    if (!rest || !number_parse_u64(first, ret_part) || !number_parse_u64(rest, ret_parts) ||
        *ret_part >= *ret_parts)
        FAIL(STATUS_USAGE,
             "--part is '%s', expected a part and how many there are, for instance 0/4 … 3/4",
             text);
    return OK;
}

static struct status report_print(const struct fetch_arguments *arguments,
                                  const struct cache_fetch_report *report,
                                  const struct cache_statistics *cache)
{
    char fetched[16], used[16], all[16];
    if (!arguments->json) {
        printf("%s: %" PRIu64 " of %" PRIu64 " records fetched (%s), %" PRIu64
               " were there, %" PRIu64 " did not fit; %" PRIu64 " made dct; %s of %s in use\n",
               arguments->cache.folder, report->fetched, report->records,
               format_bytes(report->fetched_bytes, fetched), report->held, report->no_room,
               report->converted, format_bytes(cache->used_bytes, used),
               format_bytes(cache->bytes, all));
        if (report->no_room > 0 && cache->records >= cache->most_records)
            printf("a cache of this size holds at most %" PRIu64
                   " records, however small they are; give it a larger --cache-size\n",
                   cache->most_records);
        return OK;
    }
    CLEANUP(json_free) struct json *object = json_object_new();
    json_set_integer(object, "version", 1);
    json_set_string(object, "cache", arguments->cache.folder);
    json_set_integer(object, "records", (int64_t)report->records);
    json_set_integer(object, "fetched", (int64_t)report->fetched);
    json_set_integer(object, "fetched_bytes", (int64_t)report->fetched_bytes);
    json_set_integer(object, "held", (int64_t)report->held);
    json_set_integer(object, "no_room", (int64_t)report->no_room);
    json_set_integer(object, "converted", (int64_t)report->converted);
    json_set_integer(object, "cache_bytes", (int64_t)cache->bytes);
    json_set_integer(object, "cache_used_bytes", (int64_t)cache->used_bytes);
    return command_print_json(object);
}

struct status cmd_fetch(int argc, char **argv)
{
    struct fetch_arguments arguments = {0};
    struct cache_fetch_options options = {0};
    struct cache_fetch_report report;
    struct option_parse parse;
    access_options_init(&arguments.access);
    TRY(cache_options_init(&arguments.cache));
    TRY(command_parse(&fetch_usage, fetch_options, argc, argv, &arguments, &parse));
    if (parse.help)
        return OK;
    progress_set_quiet(arguments.quiet);
    TRY(part_parse(arguments.part, &options.part, &options.parts));
    options.converters = arguments.as_stored ? 0 : command_threads(arguments.jobs);
    if (!arguments.cache.folder || !arguments.cache.folder[0])
        FAIL(STATUS_USAGE, "no cache to fill: name its folder with --cache, and its size with "
                           "--cache-size when it is a new one");
    TRY(command_check_output(arguments.cache.folder));
    CLEANUP(access_close) struct access *access = NULL;
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(cache_close) struct cache *cache = NULL;
    CLEANUP(progress_close) struct progress *progress = NULL;
    TRY(access_open(&arguments.access, &access));
    TRY(command_open_index("fetch INDEX --cache DIR", parse.positionals[0], access, &index));
    TRY(cache_open_options(&arguments.cache, &cache));
    TRY(progress_open("fetch", "images", index_count(index) / options.parts, 0, &progress));
    TRY(cache_fetch(index, cache, &options, progress, &report));
    progress_close(MOVE(progress));
    struct cache_statistics statistics = cache_statistics(cache);
    return report_print(&arguments, &report, &statistics);
}
