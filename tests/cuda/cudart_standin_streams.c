#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/cudart_standin_internal.h"

/* Streams and events: queues of items, and marks that items wait for. */

/* --- Work, marks, sets
 * ---------------------------------------------------------------------------- */

struct work *work_make(const struct standin_work *task, int memory)
{
    struct work *work = standin_alloc(1, sizeof *work);
    *work = (struct work){*task, memory, 1};
    return work;
}

void work_release(struct work *work)
{
    if (--work->references > 0)
        return;
    if (work->task.release)
        work->task.release(work->task.context);
    free(work);
}

struct mark *mark_make(void)
{
    struct mark *mark = standin_alloc(1, sizeof *mark);
    mark->references = 1;
    return mark;
}

void mark_release(struct mark *mark)
{
    if (mark && --mark->references == 0)
        free(mark);
}

void node_set_add(struct node_set *set, const struct node_set *more)
{
    set->nodes = standin_resize(set->nodes, set->count + more->count + 1, sizeof *set->nodes);
    for (size_t i = 0; i < more->count; i++) {
        size_t j = 0;
        while (j < set->count && set->nodes[j] != more->nodes[i])
            j++;
        if (j == set->count)
            set->nodes[set->count++] = more->nodes[i];
    }
}

void node_set_clear(struct node_set *set)
{
    free(set->nodes);
    *set = (struct node_set){0};
}

/* --- Queues
 * --------------------------------------------------------------------------------------- */

void stream_push_item(struct CUstream_st *stream, enum item_kind kind, void *object)
{
    struct item *item = standin_alloc(1, sizeof *item);
    item->kind = kind;
    item->sequence = standin.sequence++;
    if (kind == ITEM_WORK)
        item->work = object;
    else if (kind == ITEM_GRAPH)
        item->run = object;
    else
        item->mark = object;
    if (stream->head)
        stream->tail->next = item;
    else
        stream->head = item;
    stream->tail = item;
}

/* `stream` waits for all that `other` holds now. */
static void stream_wait_for(struct CUstream_st *stream, struct CUstream_st *other)
{
    if (!other->head || other == stream)
        return;
    struct mark *mark = mark_make();
    mark->references = 2;
    stream_push_item(other, ITEM_RECORD, mark);
    stream_push_item(stream, ITEM_WAIT, mark);
}

/* The legacy stream waits for all blocking streams of its device, and they for it. */
static void wait_implicitly(struct CUstream_st *stream)
{
    struct CUstream_st *legacy = standin.legacy[stream->device];
    if (stream != legacy && stream->blocking)
        stream_wait_for(stream, legacy);
    for (struct CUstream_st *other = standin.streams; other && stream == legacy;
         other = other->next)
        if (other->blocking && other->device == stream->device)
            stream_wait_for(stream, other);
}

cudaError_t stream_push(struct CUstream_st *stream, struct work *work)
{
    if (stream->capture) {
        capture_add(stream, work);
        return cudaSuccess;
    }
    wait_implicitly(stream);
    stream_push_item(stream, ITEM_WORK, work);
    schedule_early();
    return cudaSuccess;
}

struct CUstream_st *stream_find(cudaStream_t stream)
{
    if (stream == NULL || stream == cudaStreamLegacy) {
        int device = standin_device();
        return device < standin.options.devices ? standin.legacy[device] : NULL;
    }
    for (struct CUstream_st *known = standin.streams; known; known = known->next)
        if (known == stream && !known->destroyed)
            return known;
    return NULL;
}

static bool stream_is_empty(const void *object)
{
    return !((const struct CUstream_st *)object)->head;
}

cudaError_t stream_drain(struct CUstream_st *stream)
{
    if (stream->capture)
        return capture_spoil(stream->capture, cudaErrorStreamCaptureUnsupported);
    schedule_until(stream_is_empty, stream);
    return cudaSuccess;
}

cudaError_t device_drain(int device)
{
    for (struct CUstream_st *stream = standin.streams; stream; stream = stream->next) {
        if (stream->device != device || stream->capture)
            continue;
        cudaError_t error = stream_drain(stream);
        if (error != cudaSuccess)
            return error;
    }
    return cudaSuccess;
}

/* --- Life of streams
 * ------------------------------------------------------------------------------ */

