#include "train/module.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "train/comm_internal.h"

const char *const device_names[] = {"auto", "cpu", "cuda", "reference", NULL};

/* Where modules may stand, as seen from the program's folder: a build, an installation. */
static const char *const module_folders[] = {".", "../lib/headrace"};

/* Sets *ret_path to the file in `folder` if it is there, else adds the folder to the text of those
 * looked in. */
static struct status folder_try(const char *folder, const char *file, struct buffer *looked_in,
                                char **ret_path)
{
    CLEANUP(memory_free) char *path = NULL;
    TRY(path_join(folder, file, &path));
    if (!path_exists(path))
        return buffer_append_text(looked_in, "%s%s", looked_in->length ? ", " : "", folder);
    *ret_path = MOVE(path);
    return OK;
}

/* The path of a module's file, NULL where there is none; the folders without it are added to
 * `looked_in`. */
static struct status module_locate(const char *file, struct buffer *looked_in, char **ret_path)
{
    *ret_path = NULL;
    const char *chosen = getenv("HEADRACE_MODULES");
    if (chosen && *chosen)
        return folder_try(chosen, file, looked_in, ret_path);
    CLEANUP(memory_free) char *beside = NULL;
    TRY(path_program_folder(&beside));
    for (size_t i = 0; i < ARRAY_LENGTH(module_folders) && !*ret_path; i++) {
        CLEANUP(memory_free) char *folder = NULL;
        TRY(path_join(beside, module_folders[i], &folder));
        TRY(folder_try(folder, file, looked_in, ret_path));
    }
    return OK;
}

/* GNU's OpenMP reads this once, as it is loaded. Threads that wait for each other spin for some 100
 * µs and then sleep; its own choice, to spin for milliseconds, takes the cores from the loader's
 * threads. */
static void openmp_prepare(void)
{
    if (!getenv("OMP_WAIT_POLICY"))
        setenv("GOMP_SPINCOUNT", "2000", 0);
}

/* Sets *ret_entry, a pointer to a function, to the module's entry. */
static struct status entry_load(const char *path, const char *symbol, void *ret_entry)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        FAIL(STATUS_FAILED, "cannot load the module %s: %s", path, dlerror());
    void *entry = dlsym(handle, symbol);
    if (!entry)
        FAIL(STATUS_CORRUPT, "%s is not a headrace module: it has no %s", path, symbol);
    memcpy(ret_entry, &entry, sizeof entry); /* C has no cast between objects and functions */
    return OK;
}

static struct status build_check(const char *path, const char *build_id)
{
    if (strcmp(build_id, HEADRACE_BUILD_ID) != 0)
        FAIL(STATUS_UNSUPPORTED,
             "the module %s belongs to build %s, but this program is build %s: build or install "
             "both together",
             path, build_id, HEADRACE_BUILD_ID);
    return OK;
}

static struct status module_load(const char *path, const struct backend_module **ret_module)
{
    backend_entry_fn *entry = NULL;
    openmp_prepare();
    TRY(entry_load(path, BACKEND_ENTRY_SYMBOL, &entry));
    TRY(build_check(path, entry()->build_id));
    *ret_module = entry();
    return OK;
}

struct status module_find_mpi(const struct mpi_module **ret_module)
{
    CLEANUP(buffer_done) struct buffer looked_in = {0};
    CLEANUP(memory_free) char *path = NULL;
    mpi_entry_fn *entry = NULL;
    *ret_module = NULL;
    TRY(module_locate("headrace-mpi.so", &looked_in, &path));
    if (!path)
        return OK;
    TRY(entry_load(path, MPI_ENTRY_SYMBOL, &entry));
    TRY(build_check(path, entry()->build_id));
    *ret_module = entry();
    return OK;
}

/* The module in `file`. Fails with STATUS_NOT_FOUND, the folders looked in and `remedy` where it is
 * not; with `optional` *ret_module is NULL then. */
static struct status module_open(const char *file, const char *remedy, bool optional,
                                 const struct backend_module **ret_module)
{
    CLEANUP(buffer_done) struct buffer looked_in = {0};
    CLEANUP(memory_free) char *path = NULL;
    const char *folders;
    *ret_module = NULL;
    TRY(module_locate(file, &looked_in, &path));
    if (path)
        return module_load(path, ret_module);
    if (optional)
        return OK;
    TRY(buffer_text(&looked_in, &folders));
    FAIL(STATUS_NOT_FOUND, "there is no %s in %s: %s", file, folders, remedy);
}

static struct status cpu_open(bool optional, const struct backend_module **ret_module)
{
    return module_open("headrace-cpu.so",
                       "build it with scripts/setup.sh and make, or use --device reference",
                       optional, ret_module);
}

static struct status cuda_open(const struct backend_module **ret_module)
{
    return module_open("headrace-cuda.so",
                       "build it with make where the CUDA toolkit, cuDNN and NCCL are, or use "
                       "--device cpu",
                       false, ret_module);
}

/* Whether a variable names devices; some launchers write -1 or NoDevFiles for none. */
static bool names_devices(const char *value)
{
    return value && *value && strcmp(value, "-1") != 0 && strcmp(value, "NoDevFiles") != 0;
}

/* What says that an NVIDIA device is there or was given to this job; NULL: nothing does. */
static const char *nvidia_sign(void)
{
    static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS",
                                            "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE"};
    static const char driver[] = "/dev/nvidiactl";
    for (size_t i = 0; i < ARRAY_LENGTH(variables); i++)
        if (names_devices(getenv(variables[i])))
            return variables[i];
    return path_exists(driver) ? driver : NULL;
}

/* The GPU where anything says that there is one, and then it must work: a run that quietly computed
 * on the CPU would take weeks. Else the CPU, by plain loops where its module is not built. */
static struct status auto_find(const struct backend_module **ret_module)
{
    const char *hidden = getenv("CUDA_VISIBLE_DEVICES"), *sign = nvidia_sign();
    if (hidden && !names_devices(hidden)) {
        log_note("CUDA_VISIBLE_DEVICES hides all GPUs, so the CPU computes");
    } else if (sign) {
        log_note("%s speaks of an NVIDIA device, so it computes; --device cpu leaves it alone",
                 sign);
        return cuda_open(ret_module);
    }
    TRY(cpu_open(true, ret_module));
    if (*ret_module)
        return OK;
    log_note("headrace-cpu.so was not found, so the plain loops of the reference backend compute, "
             "which is many times slower; scripts/setup.sh and make build it");
    *ret_module = reference_backend_module();
    return OK;
}

struct status module_find(const char *device, const struct backend_module **ret_module)
{
    if (strcmp(device, "auto") == 0)
        return auto_find(ret_module);
    if (strcmp(device, "cpu") == 0)
        return cpu_open(false, ret_module);
    if (strcmp(device, "cuda") == 0)
        return cuda_open(ret_module);
    if (strcmp(device, "reference") == 0) {
        *ret_module = reference_backend_module();
        return OK;
    }
    FAIL(STATUS_USAGE, "unknown device '%s': one of auto, cpu, cuda, reference was expected",
         device);
}
