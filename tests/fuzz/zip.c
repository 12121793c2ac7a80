/* Zip files from hostile bytes: the directory is walked and each member is read. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/path.h"
#include "prep/kaggle_zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static struct status read_member(const struct zip_member *member, void *context)
{
    struct zip_reader *reader = context;
    uint64_t done_bytes = 0;
    struct status status = zip_reader_begin(reader, &member->place, path_base(member->name));
    for (size_t piece = 1; status.code == STATUS_DONE && piece && done_bytes < 1 << 20;
         done_bytes += piece) {
        const void *bytes;
        status = zip_reader_data(reader, &bytes, &piece);
    }
    if (status.code == STATUS_DONE && done_bytes > member->place.size_bytes)
        abort();
    status_clear(&status);
    return OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    int fd = memfd_create("zip", MFD_CLOEXEC);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, data, length) != (ssize_t)length)
        abort();
    CLEANUP(kaggle_zip_close) struct kaggle_zip *kaggle = NULL;
    CLEANUP(zip_close) struct zip_file *zip = NULL;
    CLEANUP(zip_reader_close) struct zip_reader *reader = NULL;
    struct status status = kaggle_zip_open(path, &kaggle);
    status_clear(&status);
    status = zip_open(path, &zip);
    close(fd);
    if (status.code == STATUS_DONE)
        status = zip_reader_open(zip, &reader);
    if (status.code == STATUS_DONE)
        status = zip_walk(zip, read_member, reader);
    status_clear(&status);
    return 0;
}
