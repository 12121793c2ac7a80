/* A forecast as tables and as JSON. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "train/forecast.h"

static const char *const part_names[] = {"store", "training", "evaluation"};

/* Whether a node is a layer that people count: it has a kernel or weights. */
static bool is_layer(const struct node *node)
{
    return node->kind == NODE_CONV || node->kind == NODE_MAX_POOL || node->kind == NODE_BLUR ||
           node->kind == NODE_GLOBAL_AVG_POOL || node->kind == NODE_FC;
}

/* "layer1.0.conv1", from its weight's name; what kind it is where it has none: "max pool". */
static void layer_name(const struct network *network, const struct node *node, char name[64])
{
    if (node->first_param < 0) {
        const char *kind = node_kind_name(node->kind), *article_end = strchr(kind, ' ');
        snprintf(name, 64, "%s", article_end ? article_end + 1 : kind);
        return;
    }
    snprintf(name, 64, "%s", network->params[node->first_param].name);
    *strrchr(name, '.') = '\0';
}

/* Height, width and channels of a node's output. */
struct extent {
    uint32_t height, width, channels;
};
static struct extent extent_of(const struct forecast *forecast, int node)
{
    const struct node *nodes = forecast->network->nodes;
    int with_channels = node;
    while (nodes[with_channels].channels_out == 0 && nodes[with_channels].inputs[0] >= 0)
        with_channels = nodes[with_channels].inputs[0];
    uint32_t channels = nodes[with_channels].channels_out;
    return (struct extent){forecast->sizes[node][0], forecast->sizes[node][1],
                           channels ? channels : 3};
}

static struct status layers_append(const struct forecast *forecast, struct buffer *text)
{
    const struct network *network = forecast->network;
    TRY(buffer_append_text(text, "\n%-28s %-8s %-16s %s\n", "layer", "window", "from", "to"));
    for (size_t i = 0; i < network->node_count; i++) {
        const struct node *node = &network->nodes[i];
        char name[64], window[24] = "", from[48];
        if (!is_layer(node))
            continue;
        const struct extent in = extent_of(forecast, node->inputs[0]);
        const struct extent out = extent_of(forecast, (int)i);
        layer_name(network, node, name);
        if (node->kernel)
            snprintf(window, sizeof window, "%ux%u/%u", node->kernel, node->kernel, node->stride);
        snprintf(from, sizeof from, "%ux%ux%u", in.height, in.width, in.channels);
        TRY(buffer_append_text(text, "%-28s %-8s %-16s %ux%ux%u\n", name, window, from, out.height,
                               out.width, out.channels));
    }
    return OK;
}

static struct status choices_append(const struct forecast_choices *choices, const char *part,
                                    struct buffer *text)
{
    if (!choices->count)
        return OK;
    TRY(buffer_append_text(text, "\n%s: what computes it, and how many times\n", part));
    for (size_t i = 0; i < choices->count; i++)
        TRY(buffer_append_text(text, "%4u x %s\n", choices->all[i].uses, choices->all[i].text));
    return OK;
}

static struct status memory_append(const struct forecast_memory *memory, struct buffer *text)
{
    TRY(buffer_append_text(text, "\n%-14s %10s %10s %10s %10s\n", "GiB a device", "whole run",
                           part_names[1], part_names[2], "together"));
    uint64_t all[FORECAST_PART_COUNT] = {0};
    for (int kind = 0; kind < MEMORY_KIND_COUNT; kind++) {
        uint64_t row = 0;
        for (int part = 0; part < FORECAST_PART_COUNT; part++) {
            row += memory->bytes[part][kind];
            all[part] += memory->bytes[part][kind];
        }
        if (row)
            TRY(buffer_append_text(text, "%-14s %10.3f %10.3f %10.3f %10.3f\n",
                                   memory_kind_names[kind], forecast_gib(memory->bytes[0][kind]),
                                   forecast_gib(memory->bytes[1][kind]),
                                   forecast_gib(memory->bytes[2][kind]), forecast_gib(row)));
    }
    TRY(buffer_append_text(text, "%-14s %10.3f %10.3f %10.3f %10.3f\n", "all", forecast_gib(all[0]),
                           forecast_gib(all[1]), forecast_gib(all[2]),
                           forecast_gib(all[0] + all[1] + all[2])));
    TRY(buffer_append_text(text, "\nhost: %.3f GiB for the loader at most",
                           forecast_gib(memory->loader_bytes)));
    if (memory->pinned_bytes)
        TRY(buffer_append_text(text, ", %.3f GiB pinned for batches on their way",
                               forecast_gib(memory->pinned_bytes)));
    if (memory->average_bytes)
        TRY(buffer_append_text(text, ", %.3f GiB for the average of --ema",
                               forecast_gib(memory->average_bytes)));
    if (memory->mirrored_bytes)
        TRY(buffer_append_text(text, ", %.3f GiB for the mirror images of --val-flip",
                               forecast_gib(memory->mirrored_bytes)));
    return buffer_append_text(text, "\n");
}

