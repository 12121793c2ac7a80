#include "index/cache_convert.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "base/memory.h"
#include "base/progress.h"
#include "base/stop.h"
#include "image/decode.h"
#include "index/dct_make.h"

enum job_state { JOB_EMPTY = 0, JOB_READY, JOB_RUNNING, JOB_DONE };

/* A record on its way; one for each converting thread. */
struct job {
    struct cache_convert *convert;
    enum job_state state; /* guarded by the mutex; the rest is its holder's */
    struct cache_raw raw;
    struct buffer file, record; /* an empty record: the file stays as it is */
    bool failed;                /* for want of memory: another time */
    pthread_t thread;
};

struct cache_convert {
    struct cache *cache;
    pthread_t broker;
    bool has_broker;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a job's state, or closing */
    bool closing;
    uint64_t idle_looks; /* that found nothing to convert while no job was under way */
    uint64_t count;
    struct job *jobs;
    unsigned job_count; /* threads running */
};

/* ---- converting ---- */

static void job_run(struct job *job, struct dct_maker *maker)
{
    enum jpeg_refusal refusal = JPEG_TAKEN;
    job->record.length = 0;
    job->failed = false;
    if (image_kind_of(job->file.data, job->file.length) != IMAGE_JPEG)
        return;
    struct status status = dct_make(maker, &job->file, &job->record, &refusal);
    job->failed = status.code == STATUS_NO_MEMORY;
    if (status.code != STATUS_DONE || refusal != JPEG_TAKEN)
        job->record.length = 0;
    status_ignore(status); /* a damaged file is told of by who decodes it */
}

static void *convert_main(void *context)
{
    struct job *job = context;
    struct cache_convert *convert = job->convert;
    CLEANUP(dct_maker_done) struct dct_maker maker = {0};
    pthread_mutex_lock(&convert->mutex);
    while (!convert->closing) {
        if (job->state != JOB_READY) {
            pthread_cond_wait(&convert->changed, &convert->mutex);
            continue;
        }
        job->state = JOB_RUNNING;
        pthread_mutex_unlock(&convert->mutex);
        job_run(job, &maker);
        pthread_mutex_lock(&convert->mutex);
        job->state = JOB_DONE;
        pthread_cond_broadcast(&convert->changed);
    }
    pthread_mutex_unlock(&convert->mutex);
    return NULL;
}

/* ---- the broker ---- */

static struct job *job_find(struct cache_convert *convert, enum job_state state)
{
    for (unsigned i = 0; i < convert->job_count; i++)
        if (convert->jobs[i].state == state)
            return &convert->jobs[i];
    return NULL;
}

static bool job_is_under_way(struct cache_convert *convert)
{
    return job_find(convert, JOB_READY) || job_find(convert, JOB_RUNNING) ||
           job_find(convert, JOB_DONE);
}

/* Puts a result into the cache; whether it replaced the file. */
static bool job_finish(struct cache_convert *convert, struct job *job)
{
    if (job->failed)
        return false;
    bool replaced;
    struct status status = cache_replace_raw(convert->cache, &job->raw, job->record.data,
                                             (uint32_t)job->record.length, ENCODING_DCT, &replaced);
    status_ignore(status); /* a cache that cannot be written is told of by who fills it */
    return replaced;
}

/* Gets a record to convert; whether there is one. */
static bool job_begin(struct cache_convert *convert, struct job *job)
{
    enum cache_answer answer = CACHE_COMING;
    struct status status = OK;
    while (status.code == STATUS_DONE && answer == CACHE_COMING)
        status = cache_read_raw(convert->cache, &job->file, &job->raw, &answer);
    bool found = status.code == STATUS_DONE && answer == CACHE_HELD;
    status_ignore(status);
    return found;
}

static void broker_wait(struct cache_convert *convert, bool is_idle)
{
    const unsigned idle_ms = 100; /* until there may be something in the cache */
    if (!is_idle) {
        pthread_cond_wait(&convert->changed, &convert->mutex);
        return;
    }
    struct timespec until = clock_after_ms(idle_ms);
    pthread_cond_timedwait(&convert->changed, &convert->mutex, &until);
}

