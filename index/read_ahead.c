#include "index/read_ahead.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"

/* What the thread is to do: an order, and how far. */
struct task {
    struct order order;
    uint64_t first, end; /* steps */
    uint64_t begun;      /* the latest step that has begun; first while none has */
    uint64_t number;     /* counts read_ahead_start */
};

struct read_ahead {
    struct index *index;
    uint32_t first_slot, slots;
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t mutex; /* guards the task and closing */
    pthread_cond_t changed;
    struct task task;
    bool closing;

    /* The thread's own: the block that is being announced */
    struct read_range *ranges;
    size_t capacity, count;
    uint64_t block_first, block_end; /* its steps */
    uint64_t next;                   /* the first step whose share was not announced yet */
    uint64_t task_number;
};

static int range_compare(const void *a, const void *b)
{
    const struct read_range *left = a, *right = b;
    if (left->shard != right->shard)
        return left->shard < right->shard ? -1 : 1;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

/* Joins sorted ranges; returns how many are left. */
static size_t ranges_join(struct read_range *ranges, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        struct read_range *last = kept ? &ranges[kept - 1] : NULL;
        uint64_t last_end = last ? last->offset + last->length : 0;
        if (!last || last->shard != ranges[i].shard ||
            ranges[i].offset > last_end + READ_AHEAD_GAP_BYTES) {
            ranges[kept++] = ranges[i];
            continue;
        }
        uint64_t end = ranges[i].offset + ranges[i].length;
        if (end > last_end)
            last->length = end - last->offset;
    }
    return kept;
}

struct status read_ranges_list(const struct index *index, const struct order *order,
                               uint32_t first_slot, uint32_t slots, uint64_t first, uint64_t end,
                               struct read_range **ranges, size_t *capacity, size_t *ret_count)
{
    uint64_t most;
    size_t count = 0;
    if (!size_multiply(end - first, slots, &most))
        FAIL(STATUS_NO_MEMORY, "a block of %u images a step is too large", slots);
    TRY(memory_grow(most, sizeof **ranges, ranges, capacity));
    for (uint64_t step = first; step < end; step++) {
        for (uint32_t slot = 0; slot < slots; slot++) {
            struct record record;
            uint64_t number = order_record(order, step, first_slot + slot);
            if (number == ORDER_NO_RECORD)
                continue;
            struct status status = index_record(index, number, &record);
            if (status.code == STATUS_DONE)
                (*ranges)[count++] =
                    (struct read_range){record.shard, record.offset, record.length};
            status_ignore(status); /* told by who reads the record */
        }
    }
    qsort(*ranges, count, sizeof **ranges, range_compare);
    *ret_count = ranges_join(*ranges, count);
    return OK;
}

static uint64_t block_steps(const struct order *order)
{
    uint64_t records = order->kind == ORDER_WINDOW ? order->window_chunks * order->chunk
                                                   : (uint64_t)READ_AHEAD_RECORDS;
    return (records + order->global_batch - 1) / order->global_batch;
}

/* Announces the share of step ahead->next; lists its block first where that is new. */
static void share_announce(struct read_ahead *ahead, const struct task *task)
{
    if (ahead->next >= ahead->block_end) {
        uint64_t steps = block_steps(&task->order);
        ahead->block_first = ahead->next;
        ahead->block_end = (ahead->next / steps + 1) * steps;
        if (ahead->block_end > task->end)
            ahead->block_end = task->end;
        ahead->count = 0; /* without memory nothing is announced, and all goes on */
        status_ignore(read_ranges_list(ahead->index, &task->order, ahead->first_slot, ahead->slots,
                                       ahead->block_first, ahead->block_end, &ahead->ranges,
                                       &ahead->capacity, &ahead->count));
    }
    uint64_t steps = ahead->block_end - ahead->block_first;
    uint64_t done = ahead->next - ahead->block_first;
    for (size_t i = ahead->count * done / steps; i < ahead->count * (done + 1) / steps; i++)
        index_read_ahead(ahead->index, ahead->ranges[i].shard, ahead->ranges[i].offset,
                         ahead->ranges[i].length);
    ahead->next++;
}

/* Takes up a new task where there is one. Whether there is something to announce. */
static bool work_is_due(struct read_ahead *ahead)
{
    const struct task *task = &ahead->task;
    if (ahead->task_number != task->number) {
        ahead->task_number = task->number;
        ahead->next = ahead->block_end = task->first;
    }
    return ahead->next < task->end && ahead->next <= task->begun + block_steps(&task->order);
}

static void *thread_main(void *context)
{
    struct read_ahead *ahead = context;
    pthread_mutex_lock(&ahead->mutex);
    while (!ahead->closing) {
        if (!work_is_due(ahead)) {
            pthread_cond_wait(&ahead->changed, &ahead->mutex);
            continue;
        }
        struct task task = ahead->task;
        pthread_mutex_unlock(&ahead->mutex);
        share_announce(ahead, &task);
        pthread_mutex_lock(&ahead->mutex);
    }
    pthread_mutex_unlock(&ahead->mutex);
    return NULL;
}

struct status read_ahead_open(struct index *index, uint32_t first_slot, uint32_t slots,
                              struct read_ahead **ret_ahead)
{
    CLEANUP(read_ahead_close) struct read_ahead *ahead = NULL;
    TRY(memory_alloc(1, sizeof *ahead, &ahead));
    ahead->index = index;
    ahead->first_slot = first_slot;
    ahead->slots = slots;
    pthread_mutex_init(&ahead->mutex, NULL);
    pthread_cond_init(&ahead->changed, NULL);
    int error = pthread_create(&ahead->thread, NULL, thread_main, ahead);
    if (error)
        return status_errno(error, "cannot start the thread that reads ahead");
    ahead->has_thread = true;
    *ret_ahead = MOVE(ahead);
    return OK;
}

void read_ahead_close(struct read_ahead *ahead)
{
    if (!ahead)
        return;
    pthread_mutex_lock(&ahead->mutex);
    ahead->closing = true;
    pthread_cond_signal(&ahead->changed);
    pthread_mutex_unlock(&ahead->mutex);
    if (ahead->has_thread)
        pthread_join(ahead->thread, NULL);
    pthread_cond_destroy(&ahead->changed);
    pthread_mutex_destroy(&ahead->mutex);
    memory_free(ahead->ranges);
    memory_free(ahead);
}

void read_ahead_start(struct read_ahead *ahead, const struct order *order, uint64_t first,
                      uint64_t end)
{
    pthread_mutex_lock(&ahead->mutex);
    uint64_t number = ahead->task.number + 1;
    ahead->task = (struct task){
        .order = *order, .first = first, .end = end, .begun = first, .number = number};
    pthread_cond_signal(&ahead->changed);
    pthread_mutex_unlock(&ahead->mutex);
}

void read_ahead_advance(struct read_ahead *ahead, uint64_t step)
{
    pthread_mutex_lock(&ahead->mutex);
    ahead->task.begun = step;
    pthread_cond_signal(&ahead->changed);
    pthread_mutex_unlock(&ahead->mutex);
}
