#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/cudart_standin_internal.h"

/* Capturing streams into graphs, and launching these. */

struct node {
    struct work *work;
    struct node_set after; /* predecessors, all of lower index */
    unsigned stream;
};

struct CUgraph_st {
    struct CUgraph_st *next;
    struct node *nodes;
    size_t count;
};

/* A copy of a graph that can be launched. Counted references: the caller's and those of launches.
 */
struct CUgraphExec_st {
    struct CUgraphExec_st *next;
    struct CUgraph_st graph;
    unsigned references;
    bool destroyed, running;
};

struct capture {
    struct capture *next;
    struct CUstream_st *origin;
    struct CUgraph_st *graph;
    enum cudaStreamCaptureMode mode;
    pthread_t owner;
    bool spoiled;
};

static struct capture *captures;
static struct CUgraph_st *graphs;
static struct CUgraphExec_st *executables;
static _Thread_local enum cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

static void graph_done(struct CUgraph_st *graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        work_release(graph->nodes[i].work);
        node_set_clear(&graph->nodes[i].after);
    }
    free(graph->nodes);
}

static void executable_release(struct CUgraphExec_st *executable)
{
    if (--executable->references > 0)
        return;
    struct CUgraphExec_st **link = &executables;
    while (*link != executable)
        link = &(*link)->next;
    *link = executable->next;
    graph_done(&executable->graph);
    free(executable);
}

static bool graph_forget(struct CUgraph_st *graph)
{
    struct CUgraph_st **link = &graphs;
    while (*link && *link != graph)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = graph->next;
    graph_done(graph);
    free(graph);
    return true;
}

/* After the streams, whose launches hold executable graphs. */
void graphs_reset(void)
{
    while (captures) {
        struct capture *capture = captures;
        captures = capture->next;
        free(capture);
    }
    while (graphs)
        graph_forget(graphs);
    while (executables) {
        executables->references = 1;
        executable_release(executables);
    }
}

size_t graphs_alive(void)
{
    size_t count = 0;
    for (const struct CUgraph_st *graph = graphs; graph; graph = graph->next)
        count++;
    for (const struct CUgraphExec_st *made = executables; made; made = made->next)
        count += !made->destroyed;
    return count;
}

/* --- Capturing
 * ------------------------------------------------------------------------------------- */

cudaError_t capture_spoil(struct capture *capture, cudaError_t error)
{
    capture->spoiled = true;
    return error;
}

