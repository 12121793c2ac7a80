#include "index/remote.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/stop.h"
#include "index/remote_answer.h"
#include "index/url.h"

enum {
    FIRST_WAIT_MS = 100, /* after a failure; doubled each time */
    MAX_WAIT_MS = 5000,
    SLEEP_MS = 50,        /* between two looks at whether to stop */
    LEAST_TRY_MS = 100,   /* a try that cannot have as long is not begun: it would only say that */
    FIRST_TRIES = 4,      /* at each place, of a file whose servers never answered anything */
    CRC_TRIES = 2,        /* at each place, of a range whose CRC does not hold */
    WHOLE_TRIES = 5,      /* at each place, of a range where the whole file comes */
    FAILURES_TO_REST = 3, /* in a row; then a server is left alone */
    FIRST_REST_MS = 1000, /* doubled with each further failure */
    MAX_REST_MS = 30000,
    REFUSAL_MS = 60000, /* for so long a place that said no to a file is asked last */
};

/* A server. */
struct origin {
    char *name;             /* "https://host:443" */
    unsigned failures;      /* in a row */
    int64_t rests_until_ms; /* 0: it is fine */
    bool has_answered;
    bool knows_ranges; /* it gave one */
    struct origin *next;
};

struct place {
    char *url;
    struct origin *origin;
    bool is_trusted, is_s3;
    int64_t refused_until_ms;
    struct http_version version; /* of its first answers */
};

struct remote_file {
    struct shard_remote shard;
    struct remote *remote;
    char *name;
    struct place *places;
    size_t count;
    size_t first; /* the place that is asked first */
    uint64_t size_bytes;
    struct remote_file *next;
};

struct remote {
    struct remote_options options;
    struct http_client *client;
    pthread_mutex_t mutex; /* guards all below, and origins, places and sizes */
    struct origin *origins;
    struct remote_file *files;
    size_t file_count;
    struct random_stream jitter;
};

static int64_t now_ms(void)
{
    return (int64_t)(clock_seconds() * 1000);
}

/* --- Files --- */

struct status remote_open(const struct remote_options *options, struct remote **ret_remote)
{
    CLEANUP(remote_close) struct remote *remote = NULL;
    TRY(memory_alloc(1, sizeof *remote, &remote));
    remote->options = *options;
    pthread_mutex_init(&remote->mutex, NULL);
    remote->jitter = random_stream_make((uint64_t)now_ms(), RANDOM_RETRY, (uint32_t)getpid(), 0);
    TRY(http_client_open(&remote->client));
    *ret_remote = MOVE(remote);
    return OK;
}

static void file_free(struct remote_file *file)
{
    for (size_t i = 0; file->places && i < file->count; i++)
        memory_free(file->places[i].url);
    memory_free(file->places);
    memory_free(file->name);
    memory_free(file);
}

void remote_close(struct remote *remote)
{
    if (!remote)
        return;
    http_client_close(remote->client);
    for (struct remote_file *file = remote->files; file;) {
        struct remote_file *next = file->next;
        file_free(file);
        file = next;
    }
    for (struct origin *origin = remote->origins; origin;) {
        struct origin *next = origin->next;
        memory_free(origin->name);
        memory_free(origin);
        origin = next;
    }
    pthread_mutex_destroy(&remote->mutex);
    memory_free(remote);
}

/* The server of a URL. The caller holds the mutex. */
static struct status origin_find(struct remote *remote, const char *url, struct origin **ret_origin)
{
    CLEANUP(memory_free) char *name = NULL;
    struct origin *origin = remote->origins;
    TRY(url_origin(url, &name));
    while (origin && strcmp(origin->name, name) != 0)
        origin = origin->next;
    if (!origin) {
        TRY(memory_alloc(1, sizeof *origin, &origin));
        origin->name = MOVE(name);
        origin->next = remote->origins;
        remote->origins = origin;
    }
    *ret_origin = origin;
    return OK;
}

/* The caller holds the mutex. */
static struct status places_copy(struct remote_file *file, const struct remote_place *places)
{
    TRY(memory_alloc(file->count, sizeof *file->places, &file->places));
    for (size_t i = 0; i < file->count; i++) {
        struct place *place = &file->places[i];
        place->is_trusted = places[i].is_trusted;
        place->is_s3 = places[i].is_s3;
        TRY(string_copy(places[i].url, &place->url));
        TRY(origin_find(file->remote, places[i].url, &place->origin));
    }
    return OK;
}

static struct status shard_range_read(struct shard_remote *shard, const struct shard_range *range,
                                      void *bytes)
{
    return remote_file_read((struct remote_file *)shard, range, bytes);
}

