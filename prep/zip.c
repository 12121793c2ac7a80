#include "prep/zip.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/deflate.h"
#include "base/file.h"
#include "base/memory.h"

/* Signatures and sizes of the records, as PKWARE's APPNOTE numbers them. */
#define LOCAL_SIGNATURE 0x04034b50u
#define ENTRY_SIGNATURE 0x02014b50u
#define END_SIGNATURE 0x06054b50u
#define END64_SIGNATURE 0x06064b50u
#define LOCATOR_SIGNATURE 0x07064b50u
#define LOCAL_BYTES 30
#define ENTRY_BYTES 46
#define END_BYTES 22
#define END64_BYTES 56
#define LOCATOR_BYTES 20
#define MAX_COMMENT_BYTES 65535
#define ZIP64_EXTRA 1

enum { METHOD_STORED = 0, METHOD_DEFLATED = 8 };
static const uint16_t encrypted_flag = 1;

static const size_t window_bytes = 1 << 20;
static const size_t piece_bytes = 256 << 10;

/* --- Opening --- */

bool zip_recognise(const char *path)
{
    CLEANUP(fd_close) int fd = -1;
    uint8_t head[4];
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode))
        return false;
    struct status status = file_open_read(path, &fd);
    if (status.code == STATUS_DONE)
        status = file_read_at(fd, path, head, sizeof head, 0);
    bool is_zip = status.code == STATUS_DONE && load_le32(head) == LOCAL_SIGNATURE;
    status_clear(&status);
    return is_zip;
}

static struct status fail_no_directory(const struct zip_file *zip)
{
    FAIL(STATUS_CORRUPT,
         "%s is a zip file whose end is missing: it is cut short at its %" PRIu64
         " bytes; go on with the download (curl -C -), or compare its size and MD5 with the "
         "publisher's",
         zip->path, zip->size_bytes);
}

/* The end record is the last thing in the file, but for a comment whose length it has. */
static struct status find_end(const struct zip_file *zip, uint64_t *ret_offset, uint8_t *ret_end)
{
    CLEANUP(buffer_done) struct buffer tail = {0};
    uint64_t wanted = END_BYTES + MAX_COMMENT_BYTES;
    size_t length = (size_t)(zip->size_bytes < wanted ? zip->size_bytes : wanted);
    uint64_t start = zip->size_bytes - length;
    TRY(buffer_resize(&tail, length));
    TRY(file_read_at(zip->fd, zip->path, tail.data, length, start));
    for (size_t at = length; at-- > 0;) {
        const uint8_t *end = tail.data + at;
        if (length - at < END_BYTES || load_le32(end) != END_SIGNATURE ||
            load_le16(end + 20) != length - at - END_BYTES)
            continue;
        *ret_offset = start + at;
        memcpy(ret_end, end, END_BYTES);
        return OK;
    }
    return fail_no_directory(zip);
}

/* Large files have a second end record, found by a locator right before the first. */
static struct status read_end64(struct zip_file *zip, uint64_t end_offset, bool *ret_found)
{
    uint8_t locator[LOCATOR_BYTES], end[END64_BYTES];
    *ret_found = false;
    if (end_offset < LOCATOR_BYTES)
        return OK;
    TRY(file_read_at(zip->fd, zip->path, locator, sizeof locator, end_offset - LOCATOR_BYTES));
    if (load_le32(locator) != LOCATOR_SIGNATURE)
        return OK;
    uint64_t offset = load_le64(locator + 8);
    if (offset > end_offset || end_offset - offset < END64_BYTES)
        return fail_no_directory(zip);
    TRY(file_read_at(zip->fd, zip->path, end, sizeof end, offset));
    if (load_le32(end) != END64_SIGNATURE)
        return fail_no_directory(zip);
    zip->member_count = load_le64(end + 32);
    zip->directory_bytes = load_le64(end + 40);
    zip->directory_offset = load_le64(end + 48);
    *ret_found = true;
    return OK;
}

