#include "train/cuda/device_table.h"

#include <inttypes.h>
#include <string.h>

#define MIB(n) ((uint64_t)(n) << 20)

/* What cudaGetDeviceProperties says of each. Capabilities, multiprocessors, buses and caches: data
 * sheets, and the tables of compute capabilities in the CUDA programming guide. Memory differs with
 * driver and board; of what PyTorch printed of it in public reports, in MiB, the least is taken, so
 * that what fits by it fits. T4: 14930 to 15109. A100 with 40 GB: 40339, 40536. H100: 81082 (CUDA
 * 11.8), 81089 (12.8), 81090. H200: 143156. B200: 182631, 182642; its bus, clock and cache are in
 * pytorch/ao's pull request 4002. L4, RTX 4090 and A100 with 80 GB are somewhat under what
 * nvidia-smi says, 23034, 24564 and 81920, as the others are; one RTX 4090 had 24563. */
const struct device_entry device_table[] = {
    {"t4", "Tesla T4", 750, 40, 16, 1024, 65536, 0, 1590, 5001, 256, MIB(4), MIB(14930)},
    {"l4", "NVIDIA L4", 890, 58, 24, 1536, 101376, 1024, 2040, 6251, 192, MIB(48), MIB(22491)},
    {"a100-40", "NVIDIA A100-SXM4-40GB", 800, 108, 32, 2048, 166912, 1024, 1410, 1215, 5120,
     MIB(40), MIB(40339)},
    {"a100", "NVIDIA A100-SXM4-80GB", 800, 108, 32, 2048, 166912, 1024, 1410, 1593, 5120, MIB(40),
     MIB(81153)},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 890, 128, 24, 1536, 101376, 1024, 2520, 10501, 384,
     MIB(72), MIB(24078)},
    {"h100", "NVIDIA H100 80GB HBM3", 900, 132, 32, 2048, 232448, 1024, 1980, 2619, 5120, MIB(50),
     MIB(81082)},
    {"h200", "NVIDIA H200", 900, 132, 32, 2048, 232448, 1024, 1980, 3201, 6144, MIB(60),
     MIB(143156)},
    {"b200", "NVIDIA B200", 1000, 148, 32, 2048, 232448, 1024, 1965, 3996, 7680, MIB(253) / 2,
     MIB(182631)},
    {.name = NULL},
};

struct status device_table_find(const char *name, const struct device_entry **ret_entry)
{
    CLEANUP(buffer_done) struct buffer names = {0};
    const char *list;
    for (const struct device_entry *entry = device_table; entry->name; entry++) {
        if (strcmp(name, entry->name) == 0) {
            *ret_entry = entry;
            return OK;
        }
        TRY(buffer_append_text(&names, "%s%s", entry == device_table ? "" : ", ", entry->name));
    }
    TRY(buffer_text(&names, &list));
    FAIL(STATUS_USAGE, "no device is called '%s'; there are %s", name, list);
}

struct status device_entry_json(const struct device_entry *entry, struct buffer *ret_json)
{
    /* What all of them share: limits of the architecture, and a driver for CUDA 13. */
    TRY(buffer_append_text(
        ret_json,
        "{\"cudaDeviceId\":0,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
        "\"driverVer\":13000,\"warpSize\":32,\"maxGridSize\":[2147483647,65535,65535],"
        "\"maxBlockSize\":[1024,1024,64],\"maxThreadsPerBlock\":1024,\"regsPerBlock\":65536,"
        "\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,"));
    TRY(buffer_append_text(ret_json,
                           "\"deviceName\":\"%s\",\"deviceVer\":%" PRIu32
                           ",\"multiProcessorCount\":%" PRIu32 ",\"maxCtasPerSM\":%" PRIu32
                           ",\"maxThreadsPerSM\":%" PRIu32
                           ",\"maxSharedMemoryPerBlockOptin\":%" PRIu32
                           ",\"reservedSharedMemoryPerBlock\":%" PRIu32 ",",
                           entry->title, entry->capability, entry->multiprocessors, entry->blocks,
                           entry->threads, entry->shared_bytes, entry->reserved_bytes));
    return buffer_append_text(ret_json,
                              "\"smClockRateKHz\":%" PRIu32 ",\"memClockRateKHz\":%" PRIu32
                              ",\"memoryBusWidth\":%" PRIu32 ",\"l2CacheSize\":%" PRIu64
                              ",\"totalGlobalMem\":%" PRIu64 "}",
                              entry->clock_mhz * 1000, entry->memory_clock_mhz * 1000,
                              entry->memory_bus_bits, entry->l2_bytes, entry->memory_bytes);
}
