#include "tests/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/digest.h"
#include "base/random.h"
#include "base/stop.h"
#include "tests/support/ranks.h"
#include "train/comm.h"
#include "train/comm_socket.h"

static const struct comm_options patient = {.join_timeout_s = 120,
                                            .silence_timeout_s = 60,
                                            .stall_timeout_s = 120};

/* The processes see this page together. */
static struct shared {
    _Atomic unsigned arrived, released;
    uint8_t digests[2][RANKS_MAX][SHA256_BYTES];
} * shared;

static void alone(void **state)
{
    (void)state;
    CLEANUP(comm_close) struct comm *comm = NULL;
    assert_ok(comm_open(&(struct comm_options){.launcher = LAUNCHER_ALONE}, &comm));
    assert_int_equal(comm_rank(comm), 0);
    assert_int_equal(comm_size(comm), 1);
    assert_int_equal(comm_local_rank(comm), 0);
    assert_int_equal(comm_local_size(comm), 1);
    assert_int_equal(comm_nodes(comm), 1);
    assert_string_equal(comm_description(comm), "alone");
    float single = 1.5F;
    double twofold = 2.5;
    uint64_t vote = 3, all = 0;
    assert_ok(comm_sum_f32(comm, &single, 1));
    assert_ok(comm_sum_f64(comm, &twofold, 1));
    assert_ok(comm_max_u64(comm, &vote, 1));
    assert_ok(comm_broadcast(comm, &vote, sizeof vote, 0));
    assert_ok(comm_gather(comm, &vote, sizeof vote, &all));
    assert_ok(comm_barrier(comm));
    assert_ok(comm_check(comm));
    assert_true(single == 1.5F && twofold == 2.5 && vote == 3 && all == 3);
}

static void all_succeed(struct ranks *ranks)
{
    bool failed = false;
    for (unsigned rank = 0; rank < ranks->size; rank++) {
        struct rank_end end = ranks_wait(ranks, rank);
        if (end.status != 0)
            print_error("rank %u of %u ended with %d: %s\n", rank, ranks->size, end.status,
                        end.message);
        failed = failed || end.status != 0;
    }
    assert_false(failed);
}