cudaError_t capture_forbids(void)
{
    for (struct capture *capture = captures; capture; capture = capture->next) {
        bool ours = pthread_equal(capture->owner, pthread_self());
        bool watched = capture->mode == cudaStreamCaptureModeGlobal ||
                       (capture->mode == cudaStreamCaptureModeThreadLocal && ours);
        if (watched && thread_mode != cudaStreamCaptureModeRelaxed)
            return capture_spoil(capture, cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

void capture_add(struct CUstream_st *stream, struct work *work)
{
    struct CUgraph_st *graph = stream->capture->graph;
    graph->nodes = standin_resize(graph->nodes, graph->count + 1, sizeof *graph->nodes);
    graph->nodes[graph->count] =
        (struct node){.work = work, .after = stream->last, .stream = stream->number};
    stream->last = (struct node_set){0};
    unsigned index = (unsigned)graph->count++;
    node_set_add(&stream->last, &(struct node_set){&index, 1});
}

void capture_record(struct CUstream_st *stream, struct CUevent_st *event)
{
    mark_release(event->mark);
    event->mark = NULL;
    node_set_clear(&event->nodes);
    node_set_add(&event->nodes, &stream->last);
    event->capture = stream->capture;
    event->was_captured = false;
}

cudaError_t capture_wait(struct CUstream_st *stream, struct CUevent_st *event)
{
    if (!event->capture) /* what is outside of a capture cannot be waited for */
        return capture_spoil(stream->capture, cudaErrorStreamCaptureIsolation);
    if (stream->capture && stream->capture != event->capture)
        return capture_spoil(stream->capture, cudaErrorStreamCaptureMerge);
    if (stream == standin.legacy[stream->device])
        return capture_spoil(event->capture, cudaErrorStreamCaptureImplicit);
    stream->capture = event->capture;
    node_set_add(&stream->last, &event->nodes);
    return cudaSuccess;
}

static cudaError_t capture_begin(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    struct CUstream_st *known = stream_find(stream);
    if (!known)
        return cudaErrorInvalidResourceHandle;
    if (known == standin.legacy[known->device])
        return cudaErrorStreamCaptureUnsupported;
    if (known->capture)
        return cudaErrorIllegalState;
    struct capture *capture = standin_alloc(1, sizeof *capture);
    capture->graph = standin_alloc(1, sizeof *capture->graph);
    capture->graph->next = graphs;
    graphs = capture->graph;
    capture->origin = known;
    capture->mode = mode;
    capture->owner = pthread_self();
    capture->next = captures;
    captures = capture;
    known->capture = capture;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    standin_enter();
    return standin_leave(capture_begin(stream, mode));
}

/* Whether the origin's last nodes come after all that the streams of the capture hold. */
static bool capture_is_joined(const struct capture *capture)
{
    const struct CUgraph_st *graph = capture->graph;
    bool *reached = standin_alloc(graph->count, sizeof *reached), joined = true;
    for (size_t i = 0; i < capture->origin->last.count; i++)
        reached[capture->origin->last.nodes[i]] = true;
    for (size_t i = graph->count; i-- > 0;)
        for (size_t j = 0; reached[i] && j < graph->nodes[i].after.count; j++)
            reached[graph->nodes[i].after.nodes[j]] = true;
    for (size_t i = 0; i < graph->count; i++)
        joined &= reached[i];
    free(reached);
    return joined;
}

/* Takes all streams and events out of the capture. */
static void capture_leave(struct capture *capture)
{
    for (struct CUstream_st *stream = standin.streams; stream; stream = stream->next)
        if (stream->capture == capture) {
            stream->capture = NULL;
            node_set_clear(&stream->last);
        }
    for (struct CUevent_st *event = standin.events; event; event = event->next)
        if (event->capture == capture) {
            event->capture = NULL;
            event->was_captured = true;
        }
    struct capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    free(capture);
}

static cudaError_t capture_end(cudaStream_t stream, cudaGraph_t *ret_graph)
{
    struct CUstream_st *known = stream_find(stream);
    struct capture *capture = known ? known->capture : NULL;
    *ret_graph = NULL;
    if (!known)
        return cudaErrorInvalidResourceHandle;
    if (!capture)
        return cudaErrorIllegalState;
    if (capture->origin != known)
        return capture_spoil(capture, cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        !pthread_equal(capture->owner, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    struct CUgraph_st *graph = capture->graph;
    cudaError_t error = cudaSuccess;
    if (capture->spoiled)
        error = cudaErrorStreamCaptureInvalidated;
    else if (!capture_is_joined(capture))
        error = cudaErrorStreamCaptureUnjoined;
    capture_leave(capture);
    if (error == cudaSuccess)
        *ret_graph = graph;
    else
        graph_forget(graph);
    return error;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    standin_enter();
    return standin_leave(capture_end(stream, graph));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
    standin_enter();
    struct CUstream_st *known = stream_find(stream);
    if (!known)
        return standin_leave(cudaErrorInvalidResourceHandle);
    *status = cudaStreamCaptureStatusNone;
    if (known->capture)
        *status = known->capture->spoiled ? cudaStreamCaptureStatusInvalidated
                                          : cudaStreamCaptureStatusActive;
    return standin_leave(cudaSuccess);
}

/* --- Graphs
 * ---------------------------------------------------------------------------------------- */

static struct CUgraph_st *graph_find(cudaGraph_t graph)
{
    struct CUgraph_st *known = graphs;
    while (known && known != graph)
        known = known->next;
    return known;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    standin_enter();
    return standin_leave(graph_forget(graph) ? cudaSuccess : cudaErrorInvalidValue);
}

/* `nodes` must be NULL: counts only. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    standin_enter();
    struct CUgraph_st *known = graph_find(graph);
    if (!known || nodes)
        return standin_leave(cudaErrorInvalidValue);
    *count = known->count;
    return standin_leave(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long flags)
{
    (void)flags;
    standin_enter();
    const struct CUgraph_st *known = graph_find(graph);
    if (!known)
        return standin_leave(cudaErrorInvalidValue);
    struct CUgraphExec_st *made = standin_alloc(1, sizeof *made);
    made->references = 1;
    made->graph.count = known->count;
    made->graph.nodes = standin_alloc(known->count, sizeof *made->graph.nodes);
    for (size_t i = 0; i < known->count; i++) {
        struct node *node = &made->graph.nodes[i];
        node->work = known->nodes[i].work;
        node->work->references++;
        node->stream = known->nodes[i].stream;
        node_set_add(&node->after, &known->nodes[i].after);
    }
    made->next = executables;
    executables = made;
    *executable = made;
    return standin_leave(cudaSuccess);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long flags)
{
    return cudaGraphInstantiate(executable, graph, flags);
}

static struct CUgraphExec_st *executable_find(cudaGraphExec_t executable)
{
    struct CUgraphExec_st *known = executables;
    while (known && known != executable)
        known = known->next;
    return known && !known->destroyed ? known : NULL;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable)
{
    standin_enter();
    struct CUgraphExec_st *known = executable_find(executable);
    if (!known)
        return standin_leave(cudaErrorInvalidValue);
    known->destroyed = true;
    executable_release(known);
    return standin_leave(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream)
{
    standin_enter();
    bool known = executable_find(executable) && stream_find(stream);
    return standin_leave(known ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream)
{
    standin_enter();
    struct CUgraphExec_st *known = executable_find(executable);
    struct CUstream_st *queue = stream_find(stream);
    if (!known || !queue)
        return standin_leave(cudaErrorInvalidValue);
    if (queue->capture)
        return standin_leave(capture_spoil(queue->capture, cudaErrorStreamCaptureUnsupported));
    if (known->graph.count == 0)
        return standin_leave(cudaSuccess);
    struct graph_run *run = standin_alloc(1, sizeof *run);
    run->graph = known;
    known->references++;
    stream_push_item(queue, ITEM_GRAPH, run);
    schedule_early();
    return standin_leave(cudaSuccess);
}

/* --- Running a graph
 * ------------------------------------------------------------------------------- */

bool graph_run_start(struct graph_run *run)
{
    const struct CUgraph_st *graph = &run->graph->graph;
    if (run->started)
        return true;
    if (run->graph->running)
        return false;
    run->started = run->graph->running = true;
    run->missing = standin_alloc(graph->count, sizeof *run->missing);
    run->ready = standin_alloc(graph->count, sizeof *run->ready);
    run->left = graph->count;
    for (unsigned i = 0; i < graph->count; i++) {
        run->missing[i] = (unsigned)graph->nodes[i].after.count;
        if (run->missing[i] == 0)
            run->ready[run->ready_count++] = i;
    }
    return true;
}

struct work *graph_run_work(const struct graph_run *run, unsigned node, unsigned *ret_stream)
{
    *ret_stream = run->graph->graph.nodes[node].stream;
    return run->graph->graph.nodes[node].work;
}

void graph_run_finish_node(struct graph_run *run, unsigned node)
{
    const struct CUgraph_st *graph = &run->graph->graph;
    size_t place = 0;
    while (run->ready[place] != node)
        place++;
    run->ready[place] = run->ready[--run->ready_count];
    run->left--;
    for (unsigned i = node + 1; i < graph->count; i++)
        for (size_t j = 0; j < graph->nodes[i].after.count; j++)
            if (graph->nodes[i].after.nodes[j] == node && --run->missing[i] == 0)
                run->ready[run->ready_count++] = i;
}

void graph_run_free(struct graph_run *run)
{
    if (run->started)
        run->graph->running = false;
    executable_release(run->graph);
    free(run->missing);
    free(run->ready);
    free(run);
}
