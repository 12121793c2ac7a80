#include "train/cpu/onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/memory.h"

struct onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

struct layout {
    dnnl_memory_desc_t desc;
};

/* The members of struct operation_tensors, in their order. */
enum { SLOT_INPUT = 0, SLOT_WEIGHTS, SLOT_BIAS, SLOT_OUTPUT, SLOT_SCRATCH, SLOT_COUNT };

struct operation {
    struct onednn *onednn;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    struct layout *weights;
    dnnl_memory_t memories[SLOT_COUNT]; /* without memory of their own; NULL: not an argument */
    int arguments[SLOT_COUNT];          /* DNNL_ARG_… */
};

static struct status onednn_failure(dnnl_status_t status, const char *call)
{
    static const char *const reasons[] = {
        [dnnl_out_of_memory] = "out of memory",
        [dnnl_invalid_arguments] = "invalid arguments",
        [dnnl_unimplemented] = "not implemented",
        [dnnl_last_impl_reached] = "no implementation left",
        [dnnl_runtime_error] = "failure at run time",
        [dnnl_not_required] = "not required",
    };
    const char *reason = (size_t)status < ARRAY_LENGTH(reasons) ? reasons[status] : NULL;
    size_t name_length = strcspn(call, "(");
    FAIL(status == dnnl_out_of_memory   ? STATUS_NO_MEMORY
         : status == dnnl_unimplemented ? STATUS_UNSUPPORTED
                                        : STATUS_FAILED,
         "oneDNN: %.*s: %s", (int)name_length, call, reason ? reason : "unknown failure");
}

