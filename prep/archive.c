#include "prep/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "prep/official.h"
#include "prep/sniff.h"

/* A header and what usually follows it; for data as much as keeps system calls few and stays in the
 * cache. */
static const size_t header_block_bytes = 4 << 10;
static const size_t data_block_bytes = 256 << 10;
/* Zeros after the end mark: tar pads to its blocking factor, some by megabytes. More is a download
 * that was never filled in. */
static const uint64_t max_padding_bytes = 16 << 20;
/* Holes cost nothing in the archive, so their size proves nothing. */
static const uint64_t max_sparse_bytes = 1 << 30;

struct archive_reader {
    struct archive *handle;
    const struct archive_file *file;
    char *inner;                   /* NULL: the outer archive */
    struct archive_reader *outer;  /* the stream that an inner archive is read from, or NULL */
    uint64_t start, end, position; /* in the file */
    bool is_gzip;                  /* what is read here, so that its members have no ranges */
    bool head_is_read; /* of a pipe: the bytes that were looked at to find out what it is */
    uint8_t *block;
    size_t block_bytes;
    struct status failure; /* of the input, while libarchive only knows that there was one */

    bool has_member;
    char *member;
    uint64_t member_bytes, member_position;
    uint64_t next_header;   /* where it is expected: libarchive does not say once it failed */
    const uint8_t *pending; /* data behind a hole */
    size_t pending_length;
    uint64_t pending_offset;

    unsigned warnings;
    char *last_warning;
};

/* --- Files --- */

static struct status read_head(struct archive_file *file)
{
    TRY(memory_alloc(SNIFF_BYTES, 1, &file->head));
    while (file->head_length < SNIFF_BYTES) {
        size_t wanted = SNIFF_BYTES - file->head_length;
        uint8_t *to = file->head + file->head_length;
        ssize_t n = file->is_seekable ? pread(file->fd, to, wanted, (off_t)file->head_length)
                                      : read(file->fd, to, wanted);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return status_errno(errno, "cannot read %s", file->path);
        if (n == 0)
            break;
        file->head_length += (size_t)n;
    }
    return OK;
}

static struct status fail_not_an_archive(const struct archive_file *file, const char *description)
{
    CLEANUP(buffer_done) struct buffer hint = {0};
    const char *text;
    TRY(official_append_hint(file->path, file->size_bytes, &hint));
    TRY(buffer_text(&hint, &text));
    FAIL(STATUS_CORRUPT, "%s is not a tar archive but %s%s", file->path, description, text);
}

struct status archive_file_open(const char *path, struct archive_file **ret_file)
{
    CLEANUP(archive_file_close) struct archive_file *file = NULL;
    TRY(memory_alloc(1, sizeof *file, &file));
    file->fd = -1;
    TRY(string_copy(path, &file->path));
    TRY(file_open_read(path, &file->fd));
    struct stat info;
    if (fstat(file->fd, &info))
        return status_errno(errno, "cannot read %s", path);
    if (S_ISDIR(info.st_mode))
        FAIL(STATUS_FAILED, "%s is a folder; an archive is expected", path);
    file->is_seekable = S_ISREG(info.st_mode);
    file->size_bytes = file->is_seekable ? (uint64_t)info.st_size : 0;
    TRY(read_head(file));

    const char *description;
    enum sniff_kind kind = sniff(file->head, file->head_length, &description);
    if (kind == SNIFF_OTHER)
        return fail_not_an_archive(file, description);
    file->is_gzip = kind == SNIFF_GZIP;
    *ret_file = MOVE(file);
    return OK;
}

void archive_file_close(struct archive_file *file)
{
    if (!file)
        return;
    fd_close(file->fd);
    memory_free(file->path);
    memory_free(file->head);
    memory_free(file);
}

struct status archive_file_check_ranges(const struct archive_file *file)
{
    if (!file->is_seekable)
        FAIL(STATUS_UNSUPPORTED,
             "%s is a pipe; a file is needed here, as images are read at their offsets",
             file->path);
    if (file->is_gzip)
        FAIL(STATUS_UNSUPPORTED,
             "%s is compressed, so images cannot be read at their offsets in it; unpack it with "
             "gunzip --keep first, which writes the .tar beside it, or use headrace extract",
             file->path);
    return OK;
}

/* --- Messages --- */