static struct status find_directory(struct zip_file *zip)
{
    uint8_t end[END_BYTES];
    uint64_t end_offset = 0, directory_end;
    bool is_zip64;
    TRY(find_end(zip, &end_offset, end));
    TRY(read_end64(zip, end_offset, &is_zip64));
    if (load_le16(end + 4) != load_le16(end + 6) ||
        (load_le16(end + 4) != 0 && load_le16(end + 4) != UINT16_MAX))
        FAIL(STATUS_UNSUPPORTED, "%s is one part of a zip file of several; join them first",
             zip->path);
    if (!is_zip64) {
        zip->member_count = load_le16(end + 10);
        zip->directory_bytes = load_le32(end + 12);
        zip->directory_offset = load_le32(end + 16);
    }
    if (!size_add(zip->directory_offset, zip->directory_bytes, &directory_end) ||
        directory_end > end_offset)
        return fail_no_directory(zip);
    return OK;
}

struct status zip_open(const char *path, struct zip_file **ret_zip)
{
    CLEANUP(zip_close) struct zip_file *zip = NULL;
    TRY(memory_alloc(1, sizeof *zip, &zip));
    zip->fd = -1;
    TRY(string_copy(path, &zip->path));
    TRY(file_open_read(path, &zip->fd));
    TRY(file_size(zip->fd, path, &zip->size_bytes));
    TRY(find_directory(zip));
    *ret_zip = MOVE(zip);
    return OK;
}

void zip_close(struct zip_file *zip)
{
    if (!zip)
        return;
    fd_close(zip->fd);
    memory_free(zip->path);
    memory_free(zip);
}

/* --- The directory --- */

/* A part of the directory in memory: it slides over it. */
struct window {
    const struct zip_file *zip;
    struct buffer bytes;
    uint64_t start; /* in the file */
    size_t at;      /* of the next record in `bytes` */
};

static uint64_t window_offset(const struct window *window)
{
    return window->start + window->at;
}

static struct status fail_directory(const struct window *window)
{
    FAIL(STATUS_CORRUPT,
         "%s: byte %" PRIu64 ": damaged zip directory; compare size and MD5 with the publisher's",
         window->zip->path, window_offset(window));
}

/* Makes the next `length` bytes readable. */
static struct status window_need(struct window *window, size_t length, const uint8_t **ret_bytes)
{
    const struct zip_file *zip = window->zip;
    uint64_t left = zip->directory_offset + zip->directory_bytes - window_offset(window);
    if (length > left)
        return fail_directory(window);
    if (window->bytes.length - window->at < length) {
        window->start = window_offset(window);
        window->at = 0;
        TRY(buffer_resize(&window->bytes, left < window_bytes ? (size_t)left : window_bytes));
        TRY(file_read_at(zip->fd, zip->path, window->bytes.data, window->bytes.length,
                         window->start));
    }
    *ret_bytes = window->bytes.data + window->at;
    return OK;
}

/* Numbers that do not fit into the entry stand in an extra field, in this order. */
static bool take_extra(const uint8_t *extra, size_t length, struct zip_place *place)
{
    struct reader fields = reader_make(extra, length);
    uint64_t *const numbers[] = {&place->size_bytes, &place->packed_bytes, &place->header_offset};
    while (reader_left(&fields) >= 4) {
        uint16_t id = reader_le16(&fields), size = reader_le16(&fields);
        const uint8_t *content = reader_take(&fields, size);
        if (!content)
            return false;
        if (id != ZIP64_EXTRA)
            continue;
        struct reader values = reader_make(content, size);
        for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
            if (*numbers[i] == UINT32_MAX)
                *numbers[i] = reader_le64(&values);
        return !values.overrun;
    }
    return true;
}

static bool is_place_in_file(const struct zip_file *zip, const struct zip_place *place)
{
    uint64_t end;
    return size_add(place->header_offset, place->packed_bytes, &end) &&
           size_add(end, LOCAL_BYTES, &end) && end <= zip->directory_offset;
}

