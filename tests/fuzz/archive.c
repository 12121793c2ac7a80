/* Tar archives from hostile bytes: read with their data and by their headers, which must agree. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "prep/archive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static struct status read_members(const struct archive_file *file, enum archive_use use,
                                  uint64_t *ret_members)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    struct archive_member member;
    bool found;
    TRY(archive_reader_open(file, use, &reader));
    for (*ret_members = 0;; ++*ret_members) {
        TRY(archive_reader_next(reader, &member, &found));
        if (!found)
            return OK;
        if (member.is_range && member.offset + member.size_bytes > file->size_bytes)
            abort();
        uint64_t done_bytes = 0;
        for (size_t piece = 1; piece && use == ARCHIVE_DATA && done_bytes < 1 << 20;
             done_bytes += piece) {
            const void *bytes;
            TRY(archive_reader_data(reader, &bytes, &piece));
        }
        if (done_bytes > member.size_bytes)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    int fd = memfd_create("archive", MFD_CLOEXEC);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, data, length) != (ssize_t)length)
        abort();
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    struct status opened = archive_file_open(path, &file);
    close(fd);
    if (opened.code == STATUS_DONE) {
        uint64_t by_data = 0, by_headers = 0;
        struct status data_status = read_members(file, ARCHIVE_DATA, &by_data);
        struct status header_status = read_members(file, ARCHIVE_HEADERS, &by_headers);
        if (data_status.code == STATUS_DONE && header_status.code == STATUS_DONE &&
            by_data != by_headers)
            abort();
        status_clear(&data_status);
        status_clear(&header_status);
    }
    status_clear(&opened);
    return 0;
}