static struct status fail_at(const struct archive_reader *reader, enum status_code code,
                             uint64_t offset, const char *message)
{
    CLEANUP(buffer_done) struct buffer hint = {0};
    const char *text;
    TRY(official_append_hint(reader->file->path, reader->file->size_bytes, &hint));
    TRY(buffer_text(&hint, &text));
    CLEANUP(memory_free) char *where = NULL;
    if (reader->inner)
        TRY(string_format(&where, "inner archive %s, ", reader->inner));
    CLEANUP(memory_free) char *member = NULL;
    if (reader->has_member)
        TRY(string_format(&member, " (after the header of %s)", reader->member));
    FAIL(code, "%s: %sbyte %" PRIu64 "%s: %s%s", reader->file->path, where ? where : "", offset,
         member ? member : "", message, text);
}

struct status archive_reader_fail(const struct archive_reader *reader, enum status_code code,
                                  const char *message)
{
    return fail_at(reader, code, (uint64_t)archive_read_header_position(reader->handle), message);
}

/* What libarchive, or the input below it, has to say about a failed call. */
static struct status fail_by_handle(struct archive_reader *reader, uint64_t offset)
{
    if (reader->failure.code != STATUS_DONE) {
        struct status failure = reader->failure;
        reader->failure = OK;
        return failure;
    }
    const char *message = archive_error_string(reader->handle);
    bool is_at_end = reader->file->is_seekable && !reader->outer && reader->position >= reader->end;
    CLEANUP(memory_free) char *text = NULL;
    bool is_no_tar = reader->is_gzip && message && strstr(message, "Unrecognized archive format");
    TRY(string_format(&text, "%s%s; compare size and MD5 with the publisher's",
                      is_no_tar ? "what the gzip file holds is no tar archive"
                      : message ? message
                                : "damaged archive",
                      is_at_end && !reader->is_gzip ? ", the archive ends before it should" : ""));
    return fail_at(reader, STATUS_CORRUPT, offset, text);
}

static struct status note_warning(struct archive_reader *reader, const char *message)
{
    reader->warnings++;
    memory_free(reader->last_warning);
    reader->last_warning = NULL;
    return string_copy(message ? message : "unnamed warning", &reader->last_warning);
}

/* Names are taken as they stand, so it does not matter that the locale cannot show them. */
static struct status take_warning(struct archive_reader *reader)
{
    const char *message = archive_error_string(reader->handle);
    if (message && strstr(message, "converted from"))
        return OK;
    return note_warning(reader, message);
}

/* --- Input --- */

static la_ssize_t input_failed(struct archive_reader *reader, struct status failure)
{
    status_clear(&reader->failure);
    reader->failure = failure;
    archive_set_error(reader->handle, EIO, "cannot read");
    return ARCHIVE_FATAL;
}

static la_ssize_t read_outer(struct archive *handle, void *context, const void **ret_bytes)
{
    (void)handle;
    struct archive_reader *reader = context;
    size_t length = 0;
    struct status status = archive_reader_data(reader->outer, ret_bytes, &length);
    if (status.code != STATUS_DONE)
        return input_failed(reader, status);
    return (la_ssize_t)length;
}

static la_ssize_t read_pipe(struct archive *handle, void *context, const void **ret_bytes)
{
    (void)handle;
    struct archive_reader *reader = context;
    if (!reader->head_is_read) {
        reader->head_is_read = true;
        *ret_bytes = reader->file->head;
        return (la_ssize_t)reader->file->head_length;
    }
    ssize_t n;
    do
        n = read(reader->file->fd, reader->block, reader->block_bytes);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return input_failed(reader, status_errno(errno, "cannot read %s", reader->file->path));
    *ret_bytes = reader->block;
    return n;
}

static la_ssize_t read_range(struct archive *handle, void *context, const void **ret_bytes)
{
    (void)handle;
    struct archive_reader *reader = context;
    uint64_t left = reader->end - reader->position;
    size_t wanted = left < reader->block_bytes ? (size_t)left : reader->block_bytes;
    ssize_t n;
    do
        n = pread(reader->file->fd, reader->block, wanted, (off_t)reader->position);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return input_failed(reader, status_errno(errno, "cannot read %s at byte %" PRIu64,
                                                 reader->file->path, reader->position));
    reader->position += (uint64_t)n;
    *ret_bytes = reader->block;
    return n;
}

static la_int64_t skip_range(struct archive *handle, void *context, la_int64_t request)
{
    (void)handle;
    struct archive_reader *reader = context;
    uint64_t left = reader->end - reader->position;
    uint64_t skipped = (uint64_t)request < left ? (uint64_t)request : left;
    reader->position += skipped;
    return (la_int64_t)skipped;
}

