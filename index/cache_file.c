/* A cache's two files: made, cut, lengthened, joined and left.
 *
 * `table` is mapped by all processes, `data` is read and written at places that the table gives
 * out. Who has the cache open holds a lock of the table's file that the kernel takes back when the
 * process dies: an open file description lock on a byte of its own, far behind the file's end. One
 * more such byte is the gate, held while the cache is opened. Whoever finds it used by nobody may
 * make it anew or another size, and makes it whole. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "index/cache_internal.h"

static const uint64_t gate_at = (uint64_t)1 << 62;
static const uint64_t places_at = ((uint64_t)1 << 62) + 1;

/* ---- locks ---- */

static struct flock range_lock(uint64_t at, uint64_t length)
{
    return (struct flock){.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)at,
                          .l_len = (off_t)length};
}

/* Whether somebody else holds a lock there. */
static bool range_is_locked(int fd, uint64_t at, uint64_t length)
{
    struct flock lock = range_lock(at, length);
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static struct status gate_enter(const struct cache *cache)
{
    struct flock lock = range_lock(gate_at, 1);
    int result;
    do
        result = fcntl(cache->table_fd, F_OFD_SETLKW, &lock);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return status_errno(errno,
                            "cannot lock '%s'; a cache needs a folder on a disk of this machine",
                            cache->table_path);
    return OK;
}

static void gate_leave(const struct cache *cache)
{
    struct flock lock = range_lock(gate_at, 1);
    lock.l_type = F_UNLCK;
    fcntl(cache->table_fd, F_OFD_SETLK, &lock);
}

bool cache_place_is_held(const struct cache *cache, uint32_t place)
{
    return range_is_locked(cache->table_fd, places_at + place, 1);
}

/* Takes a place among the processes. The gate is held. */
static struct status place_take(struct cache *cache)
{
    for (uint32_t i = 0; i < CACHE_PROCESSES; i++) {
        struct flock lock = range_lock(places_at + i, 1);
        if (cache->table_fd >= 0 && fcntl(cache->table_fd, F_OFD_SETLK, &lock) < 0)
            continue;
        return cache_join(cache, i);
    }
    FAIL(STATUS_NO_MEMORY, "'%s' is in use by %d processes; no more can share a cache",
         cache->folder, CACHE_PROCESSES);
}

/* ---- the table ---- */

static struct status table_map(struct cache *cache, const struct cache_geometry *geometry)
{
    void *map =
        mmap(NULL, geometry->table_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cache->table_fd, 0);
    if (map == MAP_FAILED)
        return status_errno(errno, "cannot map '%s'", cache->table_path);
    cache->map = map;
    cache->geometry = *geometry;
    cache->table = table_at(map, geometry);
    return OK;
}

static void table_unmap(struct cache *cache)
{
    if (cache->map)
        munmap(cache->map, cache->geometry.table_bytes);
    cache->map = NULL;
}

/* What was found in the folder. */
struct found {
    bool is_there, is_whole; /* something; a cache that can be used */
    bool is_cut;             /* one whose files are shorter than they should be */
    struct cache_geometry geometry;
};

/* The two files are not one. */
static struct status files_differ(const struct cache *cache)
{
    struct stat table, data;
    if (fstat(cache->table_fd, &table) < 0 || fstat(cache->data_fd, &data) < 0)
        return status_errno(errno, "cannot look at '%s'", cache->table_path);
    if (table.st_dev == data.st_dev && table.st_ino == data.st_ino)
        FAIL(STATUS_CORRUPT, "'%s' and '%s' are one file; remove both, or give another folder",
             cache->table_path, cache->data_path);
    return OK;
}

/* Whether the data of `data_bytes` is that of a cache, to which the table's header belongs: caches
 * before version 4 did not say so in it. */
static struct status data_look(const struct cache *cache, const struct cache_header *header,
                               uint64_t data_bytes)
{
    char magic[sizeof CACHE_DATA_MAGIC] = {0};
    bool is_old = header->version < CACHE_VERSION && header->blocks > 0 &&
                  data_bytes == (uint64_t)header->blocks * CACHE_BLOCK_BYTES;
    if (data_bytes >= sizeof magic)
        TRY(file_read_at(cache->data_fd, cache->data_path, magic, sizeof magic, 0));
    if (data_bytes > 0 && !is_old && memcmp(magic, CACHE_DATA_MAGIC, sizeof magic) != 0)
        FAIL(STATUS_CORRUPT, "'%s' is not the data of a cache; remove it, or give another folder",
             cache->data_path);
    return OK;
}

static struct status table_look(const struct cache *cache, struct found *ret_found)
{
    struct cache_header header = {0};
    uint64_t table_bytes, data_bytes;
    *ret_found = (struct found){0};
    TRY(file_size(cache->table_fd, cache->table_path, &table_bytes));
    TRY(file_size(cache->data_fd, cache->data_path, &data_bytes));
    TRY(files_differ(cache));
    const size_t length = offsetof(struct cache_header, holder);
    if (table_bytes >= length)
        TRY(file_read_at(cache->table_fd, cache->table_path, &header, length, 0));
    if (table_bytes > 0 && memcmp(header.magic, CACHE_MAGIC, sizeof header.magic) != 0)
        FAIL(STATUS_CORRUPT,
             "'%s' is not the table of a cache; remove it and '%s', or give another folder",
             cache->table_path, cache->data_path);
    ret_found->is_there = table_bytes > 0;
    if (!table_is_signed(&header))
        return data_look(cache, &header, data_bytes);
    ret_found->geometry = cache_geometry_make(header.blocks, header.entries);
    ret_found->is_whole = table_bytes >= ret_found->geometry.table_bytes &&
                          data_bytes >= ret_found->geometry.data_bytes;
    ret_found->is_cut = !ret_found->is_whole;
    return data_look(cache, &header, data_bytes);
}

/* The entries of a table and the chains of their blocks, while its file changes its size. */
struct contents {
    struct cache_entry *entries;
    uint32_t *next;
    uint32_t entry_count, block_count;
};

static void contents_done(struct contents *contents)
{
    memory_free(contents->entries);
    memory_free(contents->next);
}
CLEANUP_VALUE(contents_done, struct contents)

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static struct status contents_take(struct cache *cache, const struct cache_geometry *geometry,
                                   struct contents *contents)
{
    TRY(table_map(cache, geometry));
    const struct cache_table *table = &cache->table;
    contents->entry_count = least(table->header->fresh_entry, table->entry_count);
    contents->block_count = least(table->header->fresh_block, table->block_count);
    TRY(memory_alloc(contents->entry_count, sizeof *contents->entries, &contents->entries));
    TRY(memory_alloc(contents->block_count, sizeof *contents->next, &contents->next));
    memcpy(contents->entries, table->entries, contents->entry_count * sizeof *contents->entries);
    memcpy(contents->next, table->next, contents->block_count * sizeof *contents->next);
    table_unmap(cache);
    return OK;
}

/* Says in a file whose it is, before it gets its length: so one that has a length and does not say
 * so is somebody else's, even after a loss of power. */
static struct status file_mark(int fd, const char *path, const void *head, size_t length)
{
    TRY(disk_write_at(fd, path, head, length, 0));
    return disk_sync(fd, path);
}

/* Lays out a table of another size with what fits of the contents. A kill before it is signed
 * leaves a cache that is begun anew. */
static struct status table_write(struct cache *cache, const struct cache_geometry *geometry,
                                 const struct contents *contents)
{
    static const struct cache_header unsigned_header = {.magic = CACHE_MAGIC};
    TRY(file_mark(cache->table_fd, cache->table_path, &unsigned_header,
                  offsetof(struct cache_header, holder)));
    TRY(disk_allocate(cache->table_fd, cache->table_path, geometry->table_bytes));
    TRY(disk_allocate(cache->data_fd, cache->data_path, geometry->data_bytes));
    TRY(table_map(cache, geometry));
    struct cache_table *table = &cache->table;
    memset(table->header, 0, sizeof *table->header);
    table->header->fresh_entry = least(contents->entry_count, table->entry_count);
    uint32_t blocks = least(contents->block_count, table->block_count);
    if (contents->entries)
        memcpy(table->entries, contents->entries,
               table->header->fresh_entry * sizeof *table->entries);
    if (contents->next)
        memcpy(table->next, contents->next, blocks * sizeof *table->next);
    table_rebuild(table, NULL, NULL);
    table_sign(table->header, geometry);
    return OK;
}

/* The files get their size before anything in them changes: a full disk costs nothing. */
static struct status table_resize(struct cache *cache, const struct found *found,
                                  const struct cache_geometry *geometry)
{
    CLEANUP(contents_done) struct contents contents = {0};
    if (found->is_there && !found->is_whole)
        log_note("'%s' is damaged, unfinished or another version's: the cache is begun anew",
                 cache->table_path);
    if (found->is_whole)
        TRY(contents_take(cache, &found->geometry, &contents));
    else
        TRY(file_mark(cache->data_fd, cache->data_path, CACHE_DATA_MAGIC, sizeof CACHE_DATA_MAGIC));
    if (geometry->data_bytes > found->geometry.data_bytes)
        TRY(disk_allocate(cache->data_fd, cache->data_path, geometry->data_bytes));
    return table_write(cache, geometry, &contents);
}

/* ---- opening ---- */

/* Nobody uses the cache. */
static struct status open_first(struct cache *cache, const struct found *found, uint64_t bytes)
{
    struct cache_geometry geometry = found->geometry;
    if (bytes == 0 && !found->is_whole)
        FAIL(STATUS_USAGE, "'%s' holds no cache whose size could be kept; give one: --cache-size",
             cache->folder);
    if (bytes > 0)
        TRY(cache_geometry_plan(bytes, &geometry));
    bool is_same = found->is_whole && geometry.blocks == found->geometry.blocks &&
                   geometry.entries == found->geometry.entries;
    if (is_same) {
        TRY(table_map(cache, &geometry));
        table_rebuild(&cache->table, NULL, NULL);
    } else {
        TRY(table_resize(cache, found, &geometry));
    }
    struct cache_header *header = cache->table.header;
    memset(header->processes, 0, sizeof header->processes);
    header->holder = header->is_damaged = 0;
    cache_sessions_reset(cache);
    return OK;
}

/* Others use it. */
static struct status open_another(struct cache *cache, const struct found *found, uint64_t bytes)
{
    struct cache_geometry geometry = found->geometry;
    if (found->is_cut || !found->is_there)
        FAIL(STATUS_CORRUPT,
             "a file of the cache in '%s' was cut while others use it: it is begun anew when they "
             "have ended; give another folder until then",
             cache->folder);
    if (!found->is_whole)
        FAIL(STATUS_UNSUPPORTED,
             "'%s' is in use by another version of this program; give another "
             "folder",
             cache->folder);
    if (bytes > 0)
        TRY(cache_geometry_plan(bytes, &geometry));
    if (geometry.blocks != found->geometry.blocks || geometry.entries != found->geometry.entries)
        FAIL(
            STATUS_USAGE,
            "'%s' is in use by others with a size of %llu bytes: its size can be changed when they "
            "have ended; leave --cache-size out to share it as it is",
            cache->folder,
            (unsigned long long)(found->geometry.table_bytes + found->geometry.data_bytes));
    return table_map(cache, &geometry);
}

static struct status open_gated(struct cache *cache, uint64_t bytes)
{
    struct found found;
    TRY(table_look(cache, &found));
    if (range_is_locked(cache->table_fd, places_at, CACHE_PROCESSES))
        TRY(open_another(cache, &found, bytes));
    else
        TRY(open_first(cache, &found, bytes));
    return place_take(cache);
}

static struct status open_memory(struct cache *cache, uint64_t bytes)
{
    struct cache_geometry *geometry = &cache->geometry;
    TRY(cache_geometry_plan(bytes, geometry));
    uint64_t all_bytes = geometry->table_bytes + geometry->data_bytes;
    void *map = mmap(NULL, all_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return status_errno(errno, "cannot get %llu bytes of memory to read ahead into",
                            (unsigned long long)all_bytes);
    cache->map = map;
    cache->data = (uint8_t *)map + geometry->table_bytes;
    cache->table = table_at(map, geometry);
    table_rebuild(&cache->table, NULL, NULL);
    table_sign(cache->table.header, geometry);
    return place_take(cache);
}

struct status cache_store_open(struct cache *cache, uint64_t bytes)
{
    if (!cache->folder)
        return open_memory(cache, bytes);
    TRY(folder_create(cache->folder));
    TRY(path_join(cache->folder, "headrace-cache.table", &cache->table_path));
    TRY(path_join(cache->folder, "headrace-cache.data", &cache->data_path));
    TRY(disk_open(cache->table_path, &cache->table_fd));
    TRY(disk_open(cache->data_path, &cache->data_fd));
    TRY(gate_enter(cache));
    struct status status = open_gated(cache, bytes);
    gate_leave(cache);
    return status;
}

void cache_store_close(struct cache *cache)
{
    if (cache->data)
        munmap(cache->map, cache->geometry.table_bytes + cache->geometry.data_bytes);
    else
        table_unmap(cache);
    if (cache->table_fd >= 0)
        fd_close(cache->table_fd);
    if (cache->data_fd >= 0)
        fd_close(cache->data_fd);
    memory_free(cache->table_path);
    memory_free(cache->data_path);
}

/* ---- data ---- */

/* How many blocks stand one behind the other from blocks[0] on. */
static uint32_t run_length(const uint32_t *blocks, uint32_t count)
{
    uint32_t run = 1;
    while (run < count && blocks[run] == blocks[0] + run)
        run++;
    return run;
}

/* One run of a record's blocks: from memory or the file, or into it. */
static struct status run_move(struct cache *cache, uint32_t block, uint8_t *bytes, size_t length,
                              bool is_write)
{
    uint64_t offset = CACHE_PAGE_BYTES + (uint64_t)block * CACHE_BLOCK_BYTES;
    if (cache->data && is_write)
        memcpy(cache->data + offset, bytes, length);
    else if (cache->data)
        memcpy(bytes, cache->data + offset, length);
    else if (is_write)
        return disk_write_at(cache->data_fd, cache->data_path, bytes, length, offset);
    else
        return file_read_at(cache->data_fd, cache->data_path, bytes, length, offset);
    return OK;
}

static struct status data_move(struct cache *cache, const uint32_t *blocks, uint8_t *bytes,
                               uint32_t length, bool is_write)
{
    uint32_t count = table_blocks_of(length);
    for (uint32_t i = 0; i < count;) {
        uint32_t run = run_length(blocks + i, count - i);
        uint64_t at = (uint64_t)i * CACHE_BLOCK_BYTES;
        uint64_t run_bytes = (uint64_t)run * CACHE_BLOCK_BYTES;
        size_t part = length - at < run_bytes ? length - at : run_bytes;
        TRY(run_move(cache, blocks[i], bytes + at, part, is_write));
        i += run;
    }
    return OK;
}

struct status cache_data_read(struct cache *cache, const uint32_t *blocks, void *bytes,
                              uint32_t length)
{
    return data_move(cache, blocks, bytes, length, false);
}

struct status cache_data_write(struct cache *cache, const uint32_t *blocks, const void *bytes,
                               uint32_t length)
{
    return data_move(cache, blocks, (uint8_t *)bytes, length, true);
}
