#include "tests/support/interfere.h"

#include <math.h>

#include "base/memory.h"
#include "train/trainer_internal.h"

struct interference interference;

/* The backend's own table, and the one in front of it. */
static const struct backend_ops *real_ops;
static struct backend_ops test_ops;
static const struct network *network;

static struct status noting_forward_backward(struct plan *plan, const struct step_input *input)
{
    interference.seen[interference.seen_count++ % ARRAY_LENGTH(interference.seen)] = *input;
    return real_ops->plan_forward_backward(plan, input);
}

static struct status breaking_update(struct store *store)
{
    const unsigned number = interference.updates++;
    if (number < interference.break_first ||
        number >= interference.break_first + interference.break_count)
        return real_ops->store_update(store);
    CLEANUP(memory_free) double *values = NULL;
    size_t param = (size_t)network_find_param(network, "layer4.1.conv2.weight");
    TRY(memory_alloc(network->params[param].count, sizeof *values, &values));
    values[3] = (double)INFINITY;
    TRY(real_ops->store_write(store, ROLE_GRADIENT, param, values));
    return real_ops->store_update(store);
}

void interfere(struct trainer *trainer)
{
    real_ops = trainer->model->ops;
    test_ops = *real_ops;
    test_ops.plan_forward_backward = noting_forward_backward;
    test_ops.store_update = breaking_update;
    trainer->model->ops = &test_ops;
    network = trainer->network;
    interference.seen_count = interference.updates = 0;
}
