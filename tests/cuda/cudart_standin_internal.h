#ifndef HEADRACE_TESTS_CUDA_CUDART_STANDIN_INTERNAL_H
#define HEADRACE_TESTS_CUDA_CUDART_STANDIN_INTERNAL_H

/* What the files of the stand-in share. One lock guards everything; it is held while work runs. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "tests/cuda/cudart_standin.h"

enum { STANDIN_DEVICES_MAX = 16 };
enum { NO_DEVICE = -1, ALL_DEVICES = -2 }; /* whose memory work may touch, beside one device's */

/* --- Work and streams (cudart_standin_streams.c, cudart_standin_schedule.c)
 * ------------------------ */

/* One piece of work: in a stream's queue, or a graph's node. Counted references. */
struct work {
    struct standin_work task;
    int memory; /* a device, NO_DEVICE or ALL_DEVICES */
    unsigned references;
};
struct work *work_make(const struct standin_work *task, int memory);
void work_release(struct work *work);

/* What an event's last record waits for. Counted references. */
struct mark {
    bool done;
    bool asked; /* for by the host */
    double time_ms;
    unsigned references;
};
struct mark *mark_make(void);
void mark_release(struct mark *mark);

enum item_kind { ITEM_WORK = 0, ITEM_RECORD, ITEM_WAIT, ITEM_GRAPH };
struct item {
    enum item_kind kind;
    struct item *next;
    uint64_t sequence; /* of the call that queued it */
    struct work *work;
    struct mark *mark;
    struct graph_run *run;
};

/* Indices of a capture's nodes. */
struct node_set {
    unsigned *nodes;
    size_t count;
};
void node_set_add(struct node_set *set, const struct node_set *more);
void node_set_clear(struct node_set *set);

struct CUstream_st {
    struct CUstream_st *next;
    unsigned number;
    int device;
    unsigned place; /* among its device's, in the order of making: the legacy stream is 0 */
    bool blocking;  /* waits for the legacy stream, and that for it */
    bool destroyed;
    struct item *head, *tail;
    struct capture *capture; /* NULL: none */
    struct node_set last;    /* captured nodes that the next one depends on */
    unsigned turn;           /* STANDIN_PARALLEL: the last in which something of it ran */
};

struct CUevent_st {
    struct CUevent_st *next;
    int device;
    bool timed;
    struct mark *mark;       /* of the last record; NULL: none */
    struct capture *capture; /* recorded in a capture that goes on */
    struct node_set nodes;
    bool was_captured; /* recorded in a capture that has ended */
};

/* NULL and cudaStreamLegacy are the current device's legacy stream. NULL: no such stream. */
struct CUstream_st *stream_find(cudaStream_t stream);
/* Queues work, or adds it to the stream's capture. Takes over the reference. */
cudaError_t stream_push(struct CUstream_st *stream, struct work *work);
void stream_push_item(struct CUstream_st *stream, enum item_kind kind, void *object);
cudaError_t stream_drain(struct CUstream_st *stream);
cudaError_t device_drain(int device);
void streams_reset(void);
/* The devices' legacy streams. */
void streams_begin(void);
size_t streams_alive(void);

/* Event records and waits take no time: they are done as soon as they can be. */
void schedule_settle(void);
/* Runs things until `done`; waits for other threads' calls where nothing can run. Aborts when all
 * stands still for a minute. */
void schedule_until(bool (*done)(const void *object), const void *object);
/* Runs something, at most until `done`, and more with each question in a row. Aborts the same way
 * when asked for a minute in vain. */
void schedule_some(bool (*done)(const void *object), const void *object);
/* After something was queued: what the order says may run early. */
void schedule_early(void);
void schedule_reset(void);

/* --- Captures and graphs (cudart_standin_graphs.c)
 * ------------------------------------------------- */

/* One launch of an executable graph. */
struct graph_run {
    struct CUgraphExec_st *graph;
    bool started;
    unsigned *missing; /* by node: predecessors that have not run */
    unsigned *ready;   /* nodes that may run */
    size_t ready_count, left;
};
/* Whether it may start now (an executable graph runs once at a time), and starts it. */
bool graph_run_start(struct graph_run *run);
struct work *graph_run_work(const struct graph_run *run, unsigned node, unsigned *ret_stream);
void graph_run_finish_node(struct graph_run *run, unsigned node);
void graph_run_free(struct graph_run *run);

void capture_add(struct CUstream_st *stream, struct work *work);
void capture_record(struct CUstream_st *stream, struct CUevent_st *event);
cudaError_t capture_wait(struct CUstream_st *stream, struct CUevent_st *event);
/* A call that this capture does not stand; it is invalid from now on. */
cudaError_t capture_spoil(struct capture *capture, cudaError_t error);
/* Calls such as cudaMalloc: fails while a capture forbids them to this thread. */
cudaError_t capture_forbids(void);
void graphs_reset(void);
size_t graphs_alive(void);

/* --- Memory (cudart_standin_memory.c)
 * -------------------------------------------------------------- */

/* Lets work touch the memory of a device, of none (NO_DEVICE) or of all. */
void memory_open(int device);
void memory_reset(void);
size_t memory_alive(void);

/* --- Everything (cudart_standin_device.c)
 * ---------------------------------------------------------- */

struct standin_state {
    struct standin_options options;
    struct random_stream random;
    uint64_t sequence; /* of calls that queue */
    unsigned waits[STANDIN_DEVICES_MAX], host_waits[STANDIN_DEVICES_MAX];
    struct CUstream_st *streams; /* legacy ones too; also the destroyed */
    struct CUstream_st *legacy[STANDIN_DEVICES_MAX];
    unsigned stream_count;
    struct CUevent_st *events;
    int failing_device;     /* where launches fail; −1: nowhere */
    double idle_since_ms;   /* nothing could run since then, and nobody called; 0: that is not so */
    unsigned questions;     /* asked since the last call of another kind */
    bool waits_for_foreign; /* some work that did not run waits for another process */
};
extern struct standin_state standin;

/* The lock, with the first call's set-up. Aborts within work: work must not call the runtime. */
void standin_enter(void);
/* Closes memory, wakes the waiting, keeps the error for cudaGetLastError. Returns it. */
cudaError_t standin_leave(cudaError_t error);
/* For calls that fail without a trace in cudaGetLastError. */
cudaError_t standin_leave_quietly(cudaError_t error);
/* The same for calls that ask how far things are. */
cudaError_t standin_leave_asking(cudaError_t error);
/* Sleeps until another thread leaves or has run something, at most `most_ms`. `ran`: this one has,
 * since it last slept. */
void standin_sleep(bool ran, double most_ms);
/* Marks this thread as running work, or not. */
void standin_set_inside(bool inside);
int standin_device(void); /* the current one of this thread */
void standin_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Memory that aborts when there is none; zeroed. */
void *standin_alloc(size_t count, size_t size_bytes);
void *standin_resize(void *block, size_t count, size_t size_bytes);

#endif
