#include "tests/test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/cuda/cudart_standin.h"
#include "train/cuda/kernels.h"
#include "train/cuda/launch_cpu.h"

/* The stand-in of the CUDA runtime (tests/cuda/cudart_standin.h): above all, that it finds what is
 * missing. */

enum { COUNT = 64, SEEDS = 48 };

/* A kernel of one thread. */
struct filling {
    struct kernel_call call;
    float *values;
    float value;
    size_t count;
};

static void fill_run(void *arguments)
{
    const struct filling *filling = arguments;
    for (size_t i = 0; i < filling->count; i++)
        filling->values[i] = filling->value;
}

static cudaError_t fill(float *values, float value, size_t count, cudaStream_t stream)
{
    struct filling *filling = malloc(sizeof *filling);
    if (!filling)
        return cudaErrorMemoryAllocation;
    *filling =
        (struct filling){{"fill", {1, 1, 1}, {1, 1, 1}, fill_run, filling}, values, value, count};
    return kernel_launch(&filling->call, stream);
}

#define assert_cuda(call) assert_string_equal(cudaGetErrorName(call), "cudaSuccess")
#define assert_cuda_error(error, call) assert_string_equal(cudaGetErrorName(call), #error)

static void reset(enum standin_order order, uint64_t seed, int devices)
{
    const struct standin_options options = {.devices = devices,
                                            .order = order,
                                            .seed = seed,
                                            .memory_bytes = 1 << 20};
    standin_reset(&options);
}

static float *device_floats(void)
{
    float *floats = NULL;
    assert_cuda(cudaMalloc((void **)&floats, COUNT * sizeof *floats));
    return floats;
}

static float *pinned_floats(void)
{
    float *floats = NULL;
    assert_cuda(cudaMallocHost((void **)&floats, COUNT * sizeof *floats));
    return floats;
}

