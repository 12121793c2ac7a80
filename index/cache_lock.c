/* Who uses a cache: the lock of its table, and which processes live.
 *
 * The lock is a number in the table, that of who holds it, with the kernel's futex for those that
 * wait. A mutex of pthreads would hold pointers there, through which a damaged table would lead
 * anywhere. Who dies with the lock is found out by those that wait, who make the table whole.
 *
 * Each time that the lock is taken, the table is looked at first: whether its file has its length,
 * and whether what never changes is as it was. So a file that is cut or written over while it is in
 * use ends a cache and not its processes. What is left is a file that is cut within the few
 * microseconds for which the lock is held: that raises SIGBUS, as with any mapped file. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/progress.h"
#include "index/cache_internal.h"

/* ---- processes ---- */

/* What the kernel tells of a process. */
struct process_look {
    uint64_t started; /* tells it from a later one of its number; 0: not known */
    bool has_ended;   /* nobody waited for it yet */
};

static struct process_look process_look(uint32_t pid)
{
    enum { FIELD_STATE = 3, FIELD_THREADS = 20, FIELD_STARTED = 22 }; /* proc(5), from 1 */
    struct process_look look = {0};
    CLEANUP(fd_close) int fd = -1;
    char path[32], text[1024], state = '?';
    uint64_t threads = 0;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (length <= 0)
        return look;
    text[length] = '\0';
    char *rest = strrchr(text, ')'), *field; /* the name before may hold anything */
    strsep(&rest, " ");
    for (int i = FIELD_STATE; i <= FIELD_STARTED && (field = strsep(&rest, " ")); i++) {
        if (i == FIELD_STATE)
            state = field[0];
        else if ((i == FIELD_THREADS && !number_parse_u64(field, &threads)) ||
                 (i == FIELD_STARTED && !number_parse_u64(field, &look.started)))
            return (struct process_look){0};
    }
    look.has_ended = (state == 'Z' || state == 'X') && threads <= 1;
    return look;
}

/* The inode of this process's name space of process numbers; 0: not known. */
static uint64_t pid_namespace(void)
{
    struct stat state;
    return stat("/proc/self/ns/pid", &state) == 0 ? (uint64_t)state.st_ino : 0;
}

/* Whether a process that has left a lock in the kernel, or a child that inherited it, has done so
 * itself. True where that cannot be told. */
static bool process_lives(const struct cache *cache, const struct cache_process *process)
{
    uint32_t pid = process->pid;
    if (!pid || pid > INT_MAX || !cache->pid_namespace ||
        process->pid_namespace != cache->pid_namespace)
        return true;
    if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
        return false;
    struct process_look look = process_look(pid);
    return look.started == 0 || (look.started == process->started && !look.has_ended);
}

bool cache_is_alive(const struct cache *cache, uint32_t number)
{
    if (number == cache->number || number == 0 || cache->table_fd < 0)
        return number == cache->number && number != 0;
    for (uint32_t i = 0; i < CACHE_PROCESSES; i++) {
        const struct cache_process *process = &cache->table.header->processes[i];
        if (process->number == number)
            return cache_place_is_held(cache, i) && process_lives(cache, process);
    }
    return false;
}

static bool owner_is_alive(uint32_t owner, void *cache)
{
    return cache_is_alive(cache, owner);
}

/* A number that nobody has. */
static uint32_t number_choose(const struct cache_header *header)
{
    uint32_t number = header->processes_begun;
    bool is_used = true;
    while (is_used) {
        number = (number + 1) & ~CACHE_AWAITED;
        is_used = number == 0;
        for (uint32_t i = 0; !is_used && i < CACHE_PROCESSES; i++)
            is_used = header->processes[i].number == number;
    }
    return number;
}

struct status cache_join(struct cache *cache, uint32_t place)
{
    struct cache_header *header = cache->table.header;
    struct cache_process *process = &header->processes[place];
    cache->pid_namespace = pid_namespace();
    cache->place = place;
    cache->number = number_choose(header);
    header->processes_begun = cache->number;
    process->number = 0;
    process->pid = (uint32_t)getpid();
    process->pid_namespace = cache->pid_namespace;
    process->started = process_look((uint32_t)getpid()).started;
    process->number = cache->number;
    if (!cache_lock(cache))
        FAIL(STATUS_CORRUPT,
             "'%s' was damaged while it is in use: it is made whole when all that use it have "
             "ended; give another folder until then",
             cache->folder ? cache->folder : "the cache in memory");
    cache_reap(cache, true); /* whoever had this place is dead */
    cache_unlock(cache);
    return OK;
}

void cache_reap(struct cache *cache, bool found)
{
    struct cache_table *table = &cache->table;
    struct cache_header *header = table->header;
    cache->reaped_s = clock_seconds();
    for (uint32_t i = 0; i < CACHE_PROCESSES; i++) {
        uint32_t number = header->processes[i].number;
        if (number == 0 || cache_is_alive(cache, number))
            continue;
        found = true;
        header->processes[i].number = 0;
    }
    uint32_t end = table_entries_used(table);
    if (found)
        cache_sessions_end(cache, owner_is_alive);
    for (uint32_t at = 0; found && at < end; at++)
        if (table->entries[at].state == ENTRY_FILLING &&
            !cache_is_alive(cache, table->entries[at].owner))
            table_drop(table, at);
}