/* --- Opening --- */

static struct status check_handle(struct archive_reader *reader, int result)
{
    if (result == ARCHIVE_OK)
        return OK;
    return fail_by_handle(reader, 0);
}

/* Only tar is enabled: a member's bytes must not make libarchive take the file for something else.
 */
static struct status open_handle(struct archive_reader *reader)
{
    reader->handle = archive_read_new();
    if (!reader->handle)
        FAIL(STATUS_NO_MEMORY, "cannot allocate an archive reader");
    TRY(check_handle(reader, archive_read_support_format_tar(reader->handle)));
    if (reader->is_gzip)
        TRY(check_handle(reader, archive_read_support_filter_gzip(reader->handle)));
    if (!reader->outer)
        TRY(memory_alloc(reader->block_bytes, 1, &reader->block));
    archive_read_callback *read_input = reader->outer               ? read_outer
                                        : reader->file->is_seekable ? read_range
                                                                    : read_pipe;
    return check_handle(reader,
                        archive_read_open2(reader->handle, reader, NULL, read_input,
                                           read_input == read_range ? skip_range : NULL, NULL));
}

static struct status reader_new(const struct archive_file *file, const char *inner,
                                struct archive_reader **ret_reader)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    TRY(memory_alloc(1, sizeof *reader, &reader));
    reader->file = file;
    if (inner)
        TRY(string_copy(inner, &reader->inner));
    *ret_reader = MOVE(reader);
    return OK;
}

struct status archive_reader_open(const struct archive_file *file, enum archive_use use,
                                  struct archive_reader **ret_reader)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    TRY(reader_new(file, NULL, &reader));
    reader->end = file->size_bytes;
    reader->block_bytes =
        use == ARCHIVE_HEADERS && !file->is_gzip ? header_block_bytes : data_block_bytes;
    reader->is_gzip = file->is_gzip;
    TRY(open_handle(reader));
    *ret_reader = MOVE(reader);
    return OK;
}

/* An inner archive is a tar, compressed or not, or is named for what it is. */
static struct status find_form(struct archive_reader *reader)
{
    uint8_t head[SNIFF_BYTES];
    uint64_t size_bytes = reader->end - reader->start;
    size_t length = size_bytes < sizeof head ? (size_t)size_bytes : sizeof head;
    const char *description;
    TRY(file_read_at(reader->file->fd, reader->file->path, head, length, reader->start));
    enum sniff_kind kind = sniff(head, length, &description);
    reader->is_gzip = kind == SNIFF_GZIP;
    if (kind == SNIFF_OTHER)
        FAIL(STATUS_CORRUPT, "%s: inner archive %s at byte %" PRIu64 " is not a tar archive but %s",
             reader->file->path, reader->inner, reader->start, description);
    return OK;
}

struct status archive_reader_open_range(const struct archive_file *file, const char *inner,
                                        uint64_t offset, uint64_t size_bytes, enum archive_use use,
                                        struct archive_reader **ret_reader)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    uint64_t end;
    if (!size_add(offset, size_bytes, &end) || end > file->size_bytes)
        FAIL(STATUS_CORRUPT,
             "%s ends at byte %" PRIu64 ", inside its inner archive %s at %" PRIu64 " with %" PRIu64
             " bytes",
             file->path, file->size_bytes, inner, offset, size_bytes);
    TRY(reader_new(file, inner, &reader));
    reader->start = reader->position = offset;
    reader->end = end;
    TRY(find_form(reader));
    reader->block_bytes =
        use == ARCHIVE_HEADERS && !reader->is_gzip ? header_block_bytes : data_block_bytes;
    TRY(open_handle(reader));
    *ret_reader = MOVE(reader);
    return OK;
}

struct status archive_reader_open_member(struct archive_reader *outer,
                                         const struct archive_member *member,
                                         struct archive_reader **ret_reader)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    TRY(reader_new(outer->file, member->name, &reader));
    reader->outer = outer;
    reader->is_gzip = true; /* if it is: here the bytes cannot be looked at before */
    TRY(open_handle(reader));
    *ret_reader = MOVE(reader);
    return OK;
}