static struct status next_member(struct window *window, struct buffer *name,
                                 struct zip_member *ret_member)
{
    const uint8_t *entry = NULL;
    TRY(window_need(window, ENTRY_BYTES, &entry));
    if (load_le32(entry) != ENTRY_SIGNATURE)
        return fail_directory(window);
    size_t name_length = load_le16(entry + 28), extra_length = load_le16(entry + 30);
    size_t length = ENTRY_BYTES + name_length + extra_length + load_le16(entry + 32);
    TRY(window_need(window, length, &entry));
    uint32_t kind = entry[5] == 3 ? load_le32(entry + 38) >> 16 & S_IFMT : 0; /* 3: Unix made it */
    ret_member->place = (struct zip_place){.header_offset = load_le32(entry + 42),
                                           .size_bytes = load_le32(entry + 24),
                                           .packed_bytes = load_le32(entry + 20),
                                           .crc = load_le32(entry + 16),
                                           .method = load_le16(entry + 10),
                                           .is_encrypted = load_le16(entry + 8) & encrypted_flag};
    name->length = 0;
    TRY(buffer_append(name, entry + ENTRY_BYTES, name_length));
    TRY(buffer_text(name, &ret_member->name));
    ret_member->is_regular = (kind == 0 || kind == S_IFREG) && name_length > 0 &&
                             ret_member->name[name_length - 1] != '/';
    if (!take_extra(entry + ENTRY_BYTES + name_length, extra_length, &ret_member->place) ||
        strlen(ret_member->name) != name_length ||
        !is_place_in_file(window->zip, &ret_member->place))
        return fail_directory(window);
    window->at += length;
    return OK;
}

static void window_done(struct window *window)
{
    buffer_done(&window->bytes);
}
CLEANUP_VALUE(window_done, struct window)

struct status zip_walk(const struct zip_file *zip, zip_member_fn *fn, void *context)
{
    CLEANUP(window_done) struct window window = {.zip = zip, .start = zip->directory_offset};
    CLEANUP(buffer_done) struct buffer name = {0};
    struct zip_member member;
    for (uint64_t i = 0; i < zip->member_count; i++) {
        TRY(next_member(&window, &name, &member));
        TRY(fn(&member, context));
    }
    if (window_offset(&window) != zip->directory_offset + zip->directory_bytes)
        return fail_directory(&window);
    return OK;
}

/* --- Members --- */

struct zip_reader {
    const struct zip_file *zip;
    struct inflater *inflater;
    uint8_t *packed, *bytes;
    struct zip_place place;
    char *name;
    uint64_t position;    /* in the file, of the next packed bytes to be read */
    uint64_t packed_left; /* not yet read from the file */
    uint64_t done_bytes;
    uint32_t crc;
    struct reader input;
    bool has_ended;
};

struct status zip_reader_open(const struct zip_file *zip, struct zip_reader **ret_reader)
{
    CLEANUP(zip_reader_close) struct zip_reader *reader = NULL;
    TRY(memory_alloc(1, sizeof *reader, &reader));
    reader->zip = zip;
    TRY(memory_alloc(piece_bytes, 1, &reader->packed));
    TRY(memory_alloc(piece_bytes, 1, &reader->bytes));
    TRY(inflater_open(&reader->inflater));
    *ret_reader = MOVE(reader);
    return OK;
}

void zip_reader_close(struct zip_reader *reader)
{
    if (!reader)
        return;
    inflater_close(reader->inflater);
    memory_free(reader->packed);
    memory_free(reader->bytes);
    memory_free(reader->name);
    memory_free(reader);
}

static struct status fail_member(const struct zip_reader *reader, enum status_code code,
                                 const char *what)
{
    FAIL(code, "%s: member %s at byte %" PRIu64 " %s", reader->zip->path, reader->name,
         reader->place.header_offset, what);
}