static void run_all(unsigned size, rank_fn *fn)
{
    struct ranks ranks;
    ranks_begin(&ranks, size, patient);
    ranks_start_all(&ranks, fn);
    all_succeed(&ranks);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            FAIL(STATUS_FAILED, "line %d: %s", __LINE__, #condition);                              \
    } while (0)

/* The largest goes through the ring in several pieces, and no count divides by three and four. */
static const size_t counts[] = {0, 1, 7, 1000, 16384, 16385, 70001, 1000003};

/* Whole numbers far below 2^24, so that sums are exact in any order. */
static float addend(unsigned rank, size_t i)
{
    return (float)((rank + 1) * (i % 1001 + 1));
}

static struct status sums_f32(struct comm *comm)
{
    const unsigned size = comm_size(comm);
    const float all = (float)(size * (size + 1) / 2);
    CLEANUP(memory_free) float *values = NULL;
    TRY(memory_alloc(counts[ARRAY_LENGTH(counts) - 1] + 1, sizeof *values, &values));
    for (size_t c = 0; c < ARRAY_LENGTH(counts); c++) {
        for (size_t i = 0; i < counts[c]; i++)
            values[i] = addend(comm_rank(comm), i);
        values[counts[c]] = -1;
        TRY(comm_sum_f32(comm, values, counts[c]));
        for (size_t i = 0; i < counts[c]; i++)
            CHECK(values[i] == all * addend(0, i));
        CHECK(values[counts[c]] == -1);
    }
    return OK;
}

static struct status others(struct comm *comm)
{
    const unsigned size = comm_size(comm), rank = comm_rank(comm);
    enum { MANY = 100003 };
    CLEANUP(memory_free) uint64_t *numbers = NULL;
    CLEANUP(memory_free) double *reals = NULL;
    TRY(memory_alloc(MANY * size, sizeof *numbers, &numbers));
    TRY(memory_alloc(MANY, sizeof *reals, &reals));
    for (size_t i = 0; i < MANY; i++) {
        reals[i] = (double)i * (rank + 1) + 0.25;
        numbers[i] = i % size == rank ? (UINT64_C(1) << 60) + i : rank;
    }
    TRY(comm_sum_f64(comm, reals, MANY));
    TRY(comm_max_u64(comm, numbers, MANY));
    for (size_t i = 0; i < MANY; i++) {
        CHECK(reals[i] == (double)i * (size * (size + 1) / 2) + 0.25 * size);
        CHECK(numbers[i] == (UINT64_C(1) << 60) + i);
    }
    for (unsigned root = 0; root < size; root++)
        for (size_t count = 1; count <= MANY; count += MANY - 1) {
            for (size_t i = 0; i < count; i++)
                numbers[i] = rank == root ? i * 7 + root : 0;
            TRY(comm_broadcast(comm, numbers, count * sizeof *numbers, root));
            for (size_t i = 0; i < count; i++)
                CHECK(numbers[i] == i * 7 + root);
        }
    uint64_t own[3] = {rank, rank * 2, 5};
    TRY(comm_gather(comm, own, sizeof own, numbers));
    for (unsigned i = 0; i < size; i++)
        CHECK(numbers[3 * i] == i && numbers[3 * i + 1] == 2 * i && numbers[3 * i + 2] == 5);
    return OK;
}

static struct status places(struct comm *comm)
{
    CHECK(comm_rank(comm) < comm_size(comm));
    CHECK(comm_nodes(comm) == 1);
    CHECK(comm_local_size(comm) == comm_size(comm));
    CHECK(comm_local_rank(comm) == comm_rank(comm));
    CHECK(comm_size(comm) == 1 || strcmp(comm_description(comm), "TCP (torchrun)") == 0);
    return OK;
}

/* Nobody passes before all have come. */
static struct status barriers(struct comm *comm)
{
    for (unsigned turn = 1; turn <= 20; turn++) {
        poll(NULL, 0, (int)((turn + comm_rank(comm)) % 3));
        shared->arrived++;
        TRY(comm_barrier(comm));
        CHECK(shared->arrived >= turn * comm_size(comm));
        TRY(comm_barrier(comm));
    }
    return OK;
}

static void values_are_exact(void **state)
{
    (void)state;
    for (unsigned size = 1; size <= RANKS_MAX; size++) {
        run_all(size, sums_f32);
        run_all(size, others);
        run_all(size, places);
        shared->arrived = 0;
        run_all(size, barriers);
    }
}

/* Numbers whose sum depends on its order; ranks come late in another way each time. */
static struct status sum_rounded(struct comm *comm, unsigned turn)
{
    enum { MANY = 50021 };
    const unsigned rank = comm_rank(comm);
    CLEANUP(memory_free) float *values = NULL;
    TRY(memory_alloc(MANY, sizeof *values, &values));
    struct random_stream stream = random_stream_make(11, RANDOM_TEST, rank, 0);
    for (size_t i = 0; i < MANY; i++)
        values[i] = (float)random_normal(&stream) * (i % 2 ? 1e4F : 1e-3F);
    poll(NULL, 0, (int)((rank * 7 + turn * 5) % 4) * 20);
    TRY(comm_sum_f32(comm, values, 1000)); /* the star */
    TRY(comm_sum_f32(comm, values + 1000, MANY - 1000));
    digest_sha256_bytes(values, MANY * sizeof *values, shared->digests[turn][rank]);
    return OK;
}

static struct status sum_rounded_first(struct comm *comm)
{
    return sum_rounded(comm, 0);
}

static struct status sum_rounded_again(struct comm *comm)
{
    return sum_rounded(comm, 1);
}

static void same_bits_everywhere(void **state)
{
    (void)state;
    for (unsigned size = 2; size <= RANKS_MAX; size++) {
        run_all(size, sum_rounded_first);
        run_all(size, sum_rounded_again);
        for (unsigned turn = 0; turn < 2; turn++)
            for (unsigned rank = 0; rank < size; rank++)
                assert_memory_equal(shared->digests[turn][rank], shared->digests[0][0],
                                    SHA256_BYTES);
    }
}

/* --- Ranks that are lost --- */

static unsigned victim;

static struct status sum_forever(struct comm *comm, void (*end)(struct comm *comm))
{
    enum { MANY = 200000 };
    CLEANUP(memory_free) float *values = NULL;
    TRY(memory_alloc(MANY, sizeof *values, &values));
    for (unsigned turn = 0;; turn++) {
        if (turn == 5 && comm_rank(comm) == victim)
            end(comm);
        TRY(comm_sum_f32(comm, values, turn % 2 ? MANY : 10));
    }
}

static void die(struct comm *comm)
{
    (void)comm;
    raise(SIGKILL);
}

static void stand_still(struct comm *comm)
{
    (void)comm;
    raise(SIGSTOP);
}

static void give_up(struct comm *comm)
{
    comm_abort(comm, STATUS_IO, "the disk is full");
}

static void refuse(struct comm *comm)
{
    comm_abort(comm, STATUS_USAGE, "the place is taken");
}

/* Alive, but busy until the others are lost. */
static void dawdle(struct comm *comm)
{
    struct status status = OK;
    while ((status = comm_check(comm)).code == STATUS_DONE)
        poll(NULL, 0, 10);
    status_ignore(status);
}

static void hang(struct comm *comm)
{
    (void)comm;
    for (;;)
        pause();
}

static struct status with_death(struct comm *comm)
{
    return sum_forever(comm, die);
}

static struct status with_stop(struct comm *comm)
{
    return sum_forever(comm, stand_still);
}

static struct status with_abort(struct comm *comm)
{
    return sum_forever(comm, give_up);
}

static struct status with_refusal(struct comm *comm)
{
    return sum_forever(comm, refuse);
}

static struct status with_dawdling(struct comm *comm)
{
    return sum_forever(comm, dawdle);
}

static struct status with_hang(struct comm *comm)
{
    return sum_forever(comm, hang);
}

static struct status with_leaving(struct comm *comm)
{
    return comm_rank(comm) == victim ? OK : sum_forever(comm, die);
}

static void assert_says(struct rank_end end, const char *part)
{
    if (!strstr(end.message, part))
        fail_msg("'%s' does not say '%s'", end.message, part);
}

/* All but the victim leave with the status, naming it and why. */
static void others_leave(struct ranks *ranks, int status, const char *why)
{
    char name[32];
    snprintf(name, sizeof name, "rank %u on ", victim);
    for (unsigned rank = 0; rank < ranks->size; rank++) {
        if (rank == victim)
            continue;
        struct rank_end end = ranks_wait(ranks, rank);
        assert_says(end, name);
        assert_says(end, why);
        assert_int_equal(end.status, status);
    }
}

static void others_name_victim(struct ranks *ranks, const char *why)
{
    others_leave(ranks, 1, why);
}

static void killed(void **state)
{
    (void)state;
    for (unsigned size = 2; size <= RANKS_MAX; size++)
        for (victim = 0; victim < size; victim++) {
            struct ranks ranks;
            ranks_begin(&ranks, size, patient);
            ranks_start_all(&ranks, with_death);
            others_name_victim(&ranks, "closed without a word");
            assert_int_equal(ranks_wait(&ranks, victim).status, -SIGKILL);
        }
}

static void stopped(void **state)
{
    (void)state;
    for (victim = 0; victim < 3; victim++) {
        struct ranks ranks;
        ranks_begin(&ranks, 3, (struct comm_options){.join_timeout_s = 60, .silence_timeout_s = 2});
        ranks_start_all(&ranks, with_stop);
        others_name_victim(&ranks, "nothing was heard of it for ");
        kill(ranks.pids[victim], SIGCONT);
        assert_int_equal(ranks_wait(&ranks, victim).status, 1);
    }
}

/* Each of three in turn gives up; all leave with the status. */
static void check_giving_up(rank_fn *run, int status, const char *why)
{
    for (victim = 0; victim < 3; victim++) {
        struct ranks ranks;
        ranks_begin(&ranks, 3, patient);
        ranks_start_all(&ranks, run);
        others_leave(&ranks, status, why);
        assert_int_equal(ranks_wait(&ranks, victim).status, status);
    }
}

static void gave_up(void **state)
{
    (void)state;
    check_giving_up(with_abort, 1, "gave up: the disk is full");
}

/* What is wrong usage of one is that of all. */
static void refused(void **state)
{
    (void)state;
    check_giving_up(with_refusal, 2, "gave up: the place is taken");
}

static void left_early(void **state)
{
    (void)state;
    for (victim = 0; victim < 3; victim++) {
        struct ranks ranks;
        ranks_begin(&ranks, 3, patient);
        ranks_start_all(&ranks, with_leaving);
        others_name_victim(&ranks, "has left");
        assert_int_equal(ranks_wait(&ranks, victim).status, 0);
    }
}

static void hung_though_alive(void **state)
{
    (void)state;
    const struct comm_options options = {.join_timeout_s = 60,
                                         .silence_timeout_s = 3,
                                         .stall_timeout_s = 2};
    for (victim = 0; victim < 3; victim++) {
        struct ranks ranks;
        ranks_begin(&ranks, 3, options);
        ranks_start_all(&ranks, with_dawdling);
        others_name_victim(&ranks, "hangs: it lives, but for ");
        struct rank_end end = ranks_wait(&ranks, victim);
        assert_int_equal(end.status, 1);
        assert_says(end, "hangs");
    }
    /* Its watch thread ends it. */
    victim = 1;
    struct ranks ranks;
    ranks_begin(&ranks, 2, options);
    ranks_start_all(&ranks, with_hang);
    others_name_victim(&ranks, "hangs: it lives, but for ");
    assert_int_equal(ranks_wait(&ranks, victim).status, 1);
}

/* --- Joining --- */

static struct status meet(struct comm *comm)
{
    return comm_barrier(comm);
}

static void late_and_missing(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 3, patient);
    ranks_start(&ranks, 2, 3, meet);
    poll(NULL, 0, 300);
    ranks_start(&ranks, 0, 3, meet);
    poll(NULL, 0, 300);
    ranks_start(&ranks, 1, 3, meet);
    all_succeed(&ranks);

    ranks_begin(&ranks, 4, (struct comm_options){.join_timeout_s = 3});
    ranks_start(&ranks, 0, 4, meet);
    ranks_start(&ranks, 2, 4, meet);
    struct rank_end end = ranks_wait(&ranks, 0);
    assert_says(end, "2 of 4 ranks did not come within 3 s: rank 1, 3;");
    assert_int_equal(end.status, 1);
    end = ranks_wait(&ranks, 2);
    assert_says(end, "rank 2 on ");
    assert_int_equal(end.status, 1);

    ranks_begin(&ranks, 2, (struct comm_options){.join_timeout_s = 1});
    ranks_start(&ranks, 1, 2, meet);
    end = ranks_wait(&ranks, 1);
    assert_says(end, "did not find rank 0 within 1 s: 127.0.0.1, port ");
    assert_int_equal(end.status, 1);
}