/* What comes after the largest batch, which shows that it is the largest. */
static struct status next_append(const struct forecast *forecast, struct buffer *text)
{
    if (forecast->next_refusal)
        return buffer_append_text(text, "; the next one cannot be planned: %s\n",
                                  forecast->next_refusal);
    if (forecast->next_bytes)
        return buffer_append_text(text, "; the next one needs %.3f GiB\n",
                                  forecast_gib(forecast->next_bytes));
    return buffer_append_text(text, "; --batch-size takes no more\n");
}

static struct status largest_append(const struct forecast *forecast, struct buffer *text)
{
    const struct forecast_memory *memory = &forecast->memory;
    if (!memory->capacity_bytes)
        return buffer_append_text(text, "how much memory there is is not known\n");
    TRY(buffer_append_text(text, "%.3f of %.3f GiB are needed", forecast_gib(memory->device_bytes),
                           forecast_gib(memory->capacity_bytes)));
    if (memory->reserved_bytes)
        TRY(buffer_append_text(text, " (%.3f more are left to the driver and its context)",
                               forecast_gib(memory->reserved_bytes)));
    TRY(buffer_append_text(text, memory->device_bytes > memory->capacity_bytes
                                     ? ": it does not fit\n"
                                     : "\n"));
    if (!forecast->largest_device_batch)
        TRY(buffer_append_text(text, "no batch fits"));
    else
        TRY(buffer_append_text(text,
                               "the largest batch that fits is %" PRIu32
                               " images a device, -b %" PRIu64,
                               forecast->largest_device_batch, forecast->largest_batch));
    TRY(next_append(forecast, text));
    if (!forecast->fast_end_reason)
        return OK;
    if (!forecast->fast_device_batch)
        return buffer_append_text(text, "no batch is planned with the faster operations\n");
    return buffer_append_text(text,
                              "the largest one with the faster operations is %" PRIu32
                              " images a device, -b %" PRIu64 "; larger ones do without: %s\n",
                              forecast->fast_device_batch, forecast->fast_batch,
                              forecast->fast_end_reason);
}

static struct status batch_append(const struct forecast *forecast, struct buffer *text)
{
    TRY(buffer_append_text(text, "batch = "));
    TRY(division_append(&forecast->division, text));
    TRY(buffer_append_text(text, ", crops of "));
    if (forecast->image_size_start != forecast->image_size)
        TRY(buffer_append_text(text, "%u growing to ", forecast->image_size_start));
    TRY(buffer_append_text(text, "%u; evaluation in batches of %u, crops of %u%s\n",
                           forecast->image_size, forecast->val_batch, forecast->val_crop,
                           forecast->has_data ? "" : "; no data was named"));
    if (forecast->image_size_start != forecast->image_size)
        TRY(buffer_append_text(text, "what follows is for the largest crops\n"));
    if (forecast->slow_reason)
        TRY(buffer_append_text(text, "slower operations than usual are planned: %s\n",
                               forecast->slow_reason));
    return OK;
}

struct status forecast_append(const struct forecast *forecast, struct buffer *text)
{
    TRY(buffer_append_text(text, "%s for %u classes on %s\n", forecast->network->arch,
                           forecast->network->classes, forecast->device));
    TRY(batch_append(forecast, text));
    TRY(layers_append(forecast, text));
    TRY(choices_append(&forecast->training, part_names[FORECAST_TRAINING], text));
    TRY(choices_append(&forecast->evaluation, part_names[FORECAST_EVALUATION], text));
    TRY(memory_append(&forecast->memory, text));
    return largest_append(forecast, text);
}

static struct json *extent_json(struct extent extent)
{
    struct json *array = json_array_new();
    json_append_integer(array, extent.height);
    json_append_integer(array, extent.width);
    json_append_integer(array, extent.channels);
    return array;
}

