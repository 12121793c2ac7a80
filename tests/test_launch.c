#include "tests/test.h"

#include "train/launch.h"

static const char *const variables[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "HEADRACE_PORT",
};

/* The environment is these settings ("NAME=value", ends in NULL) and no other of a launcher. */
static void environment(const char *const *settings)
{
    for (size_t i = 0; i < ARRAY_LENGTH(variables); i++)
        unsetenv(variables[i]);
    for (; *settings; settings++) {
        char name[64];
        const char *equals = strchr(*settings, '=');
        snprintf(name, sizeof name, "%.*s", (int)(equals - *settings), *settings);
        setenv(name, equals + 1, 1);
    }
}
#define ENVIRONMENT(...) environment((const char *const[]){__VA_ARGS__, NULL})

static struct launch detect(enum launcher wanted)
{
    struct launch launch;
    assert_ok(launch_detect(wanted, &launch));
    return launch;
}

static void alone_without_variables(void **state)
{
    (void)state;
    ENVIRONMENT(NULL);
    struct launch launch = detect(LAUNCHER_AUTO);
    assert_int_equal(launch.launcher, LAUNCHER_ALONE);
    assert_int_equal(launch.size, 1);
    assert_null(launch.host);
    assert_fails(launch_detect(LAUNCHER_SLURM, &launch), STATUS_USAGE, "--launcher slurm");
    /* Set to nothing is not set. */
    ENVIRONMENT("RANK=", "WORLD_SIZE=");
    assert_int_equal(detect(LAUNCHER_AUTO).launcher, LAUNCHER_ALONE);
}

#define TORCHRUN                                                                                   \
    "RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=node7",           \
        "MASTER_PORT=29500"