struct status remote_file_open(struct remote *remote, const char *name,
                               const struct remote_place *places, size_t count, uint64_t size_bytes,
                               struct remote_file **ret_file)
{
    struct remote_file *file;
    assert(count >= 1 && count <= REMOTE_MAX_PLACES);
    TRY(memory_alloc(1, sizeof *file, &file));
    file->shard.read = shard_range_read;
    file->remote = remote;
    file->count = count;
    file->size_bytes = size_bytes;
    pthread_mutex_lock(&remote->mutex);
    struct status status = places_copy(file, places);
    if (status.code == STATUS_DONE)
        status = string_copy(name, &file->name);
    if (status.code == STATUS_DONE) {
        file->first = remote->file_count++ % count; /* files in turn: each server its share */
        file->next = remote->files;
        remote->files = file;
    }
    pthread_mutex_unlock(&remote->mutex);
    if (status.code != STATUS_DONE) {
        file_free(file);
        return status;
    }
    *ret_file = file;
    return OK;
}

struct shard_remote *remote_file_shard(struct remote_file *file)
{
    return &file->shard;
}

uint64_t remote_file_size(struct remote_file *file)
{
    pthread_mutex_lock(&file->remote->mutex);
    uint64_t size_bytes = file->size_bytes;
    pthread_mutex_unlock(&file->remote->mutex);
    return size_bytes;
}

/* --- One read: tries at places --- */

struct tries {
    struct remote_file *file;
    const struct shard_range *range;
    uint8_t *bytes;
    int64_t deadline_ms;
    struct place *place;                      /* of the latest try */
    unsigned number;                          /* of tries so far */
    unsigned at_place[REMOTE_MAX_PLACES];     /* of them */
    unsigned crc_failures[REMOTE_MAX_PLACES]; /* of them */
    unsigned wholes[REMOTE_MAX_PLACES];       /* of them */
    bool refused[REMOTE_MAX_PLACES];          /* no further try there */
    unsigned retry_after_s;                   /* what the latest answer asked for */
};

/* What speaks against a place: 0 nothing, 1 its server rests, 2 it said no to this file. */
static unsigned place_rank(const struct place *place, int64_t now)
{
    if (place->refused_until_ms > now)
        return 2;
    return place->origin->rests_until_ms > now;
}

/* The place of the next try: the one tried least of those with the least against them. NULL when
 * all refused. */
static struct place *place_choose(struct tries *tries)
{
    struct remote_file *file = tries->file;
    struct place *best = NULL;
    uint64_t best_rank = UINT64_MAX;
    int64_t now = now_ms();
    pthread_mutex_lock(&file->remote->mutex);
    for (size_t i = 0; i < file->count; i++) {
        size_t at = (file->first + i) % file->count;
        struct place *place = &file->places[at];
        /* One more try counts for more than a server at rest: all are asked before one is again. */
        uint64_t rank = (uint64_t)tries->at_place[at] * 4 + place_rank(place, now);
        if (tries->refused[at] || rank >= best_rank)
            continue;
        best = place;
        best_rank = rank;
    }
    /* Whether a server is back, one read finds out; the others leave it alone meanwhile. */
    if (best && best->origin->rests_until_ms && best->origin->rests_until_ms <= now)
        best->origin->rests_until_ms = now + MAX_WAIT_MS;
    pthread_mutex_unlock(&file->remote->mutex);
    return best;
}

/* Notes what was not known of a version. */
static void version_learn(struct http_version *version, const struct http_version *answer)
{
    if (!version->etag[0])
        memcpy(version->etag, answer->etag, sizeof version->etag);
    if (!version->modified[0])
        memcpy(version->modified, answer->modified, sizeof version->modified);
}

/* Looks at an answer and pins its place and the file's size. In the client's thread. */
static struct status answer_accept(void *context, const struct http_head *head)
{
    struct tries *tries = context;
    struct remote_file *file = tries->file;
    pthread_mutex_lock(&file->remote->mutex);
    const struct answer_expected expected = {
        .offset = tries->range->offset,
        .length = tries->range->length,
        .size_bytes = file->size_bytes,
        .version = tries->place->version,
    };
    struct status status = answer_check(head, &expected);
    if (status.code == STATUS_DONE) {
        version_learn(&tries->place->version, &head->version);
        tries->place->origin->knows_ranges |= head->status == 206;
        if (!file->size_bytes)
            file->size_bytes = head->status == 206 ? head->total_bytes : head->length_bytes;
    }
    pthread_mutex_unlock(&file->remote->mutex);
    return status;
}

