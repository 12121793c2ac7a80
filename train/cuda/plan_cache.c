#include "train/cuda/plan_cache.h"

#include <ctype.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/memory.h"

/* A file: the magic, u32 CRC-32C of all that follows; u32 length and text of what it is for; u8
 * whether the plan was timed; the plan. Little-endian. */
static const char magic[8] = "HRPLAN1\n";
static const size_t ceiling_bytes = (size_t)64 << 20;
enum { CHECKED_FROM = sizeof magic + 4 };

struct plan_cache {
    char *folder;
    char *device;
    size_t version;
};

/* "NVIDIA-H200-cudnn-91900": `text` with what a file name should not have replaced. */
static void plain_name(char *text)
{
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && *text != '_')
            *text = '-';
}

struct status plan_cache_open(const char *folder, const char *device_name, size_t version,
                              struct plan_cache **ret_cache)
{
    CLEANUP(plan_cache_close) struct plan_cache *cache = NULL;
    CLEANUP(memory_free) char *name = NULL;
    TRY(memory_alloc(1, sizeof *cache, &cache));
    TRY(string_copy(device_name, &cache->device));
    cache->version = version;
    TRY(string_format(&name, "%s-cudnn-%zu", device_name, version));
    plain_name(name);
    TRY(path_join(folder, name, &cache->folder));
    TRY(folder_create(cache->folder));
    *ret_cache = MOVE(cache);
    return OK;
}

void plan_cache_close(struct plan_cache *cache)
{
    if (!cache)
        return;
    memory_free(cache->folder);
    memory_free(cache->device);
    memory_free(cache);
}

static struct status cache_path(const struct plan_cache *cache, const char *key, char **ret_path)
{
    CLEANUP(memory_free) char *name = NULL;
    TRY(string_format(&name, "%s_plan", key));
    plain_name(name);
    return path_join(cache->folder, name, ret_path);
}

/* What a file for this key says that it is for. */
static struct status cache_title(const struct plan_cache *cache, const char *key, char **ret_title)
{
    return string_format(ret_title, "cuDNN %zu, %s, %s", cache->version, cache->device, key);
}

struct status plan_cache_write(const struct plan_cache *cache, const char *key, bool tuned,
                               const struct buffer *plan)
{
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(memory_free) char *title = NULL;
    CLEANUP(buffer_done) struct buffer file = {0};
    TRY(cache_path(cache, key, &path));
    TRY(cache_title(cache, key, &title));
    TRY(buffer_append(&file, magic, sizeof magic));
    TRY(buffer_append_le32(&file, 0));
    TRY(buffer_append_le32(&file, (uint32_t)strlen(title)));
    TRY(buffer_append(&file, title, strlen(title)));
    TRY(buffer_append_u8(&file, tuned));
    TRY(buffer_append(&file, plan->data, plan->length));
    store_le32(file.data + sizeof magic,
               crc32c_update(0, file.data + CHECKED_FROM, file.length - CHECKED_FROM));
    return file_write_atomic(path, file.data, file.length);
}

struct status plan_cache_read(const struct plan_cache *cache, const char *key, bool *ret_tuned,
                              struct buffer *ret_plan)
{
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(memory_free) char *title = NULL;
    CLEANUP(buffer_done) struct buffer file = {0};
    TRY(cache_path(cache, key, &path));
    TRY(cache_title(cache, key, &title));
    TRY(file_read_all(path, ceiling_bytes, &file));
    struct reader reader = reader_make(file.data, file.length);
    const uint8_t *begin = reader_take(&reader, sizeof magic);
    if (!begin || memcmp(begin, magic, sizeof magic) != 0)
        FAIL(STATUS_NOT_FOUND, "'%s' is no plan of this version", path);
    uint32_t crc = reader_le32(&reader);
    if (reader.overrun ||
        crc != crc32c_update(0, file.data + CHECKED_FROM, file.length - CHECKED_FROM))
        FAIL(STATUS_CORRUPT, "'%s' is not as it was written; delete it", path);
    uint32_t length = reader_le32(&reader);
    const uint8_t *found = reader_take(&reader, length);
    *ret_tuned = reader_u8(&reader) != 0;
    if (reader.overrun || length != strlen(title) || memcmp(found, title, length) != 0)
        FAIL(STATUS_NOT_FOUND, "'%s' holds another plan", path);
    ret_plan->length = 0;
    return buffer_append(ret_plan, file.data + reader.position, reader_left(&reader));
}
