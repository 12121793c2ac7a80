#include "tests/support/process.h"

#include <dirent.h>

#include "tests/test.h"

uint64_t process_resident_bytes(void)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *statm;
    unsigned long pages;
    assert_ok(file_read_all("/proc/self/statm", 4096, &text));
    assert_ok(buffer_text(&text, &statm));
    assert_int_equal(sscanf(statm, "%*u %lu", &pages), 1);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* But for "." and "..". */
static size_t entries_count(const char *folder)
{
    size_t count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count - 2;
}

size_t process_threads(void)
{
    return entries_count("/proc/self/task");
}

size_t process_descriptors(void)
{
    return entries_count("/proc/self/fd");
}
