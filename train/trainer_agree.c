/* What all processes of a run must have in common, checked before the first step: a difference
 * would end in a hang or in weights that drift apart unseen. */

#include <inttypes.h>
#include <stdio.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "train/trainer_internal.h"

static bool is_alone(const struct trainer *trainer)
{
    return comm_size(trainer->comm) == 1;
}

/* "1281167 images with labels 1a2b3c4d"; a set that is not there has none. */
static struct status set_append(struct buffer *text, const char *name, const struct index *index)
{
    const int32_t *labels;
    if (!index)
        return buffer_append_text(text, ", no %s set", name);
    TRY(index_labels(index, &labels));
    uint64_t count = index_count(index);
    return buffer_append_text(text,
                              ", %" PRIu64 " images in the %s set with label checksum %08" PRIx32,
                              count, name, crc32c_update(0, labels, count * sizeof *labels));
}

struct status trainer_agree_data(struct trainer *trainer)
{
    CLEANUP(buffer_done) struct buffer buffer = {0};
    const struct dataset *data = trainer->data;
    const char *text;
    if (is_alone(trainer))
        return OK;
    TRY(buffer_append_text(&buffer, "%zu classes with hash %016" PRIx64,
                           class_table_count(data->classes), class_table_hash(data->classes)));
    TRY(set_append(&buffer, "training", data->train_index));
    TRY(set_append(&buffer, "validation", data->val_index));
    TRY(buffer_text(&buffer, &text));
    return ranks_agree(trainer->comm, "the data", text);
}

struct status trainer_agree_device(struct trainer *trainer)
{
    const struct model *model = trainer->model;
    char text[128];
    snprintf(text, sizeof text, "%s, %s, %u devices a process", model->backend_name,
             train_dtype_names[model->ops->dtype(model->backend)],
             model->ops->replicas(model->backend));
    return ranks_agree(trainer->comm, "the device", text);
}

struct status trainer_agree_weights(struct trainer *trainer)
{
    const struct weights *weights = trainer->weights;
    uint32_t crc = 0;
    char text[32];
    if (is_alone(trainer))
        return OK;
    TRY(model_read(trainer->model, trainer->weights, true));
    for (size_t p = 0; p < trainer->network->param_count; p++) {
        size_t bytes = trainer->network->params[p].count * sizeof(float);
        if (weights->values[p])
            crc = crc32c_update(crc, weights->values[p], bytes);
        if (weights->momentum[p])
            crc = crc32c_update(crc, weights->momentum[p], bytes);
    }
    snprintf(text, sizeof text, "checksum %08" PRIx32, crc);
    return ranks_agree(trainer->comm, "the first weights", text);
}
