#include <string.h>

#include "train/cuda/errors.h"
#include "train/cuda/plan.h"

/* This device's share of a batch, which the last device's may be shorter than. */
static void slot_fill(const struct plan *plan, const struct slot *slot, unsigned index,
                      const struct step_input *input)
{
    const size_t image_bytes = (size_t)plan->config.height * plan->config.width * 3;
    const uint32_t begin = index * plan->share, batch = plan->config.batch;
    const uint32_t left = begin < batch ? batch - begin : 0;
    const uint32_t count = left < plan->share ? left : plan->share;
    int32_t *labels = (int32_t *)(slot->pinned + plan->labels_at);
    memcpy(slot->pinned, &plan->header, sizeof plan->header);
    memcpy(slot->pinned + plan->images_at, (const uint8_t *)input->images + begin * image_bytes,
           count * image_bytes);
    for (uint32_t i = 0; i < plan->share; i++)
        labels[i] = i < count ? input->labels[begin + i] : -1;
}

/* Images in the slot to the program's input; labels and header aside, so that the slot is free
 * again as early as can be. */
static struct status slot_consume(const struct plan *plan, const struct plan_replica *replica,
                                  const struct device *device, const struct slot *slot)
{
    struct input_shape shape = {
        .batch = plan->share,
        .height = plan->config.height,
        .width = plan->config.width,
    };
    memcpy(shape.mean, tensor_format_imagenet.mean, sizeof shape.mean);
    memcpy(shape.std, tensor_format_imagenet.std, sizeof shape.std);
    TRY_CUDA(kernel_input(
        &shape, slot->device + plan->images_at, (const struct step_header *)slot->device,
        (const int32_t *)(slot->device + plan->labels_at), io_type(plan->backend->config.dtype),
        replica->block + replica->offsets[plan->program->input], device->compute));
    TRY_CUDA(cudaMemcpyAsync(replica->step_data, slot->device, plan->images_at,
                             cudaMemcpyDeviceToDevice, device->compute));
    return OK;
}

struct status replica_feed(struct plan *plan, struct device *device, unsigned index,
                           const struct step_input *input)
{
    const struct plan_replica *replica = &plan->replicas[index];
    const struct slot *slot = &replica->slots[plan->calls % SLOT_COUNT];
    const bool used = plan->calls >= SLOT_COUNT;
    if (used)
        TRY(device_wait(device, slot->copied));
    slot_fill(plan, slot, index, input);
    if (used)
        TRY_CUDA(cudaStreamWaitEvent(device->copy, slot->consumed, 0));
    TRY_CUDA(cudaMemcpyAsync(slot->device, slot->pinned, plan->slot_bytes, cudaMemcpyHostToDevice,
                             device->copy));
    TRY_CUDA(cudaEventRecord(slot->copied, device->copy));
    TRY_CUDA(cudaStreamWaitEvent(device->compute, slot->copied, 0));
    TRY(slot_consume(plan, replica, device, slot));
    TRY_CUDA(cudaEventRecord(slot->consumed, device->compute));
    return OK;
}