#define TRY_DNN(call)                                                                              \
    do {                                                                                           \
        dnnl_status_t dnn_status_ = (call);                                                        \
        if (dnn_status_ != dnnl_success)                                                           \
            return onednn_failure(dnn_status_, #call);                                             \
    } while (0)

/* Scope guards for the library's own handles. */
static void desc_close(dnnl_memory_desc_t desc)
{
    if (desc)
        dnnl_memory_desc_destroy(desc);
}
CLEANUP_POINTER(desc_close, struct dnnl_memory_desc)

static void primitive_desc_close(dnnl_primitive_desc_t desc)
{
    if (desc)
        dnnl_primitive_desc_destroy(desc);
}
CLEANUP_POINTER(primitive_desc_close, struct dnnl_primitive_desc)

static void attr_close(dnnl_primitive_attr_t attr)
{
    if (attr)
        dnnl_primitive_attr_destroy(attr);
}
CLEANUP_POINTER(attr_close, struct dnnl_primitive_attr)

static void post_ops_close(dnnl_post_ops_t ops)
{
    if (ops)
        dnnl_post_ops_destroy(ops);
}
CLEANUP_POINTER(post_ops_close, struct dnnl_post_ops)

struct status onednn_open(struct onednn **ret_onednn)
{
    CLEANUP(onednn_close) struct onednn *onednn = NULL;
    TRY(memory_alloc(1, sizeof *onednn, &onednn));
    /* Refused once the library has looked at the processor by itself, which changes no result. */
    if (cpu_level() < CPU_AVX512)
        (void)dnnl_set_max_cpu_isa(cpu_level() == CPU_AVX2 ? dnnl_cpu_isa_avx2
                                                           : dnnl_cpu_isa_sse41);
    TRY_DNN(dnnl_engine_create(&onednn->engine, dnnl_cpu, 0));
    TRY_DNN(dnnl_stream_create(&onednn->stream, onednn->engine, dnnl_stream_default_flags));
    *ret_onednn = MOVE(onednn);
    return OK;
}

void onednn_close(struct onednn *onednn)
{
    if (!onednn)
        return;
    if (onednn->stream)
        dnnl_stream_destroy(onednn->stream);
    if (onednn->engine)
        dnnl_engine_destroy(onednn->engine);
    memory_free(onednn);
}

struct status onednn_describe(struct buffer *text)
{
    const dnnl_version_t *version = dnnl_version();
    return buffer_append_text(text, "oneDNN %d.%d", version->major, version->minor);
}

/* Takes ownership of `desc`. */
static struct status layout_wrap(dnnl_memory_desc_t desc, struct layout **ret_layout)
{
    CLEANUP(desc_close) dnnl_memory_desc_t owned = desc;
    TRY(memory_alloc(1, sizeof **ret_layout, ret_layout));
    (*ret_layout)->desc = MOVE(owned);
    return OK;
}

static struct status layout_copy_desc(const_dnnl_memory_desc_t from, struct layout **ret_layout)
{
    dnnl_memory_desc_t desc;
    TRY_DNN(dnnl_memory_desc_clone(&desc, from));
    return layout_wrap(desc, ret_layout);
}

struct status layout_clone(const struct layout *from, struct layout **ret_layout)
{
    return layout_copy_desc(from->desc, ret_layout);
}

struct status layout_open_dense(unsigned rank, const uint64_t *shape, struct layout **ret_layout)
{
    dnnl_dims_t dims = {0};
    for (unsigned i = 0; i < rank; i++)
        dims[i] = (dnnl_dim_t)shape[i];
    dnnl_memory_desc_t desc;
    TRY_DNN(dnnl_memory_desc_create_with_tag(&desc, (int)rank, dims, dnnl_f32,
                                             rank == 2 ? dnnl_ab : dnnl_abcd));
    return layout_wrap(desc, ret_layout);
}

void layout_close(struct layout *layout)
{
    if (!layout)
        return;
    desc_close(layout->desc);
    memory_free(layout);
}

size_t layout_bytes(const struct layout *layout)
{
    return dnnl_memory_desc_get_size(layout->desc);
}

bool layout_equal(const struct layout *a, const struct layout *b)
{
    return dnnl_memory_desc_equal(a->desc, b->desc);
}

/* The tensors of a layer as an operation asks for them. */
struct layer_descs {
    dnnl_memory_desc_t input, weights, weights_gradient, bias, output;
};

static void layer_descs_done(struct layer_descs *descs)
{
    desc_close(descs->input);
    desc_close(descs->weights);
    desc_close(descs->weights_gradient);
    desc_close(descs->bias);
    desc_close(descs->output);
}
CLEANUP_VALUE(layer_descs_done, struct layer_descs)

static dnnl_data_type_t data_type(enum train_dtype dtype)
{
    return dtype == DTYPE_BF16 ? dnnl_bf16 : dnnl_f32;
}

static struct status conv_descs_make(const struct conv_config *config, struct layer_descs *descs)
{
    const struct conv_shape *s = &config->shape;
    const dnnl_dims_t input = {s->batch, s->channels_in, s->height, s->width};
    const dnnl_dims_t output = {s->batch, s->channels_out, s->out_height, s->out_width};
    const dnnl_dims_t weights = {s->channels_out, s->channels_in, s->kernel, s->kernel};
    const dnnl_dims_t bias = {s->channels_out};
    dnnl_data_type_t type = data_type(config->dtype);
    TRY_DNN(dnnl_memory_desc_create_with_tag(&descs->input, 4, input, type, dnnl_nhwc));
    TRY_DNN(dnnl_memory_desc_create_with_tag(&descs->output, 4, output, type, dnnl_nhwc));
    TRY_DNN(
        dnnl_memory_desc_create_with_tag(&descs->weights, 4, weights, type, dnnl_format_tag_any));
    TRY_DNN(dnnl_memory_desc_create_with_tag(&descs->weights_gradient, 4, weights, dnnl_f32,
                                             dnnl_format_tag_any));
    if (config->bias)
        TRY_DNN(dnnl_memory_desc_create_with_tag(&descs->bias, 1, bias, dnnl_f32, dnnl_a));
    return OK;
}

static struct status fc_descs_make(const struct fc_config *config, dnnl_data_type_t output_type,
                                   struct layer_descs *descs)
{
    const dnnl_dims_t input = {config->batch, config->in}, output = {config->batch, config->out};
    const dnnl_dims_t weights = {config->out, config->in}, bias = {config->out};
    dnnl_data_type_t type = data_type(config->dtype);
    TRY_DNN(dnnl_memory_desc_create_with_tag(&descs->input, 2, input, type, dnnl_ab));
    TRY_DNN(dnnl_memory_desc_create_with_tag(&descs->output, 2, output, output_type, dnnl_ab));
    TRY_DNN(
        dnnl_memory_desc_create_with_tag(&descs->weights, 2, weights, type, dnnl_format_tag_any));
    TRY_DNN(dnnl_memory_desc_create_with_tag(&descs->weights_gradient, 2, weights, dnnl_f32,
                                             dnnl_format_tag_any));
    TRY_DNN(dnnl_memory_desc_create_with_tag(&descs->bias, 1, bias, dnnl_f32, dnnl_a));
    return OK;
}

/* Scratch memory is the caller's, so that it is shared, in huge pages and touched beforehand. */
static struct status attr_make(enum operation_post post, dnnl_primitive_attr_t *ret_attr)
{
    CLEANUP(attr_close) dnnl_primitive_attr_t attr = NULL;
    CLEANUP(post_ops_close) dnnl_post_ops_t ops = NULL;
    TRY_DNN(dnnl_primitive_attr_create(&attr));
    TRY_DNN(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    TRY_DNN(dnnl_post_ops_create(&ops));
    if (post == POST_ADD_RELU)
        TRY_DNN(dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef));
    if (post != POST_NONE)
        TRY_DNN(dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0, 0));
    TRY_DNN(dnnl_primitive_attr_set_post_ops(attr, ops));
    *ret_attr = MOVE(attr);
    return OK;
}