/* Starts a rank whose stderr is added to what the ranks have said. */
static void start_heard(struct ranks *ranks, unsigned rank, unsigned world)
{
    CLEANUP(fd_close) int said = open(test_path("said"), O_RDWR | O_CREAT | O_APPEND, 0600);
    CLEANUP(fd_close) int saved = dup(STDERR_FILENO);
    assert_true(said >= 0 && saved >= 0);
    dup2(said, STDERR_FILENO);
    ranks_start(ranks, rank, world, meet);
    dup2(saved, STDERR_FILENO);
}

/* How often the ranks have said it. */
static unsigned said_count(const char *part)
{
    CLEANUP(buffer_done) struct buffer said = {0};
    const char *at;
    unsigned count = 0;
    assert_ok(file_read_all(test_path("said"), 1 << 20, &said));
    assert_ok(buffer_text(&said, &at));
    while ((at = strstr(at, part))) {
        at += strlen(part);
        count++;
    }
    return count;
}

static void await_said(const char *part)
{
    while (!said_count(part))
        poll(NULL, 0, 10);
}

/* Each rank that waits says once for whom. */
static void waits_aloud(void **state)
{
    (void)state;
    struct comm_options impatient = patient;
    impatient.join_notice_ms = 50;
    struct ranks ranks;
    ranks_begin(&ranks, 4, impatient);
    start_heard(&ranks, 1, 4);
    await_said(" waits for rank 0, which it calls at 127.0.0.1, port ");
    start_heard(&ranks, 0, 4);
    await_said(" of 4 ranks: rank ");
    start_heard(&ranks, 2, 4);
    await_said(" has reached rank 0 and waits for other ranks, ");
    start_heard(&ranks, 3, 4);
    all_succeed(&ranks);
    assert_int_equal(said_count(" of 4 ranks: rank "), 1);
    assert_int_equal(said_count("2, 3; it goes on waiting for "), 1);
    assert_int_equal(said_count("note: rank 1 on "), 1);
    assert_int_equal(said_count("note: rank 2 on "), 1);
}