static cudaStream_t stream_make(void)
{
    cudaStream_t stream = NULL;
    assert_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static cudaEvent_t event_make(void)
{
    cudaEvent_t event = NULL;
    assert_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

/* Whether a child process that calls `function` comes to a bad end. */
static bool dies(void (*function)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        fclose(stderr);
        signal(SIGSEGV, SIG_DFL); /* which cmocka would turn into a failure of the test */
        signal(SIGABRT, SIG_DFL);
        function();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* --- Devices and memory
 * ---------------------------------------------------------------------------- */

static void test_devices(void **state)
{
    (void)state;
    int count = 42;
    reset(STANDIN_IMMEDIATE, 0, 0);
    assert_cuda_error(cudaErrorNoDevice, cudaGetDeviceCount(&count));
    assert_int_equal(count, 42);
    assert_cuda_error(cudaErrorNoDevice, cudaGetLastError());
    assert_cuda(cudaGetLastError());

    reset(STANDIN_IMMEDIATE, 0, 3);
    assert_cuda(cudaGetDeviceCount(&count));
    assert_int_equal(count, 3);
    assert_cuda(cudaSetDevice(2));
    assert_cuda_error(cudaErrorInvalidDevice, cudaSetDevice(3));
    assert_cuda(cudaGetDevice(&count));
    assert_int_equal(count, 2);
    struct cudaDeviceProp properties;
    assert_cuda(cudaGetDeviceProperties(&properties, 1));
    assert_int_equal(properties.totalGlobalMem, 1 << 20);
}

static float *shared_floats;

static void read_on_the_host(void)
{
    volatile float value = shared_floats[0];
    (void)value;
}

static void fill_on_device_0(void)
{
    cudaSetDevice(0);
    fill(shared_floats, 1, COUNT, NULL);
    cudaDeviceSynchronize();
}

static void fill_too_much(void)
{
    fill(shared_floats, 1, COUNT + 1, NULL);
    cudaDeviceSynchronize();
}

static void fill_what_is_freed(void)
{
    cudaFree(shared_floats);
    fill_too_much();
}

static void test_memory(void **state)
{
    (void)state;
    reset(STANDIN_IMMEDIATE, 0, 2);
    assert_cuda(cudaSetDevice(1));
    shared_floats = device_floats();
    int device = -1;
    assert_true(standin_is_device_memory(shared_floats, &device));
    assert_int_equal(device, 1);
    assert_int_equal(standin_memory_bytes(1), COUNT * sizeof(float));
    uint32_t words[COUNT] = {0};
    assert_cuda(cudaMemcpy(words, shared_floats, sizeof words, cudaMemcpyDeviceToHost));
    assert_int_equal(words[COUNT - 1], UINT32_MAX);
    assert_true(dies(read_on_the_host));
    assert_true(dies(fill_on_device_0));
#ifdef __SANITIZE_ADDRESS__
    assert_true(dies(fill_too_much));
    assert_true(dies(fill_what_is_freed));
#else
    (void)fill_what_is_freed;
#endif
    assert_cuda_error(cudaErrorInvalidValue, cudaMemset(shared_floats, 0, sizeof words + 1));
    assert_cuda_error(cudaErrorMemoryAllocation,
                      cudaMalloc((void **)&shared_floats, (1 << 20) - 256));
    assert_int_equal(standin_leaks(), 1);
}

static void test_pinned_memory(void **state)
{
    (void)state;
    reset(STANDIN_IMMEDIATE, 0, 1);
    float pageable[COUNT] = {1}, *pinned = pinned_floats(), *device = device_floats();
    cudaStream_t stream = stream_make();
    assert_cuda_error(cudaErrorInvalidValue, cudaMemcpyAsync(device, pageable, sizeof pageable,
                                                             cudaMemcpyHostToDevice, stream));
    assert_cuda_error(cudaErrorInvalidValue, cudaMemcpyAsync(pinned, device, sizeof pageable,
                                                             cudaMemcpyHostToDevice, stream));
    assert_cuda(cudaMemcpyAsync(pinned, device, sizeof pageable, cudaMemcpyDeviceToHost, stream));
    assert_cuda(cudaStreamSynchronize(stream));
    assert_cuda(cudaFreeHost(pinned));
    assert_cuda(cudaFree(device));
    assert_cuda(cudaStreamDestroy(stream));
    assert_int_equal(standin_leaks(), 0);
}

/* --- A chain over three streams
 * -------------------------------------------------------------------- */

/* Pinned `in` is copied to the device on one stream, scaled on the second, copied back on the
 * third. Freed by the reset. */
struct chain {
    cudaStream_t streams[3];
    cudaEvent_t events[3];
    float *in, *device, *out;
};

static struct chain chain_make(void)
{
    struct chain chain;
    for (int i = 0; i < 3; i++) {
        chain.streams[i] = stream_make();
        chain.events[i] = event_make();
    }
    chain.in = pinned_floats();
    chain.out = pinned_floats();
    chain.device = device_floats();
    return chain;
}

static void chain_queue(const struct chain *chain)
{
    size_t bytes = COUNT * sizeof(float);
    cudaMemcpyAsync(chain->device, chain->in, bytes, cudaMemcpyHostToDevice, chain->streams[0]);
    cudaEventRecord(chain->events[0], chain->streams[0]);
    cudaStreamWaitEvent(chain->streams[1], chain->events[0], 0);
    kernel_scale(chain->device, 2, COUNT, chain->streams[1]);
    cudaEventRecord(chain->events[1], chain->streams[1]);
    cudaStreamWaitEvent(chain->streams[2], chain->events[1], 0);
    cudaMemcpyAsync(chain->out, chain->device, bytes, cudaMemcpyDeviceToHost, chain->streams[2]);
}

static void chain_start(const struct chain *chain, float value)
{
    for (size_t i = 0; i < COUNT; i++) {
        chain->in[i] = value;
        chain->out[i] = -1;
    }
}

static bool chain_is_right(const struct chain *chain, float value)
{
    for (size_t i = 0; i < COUNT; i++)
        if (chain->out[i] != 2 * value)
            return false;
    return true;
}

/* Two rounds of the chain, waited for on the last stream only. */
static bool chain_runs(void)
{
    struct chain chain = chain_make();
    for (int round = 1; round <= 2; round++) {
        chain_start(&chain, (float)round);
        chain_queue(&chain);
        assert_cuda(cudaStreamSynchronize(chain.streams[2]));
        if (!chain_is_right(&chain, (float)round))
            return false;
    }
    return true;
}

/* The same as a graph, captured from the first stream. */
static bool chain_runs_as_graph(void)
{
    struct chain chain = chain_make();
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    chain_start(&chain, 0);
    assert_cuda(cudaStreamBeginCapture(chain.streams[0], cudaStreamCaptureModeThreadLocal));
    chain_queue(&chain);
    cudaEventRecord(chain.events[2], chain.streams[2]);
    cudaStreamWaitEvent(chain.streams[0], chain.events[2], 0);
    if (cudaStreamEndCapture(chain.streams[0], &graph) != cudaSuccess)
        return false;
    assert_cuda(cudaGraphInstantiate(&executable, graph, 0));
    assert_cuda(cudaGraphDestroy(graph));
    for (int round = 1; round <= 2; round++) {
        chain_start(&chain, (float)round);
        assert_cuda(cudaGraphLaunch(executable, chain.streams[0]));
        assert_cuda(cudaStreamSynchronize(chain.streams[0]));
        if (!chain_is_right(&chain, (float)round))
            return false;
    }
    assert_cuda(cudaGraphExecDestroy(executable));
    return true;
}

/* How many seeds it is right for, with one wait left out (0: none). */
static unsigned right_seeds(bool (*runs)(void), unsigned ignored_wait)
{
    unsigned right = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct standin_options options = {.devices = 1,
                                                .order = STANDIN_DEFERRED,
                                                .seed = seed,
                                                .memory_bytes = 1 << 20,
                                                .ignored_wait = ignored_wait};
        standin_reset(&options);
        right += runs();
    }
    return right;
}

static void check_chain(bool (*runs)(void))
{
    reset(STANDIN_IMMEDIATE, 0, 1);
    assert_true(runs());
    unsigned waits = standin_waits(0);
    assert_true(waits >= 2);
    reset(STANDIN_PARALLEL, 0, 1);
    assert_true(runs());
    assert_int_equal(right_seeds(runs, 0), SEEDS);
    for (unsigned wait = 1; wait <= (waits < 4 ? waits : 2); wait++)
        assert_true(right_seeds(runs, wait) < SEEDS);
}

static void test_missing_wait_is_found(void **state)
{
    (void)state;
    check_chain(chain_runs);
}

static void test_missing_edge_is_found(void **state)
{
    (void)state;
    check_chain(chain_runs_as_graph);
}

static void test_nothing_runs_before_it_must(void **state)
{
    (void)state;
    reset(STANDIN_DEFERRED, 0, 1);
    struct chain chain = chain_make();
    chain_start(&chain, 1);
    chain_queue(&chain);
    const struct standin_event *trace;
    assert_int_equal(standin_trace(&trace), 0);
    assert_true(chain.out[0] == -1);
    assert_cuda(cudaDeviceSynchronize());
    assert_int_equal(standin_trace(&trace), 3);
    assert_string_equal(trace[0].label, "copy host to device");
    assert_string_equal(trace[1].label, "array_scale");
    assert_string_equal(trace[2].label, "copy device to host");
    assert_int_equal(trace[2].bytes, COUNT * sizeof(float));
    assert_int_equal(trace[2].stream, standin_stream_number(chain.streams[2]));
}

/* With some seed a stream stands still while others run hundreds of works. */
static void test_streams_starve(void **state)
{
    (void)state;
    size_t latest = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        reset(STANDIN_DEFERRED, seed, 1);
        float *device = device_floats();
        cudaStream_t slow = stream_make(), busy = stream_make();
        assert_cuda(kernel_scale(device, 1, COUNT, slow));
        for (int i = 0; i < 400; i++)
            assert_cuda(cudaMemsetAsync(device, 0, 4, busy));
        assert_cuda(cudaDeviceSynchronize());
        const struct standin_event *trace;
        size_t count = standin_trace(&trace), at = 0;
        while (at < count && trace[at].stream != standin_stream_number(slow))
            at++;
        latest = at > latest ? at : latest;
    }
    assert_true(latest > 200);
}

/* Without a wait for the legacy stream, blocking streams stay behind it and others do not. */
static bool follows_the_legacy_stream(unsigned flags)
{
    unsigned right = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        reset(STANDIN_DEFERRED, seed, 1);
        float *device = device_floats(), *out = pinned_floats();
        cudaStream_t stream = NULL;
        assert_cuda(cudaStreamCreateWithFlags(&stream, flags));
        assert_cuda(fill(device, 1, COUNT, NULL));
        assert_cuda(fill(device, 2, COUNT, stream));
        assert_cuda(cudaDeviceSynchronize());
        assert_cuda(cudaMemcpy(out, device, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
        right += out[0] == 2;
    }
    return right == SEEDS;
}

static void test_legacy_stream(void **state)
{
    (void)state;
    assert_true(follows_the_legacy_stream(cudaStreamDefault));
    assert_false(follows_the_legacy_stream(cudaStreamNonBlocking));
}

/* --- Captures
 * -------------------------------------------------------------------------------------- */

static void *allocate_elsewhere(void *context)
{
    *(cudaError_t *)context = cudaMalloc((void **)&shared_floats, 64);
    return NULL;
}

static cudaError_t capture_end(cudaStream_t stream)
{
    cudaGraph_t graph = NULL;
    cudaError_t error = cudaStreamEndCapture(stream, &graph);
    assert_true((error == cudaSuccess) == (graph != NULL));
    if (graph)
        assert_cuda(cudaGraphDestroy(graph));
    return error;
}

static void test_capture_forbids(void **state)
{
    (void)state;
    reset(STANDIN_IMMEDIATE, 0, 1);
    cudaStream_t stream = stream_make(), other = stream_make();
    cudaEvent_t event = event_make();
    float *device = device_floats();

    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_cuda_error(cudaErrorStreamCaptureUnsupported, cudaMalloc((void **)&shared_floats, 64));
    assert_cuda_error(cudaErrorStreamCaptureInvalidated, capture_end(stream));

    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    pthread_t thread;
    cudaError_t elsewhere = cudaErrorUnknown;
    assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, &elsewhere), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_cuda(elsewhere);
    assert_cuda(fill(device, 1, COUNT, stream));
    assert_cuda(cudaStreamSynchronize(other));
    assert_cuda(capture_end(stream));

    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_cuda_error(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    assert_cuda_error(cudaErrorStreamCaptureInvalidated, capture_end(stream));

    assert_cuda(cudaEventRecord(event, other));
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_cuda_error(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(stream, event, 0));
    assert_cuda_error(cudaErrorStreamCaptureInvalidated, capture_end(stream));
}

static void test_capture_must_join(void **state)
{
    (void)state;
    reset(STANDIN_IMMEDIATE, 0, 1);
    cudaStream_t stream = stream_make(), other = stream_make();
    cudaEvent_t fork_event = event_make(), join_event = event_make();
    float *device = device_floats();
    for (int joins = 0; joins < 2; joins++) {
        assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        assert_cuda(fill(device, 1, COUNT, stream));
        assert_cuda(cudaEventRecord(fork_event, stream));
        assert_cuda(cudaStreamWaitEvent(other, fork_event, 0));
        assert_cuda(kernel_scale(device, 2, COUNT, other));
        assert_cuda(cudaEventRecord(join_event, other));
        if (joins)
            assert_cuda(cudaStreamWaitEvent(stream, join_event, 0));
        cudaError_t expected = joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
        assert_int_equal(capture_end(stream), expected);
    }
    const struct standin_event *trace;
    assert_int_equal(standin_trace(&trace), 0);
    assert_cuda_error(cudaErrorCapturedEvent, cudaEventSynchronize(join_event));
}

/* --- Events
 * ---------------------------------------------------------------------------------------- */

static void test_events(void **state)
{
    (void)state;
    reset(STANDIN_DEFERRED, 0, 1);
    cudaEvent_t start, end;
    cudaStream_t stream = stream_make();
    float *device = device_floats(), ms = -1;
    assert_cuda(cudaEventCreate(&start));
    assert_cuda(cudaEventCreate(&end));
    assert_cuda(cudaEventQuery(start));
    assert_cuda(cudaEventRecord(start, stream));
    for (int i = 0; i < 3; i++)
        assert_cuda(fill(device, 1, COUNT, stream));
    assert_cuda(cudaEventRecord(end, stream));
    assert_cuda_error(cudaErrorNotReady, cudaEventQuery(end));
    assert_cuda(cudaGetLastError());
    while (cudaEventQuery(end) == cudaErrorNotReady)
        ;
    assert_cuda(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms > 0);
    assert_cuda(cudaStreamQuery(stream));
}

/* --- Several devices
 * ------------------------------------------------------------------------------- */

/* Both devices' work has to arrive before either may go on. */
struct meeting {
    bool arrived[2];
};
struct guest {
    struct meeting *meeting;
    int device;
};

static bool meet(void *context)
{
    const struct guest *guest = context;
    guest->meeting->arrived[guest->device] = true;
    return guest->meeting->arrived[!guest->device];
}

static void *drive_device(void *context)
{
    struct guest *guest = context;
    static _Thread_local float out[COUNT];
    const struct standin_work work = {.label = "meet", .try_run = meet, .context = guest};
    assert_cuda(cudaSetDevice(guest->device));
    cudaStream_t stream = stream_make();
    float *device = device_floats();
    assert_cuda(fill(device, 1, COUNT, stream));
    assert_cuda(standin_enqueue(stream, &work));
    assert_cuda(kernel_scale(device, 3, COUNT, stream));
    assert_cuda(cudaStreamSynchronize(stream));
    assert_cuda(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    assert_true(out[COUNT - 1] == 3);
    return NULL;
}

static void test_devices_meet(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        reset(seed % 3 ? STANDIN_DEFERRED : STANDIN_IMMEDIATE, seed, 2);
        struct meeting meeting = {0};
        struct guest guests[2] = {{&meeting, 0}, {&meeting, 1}};
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, drive_device, &guests[i]), 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void test_streams_run_side_by_side(void **state)
{
    (void)state;
    reset(STANDIN_PARALLEL, 0, 1);
    cudaStream_t streams[2] = {stream_make(), stream_make()};
    float *device = device_floats();
    for (int i = 0; i < 6; i++)
        assert_cuda(fill(device, 1, COUNT, streams[i / 3]));
    assert_cuda(cudaDeviceSynchronize());
    const struct standin_event *trace;
    assert_int_equal(standin_trace(&trace), 6);
    for (int i = 0; i < 6; i += 2) {
        assert_int_equal(trace[i].turn, trace[i + 1].turn);
        assert_int_not_equal(trace[i].stream, trace[i + 1].stream);
        if (i > 0)
            assert_true(trace[i].turn > trace[i - 1].turn);
    }
}

static void append_letter(void *context)
{
    char *text = *(char **)context;
    text[strlen(text)] = 'x';
}

static void test_host_functions(void **state)
{
    (void)state;
    reset(STANDIN_DEFERRED, 0, 1);
    char text[4] = "", *where = text;
    cudaStream_t stream = stream_make();
    assert_cuda(cudaLaunchHostFunc(stream, append_letter, &where));
    assert_cuda(cudaLaunchHostFunc(stream, append_letter, &where));
    assert_string_equal(text, "");
    assert_cuda(cudaStreamSynchronize(stream));
    assert_string_equal(text, "xx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_pinned_memory),
        cmocka_unit_test(test_missing_wait_is_found),
        cmocka_unit_test(test_missing_edge_is_found),
        cmocka_unit_test(test_nothing_runs_before_it_must),
        cmocka_unit_test(test_streams_starve),
        cmocka_unit_test(test_legacy_stream),
        cmocka_unit_test(test_capture_forbids),
        cmocka_unit_test(test_capture_must_join),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_devices_meet),
        cmocka_unit_test(test_streams_run_side_by_side),
        cmocka_unit_test(test_host_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