static struct http_request request_make(const struct tries *tries, int64_t left_ms)
{
    const struct remote_options *options = &tries->file->remote->options;
    const struct place *place = tries->place;
    /* Where there is another place, a server that does not answer leaves it time. */
    int64_t total_ms = tries->file->count > 1 && left_ms > 2000 ? left_ms / 2 : left_ms;
    if (total_ms < 1)
        total_ms = 1; /* 0 would be no deadline */
    struct http_request request = {
        .url = place->url,
        .offset = tries->range->offset,
        .length = tries->range->length,
        .netrc = options->netrc,
        .ca_file = options->ca_file,
        .connect_ms = options->connect_ms,
        .idle_s = options->idle_s,
        .total_ms = (unsigned)total_ms,
        .accept = answer_accept,
        .context = (void *)tries,
    };
    if (place->is_s3) {
        request.is_s3 = true;
        request.netrc = NULL;
        request.user = options->s3_key;
        request.password = options->s3_secret;
        request.s3_region = options->s3_region;
        request.s3_session = options->s3_session;
    } else if (place->is_trusted) {
        request.user = options->user;
        request.password = options->password;
        request.token = options->token;
    }
    return request;
}

/* Notes how a server did. */
static void origin_note(struct tries *tries, const struct http_response *response, bool may_pass)
{
    struct remote *remote = tries->file->remote;
    struct origin *origin = tries->place->origin;
    pthread_mutex_lock(&remote->mutex);
    if (response->outcome == HTTP_ANSWERED)
        origin->has_answered = true;
    if (!may_pass) {
        origin->failures = 0;
        origin->rests_until_ms = 0;
    } else if (++origin->failures >= FAILURES_TO_REST || response->outcome == HTTP_UNREACHABLE) {
        unsigned doublings = origin->failures < 5 ? origin->failures - 1 : 5;
        int64_t rest_ms = (int64_t)FIRST_REST_MS << doublings;
        origin->rests_until_ms = now_ms() + (rest_ms < MAX_REST_MS ? rest_ms : MAX_REST_MS);
    }
    pthread_mutex_unlock(&remote->mutex);
}

static void place_refuse(struct tries *tries)
{
    struct remote_file *file = tries->file;
    tries->refused[tries->place - file->places] = true;
    pthread_mutex_lock(&file->remote->mutex);
    tries->place->refused_until_ms = now_ms() + REFUSAL_MS;
    pthread_mutex_unlock(&file->remote->mutex);
}

/* Of bytes that came whole. */
static struct status crc_check(struct tries *tries)
{
    const struct shard_range *range = tries->range;
    size_t at = (size_t)(tries->place - tries->file->places);
    if (!range->crc_known)
        return OK;
    uint32_t crc = crc32c_update(0, tries->bytes, range->length);
    if (crc == range->crc32c)
        return OK;
    if (++tries->crc_failures[at] >= CRC_TRIES)
        tries->refused[at] = true;
    FAIL(STATUS_CORRUPT, "they are damaged: their CRC is %08x, expected %08x", crc, range->crc32c);
}

/* Whether a whole file came from a place that gave ranges before: it is several servers behind one
 * name, and another one may answer next. */
static bool whole_may_pass(struct tries *tries, const struct http_response *response)
{
    struct remote *remote = tries->file->remote;
    if (response->outcome != HTTP_DECLINED || response->head.status != 200 ||
        response->status.code != STATUS_UNSUPPORTED)
        return false;
    pthread_mutex_lock(&remote->mutex);
    bool knows_ranges = tries->place->origin->knows_ranges;
    pthread_mutex_unlock(&remote->mutex);
    return knows_ranges && ++tries->wholes[tries->place - tries->file->places] < WHOLE_TRIES;
}

/* One try at the chosen place. */
static struct status place_try(struct tries *tries, int64_t left_ms)
{
    struct http_request request = request_make(tries, left_ms);
    struct http_sink sink = {.bytes = tries->bytes, .capacity_bytes = tries->range->length};
    struct http_response response;
    tries->number++;
    tries->at_place[tries->place - tries->file->places]++;
    http_client_get(tries->file->remote->client, &request, &sink, &response);
    if (response.outcome == HTTP_STOPPED)
        return stop_fail();
    bool may_pass = answer_may_pass(&response) || whole_may_pass(tries, &response);
    struct status status = answer_failure(&response, &request);
    if (status.code == STATUS_DONE && sink.received_bytes != tries->range->length) {
        status = status_make(STATUS_IO, "the answer ends after %" PRIu64 " of %" PRIu64 " bytes",
                             sink.received_bytes, tries->range->length);
        may_pass = true;
    }
    tries->retry_after_s = response.retry_after_s;
    origin_note(tries, &response, may_pass);
    if (status.code != STATUS_DONE && !may_pass)
        place_refuse(tries);
    return status.code == STATUS_DONE ? crc_check(tries) : status;
}

