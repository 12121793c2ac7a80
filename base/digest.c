#include "base/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <md5.h>
#include <sha2.h>

#include "base/file.h"
#include "base/memory.h"

_Static_assert(SHA256_BYTES == SHA256_DIGEST_LENGTH, "libmd's digest has another length");

static void hex_write(const uint8_t *bytes, size_t length, char *hex)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < length; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[2 * length] = '\0';
}

static void md5_finish(MD5_CTX *md5, char ret_hex[MD5_HEX_LENGTH + 1])
{
    uint8_t digest[MD5_DIGEST_LENGTH];
    MD5Final(digest, md5);
    hex_write(digest, sizeof digest, ret_hex);
}

struct status digest_md5_file(const char *path, digest_progress_fn *progress, void *context,
                              char ret_hex[MD5_HEX_LENGTH + 1])
{
    const size_t block_bytes = (size_t)1 << 20;
    CLEANUP(fd_close) int fd = -1;
    CLEANUP(memory_free) uint8_t *block = NULL;
    TRY(file_open_read(path, &fd));
    TRY(memory_alloc(block_bytes, 1, &block));
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);

    MD5_CTX md5;
    MD5Init(&md5);
    uint64_t done_bytes = 0;
    for (;;) {
        ssize_t count = read(fd, block, block_bytes);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return status_errno(errno, "cannot read '%s'", path);
        if (count == 0)
            break;
        MD5Update(&md5, block, (size_t)count);
        done_bytes += (uint64_t)count;
        if (progress)
            progress(done_bytes, context);
    }
    md5_finish(&md5, ret_hex);
    return OK;
}

void digest_md5_bytes(const void *bytes, size_t length, char ret_hex[MD5_HEX_LENGTH + 1])
{
    MD5_CTX md5;
    MD5Init(&md5);
    MD5Update(&md5, bytes, length);
    md5_finish(&md5, ret_hex);
}

void digest_sha256_bytes(const void *bytes, size_t length, uint8_t ret_digest[SHA256_BYTES])
{
    SHA2_CTX sha;
    SHA256Init(&sha);
    SHA256Update(&sha, bytes, length);
    SHA256Final(ret_digest, &sha);
}
