#ifndef HEADRACE_TRAIN_CUDA_DEVICE_TABLE_H
#define HEADRACE_TRAIN_CUDA_DEVICE_TABLE_H

/* Devices by name, so that plans can be made and memory reckoned where there is none. */

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"

struct device_entry {
    const char *name;    /* what a user types: "h200" */
    const char *title;   /* what the driver calls it: "NVIDIA H200" */
    uint32_t capability; /* 900: 9.0 */
    uint32_t multiprocessors;
    uint32_t blocks, threads; /* a multiprocessor, at most */
    uint32_t shared_bytes;    /* a block, at most */
    uint32_t reserved_bytes;  /* of that, by the system */
    uint32_t clock_mhz, memory_clock_mhz, memory_bus_bits;
    uint64_t l2_bytes, memory_bytes;
};
extern const struct device_entry device_table[]; /* ends in an entry without a name */

/* Fails with STATUS_USAGE, listing the names. */
struct status device_table_find(const char *name, const struct device_entry **ret_entry);
/* The description that cuDNN takes in place of a device. */
struct status device_entry_json(const struct device_entry *entry, struct buffer *ret_json);

#endif