static void *broker_main(void *context)
{
    struct cache_convert *convert = context;
    pthread_mutex_lock(&convert->mutex);
    while (!convert->closing) {
        struct job *done = job_find(convert, JOB_DONE);
        struct job *job = done ? done : job_find(convert, JOB_EMPTY);
        if (!job) {
            broker_wait(convert, false);
            continue;
        }
        pthread_mutex_unlock(&convert->mutex);
        bool replaced = done && job_finish(convert, done);
        bool begun = !done && job_begin(convert, job);
        pthread_mutex_lock(&convert->mutex);
        convert->count += replaced;
        job->state = begun ? JOB_READY : JOB_EMPTY;
        if (begun)
            pthread_cond_broadcast(&convert->changed);
        else if (!done) {
            convert->idle_looks += !job_is_under_way(convert);
            broker_wait(convert, true);
        }
    }
    pthread_mutex_unlock(&convert->mutex);
    return NULL;
}

/* ---- the public calls ---- */

struct status cache_convert_open(struct cache *cache, unsigned threads, enum convert_pace pace,
                                 struct cache_convert **ret_convert)
{
    CLEANUP(cache_convert_close) struct cache_convert *convert = NULL;
    const struct sched_param lowest = {0};
    TRY(memory_alloc(1, sizeof *convert, &convert));
    convert->cache = cache;
    pthread_mutex_init(&convert->mutex, NULL);
    clock_cond_init(&convert->changed);
    TRY(memory_alloc(threads, sizeof *convert->jobs, &convert->jobs));
    for (unsigned i = 0; i < threads; i++) {
        struct job *job = &convert->jobs[i];
        job->convert = convert;
        int error = pthread_create(&job->thread, NULL, convert_main, job);
        if (error)
            return status_errno(error, "cannot start a thread that converts records");
        convert->job_count++;
        if (pace == CONVERT_IDLY)
            pthread_setschedparam(job->thread, SCHED_IDLE, &lowest); /* refusal changes nothing */
    }
    int error = pthread_create(&convert->broker, NULL, broker_main, convert);
    if (error)
        return status_errno(error, "cannot start the thread that hands out records");
    convert->has_broker = true;
    *ret_convert = MOVE(convert);
    return OK;
}

struct status cache_convert_finish(struct cache_convert *convert)
{
    const struct timespec moment = {.tv_nsec = 20000000};
    pthread_mutex_lock(&convert->mutex);
    uint64_t looks = convert->idle_looks;
    struct status status = OK;
    while (status.code == STATUS_DONE && convert->idle_looks < looks + 2) {
        pthread_mutex_unlock(&convert->mutex);
        nanosleep(&moment, NULL);
        status = stop_check();
        pthread_mutex_lock(&convert->mutex);
    }
    pthread_mutex_unlock(&convert->mutex);
    return status;
}

/* What they are at has to end soon, however busy the machine is. Most users are refused, whose
 * threads of the lowest priority keep it: each has one image to end with. */
static void threads_hasten(struct cache_convert *convert)
{
    const struct sched_param usual = {0};
    for (unsigned i = 0; i < convert->job_count; i++)
        pthread_setschedparam(convert->jobs[i].thread, SCHED_OTHER, &usual);
}

void cache_convert_close(struct cache_convert *convert)
{
    if (!convert)
        return;
    threads_hasten(convert);
    pthread_mutex_lock(&convert->mutex);
    convert->closing = true;
    pthread_cond_broadcast(&convert->changed);
    pthread_mutex_unlock(&convert->mutex);
    if (convert->has_broker)
        pthread_join(convert->broker, NULL);
    for (unsigned i = 0; i < convert->job_count; i++) {
        pthread_join(convert->jobs[i].thread, NULL);
        buffer_done(&convert->jobs[i].file);
        buffer_done(&convert->jobs[i].record);
    }
    pthread_cond_destroy(&convert->changed);
    pthread_mutex_destroy(&convert->mutex);
    memory_free(convert->jobs);
    memory_free(convert);
}

uint64_t cache_convert_count(struct cache_convert *convert)
{
    pthread_mutex_lock(&convert->mutex);
    uint64_t count = convert->count;
    pthread_mutex_unlock(&convert->mutex);
    return count;
}
