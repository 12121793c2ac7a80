#include "index/order.h"

struct order order_make(enum order_kind kind, uint64_t records, uint32_t global_batch, bool wraps,
                        uint64_t seed)
{
    struct order order = {
        .kind = kind,
        .records = records,
        .global_batch = global_batch,
        .wraps = wraps,
        .seed = seed,
    };
    order_set_epoch(&order, 0);
    return order;
}

void order_set_epoch(struct order *order, uint64_t epoch)
{
    order->epoch = epoch;
    if (order->kind == ORDER_SHUFFLE)
        order->permutation = permutation_make(order->records, order->seed, epoch);
}

uint64_t order_steps(const struct order *order, bool drop_last)
{
    uint64_t whole = order->records / order->global_batch;
    bool rest = order->records % order->global_batch != 0;
    return drop_last ? whole : whole + rest;
}

uint64_t order_record(const struct order *order, uint64_t step, uint32_t slot)
{
    uint64_t position = step * order->global_batch + slot;
    if (position >= order->records) {
        if (!order->wraps)
            return ORDER_NO_RECORD;
        position %= order->records;
    }
    return order->kind == ORDER_SHUFFLE ? permutation_at(&order->permutation, position) : position;
}
