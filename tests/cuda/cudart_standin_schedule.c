#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/cudart_standin_internal.h"

/* What runs next. */

enum { STANDSTILL_MS = 60000, FOREIGN_PAUSE_MS = 1 };

/* Work that may run: a stream's head, or a node of the graph that is there. */
struct candidate {
    struct CUstream_st *stream;
    unsigned node;       /* of a graph */
    unsigned lane;       /* number of the stream that the work is of */
    uint64_t sequence;   /* of the call */
    uint32_t precedence; /* lower runs first */
};

static struct candidate *candidates;
static size_t candidate_count, candidate_capacity;
static size_t turn_next; /* STANDIN_PARALLEL: candidates before it have had this turn */
static unsigned turn;
static uint32_t salt; /* of the streams' random precedence */

static struct standin_event *trace;
static size_t trace_count, trace_capacity;

void schedule_reset(void)
{
    candidate_count = turn_next = turn = 0;
    trace_count = 0;
    salt = random_u32(&standin.random);
}

size_t standin_trace(const struct standin_event **ret_events)
{
    *ret_events = trace;
    return trace_count;
}

void standin_trace_clear(void)
{
    trace_count = 0;
}

static void trace_add(const struct standin_work *task, int device, unsigned lane)
{
    if (trace_count == trace_capacity) {
        trace_capacity = 2 * trace_capacity + 256;
        trace = standin_resize(trace, trace_capacity, sizeof *trace);
    }
    trace[trace_count++] = (struct standin_event){task->label, task->bytes, device, lane, turn};
}

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

/* --- Looking for candidates
 * ------------------------------------------------------------------------ */

static void pop(struct CUstream_st *stream)
{
    struct item *item = stream->head;
    stream->head = item->next;
    free(item);
}

static bool settle_stream(struct CUstream_st *stream)
{
    bool moved = false;
    for (struct item *item = stream->head; item; item = stream->head, moved = true) {
        if (item->kind == ITEM_RECORD) {
            item->mark->done = true;
            item->mark->time_ms = now_ms();
        } else if (item->kind != ITEM_WAIT || !item->mark->done) {
            break;
        }
        mark_release(item->mark);
        pop(stream);
    }
    return moved;
}

void schedule_settle(void)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (struct CUstream_st *stream = standin.streams; stream; stream = stream->next)
            moved |= settle_stream(stream);
    }
}

/* How unfair STANDIN_DEFERRED is, by seed: some let a stream fall behind by hundreds of works. */
struct temper {
    uint32_t salt_steps;  /* on average, after which streams are put in another order */
    uint32_t swap_steps;  /* on average, after which any work at all goes first; 0: never */
    uint32_t early_calls; /* on average, after which some work runs early; 0: never */
};
static const struct temper tempers[] = {{400, 0, 0}, {24, 4, 4}, {60, 0, 4}};

static const struct temper *temper(void)
{
    if (standin.options.starved_stream)
        return &tempers[0];
    return &tempers[standin.options.seed % (sizeof tempers / sizeof tempers[0])];
}

static bool chance(uint32_t one_in)
{
    return one_in && random_below(&standin.random, one_in) == 0;
}

