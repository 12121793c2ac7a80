#include "base/pool.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/memory.h"

/* One loop at a time. `generation` counts loops; a worker that sees a new one takes part, and the
 * caller waits until all workers have left it, so that a loop's fields never change under a worker.
 */
struct pool {
    unsigned threads;
    unsigned started; /* workers that run, at most threads − 1 */
    pthread_t *workers;

    pthread_mutex_t run_lock; /* held through a whole loop: callers take turns */
    pthread_mutex_t lock;     /* guards what follows */
    pthread_cond_t loop_begins;
    pthread_cond_t loop_ends;
    uint64_t generation;
    unsigned busy; /* workers still in the loop */
    bool closing;
    struct status failure;
    uint64_t failed_item;

    pool_fn *fn;
    void *context;
    uint64_t count;
    atomic_uint_fast64_t next;
    atomic_bool failed;
};

struct worker_start {
    struct pool *pool;
    unsigned thread;
};

/* The pool whose loop this thread is in: a loop inside a loop would wait for itself. */
static _Thread_local const struct pool *current_pool;

static void loop_fail(struct pool *pool, uint64_t item, struct status failure)
{
    atomic_store(&pool->failed, true);
    pthread_mutex_lock(&pool->lock);
    if (pool->failure.code == STATUS_DONE || item < pool->failed_item) {
        struct status later = pool->failure;
        pool->failure = failure;
        pool->failed_item = item;
        failure = later;
    }
    pthread_mutex_unlock(&pool->lock);
    status_ignore(failure);
}

static void loop_work(struct pool *pool, unsigned thread)
{
    current_pool = pool;
    while (!atomic_load(&pool->failed)) {
        uint64_t item = atomic_fetch_add(&pool->next, 1);
        if (item >= pool->count)
            break;
        struct status status = pool->fn(item, thread, pool->context);
        if (status.code != STATUS_DONE)
            loop_fail(pool, item, status);
    }
    current_pool = NULL;
}

static void *worker_main(void *argument)
{
    struct worker_start *start = argument;
    struct pool *pool = start->pool;
    unsigned thread = start->thread;
    memory_free(start);

    uint64_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->closing && pool->generation == seen)
            pthread_cond_wait(&pool->loop_begins, &pool->lock);
        if (pool->closing)
            break;
        seen = pool->generation;
        pthread_mutex_unlock(&pool->lock);
        loop_work(pool, thread);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->loop_ends);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static struct status worker_open(struct pool *pool)
{
    struct worker_start *start;
    TRY(memory_alloc(1, sizeof *start, &start));
    *start = (struct worker_start){pool, pool->started + 1};
    int error = pthread_create(&pool->workers[pool->started], NULL, worker_main, start);
    if (error) {
        memory_free(start);
        return status_errno(error, "cannot start thread %u of %u", pool->started + 2,
                            pool->threads);
    }
    pool->started++;
    return OK;
}

/* Workers are made with all signals blocked, so that the main thread gets them. */
static struct status workers_open(struct pool *pool)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    struct status status = OK;
    while (status.code == STATUS_DONE && pool->started + 1 < pool->threads)
        status = worker_open(pool);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return status;
}

struct status pool_open(unsigned threads, struct pool **ret_pool)
{
    assert(threads >= 1);
    struct pool *opened;
    TRY(memory_alloc(1, sizeof *opened, &opened));
    opened->threads = threads;
    pthread_mutex_init(&opened->run_lock, NULL);
    pthread_mutex_init(&opened->lock, NULL);
    pthread_cond_init(&opened->loop_begins, NULL);
    pthread_cond_init(&opened->loop_ends, NULL);

    CLEANUP(pool_close) struct pool *pool = opened;
    TRY(memory_alloc(threads, sizeof *pool->workers, &pool->workers));
    TRY(workers_open(pool));
    *ret_pool = MOVE(pool);
    return OK;
}

void pool_close(struct pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->closing = true;
    pthread_cond_broadcast(&pool->loop_begins);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->loop_ends);
    pthread_cond_destroy(&pool->loop_begins);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->run_lock);
    memory_free(pool->workers);
    memory_free(pool);
}

unsigned pool_threads(const struct pool *pool)
{
    return pool->threads;
}

struct status pool_run(struct pool *pool, uint64_t count, pool_fn *fn, void *context)
{
    assert(current_pool != pool);
    const struct pool *outer = current_pool;
    pthread_mutex_lock(&pool->run_lock);

    pthread_mutex_lock(&pool->lock);
    pool->fn = fn;
    pool->context = context;
    pool->count = count;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->failed, false);
    if (count > 1) { /* a single item needs nobody woken */
        pool->busy = pool->started;
        pool->generation++;
        pthread_cond_broadcast(&pool->loop_begins);
    }
    pthread_mutex_unlock(&pool->lock);

    loop_work(pool, 0);
    current_pool = outer;

    pthread_mutex_lock(&pool->lock);
    while (pool->busy > 0)
        pthread_cond_wait(&pool->loop_ends, &pool->lock);
    struct status status = pool->failure;
    pool->failure = OK;
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->run_lock);
    return status;
}
