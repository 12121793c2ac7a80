#include "index/order.h"

#include <stddef.h>

#include "base/random.h"

const char *const order_kind_names[] = {"shuffle", "window", "sequential", NULL};

struct order order_make(enum order_kind kind, uint64_t window, uint64_t records,
                        uint32_t global_batch, bool wraps, uint64_t seed)
{
    if (window == 0)
        window = ORDER_WINDOW_RECORDS;
    uint64_t chunk = window < ORDER_CHUNK_RECORDS ? window : ORDER_CHUNK_RECORDS;
    struct order order = {
        .kind = kind,
        .records = records,
        .global_batch = global_batch,
        .wraps = wraps,
        .seed = seed,
        .chunk = chunk,
        .window_chunks = window / chunk,
    };
    order_set_epoch(&order, 0);
    return order;
}

static void windows_set_epoch(struct order *order)
{
    struct random_stream stream = random_stream_make(order->seed, RANDOM_WINDOW, 0, order->epoch);
    order->first = random_below(&stream, order->records);
    order->window_seed = random_u64(&stream);
    uint64_t whole_chunks = order->records / order->chunk;
    if (whole_chunks)
        order->permutation = permutation_make(whole_chunks, order->seed, order->epoch);
}

void order_set_epoch(struct order *order, uint64_t epoch)
{
    order->epoch = epoch;
    if (order->kind == ORDER_SHUFFLE)
        order->permutation = permutation_make(order->records, order->seed, epoch);
    if (order->kind == ORDER_WINDOW)
        windows_set_epoch(order);
}

uint64_t order_steps(const struct order *order, bool drop_last)
{
    uint64_t whole = order->records / order->global_batch;
    bool rest = order->records % order->global_batch != 0;
    return drop_last ? whole : whole + rest;
}

/* A window of an epoch: its records stand at `begin` … `begin + length - 1`, permuted. */
struct window {
    uint64_t begin;
    struct permutation within;
};

/* The window that a position lies in. What is left at the end belongs to the last one. */
static struct window window_at(const struct order *order, uint64_t position)
{
    uint64_t window_records = order->window_chunks * order->chunk;
    uint64_t windows = order->records / window_records;
    uint64_t number = position / window_records;
    if (number >= windows)
        number = windows ? windows - 1 : 0;
    uint64_t begin = number * window_records;
    uint64_t length = number + 1 < windows ? window_records : order->records - begin;
    return (struct window){begin, permutation_make(length, order->window_seed, number)};
}

/* Chunks and windows are counted from order->first on, around the end of the index. The records
 * that fill no chunk are the last of them, and belong to the last window. */
static uint64_t window_record(const struct order *order, uint64_t position)
{
    struct window window = window_at(order, position);
    uint64_t shuffled = window.begin + permutation_at(&window.within, position - window.begin);

    uint64_t chunk = shuffled / order->chunk;
    if (chunk < order->records / order->chunk)
        chunk = permutation_at(&order->permutation, chunk);
    return (order->first + chunk * order->chunk + shuffled % order->chunk) % order->records;
}

uint64_t order_record(const struct order *order, uint64_t step, uint32_t slot)
{
    uint64_t position = step * order->global_batch + slot;
    if (position >= order->records) {
        if (!order->wraps)
            return ORDER_NO_RECORD;
        position %= order->records;
    }
    switch (order->kind) {
    case ORDER_SHUFFLE:
        return permutation_at(&order->permutation, position);
    case ORDER_WINDOW:
        return window_record(order, position);
    case ORDER_SEQUENTIAL:
        break;
    }
    return position;
}

static uint64_t window_position(const struct order *order, uint64_t record)
{
    uint64_t from_first = (record + order->records - order->first) % order->records;
    uint64_t chunk = from_first / order->chunk;
    if (chunk < order->records / order->chunk)
        chunk = permutation_position(&order->permutation, chunk);
    uint64_t shuffled = chunk * order->chunk + from_first % order->chunk;
    struct window window = window_at(order, shuffled);
    return window.begin + permutation_position(&window.within, shuffled - window.begin);
}

uint64_t order_position(const struct order *order, uint64_t record)
{
    switch (order->kind) {
    case ORDER_SHUFFLE:
        return permutation_position(&order->permutation, record);
    case ORDER_WINDOW:
        return window_position(order, record);
    case ORDER_SEQUENTIAL:
        break;
    }
    return record;
}
