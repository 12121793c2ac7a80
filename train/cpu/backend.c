/* The oneDNN backend: its module's one entry, and the table behind it. */

#include <omp.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/pool.h"
#include "train/cpu/plan.h"

void backend_enter(const struct backend *backend)
{
    omp_set_num_threads((int)backend->threads);
}

void backend_close(struct backend *backend)
{
    if (!backend)
        return;
    onednn_close(backend->onednn);
    memory_free(backend);
}

static struct status dtype_choose(enum train_dtype asked, enum train_dtype *ret_dtype)
{
    if (asked == DTYPE_BF16 && !cpu_has_avx512_bf16())
        FAIL(STATUS_UNSUPPORTED, "bf16 on the CPU needs a processor with AMX or AVX512-BF16, which "
                                 "this one lacks: use f32");
    if (asked != DTYPE_AUTO && asked != DTYPE_F32 && asked != DTYPE_BF16)
        FAIL(STATUS_UNSUPPORTED, "the cpu backend computes in f32 or bf16, not in %s",
             asked == DTYPE_FP16 ? "fp16" : "tf32");
    /* Without AMX, bf16 is slower than f32. */
    if (asked == DTYPE_AUTO)
        asked = cpu_has_amx_bf16() ? DTYPE_BF16 : DTYPE_F32;
    *ret_dtype = asked;
    return OK;
}

struct status backend_open(const struct backend_config *config, struct backend **ret_backend)
{
    CLEANUP(backend_close) struct backend *backend = NULL;
    TRY(memory_alloc(1, sizeof *backend, &backend));
    TRY(dtype_choose(config->dtype, &backend->dtype));
    /* OpenMP's threads wait for each other by spinning: more of them than cores would only be in
     * the way. */
    unsigned cores = cores_available();
    backend->threads = config->threads > 0 && config->threads < cores ? config->threads : cores;
    backend->kernels = kernels_find(cpu_level(), backend->dtype);
    if (config->comm && comm_size(config->comm) > 1) {
        backend->comm = config->comm;
        backend->sync_bn = config->sync_bn;
    }
    backend->forecast = config->forecast;
    if (config->forecast_device)
        FAIL(STATUS_USAGE, "the cpu backend computes on this machine only: leave the name of a "
                           "device out");
    TRY(onednn_open(&backend->onednn));
    *ret_backend = MOVE(backend);
    return OK;
}

enum train_dtype backend_dtype(const struct backend *backend)
{
    return backend->dtype;
}

unsigned backend_replicas(const struct backend *backend)
{
    (void)backend;
    return 1;
}

struct status backend_describe(const struct backend *backend, struct buffer *text)
{
    const char *engine = backend->dtype == DTYPE_F32 ? cpu_level_name(cpu_level())
                         : cpu_has_amx_bf16()        ? "AMX"
                                                     : "AVX512-BF16";
    TRY(buffer_append_text(text, "cpu: %u thread%s, %s (%s), ", backend->threads,
                           backend->threads == 1 ? "" : "s",
                           backend->dtype == DTYPE_F32 ? "f32" : "bf16", engine));
    return onednn_describe(text);
}

void backend_input_format(const struct backend *backend, struct tensor_format *format)
{
    format->type = backend->dtype == DTYPE_F32 ? TENSOR_F32 : TENSOR_BF16;
    format->layout = TENSOR_NHWC;
}

void backend_memory(const struct backend *backend, struct memory_use *ret_use)
{
    *ret_use = backend->use;
    ret_use->capacity_bytes = memory_installed_bytes();
    ret_use->on_host = true;
}

BACKEND_MODULE("cpu", NULL, NULL)