static struct json *layers_json(const struct forecast *forecast)
{
    const struct network *network = forecast->network;
    struct json *array = json_array_new();
    for (size_t i = 0; i < network->node_count; i++) {
        const struct node *node = &network->nodes[i];
        char name[64];
        if (!is_layer(node))
            continue;
        struct json *object = json_object_new();
        layer_name(network, node, name);
        json_set_string(object, "name", name);
        json_set_string(object, "kind", node_kind_name(node->kind));
        json_set(object, "in", extent_json(extent_of(forecast, node->inputs[0])));
        json_set(object, "out", extent_json(extent_of(forecast, (int)i)));
        if (node->kernel) {
            json_set_integer(object, "kernel", node->kernel);
            json_set_integer(object, "stride", node->stride);
            json_set_integer(object, "padding", node->padding);
        }
        json_append(array, object);
    }
    return array;
}

static struct json *choices_json(const struct forecast_choices *choices)
{
    struct json *array = json_array_new();
    for (size_t i = 0; i < choices->count; i++) {
        struct json *object = json_object_new();
        json_set_string(object, "plan", choices->all[i].text);
        json_set_integer(object, "uses", choices->all[i].uses);
        json_set_integer(object, "workspace_bytes", (int64_t)choices->all[i].workspace_bytes);
        json_append(array, object);
    }
    return array;
}

static struct json *memory_json(const struct forecast_memory *memory)
{
    struct json *object = json_object_new();
    for (int part = 0; part < FORECAST_PART_COUNT; part++) {
        struct json *kinds = json_object_new();
        for (int kind = 0; kind < MEMORY_KIND_COUNT; kind++)
            json_set_integer(kinds, memory_kind_names[kind], (int64_t)memory->bytes[part][kind]);
        json_set(object, part_names[part], kinds);
    }
    json_set_integer(object, "needed_bytes", (int64_t)memory->device_bytes);
    json_set_integer(object, "capacity_bytes", (int64_t)memory->capacity_bytes);
    json_set_integer(object, "reserved_bytes", (int64_t)memory->reserved_bytes);
    json_set_integer(object, "loader_bytes", (int64_t)memory->loader_bytes);
    json_set_integer(object, "pinned_bytes", (int64_t)memory->pinned_bytes);
    json_set_integer(object, "average_bytes", (int64_t)memory->average_bytes);
    json_set_integer(object, "mirrored_bytes", (int64_t)memory->mirrored_bytes);
    return object;
}

static void reason_set(struct json *object, const char *name, const char *reason)
{
    if (reason)
        json_set_string(object, name, reason);
}

struct json *forecast_json(const struct forecast *forecast)
{
    struct json *object = json_object_new();
    json_set_integer(object, "version", 1);
    json_set_string(object, "arch", forecast->network->arch);
    json_set_integer(object, "classes", forecast->network->classes);
    json_set_string(object, "device", forecast->device);
    json_set_string(object, "dtype", train_dtype_names[forecast->dtype]);
    json_set_integer(object, "processes", forecast->division.processes);
    json_set_integer(object, "devices", forecast->division.replicas);
    json_set_integer(object, "accumulate", forecast->division.accumulate);
    json_set_integer(object, "device_batch", forecast->division.device_batch);
    json_set_integer(object, "global_batch",
                     (int64_t)division_micro_batch(&forecast->division) *
                         forecast->division.accumulate);
    json_set_integer(object, "image_size_start", forecast->image_size_start);
    json_set_integer(object, "image_size", forecast->image_size);
    json_set_integer(object, "val_batch", forecast->val_batch);
    json_set_integer(object, "val_crop", forecast->val_crop);
    json_set(object, "layers", layers_json(forecast));
    json_set(object, "training", choices_json(&forecast->training));
    json_set(object, "evaluation", choices_json(&forecast->evaluation));
    json_set(object, "memory", memory_json(&forecast->memory));
    json_set_integer(object, "largest_device_batch", forecast->largest_device_batch);
    json_set_integer(object, "largest_batch", (int64_t)forecast->largest_batch);
    json_set_boolean(object, "largest_is_bound_by_plans", forecast->next_refusal != NULL);
    json_set_integer(object, "next_needed_bytes", (int64_t)forecast->next_bytes);
    reason_set(object, "next_refusal", forecast->next_refusal);
    json_set_integer(object, "fast_device_batch", forecast->fast_device_batch);
    json_set_integer(object, "fast_batch", (int64_t)forecast->fast_batch);
    reason_set(object, "slow_reason", forecast->slow_reason);
    reason_set(object, "fast_end_reason", forecast->fast_end_reason);
    return object;
}