void archive_reader_close(struct archive_reader *reader)
{
    if (!reader)
        return;
    archive_read_free(reader->handle);
    status_clear(&reader->failure);
    memory_free(reader->inner);
    memory_free(reader->member);
    memory_free(reader->last_warning);
    memory_free(reader->block);
    memory_free(reader);
}

/* --- Members --- */

/* A name may lead nowhere but below the folder that it is unpacked in. */
static bool is_safe_name(const char *name)
{
    if (!*name || *name == '/')
        return false;
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t length = strcspn(part, "/");
        if (length == 2 && memcmp(part, "..", 2) == 0)
            return false;
    }
    return true;
}

static const char *kind_of_entry(struct archive_entry *entry)
{
    if (archive_entry_hardlink(entry))
        return "a hard link";
    switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
    case AE_IFDIR:
        return NULL;
    case AE_IFLNK:
        return "a symbolic link";
    case AE_IFIFO:
        return "a named pipe";
    default:
        return "a device or socket";
    }
}

static struct status take_name(struct archive_reader *reader, struct archive_entry *entry)
{
    const char *name = archive_entry_pathname(entry);
    if (!name)
        name = archive_entry_pathname_utf8(entry);
    if (!name)
        return archive_reader_fail(reader, STATUS_CORRUPT, "a member has no readable name");
    bool is_folder = archive_entry_filetype(entry) == AE_IFDIR;
    const char *shown = name;
    while (name[0] == '.' && name[1] == '/')
        name += 2 + strspn(name + 2, "/");
    if (is_folder && !*name)
        name = ".";

    reader->has_member = false;
    memory_free(reader->member);
    reader->member = NULL;
    TRY(string_copy(name, &reader->member));
    size_t length = strlen(reader->member);
    while (is_folder && length > 1 && reader->member[length - 1] == '/')
        reader->member[--length] = '\0';

    const char *bad =
        is_safe_name(name) ? kind_of_entry(entry) : "a name that leads out of its folder";
    if (!bad)
        return OK;
    CLEANUP(memory_free) char *text = NULL;
    TRY(string_format(&text, "member %s is %s; only regular files are taken", shown, bad));
    return archive_reader_fail(reader, STATUS_CORRUPT, text);
}

static struct status fail_cut_short(const struct archive_reader *reader, uint64_t data_start)
{
    CLEANUP(memory_free) char *text = NULL;
    TRY(string_format(&text,
                      "it is cut short: this member ends at byte %" PRIu64
                      ", the archive at byte %" PRIu64,
                      data_start + reader->member_bytes, reader->end - reader->start));
    return fail_at(reader, STATUS_CORRUPT, data_start, text);
}

static struct status take_member(struct archive_reader *reader, struct archive_entry *entry,
                                 struct archive_member *ret_member)
{
    TRY(take_name(reader, entry));
    bool is_folder = archive_entry_filetype(entry) == AE_IFDIR;
    int64_t size_bytes = is_folder ? 0 : archive_entry_size(entry);
    bool is_sparse = archive_entry_sparse_count(entry) > 0;
    if (size_bytes < 0 || (is_sparse && (uint64_t)size_bytes > max_sparse_bytes))
        return archive_reader_fail(reader, STATUS_CORRUPT, "a member has an impossible size");

    reader->has_member = true;
    reader->member_bytes = (uint64_t)size_bytes;
    reader->member_position = 0;
    reader->pending_length = 0;
    uint64_t data_start = (uint64_t)archive_filter_bytes(reader->handle, 0);
    uint64_t offset = reader->start + data_start;
    if (!size_add(data_start, (reader->member_bytes + 511) & ~(uint64_t)511, &reader->next_header))
        return archive_reader_fail(reader, STATUS_CORRUPT, "a member has an impossible size");
    bool is_ranged = !reader->outer && reader->file->is_seekable && !reader->is_gzip;
    if (is_ranged && !is_sparse &&
        (offset > reader->end || reader->member_bytes > reader->end - offset))
        return fail_cut_short(reader, data_start);
    *ret_member = (struct archive_member){
        .name = reader->member,
        .is_folder = is_folder,
        .size_bytes = reader->member_bytes,
        .is_sparse = is_sparse,
        .is_range = is_ranged && !is_sparse && !is_folder,
        .offset = offset,
    };
    return OK;
}