/* Rows of zeros after the last one: what the output's size needs, which may be less than at the
 * start. */
static dnnl_dim_t padding_after(uint32_t size, uint32_t out_size, const struct conv_shape *shape)
{
    return (dnnl_dim_t)(out_size - 1) * shape->stride + shape->kernel - size - shape->padding;
}

static struct status conv_desc_open(struct onednn *onednn, enum operation_pass pass,
                                    const struct conv_config *config,
                                    const struct layer_descs *descs,
                                    const_dnnl_primitive_attr_t attr,
                                    dnnl_primitive_desc_t *ret_desc)
{
    const struct conv_shape *s = &config->shape;
    const dnnl_dims_t strides = {s->stride, s->stride}, dilation = {0, 0};
    const dnnl_dims_t before = {s->padding, s->padding};
    const dnnl_dims_t after = {padding_after(s->height, s->out_height, s),
                               padding_after(s->width, s->out_width, s)};
    dnnl_prop_kind_t kind = config->bias ? dnnl_forward_inference : dnnl_forward_training;
    CLEANUP(primitive_desc_close) dnnl_primitive_desc_t forward = NULL;
    TRY_DNN(dnnl_convolution_forward_primitive_desc_create(
        &forward, onednn->engine, kind, dnnl_convolution_direct, descs->input, descs->weights,
        descs->bias, descs->output, strides, dilation, before, after, attr));
    if (pass == PASS_FORWARD)
        *ret_desc = MOVE(forward);
    else if (pass == PASS_BACKWARD_DATA)
        TRY_DNN(dnnl_convolution_backward_data_primitive_desc_create(
            ret_desc, onednn->engine, dnnl_convolution_direct, descs->input, descs->weights,
            descs->output, strides, dilation, before, after, forward, attr));
    else
        TRY_DNN(dnnl_convolution_backward_weights_primitive_desc_create(
            ret_desc, onednn->engine, dnnl_convolution_direct, descs->input,
            descs->weights_gradient, NULL, descs->output, strides, dilation, before, after, forward,
            attr));
    return OK;
}

static struct status fc_desc_open(struct onednn *onednn, enum operation_pass pass,
                                  const struct layer_descs *descs, const_dnnl_primitive_attr_t attr,
                                  dnnl_primitive_desc_t *ret_desc)
{
    CLEANUP(primitive_desc_close) dnnl_primitive_desc_t forward = NULL;
    TRY_DNN(dnnl_inner_product_forward_primitive_desc_create(&forward, onednn->engine,
                                                             dnnl_forward_training, descs->input,
                                                             descs->weights, descs->bias,
                                                             descs->output, attr));
    if (pass == PASS_FORWARD)
        *ret_desc = MOVE(forward);
    else if (pass == PASS_BACKWARD_DATA)
        TRY_DNN(dnnl_inner_product_backward_data_primitive_desc_create(
            ret_desc, onednn->engine, descs->input, descs->weights, descs->output, forward, attr));
    else
        TRY_DNN(dnnl_inner_product_backward_weights_primitive_desc_create(
            ret_desc, onednn->engine, descs->input, descs->weights_gradient, NULL, descs->output,
            forward, attr));
    return OK;
}