/* The address of a misspelt host is asked for again, but that there is none is said at once. */
static void host_unknown(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 2, patient);
    setenv("MASTER_ADDR", "no..host", 1); /* no resolver needs to be asked */
    start_heard(&ranks, 1, 2);
    await_said("'no..host' is the name of no host; it tries again for ");
    kill(ranks.pids[1], SIGKILL);
    assert_int_equal(ranks_wait(&ranks, 1).status, -SIGKILL);

    ranks_begin(&ranks, 2, (struct comm_options){.join_timeout_s = 1});
    setenv("MASTER_ADDR", "no..host", 1);
    start_heard(&ranks, 1, 2);
    struct rank_end end = ranks_wait(&ranks, 1);
    assert_says(end, "did not find rank 0 within 1 s: no..host, port ");
    assert_int_equal(end.status, 1);
}

static void contradictions(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 2, patient);
    ranks_start(&ranks, 0, 2, meet);
    ranks_start(&ranks, 1, 3, meet);
    struct rank_end first = ranks_wait(&ranks, 0), second = ranks_wait(&ranks, 1);
    assert_says(first, "was told that the job has 3 processes, but rank 0 was told 2");
    assert_int_equal(first.status, 2);
    assert_says(second, "was told that the job has 2 processes, but rank 1 was told 3");
    assert_int_equal(second.status, 2);

    ranks_begin(&ranks, 3, (struct comm_options){.join_timeout_s = 5});
    ranks_start(&ranks, 0, 3, meet);
    ranks_start(&ranks, 1, 3, meet);
    struct ranks twins = ranks;
    ranks_start(&twins, 1, 3, meet);
    first = ranks_wait(&ranks, 0);
    assert_says(first, "two processes say that they are rank 1");
    assert_int_equal(first.status, 2);
    assert_int_equal(ranks_wait(&ranks, 1).status, 1);
    assert_int_equal(ranks_wait(&twins, 1).status, 1);
}