static struct CUstream_st *stream_make(int device, bool blocking)
{
    struct CUstream_st *stream = standin_alloc(1, sizeof *stream), **link = &standin.streams;
    stream->number = standin.stream_count++;
    stream->device = device;
    stream->blocking = blocking;
    for (; *link; link = &(*link)->next)
        stream->place += (*link)->device == device;
    *link = stream;
    return stream;
}

static void item_free(struct item *item)
{
    if (item->kind == ITEM_WORK)
        work_release(item->work);
    else if (item->kind == ITEM_GRAPH)
        graph_run_free(item->run);
    else
        mark_release(item->mark);
    free(item);
}

static void event_free(struct CUevent_st *event)
{
    mark_release(event->mark);
    node_set_clear(&event->nodes);
    free(event);
}

void streams_reset(void)
{
    while (standin.streams) {
        struct CUstream_st *stream = standin.streams;
        standin.streams = stream->next;
        while (stream->head) {
            struct item *item = stream->head;
            stream->head = item->next;
            item_free(item);
        }
        node_set_clear(&stream->last);
        free(stream);
    }
    while (standin.events) {
        struct CUevent_st *event = standin.events;
        standin.events = event->next;
        event_free(event);
    }
}

void streams_begin(void)
{
    for (int d = 0; d < standin.options.devices; d++)
        standin.legacy[d] = stream_make(d, true);
}