/* Which query finds each tensor's descriptor, and its argument, in each pass. */
static const struct {
    dnnl_query_t query;
    int argument;
} pass_tensors[][SLOT_COUNT] = {
    [PASS_FORWARD] = {{dnnl_query_src_md, DNNL_ARG_SRC},
                      {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
                      {dnnl_query_weights_md, DNNL_ARG_BIAS},
                      {dnnl_query_dst_md, DNNL_ARG_DST},
                      {dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD}},
    [PASS_BACKWARD_DATA] = {{dnnl_query_diff_src_md, DNNL_ARG_DIFF_SRC},
                            {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
                            {dnnl_query_undef, 0},
                            {dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST},
                            {dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD}},
    [PASS_BACKWARD_WEIGHTS] = {{dnnl_query_src_md, DNNL_ARG_SRC},
                               {dnnl_query_diff_weights_md, DNNL_ARG_DIFF_WEIGHTS},
                               {dnnl_query_undef, 0},
                               {dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST},
                               {dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD}},
};

static struct status operation_add_tensor(struct operation *operation, int tensor,
                                          const_dnnl_memory_desc_t desc, int argument)
{
    operation->arguments[tensor] = argument;
    TRY_DNN(dnnl_memory_create(&operation->memories[tensor], desc, operation->onednn->engine,
                               DNNL_MEMORY_NONE));
    return OK;
}

/* Takes ownership of `desc`. */
static struct status operation_wrap(struct onednn *onednn, dnnl_primitive_desc_t desc,
                                    struct operation **ret_operation)
{
    CLEANUP(primitive_desc_close) dnnl_primitive_desc_t owned = desc;
    CLEANUP(operation_close) struct operation *operation = NULL;
    TRY(memory_alloc(1, sizeof *operation, &operation));
    operation->onednn = onednn;
    operation->desc = MOVE(owned);
    TRY_DNN(dnnl_primitive_create(&operation->primitive, operation->desc));
    *ret_operation = MOVE(operation);
    return OK;
}

/* Takes ownership of `desc`, that of a convolution or fully connected layer. */
static struct status operation_wrap_layer(struct onednn *onednn, enum operation_pass pass,
                                          dnnl_primitive_desc_t desc,
                                          struct operation **ret_operation)
{
    CLEANUP(operation_close) struct operation *operation = NULL;
    TRY(operation_wrap(onednn, desc, &operation));
    for (int tensor = 0; tensor < SLOT_COUNT; tensor++) {
        if (pass_tensors[pass][tensor].query == dnnl_query_undef)
            continue;
        const_dnnl_memory_desc_t tensor_desc =
            dnnl_primitive_desc_query_md(operation->desc, pass_tensors[pass][tensor].query,
                                         tensor == SLOT_BIAS);
        if (!tensor_desc || dnnl_memory_desc_get_size(tensor_desc) == 0)
            continue;
        TRY(operation_add_tensor(operation, tensor, tensor_desc,
                                 pass_tensors[pass][tensor].argument));
        if (tensor == SLOT_WEIGHTS)
            TRY(layout_copy_desc(tensor_desc, &operation->weights));
    }
    if (strncmp(operation_implementation(operation), "ref", 3) == 0)
        FAIL(STATUS_UNSUPPORTED,
             "oneDNN has nothing better than its reference loops ('%s') for this",
             operation_implementation(operation));
    *ret_operation = MOVE(operation);
    return OK;
}

const char *const operation_pass_names[] = {"forward", "backward data", "backward weights"};

struct status operation_open_conv(struct onednn *onednn, enum operation_pass pass,
                                  const struct conv_config *config,
                                  struct operation **ret_operation)
{
    CLEANUP(layer_descs_done) struct layer_descs descs = {0};
    CLEANUP(attr_close) dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    TRY(conv_descs_make(config, &descs));
    TRY(attr_make(config->post, &attr));
    struct status status = conv_desc_open(onednn, pass, config, &descs, attr, &desc);
    if (status.code == STATUS_DONE)
        status = operation_wrap_layer(onednn, pass, desc, ret_operation);
    const struct conv_shape *s = &config->shape;
    return status_context(status, "%s convolution %ux%u/%u, (%u, %u, %u, %u) to %u channels",
                          operation_pass_names[pass], s->kernel, s->kernel, s->stride, s->batch,
                          s->height, s->width, s->channels_in, s->channels_out);
}

struct status operation_open_fc(struct onednn *onednn, enum operation_pass pass,
                                const struct fc_config *config, struct operation **ret_operation)
{
    CLEANUP(layer_descs_done) struct layer_descs descs = {0};
    CLEANUP(attr_close) dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_data_type_t output_type = pass == PASS_FORWARD ? dnnl_f32 : data_type(config->dtype);
    TRY(fc_descs_make(config, output_type, &descs));
    TRY(attr_make(POST_NONE, &attr));
    struct status status = fc_desc_open(onednn, pass, &descs, attr, &desc);
    if (status.code == STATUS_DONE)
        status = operation_wrap_layer(onednn, pass, desc, ret_operation);
    return status_context(status, "%s fully connected layer, (%u, %u) to %u",
                          operation_pass_names[pass], config->batch, config->in, config->out);
}

struct status operation_open_reorder(struct onednn *onednn, const struct layout *from,
                                     const struct layout *to, struct operation **ret_operation)
{
    CLEANUP(attr_close) dnnl_primitive_attr_t attr = NULL;
    CLEANUP(operation_close) struct operation *operation = NULL;
    dnnl_primitive_desc_t desc;
    TRY(attr_make(POST_NONE, &attr));
    TRY_DNN(dnnl_reorder_primitive_desc_create(&desc, from->desc, onednn->engine, to->desc,
                                               onednn->engine, attr));
    TRY(operation_wrap(onednn, desc, &operation));
    TRY(operation_add_tensor(operation, SLOT_INPUT, from->desc, DNNL_ARG_FROM));
    TRY(operation_add_tensor(operation, SLOT_OUTPUT, to->desc, DNNL_ARG_TO));
    const_dnnl_memory_desc_t scratch =
        dnnl_primitive_desc_query_md(operation->desc, dnnl_query_scratchpad_md, 0);
    if (scratch && dnnl_memory_desc_get_size(scratch) > 0)
        TRY(operation_add_tensor(operation, SLOT_SCRATCH, scratch, DNNL_ARG_SCRATCHPAD));
    *ret_operation = MOVE(operation);
    return OK;
}

void operation_close(struct operation *operation)
{
    if (!operation)
        return;
    for (int tensor = 0; tensor < SLOT_COUNT; tensor++)
        if (operation->memories[tensor])
            dnnl_memory_destroy(operation->memories[tensor]);
    if (operation->primitive)
        dnnl_primitive_destroy(operation->primitive);
    primitive_desc_close(operation->desc);
    layout_close(operation->weights);
    memory_free(operation);
}

const struct layout *operation_weights(const struct operation *operation)
{
    return operation->weights;
}

const char *operation_implementation(const struct operation *operation)
{
    const char *name = NULL;
    dnnl_status_t status =
        dnnl_primitive_desc_query(operation->desc, dnnl_query_impl_info_str, 0, &name);
    return status == dnnl_success && name ? name : "unknown";
}

size_t operation_scratch_bytes(const struct operation *operation)
{
    if (!operation->memories[SLOT_SCRATCH])
        return 0;
    return dnnl_memory_desc_get_size(
        dnnl_primitive_desc_query_md(operation->desc, dnnl_query_scratchpad_md, 0));
}

struct status operation_run(struct operation *operation, const struct operation_tensors *tensors)
{
    void *const pointers[SLOT_COUNT] = {tensors->input, tensors->weights, tensors->bias,
                                        tensors->output, tensors->scratch};
    dnnl_exec_arg_t arguments[SLOT_COUNT];
    int count = 0;
    for (int tensor = 0; tensor < SLOT_COUNT; tensor++) {
        if (!operation->memories[tensor])
            continue;
        TRY_DNN(dnnl_memory_set_data_handle(operation->memories[tensor], pointers[tensor]));
        arguments[count++] =
            (dnnl_exec_arg_t){operation->arguments[tensor], operation->memories[tensor]};
    }
    TRY_DNN(
        dnnl_primitive_execute(operation->primitive, operation->onednn->stream, count, arguments));
    TRY_DNN(dnnl_stream_wait(operation->onednn->stream));
    return OK;
}
