#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/pool.h"

static const size_t text_ceiling_bytes = 64 << 10;

static unsigned cores_in_affinity(void)
{
    unsigned cores = 1;
    for (int cpus = 1024; cpus <= 1 << 20;
         cpus *= 2) { /* the kernel refuses a mask that is too small */
        cpu_set_t *set = CPU_ALLOC(cpus);
        size_t size_bytes = CPU_ALLOC_SIZE(cpus);
        if (!set)
            break;
        int result = sched_getaffinity(0, size_bytes, set);
        if (result == 0)
            cores = (unsigned)CPU_COUNT_S(size_bytes, set);
        CPU_FREE(set);
        if (result == 0)
            break;
    }
    return cores ? cores : 1;
}

/* Cores that "quota period" (microseconds; "max" or −1: no limit) allows, rounded up; `limit` where
 * there is none. */
static unsigned cores_of_quota(char *text, unsigned limit)
{
    int64_t quota, period;
    char *rest = NULL;
    const char *quota_text = strtok_r(text, " \n", &rest);
    const char *period_text = strtok_r(NULL, " \n", &rest);
    if (!quota_text || !period_text || !number_parse_i64(quota_text, &quota) ||
        !number_parse_i64(period_text, &period) || quota <= 0 || period <= 0)
        return limit;
    int64_t cores = quota / period + (quota % period != 0);
    return cores < limit ? (unsigned)cores : limit;
}

static struct status file_append_text(const char *folder, const char *name, struct buffer *text)
{
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(buffer_done) struct buffer content = {0};
    const char *string;
    TRY(path_join(folder, name, &path));
    TRY(file_read_all(path, text_ceiling_bytes, &content));
    TRY(buffer_text(&content, &string));
    return buffer_append_text(text, "%s ", string);
}

/* The quota of one group's folder: version 2 has one file, version 1 has two. */
static unsigned cores_in_group(const char *folder, unsigned limit)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *string;
    struct status status = file_append_text(folder, "cpu.max", &text);
    if (status.code != STATUS_DONE) {
        status_clear(&status);
        status = file_append_text(folder, "cpu.cfs_quota_us", &text);
        if (status.code == STATUS_DONE)
            status = file_append_text(folder, "cpu.cfs_period_us", &text);
    }
    if (status.code == STATUS_DONE)
        status = buffer_text(&text, &string);
    if (status.code == STATUS_DONE)
        limit = cores_of_quota((char *)text.data, limit);
    status_ignore(status); /* no quota that can be read is no quota */
    return limit;
}

/* The smallest quota of `group` and all groups above it. */
static unsigned cores_in_hierarchy(const char *mount, char *group, unsigned limit)
{
    for (;;) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        limit = cores_in_group(folder, limit);
        char *slash = strrchr(group, '/');
        if (!slash)
            return limit;
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup are "id:controllers:/path"; version 2 has no controllers. */
static unsigned cores_in_line(char *line, unsigned limit)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return limit;
    *group++ = '\0';
    controllers++;
    if (*controllers == '\0')
        return cores_in_hierarchy("/sys/fs/cgroup", group, limit);
    if (strcmp(controllers, "cpu") == 0 || strncmp(controllers, "cpu,", 4) == 0)
        return cores_in_hierarchy("/sys/fs/cgroup/cpu", group, limit);
    return limit;
}

static unsigned most_cores = UINT_MAX;

void cores_limit(unsigned most)
{
    most_cores = most;
}

unsigned cores_available(void)
{
    unsigned limit = cores_in_affinity();
    if (limit > most_cores)
        limit = most_cores;
    CLEANUP(buffer_done) struct buffer groups = {0};
    const char *text;
    struct status status = file_read_all("/proc/self/cgroup", text_ceiling_bytes, &groups);
    if (status.code == STATUS_DONE)
        status = buffer_text(&groups, &text);
    if (status.code == STATUS_DONE) {
        char *rest = NULL;
        for (char *line = strtok_r((char *)groups.data, "\n", &rest); line;
             line = strtok_r(NULL, "\n", &rest))
            limit = cores_in_line(line, limit);
    }
    status_ignore(status);
    return limit;
}