size_t streams_alive(void)
{
    size_t count = 0;
    for (const struct CUstream_st *stream = standin.streams; stream; stream = stream->next)
        count += !stream->destroyed && stream != standin.legacy[stream->device];
    for (const struct CUevent_st *event = standin.events; event; event = event->next)
        count++;
    return count;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)priority;
    standin_enter();
    if (standin_device() >= standin.options.devices)
        return standin_leave(cudaErrorNoDevice);
    *stream = stream_make(standin_device(), !(flags & cudaStreamNonBlocking));
    return standin_leave(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

/* What is queued runs all the same. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    standin_enter();
    struct CUstream_st *known = stream ? stream_find(stream) : NULL;
    if (!known)
        return standin_leave(cudaErrorInvalidResourceHandle);
    known->destroyed = true;
    return standin_leave(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    standin_enter();
    struct CUstream_st *known = stream_find(stream);
    return standin_leave(known ? stream_drain(known) : cudaErrorInvalidResourceHandle);
}

/* Something runs each time, so that who polls comes to an end. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    standin_enter();
    struct CUstream_st *known = stream_find(stream);
    if (!known)
        return standin_leave(cudaErrorInvalidResourceHandle);
    if (known->capture)
        return standin_leave(capture_spoil(known->capture, cudaErrorStreamCaptureUnsupported));
    schedule_some(stream_is_empty, known);
    return standin_leave_asking(known->head ? cudaErrorNotReady : cudaSuccess);
}

unsigned standin_stream_number(cudaStream_t stream)
{
    standin_enter();
    struct CUstream_st *known = stream_find(stream);
    standin_leave(cudaSuccess);
    return known ? known->number : ~0u;
}

unsigned standin_waits(int device)
{
    return standin.waits[device];
}

unsigned standin_host_waits(int device)
{
    return standin.host_waits[device];
}

/* --- Work from outside
 * ---------------------------------------------------------------------------- */

cudaError_t standin_enqueue(cudaStream_t stream, const struct standin_work *task)
{
    standin_enter();
    struct work *work = work_make(task, ALL_DEVICES);
    struct CUstream_st *known = stream_find(stream);
    if (known)
        return standin_leave(stream_push(known, work));
    work_release(work);
    return standin_leave(cudaErrorInvalidResourceHandle);
}

struct host_call {
    cudaHostFn_t function;
    void *data;
};

static bool host_call_run(void *context)
{
    const struct host_call *call = context;
    call->function(call->data);
    return true;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    standin_enter();
    struct CUstream_st *known = stream_find(stream);
    if (!known)
        return standin_leave(cudaErrorInvalidResourceHandle);
    struct host_call *call = standin_alloc(1, sizeof *call);
    *call = (struct host_call){function, data};
    const struct standin_work task = {.label = "host function",
                                      .try_run = host_call_run,
                                      .context = call,
                                      .release = free};
    return standin_leave(stream_push(known, work_make(&task, NO_DEVICE)));
}

/* --- Events
 * --------------------------------------------------------------------------------------- */

static struct CUevent_st *event_find(cudaEvent_t event)
{
    for (struct CUevent_st *known = standin.events; known; known = known->next)
        if (known == event)
            return known;
    return NULL;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    standin_enter();
    struct CUevent_st *made = standin_alloc(1, sizeof *made);
    made->device = standin_device();
    made->timed = !(flags & cudaEventDisableTiming);
    made->next = standin.events;
    standin.events = made;
    *event = made;
    return standin_leave(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    standin_enter();
    struct CUevent_st **link = &standin.events;
    while (*link && *link != event)
        link = &(*link)->next;
    if (!*link)
        return standin_leave(cudaErrorInvalidResourceHandle);
    *link = event->next;
    event_free(event);
    return standin_leave(cudaSuccess);
}

static cudaError_t event_record(cudaEvent_t event, cudaStream_t stream)
{
    struct CUevent_st *known = event_find(event);
    struct CUstream_st *queue = stream_find(stream);
    if (!known || !queue || known->device != queue->device)
        return cudaErrorInvalidResourceHandle;
    if (queue->capture) {
        capture_record(queue, known);
        return cudaSuccess;
    }
    mark_release(known->mark);
    node_set_clear(&known->nodes);
    known->capture = NULL;
    known->was_captured = false;
    known->mark = mark_make();
    known->mark->references = 2;
    wait_implicitly(queue);
    stream_push_item(queue, ITEM_RECORD, known->mark);
    schedule_early();
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    standin_enter();
    return standin_leave(event_record(event, stream));
}

static cudaError_t stream_wait(cudaStream_t stream, cudaEvent_t event)
{
    struct CUevent_st *known = event_find(event);
    struct CUstream_st *queue = stream_find(stream);
    if (!known || !queue)
        return cudaErrorInvalidResourceHandle;
    standin.waits[queue->device]++;
    if (standin.options.ignored_device == queue->device &&
        standin.options.ignored_wait == standin.waits[queue->device])
        return cudaSuccess;
    if (queue->capture || known->capture)
        return capture_wait(queue, known);
    if (known->was_captured)
        return cudaErrorCapturedEvent;
    if (!known->mark || known->mark->done)
        return cudaSuccess;
    known->mark->references++;
    stream_push_item(queue, ITEM_WAIT, known->mark);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)flags;
    standin_enter();
    return standin_leave(stream_wait(stream, event));
}

static bool mark_is_done(const void *object)
{
    return ((const struct mark *)object)->done;
}

static cudaError_t event_error(const struct CUevent_st *event)
{
    if (!event)
        return cudaErrorInvalidResourceHandle;
    if (event->capture)
        return capture_spoil(event->capture, cudaErrorCapturedEvent);
    return event->was_captured ? cudaErrorCapturedEvent : cudaSuccess;
}

/* Whether the host does not wait for the event's record: the options leave that wait out. */
static bool host_wait_is_ignored(const struct CUevent_st *event)
{
    const struct standin_options *options = &standin.options;
    schedule_settle();
    if (event->mark->asked || event->mark->done)
        return false;
    event->mark->asked = true;
    return ++standin.host_waits[event->device] == options->ignored_host_wait &&
           event->device == options->ignored_device;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    standin_enter();
    struct CUevent_st *known = event_find(event);
    cudaError_t error = event_error(known);
    if (error == cudaSuccess && known->mark && !host_wait_is_ignored(known)) {
        struct mark *mark = known->mark; /* a record in another thread may replace it */
        mark->references++;
        schedule_until(mark_is_done, mark);
        mark_release(mark);
    }
    return standin_leave(error);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    standin_enter();
    struct CUevent_st *known = event_find(event);
    cudaError_t error = event_error(known);
    if (error != cudaSuccess)
        return standin_leave(error);
    if (known->mark && host_wait_is_ignored(known))
        return standin_leave_asking(cudaSuccess);
    if (known->mark)
        schedule_some(mark_is_done, known->mark);
    return standin_leave_asking(known->mark && !known->mark->done ? cudaErrorNotReady
                                                                  : cudaSuccess);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    standin_enter();
    struct CUevent_st *first = event_find(start), *second = event_find(end);
    if (!first || !second || !first->timed || !second->timed || !first->mark || !second->mark)
        return standin_leave(cudaErrorInvalidResourceHandle);
    if (!first->mark->done || !second->mark->done)
        return standin_leave_quietly(cudaErrorNotReady);
    *ms = (float)(second->mark->time_ms - first->mark->time_ms);
    return standin_leave(cudaSuccess);
}