static struct status check_zeros(struct archive_reader *reader, uint64_t from, uint64_t to)
{
    uint8_t bytes[4096];
    for (uint64_t at = from; at < to;) {
        size_t length = to - at < sizeof bytes ? (size_t)(to - at) : sizeof bytes;
        TRY(file_read_at(reader->file->fd, reader->file->path, bytes, length, at));
        for (size_t i = 0; i < length; i++)
            if (bytes[i])
                return fail_at(reader, STATUS_CORRUPT, at + i - reader->start,
                               "data follow the archive's end mark: a part of it was overwritten "
                               "with zeros or never filled in; download it again");
        at += length;
    }
    return OK;
}

/* A block of zeros ends an archive, so a hole in a broken download would end it too: what follows
 * must be padding. */
static struct status check_end(struct archive_reader *reader)
{
    uint64_t mark = (uint64_t)archive_read_header_position(reader->handle);
    uint64_t read_bytes = (uint64_t)archive_filter_bytes(reader->handle, 0);
    reader->has_member = false;
    if (mark == read_bytes)
        return note_warning(reader, "it has no end mark, as if it was cut between two members");
    if (reader->outer || !reader->file->is_seekable || reader->is_gzip)
        return OK;
    uint64_t rest = reader->start + read_bytes;
    if (rest >= reader->end)
        return OK;
    if (reader->end - rest > max_padding_bytes) {
        TRY(check_zeros(reader, rest, rest + max_padding_bytes));
        return fail_at(
            reader, STATUS_CORRUPT, read_bytes,
            "the rest of the archive is zeros: it was never filled in; download it again");
    }
    return check_zeros(reader, rest, reader->end);
}

struct status archive_reader_next(struct archive_reader *reader, struct archive_member *ret_member,
                                  bool *ret_found)
{
    struct archive_entry *entry;
    int result = archive_read_next_header(reader->handle, &entry);
    *ret_found = false;
    if (result == ARCHIVE_EOF)
        return check_end(reader);
    if (result == ARCHIVE_WARN)
        TRY(take_warning(reader));
    else if (result != ARCHIVE_OK)
        return fail_by_handle(reader, reader->next_header);
    TRY(take_member(reader, entry, ret_member));
    *ret_found = true;
    return OK;
}

/* --- Data --- */

static struct status next_block(struct archive_reader *reader)
{
    const void *block;
    size_t length;
    la_int64_t offset;
    int result = archive_read_data_block(reader->handle, &block, &length, &offset);
    if (result == ARCHIVE_EOF) {
        /* A hole at the end has no block. */
        reader->pending = NULL;
        reader->pending_offset = reader->member_bytes;
        return OK;
    }
    if (result == ARCHIVE_WARN)
        TRY(take_warning(reader));
    else if (result != ARCHIVE_OK)
        return fail_by_handle(reader, (uint64_t)archive_filter_bytes(reader->handle, 0));
    uint64_t end;
    if (offset < 0 || (uint64_t)offset < reader->member_position ||
        !size_add((uint64_t)offset, length, &end) || end > reader->member_bytes)
        return archive_reader_fail(reader, STATUS_CORRUPT, "data lie outside their member");
    reader->pending = block;
    reader->pending_length = length;
    reader->pending_offset = (uint64_t)offset;
    return OK;
}

struct status archive_reader_data(struct archive_reader *reader, const void **ret_bytes,
                                  size_t *ret_length)
{
    static const uint8_t zeros[64 << 10];
    *ret_length = 0;
    while (reader->member_position < reader->member_bytes) {
        if (!reader->pending_length)
            TRY(next_block(reader));
        uint64_t hole = reader->pending_offset - reader->member_position;
        if (hole) {
            *ret_bytes = zeros;
            *ret_length = hole < sizeof zeros ? (size_t)hole : sizeof zeros;
        } else {
            *ret_bytes = reader->pending;
            *ret_length = reader->pending_length;
            reader->pending_length = 0;
        }
        reader->member_position += *ret_length;
        if (*ret_length)
            return OK;
    }
    return OK;
}

unsigned archive_reader_warnings(const struct archive_reader *reader)
{
    return reader->warnings;
}

const char *archive_reader_last_warning(const struct archive_reader *reader)
{
    return reader->last_warning ? reader->last_warning : "";
}

void archive_reader_show_warnings(const struct archive_reader *reader)
{
    if (!reader->warnings)
        return;
    log_warning("%s%s%s: %s%s", reader->file->path, reader->inner ? ": inner archive " : "",
                reader->inner ? reader->inner : "", archive_reader_last_warning(reader),
                reader->warnings > 1 ? " (and other warnings)" : "");
}