/* Rank 1 comes to the call when it is let. */
static struct status stops_while_it_starts(struct comm *comm)
{
    stop_install();
    atomic_fetch_add(&shared->arrived, 1);
    while (comm_rank(comm) == 1 && !shared->released)
        poll(NULL, 0, 10);
    return comm_barrier(comm);
}

/* Later, all agree on a stop in calls like this one. */
static struct status stops_afterwards(struct comm *comm)
{
    stop_install();
    comm_start_ends(comm);
    atomic_fetch_add(&shared->arrived, 1);
    while (!stop_requested())
        poll(NULL, 0, 10);
    return comm_barrier(comm);
}

static void await_arrivals(unsigned count)
{
    while (shared->arrived < count)
        poll(NULL, 0, 10);
}

static void asked_to_stop(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 2, patient);
    shared->arrived = shared->released = 0;
    ranks_start_all(&ranks, stops_while_it_starts);
    await_arrivals(2);
    kill(ranks.pids[0], SIGTERM);
    struct rank_end first = ranks_wait(&ranks, 0);
    shared->released = 1;
    struct rank_end second = ranks_wait(&ranks, 1);
    assert_says(first, "stopped on request");
    assert_says(second, "stopped on request");
    assert_int_equal(first.status, 75);
    assert_int_equal(second.status, 75);

    ranks_begin(&ranks, 2, patient);
    shared->arrived = 0;
    ranks_start_all(&ranks, stops_afterwards);
    await_arrivals(2);
    kill(ranks.pids[1], SIGTERM);
    all_succeed(&ranks);
}

