#include "train/reference/backend.h"

#include "base/memory.h"
#include "train/module.h"

static void reference_close(struct backend *backend)
{
    if (!backend)
        return;
    pool_close(backend->pool);
    memory_free(backend);
}
CLEANUP_POINTER(reference_close, struct backend)

static struct status reference_open(const struct backend_config *config,
                                    struct backend **ret_backend)
{
    if (config->dtype != DTYPE_AUTO && config->dtype != DTYPE_F32)
        FAIL(STATUS_UNSUPPORTED, "the reference backend computes in f32 only, not in %s",
             train_dtype_names[config->dtype]);
    CLEANUP(reference_close) struct backend *backend = NULL;
    TRY(memory_alloc(1, sizeof *backend, &backend));
    backend->threads = config->threads ? config->threads : cores_available();
    if (config->comm && comm_size(config->comm) > 1) {
        backend->comm = config->comm;
        backend->sync_bn = config->sync_bn;
    }
    TRY(pool_open(backend->threads, &backend->pool));
    *ret_backend = MOVE(backend);
    return OK;
}

static enum train_dtype reference_dtype(const struct backend *backend)
{
    (void)backend;
    return DTYPE_F32;
}

static unsigned reference_replicas(const struct backend *backend)
{
    (void)backend;
    return 1;
}

static struct status reference_describe(const struct backend *backend, struct buffer *text)
{
    return buffer_append_text(text, "reference: %u thread%s, f%zu, plain loops", backend->threads,
                              backend->threads == 1 ? "" : "s", 8 * sizeof(real));
}

static void reference_input_format(const struct backend *backend, struct tensor_format *format)
{
    (void)backend;
    format->type = TENSOR_F32;
    format->layout = TENSOR_NHWC;
}

static const struct backend_ops ops = {
    .open = reference_open,
    .close = reference_close,
    .dtype = reference_dtype,
    .replicas = reference_replicas,
    .describe = reference_describe,
    .input_format = reference_input_format,
    .store_open = reference_store_open,
    .store_close = reference_store_close,
    .store_write = reference_store_write,
    .store_read = reference_store_read,
    .store_begin = reference_store_begin,
    .store_update = reference_store_update,
    .store_progress = reference_store_progress,
    .plan_open = reference_plan_open,
    .plan_close = reference_plan_close,
    .plan_forward_backward = reference_plan_forward_backward,
    .plan_forward = reference_plan_forward,
    .plan_metrics = reference_plan_metrics,
    .plan_logits = reference_plan_logits,
    .plan_bytes = reference_plan_bytes,
};

const struct backend_module *reference_backend_module(void)
{
    static const struct backend_module module = {HEADRACE_BUILD_ID, "reference", &ops};
    return &module;
}