static void torchrun(void **state)
{
    (void)state;
    ENVIRONMENT(TORCHRUN, "TORCHELASTIC_RUN_ID=none", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2");
    CLEANUP(launch_done) struct launch launch = detect(LAUNCHER_AUTO);
    assert_int_equal(launch.launcher, LAUNCHER_TORCHRUN);
    assert_int_equal(launch.rank, 5);
    assert_int_equal(launch.size, 8);
    assert_int_equal(launch.local_rank, 1);
    assert_int_equal(launch.local_size, 4);
    assert_string_equal(launch.host, "node7");
    assert_string_equal(launch.size_variable, "WORLD_SIZE");
}

/* torchrun's agent holds MASTER_PORT, wherever that lies. */
static void never_the_master_port(void **state)
{
    (void)state;
    for (unsigned port = 20000; port < 32100; port += 7) {
        char setting[32];
        snprintf(setting, sizeof setting, "MASTER_PORT=%u", port);
        ENVIRONMENT("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=localhost", setting);
        CLEANUP(launch_done) struct launch launch = detect(LAUNCHER_AUTO);
        assert_int_equal(launch.port_count, LAUNCH_MAX_PORTS);
        for (unsigned i = 0; i < launch.port_count; i++) {
            assert_int_not_equal(launch.ports[i], port);
            assert_in_range(launch.ports[i], 20000, 32767);
        }
    }
    ENVIRONMENT(TORCHRUN, "HEADRACE_PORT=4711");
    CLEANUP(launch_done) struct launch launch = detect(LAUNCHER_AUTO);
    assert_int_equal(launch.port_count, 1);
    assert_int_equal(launch.ports[0], 4711);
    ENVIRONMENT(TORCHRUN, "HEADRACE_PORT=29500");
    struct launch none;
    assert_fails(launch_detect(LAUNCHER_AUTO, &none), STATUS_USAGE, "MASTER_PORT are both 29500");
}

static void open_mpi(void **state)
{
    (void)state;
    /* In a batch script of Slurm, whose variables describe the script's own task. */
    ENVIRONMENT("OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                "OMPI_COMM_WORLD_LOCAL_SIZE=2", "SLURM_PROCID=0", "SLURM_NTASKS=4", "PMIX_RANK=3",
                "PMIX_NAMESPACE=1234");
    CLEANUP(launch_done) struct launch launch = detect(LAUNCHER_AUTO);
    assert_int_equal(launch.launcher, LAUNCHER_MPI);
    assert_int_equal(launch.rank, 3);
    assert_int_equal(launch.size, 4);
    assert_int_equal(launch.local_rank, 1);
    assert_null(launch.host); /* MPI brings them together */
    ENVIRONMENT("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                "OMPI_COMM_WORLD_LOCAL_SIZE=2");
    CLEANUP(launch_done) struct launch local = detect(LAUNCHER_AUTO);
    assert_string_equal(local.host, "127.0.0.1");
}

static void mpich(void **state)
{
    (void)state;
    ENVIRONMENT("PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2");
    CLEANUP(launch_done) struct launch launch = detect(LAUNCHER_AUTO);
    assert_int_equal(launch.launcher, LAUNCHER_MPI);
    assert_int_equal(launch.rank, 1);
    assert_int_equal(launch.local_size, 2);
}

#define SRUN                                                                                       \
    "SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_PROCID=2", "SLURM_LOCALID=0", "SLURM_NTASKS=4",   \
        "SLURM_STEP_NUM_TASKS=4", "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_NODELIST=gpu[07-08]"

static void srun(void **state)
{
    (void)state;
    ENVIRONMENT(SRUN);
    CLEANUP(launch_done) struct launch launch = detect(LAUNCHER_AUTO);
    assert_int_equal(launch.launcher, LAUNCHER_SLURM);
    assert_int_equal(launch.rank, 2);
    assert_int_equal(launch.local_rank, 0);
    assert_int_equal(launch.local_size, -1);
    assert_string_equal(launch.host, "gpu07");
    /* Scripts export these for PyTorch; RANK comes from the tasks themselves. */
    ENVIRONMENT(SRUN, "MASTER_ADDR=head", "MASTER_PORT=29500", "WORLD_SIZE=4");
    CLEANUP(launch_done) struct launch exported = detect(LAUNCHER_AUTO);
    assert_int_equal(exported.launcher, LAUNCHER_SLURM);
    assert_string_equal(exported.host, "head");
    ENVIRONMENT(SRUN, "PMIX_RANK=2", "PMIX_NAMESPACE=slurm.pmix.77.0");
    CLEANUP(launch_done) struct launch pmix = detect(LAUNCHER_AUTO);
    assert_int_equal(pmix.launcher, LAUNCHER_MPI);
    assert_int_equal(pmix.size, 4);
    ENVIRONMENT("SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_NUM_NODES=1");
    CLEANUP(launch_done) struct launch older = detect(LAUNCHER_AUTO);
    assert_int_equal(older.size, 2);
    assert_string_equal(older.host, "127.0.0.1");
}

static void assert_refused(const char *part)
{
    struct launch launch = {0};
    assert_fails(launch_detect(LAUNCHER_AUTO, &launch), STATUS_USAGE, part);
}

/* Several tasks are promised, and this process is none of them. */
static void promised_tasks(void **state)
{
    (void)state;
    ENVIRONMENT("SLURM_JOB_ID=77", "SLURM_PROCID=0", "SLURM_NTASKS=16");
    assert_refused("SLURM_NTASKS says 16 tasks");
    assert_int_equal(detect(LAUNCHER_ALONE).size, 1);
    ENVIRONMENT("SLURM_JOB_ID=77", "SLURM_PROCID=0", "SLURM_NTASKS=1");
    assert_int_equal(detect(LAUNCHER_AUTO).size, 1);
    const char *const promises[][2] = {
        {"SLURM_NTASKS=x", "SLURM_NTASKS says x tasks"},
        {"SLURM_NPROCS=4", "SLURM_NPROCS says 4 tasks"},
        {"WORLD_SIZE=4", "RANK is not set"},
        {"RANK=1", "WORLD_SIZE is not set"},
        {"LOCAL_WORLD_SIZE=2", "RANK is not set"},
        {"LOCAL_RANK=1", "RANK is not set"},
        {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE is not set"},
        {"MV2_COMM_WORLD_SIZE=2", "MVAPICH2"},
        {"MV2_COMM_WORLD_RANK=1", "MVAPICH2"},
        {"PMI_SIZE=2", "PMI_RANK is not set"},
        {"PMI_RANK=1", "PMI_SIZE is not set"},
        {"PMIX_RANK=1", "no size is set"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(promises); i++) {
        ENVIRONMENT(promises[i][0]);
        assert_refused(promises[i][1]);
        assert_int_equal(detect(LAUNCHER_ALONE).size, 1);
    }
    ENVIRONMENT("RANK=0", "LOCAL_RANK=0", "PMI_RANK=0", "LOCAL_WORLD_SIZE=1");
    assert_int_equal(detect(LAUNCHER_AUTO).size, 1);
    ENVIRONMENT("RANK=0", "WORLD_SIZE=4");
    assert_refused("MASTER_ADDR is not set");
}

static void wrong_variables(void **state)
{
    (void)state;
    const struct {
        const char *setting, *part;
    } cases[] = {
        {"RANK=x", "RANK is 'x', but a whole number from 0 to 7"},
        {"RANK=8", "RANK is '8', but a whole number from 0 to 7"},
        {"RANK=-1", "RANK is '-1'"},
        {"RANK=1 ", "RANK is '1 '"},
        {"RANK=18446744073709551616", "RANK is '1844"},
        {"WORLD_SIZE=0", "WORLD_SIZE is '0', but a whole number from 1 to 4096"},
        {"WORLD_SIZE=eight", "WORLD_SIZE is 'eight'"},
        {"WORLD_SIZE=4097", "WORLD_SIZE is '4097'"},
        {"LOCAL_RANK=4", "LOCAL_RANK is '4', but a whole number from 0 to 3"},
        {"LOCAL_WORLD_SIZE=9", "LOCAL_WORLD_SIZE is '9', but a whole number from 1 to 8"},
        {"MASTER_PORT=65536", "MASTER_PORT is '65536', but a whole number from 1 to 65535"},
        {"HEADRACE_PORT=http", "HEADRACE_PORT is 'http'"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        ENVIRONMENT(TORCHRUN, cases[i].setting);
        assert_refused(cases[i].part);
    }
    ENVIRONMENT("TORCHELASTIC_RUN_ID=none", "RANK=0");
    assert_refused("WORLD_SIZE is not set");
    ENVIRONMENT("OMPI_COMM_WORLD_SIZE=2");
    assert_refused("OMPI_COMM_WORLD_RANK is not set");
}

static void node_lists(void **state)
{
    (void)state;
    const struct {
        const char *list, *first;
    } cases[] = {
        {"vm", "vm"},
        {"a,b", "a"},
        {"gpu[03-05,7],login1", "gpu03"},
        {"gpu[7,9]", "gpu7"},
        {"rack[1-2]node[10-11].cluster", "rack1node10.cluster"},
        {"a-b.c_d", "a-b.c_d"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(memory_free) char *host = NULL;
        assert_ok(launch_first_node(cases[i].list, &host));
        assert_string_equal(host, cases[i].first);
    }
    char longer[300];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    const char *wrong[] = {"", ",a", "gpu[1", "gpu]", "a b", "[", "a/b", longer};
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        char *host = NULL;
        assert_fails(launch_first_node(wrong[i], &host), STATUS_USAGE, "'");
        assert_null(host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_without_variables),
        cmocka_unit_test(torchrun),
        cmocka_unit_test(never_the_master_port),
        cmocka_unit_test(open_mpi),
        cmocka_unit_test(mpich),
        cmocka_unit_test(srun),
        cmocka_unit_test(promised_tasks),
        cmocka_unit_test(wrong_variables),
        cmocka_unit_test(node_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