/* The stream's place in this step's order: the same for a while, so that some fall far behind. */
static uint32_t precedence_of(unsigned lane)
{
    uint32_t x = (lane + 1) * 0x9e3779b9u ^ salt;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

static bool lane_is_starved(unsigned lane)
{
    const struct standin_options *options = &standin.options;
    const struct CUstream_st *stream = standin.streams;
    while (stream->number != lane)
        stream = stream->next;
    if (stream->device != options->starved_device || stream->place == 0)
        return false;
    return options->starved_stream == STANDIN_EVERY_STREAM ||
           options->starved_stream == stream->place;
}

static void candidate_add(struct candidate candidate)
{
    if (candidate_count == candidate_capacity) {
        candidate_capacity = 2 * candidate_capacity + 64;
        candidates = standin_resize(candidates, candidate_capacity, sizeof *candidates);
    }
    if (standin.options.order == STANDIN_DEFERRED)
        candidate.precedence =
            lane_is_starved(candidate.lane) ? UINT32_MAX : precedence_of(candidate.lane);
    candidates[candidate_count++] = candidate;
}

static void graph_candidates(struct CUstream_st *stream)
{
    struct graph_run *run = stream->head->run;
    if (!graph_run_start(run))
        return;
    for (size_t i = 0; i < run->ready_count; i++) {
        struct candidate candidate = {.stream = stream,
                                      .node = run->ready[i],
                                      .sequence = stream->head->sequence};
        graph_run_work(run, candidate.node, &candidate.lane);
        candidate_add(candidate);
    }
}

static int compare(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->precedence != b->precedence)
        return a->precedence < b->precedence ? -1 : 1;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static void collect(void)
{
    schedule_settle();
    candidate_count = 0;
    const bool deferred = standin.options.order == STANDIN_DEFERRED;
    if (deferred && chance(temper()->salt_steps))
        salt = random_u32(&standin.random);
    for (struct CUstream_st *stream = standin.streams; stream; stream = stream->next) {
        if (stream->head && stream->head->kind == ITEM_GRAPH)
            graph_candidates(stream);
        else if (stream->head && stream->head->kind == ITEM_WORK)
            candidate_add((struct candidate){.stream = stream,
                                             .lane = stream->number,
                                             .sequence = stream->head->sequence});
    }
    qsort(candidates, candidate_count, sizeof *candidates, compare);
    if (deferred && candidate_count > 1 && chance(temper()->swap_steps)) {
        size_t other = random_below(&standin.random, (uint32_t)candidate_count);
        struct candidate first = candidates[0];
        candidates[0] = candidates[other];
        candidates[other] = first;
    }
}

/* --- Running
 * --------------------------------------------------------------------------------------- */

static bool candidate_run(const struct candidate *candidate)
{
    struct CUstream_st *stream = candidate->stream;
    struct item *item = stream->head;
    unsigned lane;
    struct work *work =
        item->kind == ITEM_GRAPH ? graph_run_work(item->run, candidate->node, &lane) : item->work;
    memory_open(work->memory);
    standin_set_inside(true);
    bool ran = work->task.try_run(work->task.context);
    standin_set_inside(false);
    standin.waits_for_foreign |= !ran && work->task.foreign;
    if (!ran)
        return false;
    standin.idle_since_ms = 0;
    trace_add(&work->task, stream->device, candidate->lane);
    if (item->kind == ITEM_WORK) {
        work_release(work);
        pop(stream);
        return true;
    }
    graph_run_finish_node(item->run, candidate->node);
    if (item->run->left == 0) {
        graph_run_free(item->run);
        pop(stream);
    }
    return true;
}

/* A turn takes those that could run when it began; what becomes possible by it waits for the next.
 */
static bool step_in_turns(void)
{
    for (bool fresh = false;; fresh = true) {
        while (turn_next < candidate_count)
            if (candidate_run(&candidates[turn_next++]))
                return true;
        if (fresh)
            return false;
        collect();
        turn_next = 0;
        turn++;
    }
}

/* Runs something; false: nothing can run now. */
static bool schedule_step(void)
{
    standin.waits_for_foreign = false;
    if (standin.options.order == STANDIN_PARALLEL)
        return step_in_turns();
    collect();
    for (size_t i = 0; i < candidate_count; i++)
        if (candidate_run(&candidates[i])) {
            schedule_settle();
            return true;
        }
    return false;
}

void schedule_early(void)
{
    if (standin.options.order == STANDIN_IMMEDIATE) {
        while (schedule_step())
            ;
    } else if (standin.options.order == STANDIN_DEFERRED && chance(temper()->early_calls)) {
        for (uint32_t steps = random_below(&standin.random, 8); steps > 0; steps--)
            schedule_step();
    }
}

static void complain_of_standstill(void)
{
    standin_complain("all stands still; the streams that are not empty wait for:");
    for (const struct CUstream_st *stream = standin.streams; stream; stream = stream->next) {
        const struct item *item = stream->head;
        if (!item)
            continue;
        const char *what = item->kind == ITEM_WAIT    ? "an event"
                           : item->kind == ITEM_GRAPH ? "a graph's node"
                                                      : item->work->task.label;
        standin_complain("  device %d, stream %u: %s", stream->device, stream->number, what);
    }
    abort();
}

/* Nothing can run: for how long that may go on, in ms. Aborts where it went on for too long. */
static double idle_check(void)
{
    const double limit_ms =
        standin.options.standstill_ms ? standin.options.standstill_ms : STANDSTILL_MS;
    if (standin.idle_since_ms == 0)
        standin.idle_since_ms = now_ms();
    const double left_ms = standin.idle_since_ms + limit_ms - now_ms();
    if (left_ms <= 0)
        complain_of_standstill();
    return left_ms;
}

/* Runs at most so many things until `done` or nothing can run; how many it ran. */
static size_t schedule_many(size_t most, bool (*done)(const void *object), const void *object)
{
    size_t ran = 0;
    schedule_settle();
    while (ran < most && !done(object) && schedule_step()) {
        ran++;
        schedule_settle();
    }
    schedule_settle();
    return ran;
}

void schedule_until(bool (*done)(const void *object), const void *object)
{
    for (;;) {
        bool ran = schedule_many(SIZE_MAX, done, object) > 0;
        if (done(object))
            return;
        const double left_ms = idle_check();
        standin_sleep(ran, standin.waits_for_foreign ? FOREIGN_PAUSE_MS : left_ms);
    }
}

void schedule_some(bool (*done)(const void *object), const void *object)
{
    enum { MOST_DOUBLINGS = 10 };
    const unsigned doublings =
        standin.questions < MOST_DOUBLINGS ? standin.questions : MOST_DOUBLINGS;
    standin.questions++;
    if (schedule_many((size_t)1 << doublings, done, object) == 0 && !done(object))
        idle_check();
}