/* ---- giving up ---- */

bool cache_is_lost(const struct cache *cache)
{
    return atomic_load(&cache->is_lost);
}

static void cache_lose(struct cache *cache, const char *what)
{
    if (!atomic_exchange(&cache->is_lost, true))
        log_warning("'%s' %s: records are read from their shards from now on; remove the two files "
                    "of that cache, or use it again when all that have it open have ended",
                    cache->table_path ? cache->table_path : "the cache in memory", what);
}

struct status cache_check(const struct cache *cache)
{
    if (cache_is_lost(cache))
        FAIL(
            STATUS_CORRUPT,
            "'%s' was damaged while it was in use; run the same command again when all that use it "
            "have ended",
            cache->table_path);
    return OK;
}

/* Whether all of the mapped file is there. */
static bool table_is_there(const struct cache *cache)
{
    struct stat state;
    return cache->table_fd < 0 || (fstat(cache->table_fd, &state) == 0 &&
                                   (uint64_t)state.st_size >= cache->geometry.table_bytes);
}

/* Whether what never changes is as it was. */
static bool table_is_same(const struct cache *cache)
{
    const struct cache_header *header = cache->table.header;
    return memcmp(header->magic, CACHE_MAGIC, sizeof header->magic) == 0 &&
           table_is_signed(header) && header->blocks == cache->geometry.blocks &&
           header->entries == cache->geometry.entries;
}

/* ---- the lock ---- */

static int futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    const struct timespec moment = {.tv_nsec = 50000000};
    return syscall(SYS_futex, word, FUTEX_WAIT, value, &moment, NULL, 0) < 0 ? errno : 0;
}

/* Waits once for another holder, `*seen`, which is not free, and looks again. Whether that one is
 * dead. */
static bool holder_await(struct cache *cache, uint32_t *seen)
{
    _Atomic uint32_t *holder = &cache->table.header->holder;
    uint32_t awaited = *seen | CACHE_AWAITED;
    if (*seen != awaited && !atomic_compare_exchange_strong(holder, seen, awaited))
        return false;
    int error = futex_wait(holder, awaited);
    *seen = awaited;
    if (error == 0 || error == EAGAIN || error == EINTR || !table_is_there(cache)) {
        *seen = 0; /* to be tried */
        return false;
    }
    return !cache_is_alive(cache, awaited & ~CACHE_AWAITED);
}

/* Takes the lock; *ret_of_the_dead: from somebody who died with it. False: it cannot be had. */
static bool holder_take(struct cache *cache, bool *ret_of_the_dead)
{
    _Atomic uint32_t *holder = &cache->table.header->holder;
    uint32_t seen = 0, own = cache->number;
    *ret_of_the_dead = false;
    if (atomic_compare_exchange_strong(holder, &seen, own))
        return true;
    double begin = clock_seconds();
    own |= CACHE_AWAITED; /* others may wait behind this one */
    while (clock_seconds() - begin < CACHE_PATIENCE_S && table_is_there(cache)) {
        *ret_of_the_dead = seen != 0 && holder_await(cache, &seen);
        if ((seen == 0 || *ret_of_the_dead) && atomic_compare_exchange_strong(holder, &seen, own))
            return true;
    }
    return false;
}

static void holder_leave(struct cache *cache)
{
    _Atomic uint32_t *holder = &cache->table.header->holder;
    uint32_t seen = *holder;
    bool is_own;
    do
        is_own = (seen & ~CACHE_AWAITED) == cache->number;
    while (is_own && !atomic_compare_exchange_strong(holder, &seen, 0));
    if (is_own && seen & CACHE_AWAITED)
        syscall(SYS_futex, holder, FUTEX_WAKE, 1, NULL, NULL, 0);
}

bool cache_lock(struct cache *cache)
{
    bool of_the_dead;
    if (cache_is_lost(cache))
        return false;
    if (!table_is_there(cache)) {
        cache_lose(cache, "was cut while it was in use");
        return false;
    }
    if (!holder_take(cache, &of_the_dead)) {
        cache_lose(cache, "is held by somebody who does not let go of it");
        return false;
    }
    if (table_is_same(cache) && !cache->table.header->is_damaged) {
        if (of_the_dead) {
            table_rebuild(&cache->table, owner_is_alive, cache);
            cache_reap(cache, true);
        }
        return true;
    }
    holder_leave(cache);
    cache_lose(cache, "was damaged while it was in use");
    return false;
}

void cache_unlock(struct cache *cache)
{
    bool is_damaged = cache->table.is_damaged;
    if (is_damaged)
        cache->table.header->is_damaged = 1;
    holder_leave(cache);
    if (is_damaged)
        cache_lose(cache, "was damaged while it was in use");
}