static struct status check_header(struct zip_reader *reader)
{
    const struct zip_file *zip = reader->zip;
    CLEANUP(buffer_done) struct buffer header = {0};
    size_t own_length = strlen(reader->name);
    TRY(buffer_resize(&header, LOCAL_BYTES));
    TRY(file_read_at(zip->fd, zip->path, header.data, LOCAL_BYTES, reader->place.header_offset));
    size_t name_length = load_le16(header.data + 26), extra_length = load_le16(header.data + 28);
    bool is_header = load_le32(header.data) == LOCAL_SIGNATURE;
    reader->position = reader->place.header_offset + LOCAL_BYTES + name_length + extra_length;
    if (!is_header || name_length < own_length || reader->position > zip->directory_offset ||
        reader->place.packed_bytes > zip->directory_offset - reader->position)
        return fail_member(reader, STATUS_CORRUPT, "has no header there, as the directory says");
    TRY(buffer_resize(&header, name_length));
    TRY(file_read_at(zip->fd, zip->path, header.data, name_length,
                     reader->place.header_offset + LOCAL_BYTES));
    if (memcmp(header.data + name_length - own_length, reader->name, own_length) != 0)
        return fail_member(reader, STATUS_CORRUPT, "has another name there than in the directory");
    return OK;
}

struct status zip_reader_begin(struct zip_reader *reader, const struct zip_place *place,
                               const char *name)
{
    memory_free(reader->name);
    reader->name = NULL;
    TRY(string_copy(name, &reader->name));
    reader->place = *place;
    if (place->is_encrypted)
        return fail_member(reader, STATUS_UNSUPPORTED, "is encrypted");
    if (place->method != METHOD_STORED && place->method != METHOD_DEFLATED)
        return fail_member(reader, STATUS_UNSUPPORTED,
                           "is compressed in a way that is not read here (only stored and deflated "
                           "members are); unpack the file with unzip");
    TRY(check_header(reader));
    reader->packed_left = place->packed_bytes;
    reader->done_bytes = 0;
    reader->crc = 0;
    reader->input = reader_make(reader->packed, 0);
    reader->has_ended = place->method == METHOD_STORED;
    inflater_reset(reader->inflater);
    return OK;
}

static struct status read_packed(struct zip_reader *reader)
{
    size_t length = reader->packed_left < piece_bytes ? (size_t)reader->packed_left : piece_bytes;
    TRY(file_read_at(reader->zip->fd, reader->zip->path, reader->packed, length, reader->position));
    reader->position += length;
    reader->packed_left -= length;
    reader->input = reader_make(reader->packed, length);
    return OK;
}

static struct status read_deflated(struct zip_reader *reader, size_t *ret_length)
{
    *ret_length = 0;
    while (*ret_length == 0 && !reader->has_ended) {
        if (reader_left(&reader->input) == 0) {
            if (reader->packed_left == 0)
                return fail_member(reader, STATUS_CORRUPT, "has compressed data without an end");
            TRY(read_packed(reader));
        }
        struct status status = inflater_run(reader->inflater, &reader->input, reader->bytes,
                                            piece_bytes, ret_length, &reader->has_ended);
        TRY(status_context(status, "%s: member %s at byte %" PRIu64, reader->zip->path,
                           reader->name, reader->place.header_offset));
    }
    return OK;
}

struct status zip_reader_data(struct zip_reader *reader, const void **ret_bytes, size_t *ret_length)
{
    *ret_length = 0;
    if (reader->place.method == METHOD_STORED && reader->packed_left) {
        TRY(read_packed(reader));
        *ret_bytes = reader->packed;
        *ret_length = reader->input.length;
    } else if (reader->place.method == METHOD_DEFLATED) {
        TRY(read_deflated(reader, ret_length));
        *ret_bytes = reader->bytes;
    }
    reader->done_bytes += *ret_length;
    bool is_end = *ret_length == 0;
    if (!is_end)
        reader->crc = crc32_update(reader->crc, *ret_bytes, *ret_length);
    if (reader->done_bytes > reader->place.size_bytes ||
        (is_end && reader->done_bytes != reader->place.size_bytes))
        return fail_member(reader, STATUS_CORRUPT, "has another size than the directory says");
    if (is_end && reader->crc != reader->place.crc)
        return fail_member(reader, STATUS_CORRUPT, "is damaged: its CRC does not hold");
    return OK;
}