/* Whether no server of a file ever answered: then it is more likely a wrong name than a pause. */
static bool is_unheard(struct remote_file *file)
{
    bool unheard = true;
    pthread_mutex_lock(&file->remote->mutex);
    for (size_t i = 0; i < file->count; i++)
        unheard = unheard && !file->places[i].origin->has_answered;
    pthread_mutex_unlock(&file->remote->mutex);
    return unheard;
}

/* How long to wait before the next try: not at all while there is a place that was tried less, and
 * is neither at rest nor refusing. */
static int64_t wait_choose(struct tries *tries)
{
    struct remote_file *file = tries->file;
    unsigned at_least = UINT32_MAX;
    for (size_t i = 0; i < file->count; i++)
        if (!tries->refused[i] && tries->at_place[i] < at_least)
            at_least = tries->at_place[i];
    if (at_least == 0)
        return 0;
    int64_t wait_ms = at_least < 7 ? (int64_t)FIRST_WAIT_MS << (at_least - 1) : MAX_WAIT_MS;
    if (wait_ms > MAX_WAIT_MS)
        wait_ms = MAX_WAIT_MS;
    pthread_mutex_lock(&file->remote->mutex);
    wait_ms = wait_ms / 2 + (int64_t)random_below(&file->remote->jitter, (uint64_t)wait_ms / 2 + 1);
    pthread_mutex_unlock(&file->remote->mutex);
    int64_t asked_ms = (int64_t)tries->retry_after_s * 1000;
    return wait_ms > asked_ms ? wait_ms : asked_ms;
}

static struct status sleep_ms(int64_t wait_ms)
{
    for (; wait_ms > 0; wait_ms -= SLEEP_MS) {
        int64_t part = wait_ms < SLEEP_MS ? wait_ms : SLEEP_MS;
        TRY(stop_check());
        nanosleep(&(struct timespec){.tv_nsec = part * 1000000}, NULL);
    }
    return stop_check();
}

/* Whether another try makes sense after one that failed; waits for its time. */
static struct status next_prepare(struct tries *tries, bool *ret_again)
{
    struct remote_file *file = tries->file;
    *ret_again = false;
    tries->place = place_choose(tries);
    if (!tries->place || (tries->number >= FIRST_TRIES * file->count && is_unheard(file)))
        return OK;
    int64_t wait_ms = wait_choose(tries);
    if (now_ms() + wait_ms + LEAST_TRY_MS >= tries->deadline_ms)
        return OK;
    *ret_again = true;
    return sleep_ms(wait_ms);
}

/* What a read failed of, in words. `place` is that of the latest try. */
static struct status tries_fail(const struct tries *tries, const struct place *place,
                                struct status status)
{
    const struct shard_range *range = tries->range;
    if (tries->file->count > 1)
        status = status_context(status, "%s", place->origin->name);
    if (tries->number > 1)
        status = status_context(status, "tried %u times", tries->number);
    return status_context(status, "'%s': the %" PRIu64 " bytes at offset %" PRIu64,
                          tries->file->name, range->length, range->offset);
}

struct status remote_file_read(struct remote_file *file, const struct shard_range *range,
                               void *bytes)
{
    struct tries tries = {
        .file = file,
        .range = range,
        .bytes = bytes,
        .deadline_ms = now_ms() + file->remote->options.total_ms,
    };
    if (range->length == 0)
        return OK;
    if (stop_is_closing())
        return stop_fail();
    tries.place = place_choose(&tries);
    for (;;) {
        const struct place *place = tries.place;
        struct status status = place_try(&tries, tries.deadline_ms - now_ms());
        if (status.code == STATUS_DONE || status.code == STATUS_STOPPED)
            return status;
        bool again;
        struct status waited = next_prepare(&tries, &again);
        if (waited.code != STATUS_DONE) {
            status_clear(&status);
            return waited;
        }
        if (!again)
            return tries_fail(&tries, place, status);
        status_clear(&status);
    }
}

/* Copies what pins the first place that is pinned; false if none is. */
static bool version_copy(struct remote_file *file, char text[HTTP_VALIDATOR_BYTES])
{
    bool found = false;
    pthread_mutex_lock(&file->remote->mutex);
    for (size_t i = 0; i < file->count && !found; i++) {
        const struct place *place = &file->places[(file->first + i) % file->count];
        const char *version = http_version_text(&place->version);
        found = version[0];
        snprintf(text, HTTP_VALIDATOR_BYTES, "%s", version);
    }
    pthread_mutex_unlock(&file->remote->mutex);
    return found;
}

struct status remote_shard_version(struct shard_remote *shard, char ret_text[HTTP_VALIDATOR_BYTES])
{
    struct remote_file *file = (struct remote_file *)shard;
    const struct shard_range first = {.length = 1};
    char byte;
    if (version_copy(file, ret_text))
        return OK;
    TRY(remote_file_read(file, &first, &byte));
    version_copy(file, ret_text);
    return OK;
}