/* The ports at which the job that ranks_begin named will meet. */
static struct launch job_ports(void)
{
    struct launch launch;
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    assert_ok(launch_detect(LAUNCHER_AUTO, &launch));
    launch_done(&launch);
    return launch;
}

static void ports_in_use(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 2, patient);
    struct launch launch = job_ports();
    /* A stranger there who closes on each caller, one who says something else and a silent one. */
    int strangers[2];
    uint16_t port;
    for (unsigned i = 0; i < 2; i++)
        assert_ok(socket_listen(true, launch.ports[i], &strangers[i], &port));
    ranks_start_all(&ranks, meet);
    int caller = -1;
    assert_ok(socket_accept(strangers[0], clock_ms() + 60000, &caller));
    socket_close(caller);
    assert_ok(socket_accept(strangers[1], clock_ms() + 60000, &caller));
    static const char chatter[4096] = "HTTP/1.1 400 Bad Request\r\n";
    assert_ok(socket_write(caller, chatter, sizeof chatter, clock_ms() + 60000, "chatter"));
    all_succeed(&ranks);
    socket_close(caller);

    ranks_begin(&ranks, 2, patient);
    char number[16];
    snprintf(number, sizeof number, "%u", (unsigned)port);
    setenv("HEADRACE_PORT", number, 1);
    ranks_start(&ranks, 0, 2, meet);
    struct rank_end end = ranks_wait(&ranks, 0);
    unsetenv("HEADRACE_PORT");
    for (unsigned i = 0; i < 2; i++)
        socket_close(strangers[i]);
    assert_says(end, "set HEADRACE_PORT to a free one");
    assert_says(end, number);
    assert_int_equal(end.status, 1);
}

/* Who calls rank 0 and is not of the job changes nothing. */
static void strangers_call(void **state)
{
    (void)state;
    struct ranks ranks;
    ranks_begin(&ranks, 2, patient);
    struct launch launch = job_ports();
    ranks_start(&ranks, 0, 2, meet);
    const int64_t until_ms = clock_ms() + 60000;
    struct random_stream stream = random_stream_make(3, RANDOM_TEST, 0, 0);
    uint8_t garbage[8192], banner[256];
    int silent = -1;
    for (unsigned turn = 0; turn < 20; turn++) {
        int fd = -1;
        struct status connected = OK;
        do {
            status_ignore(connected);
            connected = socket_connect("127.0.0.1", launch.ports[0], until_ms, &fd);
        } while (connected.code != STATUS_DONE && clock_ms() < until_ms);
        assert_ok(connected);
        for (size_t i = 0; i < sizeof garbage; i++)
            garbage[i] = (uint8_t)random_below(&stream, 256);
        size_t length = (size_t)random_below(&stream, sizeof garbage);
        /* Half of them begin as rank 0 itself does. */
        ssize_t echoed = 0;
        if (turn % 2) {
            assert_ok(socket_wait(fd, POLLIN, until_ms, "the banner"));
            echoed = recv(fd, banner, sizeof banner, 0);
            assert_true(echoed > 0);
            memcpy(garbage, banner, (size_t)echoed / 2);
        }
        status_ignore(socket_write(fd, garbage, length, until_ms, "garbage"));
        socket_close(fd);
    }
    assert_ok(socket_connect("127.0.0.1", launch.ports[0], until_ms, &silent));
    ranks_start(&ranks, 1, 2, meet);
    all_succeed(&ranks);
    socket_close(silent);
}

static int shared_open(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone),
        cmocka_unit_test(values_are_exact),
        cmocka_unit_test(same_bits_everywhere),
        cmocka_unit_test(killed),
        cmocka_unit_test(stopped),
        cmocka_unit_test(gave_up),
        cmocka_unit_test(refused),
        cmocka_unit_test(left_early),
        cmocka_unit_test(hung_though_alive),
        cmocka_unit_test(late_and_missing),
        cmocka_unit_test(waits_aloud),
        cmocka_unit_test(host_unknown),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(asked_to_stop),
        cmocka_unit_test(ports_in_use),
        cmocka_unit_test(strangers_call),
    };
    return cmocka_run_group_tests(tests, shared_open, NULL);
}
