#include "index/sections.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/memory.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "columns are used as they are mapped");

const char *section_name(enum index_section kind)
{
    static const char *const names[SECTION_END] = {
        [SECTION_SHARDS] = "shards",
        [SECTION_CLASSES] = "classes",
        [SECTION_PROVENANCE] = "provenance",
        [SECTION_LABELS] = "labels",
        [SECTION_OFFSETS] = "offsets",
        [SECTION_LENGTHS] = "lengths",
        [SECTION_SHARD_NUMBERS] = "shard numbers",
        [SECTION_SIZES] = "sizes",
        [SECTION_ENCODINGS] = "encodings",
        [SECTION_CRCS] = "CRCs",
        [SECTION_FLAGS] = "flags",
        [SECTION_NAME_OFFSETS] = "name offsets",
        [SECTION_NAMES] = "names",
    };
    return names[kind];
}

static bool all_zero(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i])
            return false;
    }
    return true;
}

static struct status header_check(const char *path, const uint8_t *header, uint64_t size_bytes)
{
    if (size_bytes < 8 || memcmp(header, INDEX_MAGIC, 8) != 0)
        FAIL(STATUS_CORRUPT,
             "'%s' is not an index; 'headrace pack SRC -o NAME.idx' makes one from images", path);
    if (size_bytes < INDEX_HEADER_BYTES)
        FAIL(STATUS_CORRUPT,
             "'%s' is cut short: it ends within the header, at byte %" PRIu64
             "; copy it again, or make it anew from its shards: headrace select NAME-*.shard -o "
             "NAME.idx",
             path, size_bytes);
    /* The version comes before the CRC: a later version may put that elsewhere. */
    uint32_t version = load_le32(header + 8);
    if (version != INDEX_VERSION)
        FAIL(STATUS_UNSUPPORTED,
             "'%s' has format version %" PRIu32 ", this program reads version %d", path, version,
             INDEX_VERSION);
    const size_t crc_at = INDEX_HEADER_BYTES - 4;
    if (load_le32(header + crc_at) != crc32c_update(0, header, crc_at))
        FAIL(STATUS_CORRUPT, "'%s' is damaged: the header's CRC does not hold", path);
    if (!all_zero(header + INDEX_HEADER_RESERVED, INDEX_HEADER_CRCS - INDEX_HEADER_RESERVED))
        FAIL(STATUS_UNSUPPORTED, "'%s' uses header fields that this program does not know", path);
    if (load_le64(header + 16) != size_bytes)
        FAIL(STATUS_CORRUPT,
             "'%s' is cut short or has grown: %" PRIu64 " bytes, expected %" PRIu64
             "; copy it again, or make it anew from its shards: headrace select NAME-*.shard -o "
             "NAME.idx",
             path, size_bytes, load_le64(header + 16));
    return OK;
}

/* Where a section ends with its padding and its table of CRCs; false when that overflows. */
static bool section_end(uint64_t offset, uint64_t size_bytes, uint64_t *ret_end)
{
    /* Half the number range is far more than any file has, and leaves room for the sums. */
    if (offset > INT64_MAX / 2 || size_bytes > INT64_MAX / 2)
        return false;
    uint64_t table = index_align(offset + size_bytes);
    *ret_end = index_align(table + 4 * index_chunks(size_bytes));
    return true;
}

static struct status column_check(const struct sections *sections, enum index_section kind)
{
    uint64_t expected;
    uint64_t width = index_column_bytes[kind], count = sections->record_count;
    if (kind == SECTION_NAME_OFFSETS) {
        width = 8;
        count++; /* cannot overflow: labels have 4 bytes each and were proved to be there */
    }
    if (width == 0)
        return OK;
    if (!size_multiply(count, width, &expected) || sections->section[kind].size_bytes != expected)
        FAIL(STATUS_CORRUPT,
             "'%s': section %s has %" PRIu64 " bytes, which is not right for %" PRIu64 " records",
             sections->path, section_name(kind), sections->section[kind].size_bytes,
             sections->record_count);
    return OK;
}

static struct status columns_check(const struct sections *sections)
{
    for (enum index_section kind = SECTION_SHARDS; kind < SECTION_END; kind++) {
        if (!sections->section[kind].data)
            FAIL(STATUS_CORRUPT, "'%s' has no section %s", sections->path, section_name(kind));
        TRY(column_check(sections, kind));
    }
    return OK;
}

/* Reads one directory entry. *position is where the sections before it end. */
static struct status entry_read(struct sections *sections, const uint8_t *data, uint64_t size_bytes,
                                const uint8_t *entry, uint64_t *position)
{
    uint32_t kind = load_le32(entry), flags = load_le32(entry + 4);
    uint64_t offset = load_le64(entry + 8), content_bytes = load_le64(entry + 16), end;
    if (flags > INDEX_SECTION_REQUIRED ||
        !all_zero(entry + INDEX_ENTRY_RESERVED, INDEX_ENTRY_BYTES - INDEX_ENTRY_RESERVED))
        FAIL(STATUS_UNSUPPORTED,
             "'%s': section %" PRIu32 " has fields that this program does not know", sections->path,
             kind);
    if (offset % INDEX_ALIGNMENT || offset < *position ||
        !section_end(offset, content_bytes, &end) || end > size_bytes)
        FAIL(STATUS_CORRUPT,
             "'%s': section %" PRIu32 " cannot have %" PRIu64 " bytes at offset %" PRIu64
             " of an index of %" PRIu64,
             sections->path, kind, content_bytes, offset, size_bytes);
    *position = end;
    if (kind == 0 || kind >= SECTION_END) {
        if (flags & INDEX_SECTION_REQUIRED)
            FAIL(STATUS_UNSUPPORTED,
                 "'%s' needs section %" PRIu32
                 ", which this program does not know; use a newer one",
                 sections->path, kind);
        return OK;
    }
    struct section *section = &sections->section[kind];
    if (section->data)
        FAIL(STATUS_CORRUPT, "'%s' has section %s twice", sections->path, section_name(kind));
    *section = (struct section){.data = data + offset,
                                .size_bytes = content_bytes,
                                .offset = offset,
                                .crcs_crc = load_le32(entry + 24)};
    return memory_alloc(index_chunks(content_bytes) / 64 + 1, sizeof *section->checked,
                        &section->checked);
}

struct status sections_open(const char *path, const uint8_t *data, uint64_t size_bytes,
                            struct sections *ret_sections)
{
    struct sections *sections = ret_sections;
    *sections = (struct sections){.path = path};
    TRY(header_check(path, data, size_bytes));
    sections->record_count = load_le64(data + 24);
    sections->class_count = load_le32(data + 32);
    sections->shard_count = load_le32(data + 36);
    sections->class_hash = load_le64(data + 40);

    uint32_t count = load_le32(data + 12);
    uint64_t position = INDEX_HEADER_BYTES + (uint64_t)count * INDEX_ENTRY_BYTES;
    if (count > INDEX_MAX_SECTIONS || position > size_bytes)
        FAIL(STATUS_CORRUPT, "'%s' cannot have %" PRIu32 " sections", path, count);
    const uint8_t *directory = data + INDEX_HEADER_BYTES;
    if (crc32c_update(0, directory, position - INDEX_HEADER_BYTES) !=
        load_le32(data + INDEX_HEADER_CRCS))
        FAIL(STATUS_CORRUPT, "'%s' is damaged: the section directory's CRC does not hold", path);
    for (uint32_t i = 0; i < count; i++)
        TRY(entry_read(sections, data, size_bytes, directory + (size_t)i * INDEX_ENTRY_BYTES,
                       &position));
    return columns_check(sections);
}

void sections_done(struct sections *sections)
{
    for (size_t i = 0; i < SECTION_END; i++)
        memory_free(sections->section[i].checked);
    *sections = (struct sections){0};
}

static bool bit_test(const struct section *section, uint64_t bit)
{
    uint64_t word = atomic_load_explicit(&section->checked[bit / 64], memory_order_acquire);
    return word >> bit % 64 & 1;
}

static void bit_set(const struct section *section, uint64_t bit)
{
    atomic_fetch_or_explicit(&section->checked[bit / 64], (uint64_t)1 << bit % 64,
                             memory_order_release);
}

static struct status chunk_check(const struct sections *sections, enum index_section kind,
                                 uint64_t chunk)
{
    const struct section *section = &sections->section[kind];
    uint64_t chunks = index_chunks(section->size_bytes);
    const uint8_t *crcs = section->data + index_align(section->size_bytes);
    if (!bit_test(section, chunks)) {
        if (crc32c_update(0, crcs, 4 * chunks) != section->crcs_crc)
            FAIL(STATUS_CORRUPT, "'%s' is damaged: the CRCs of section %s do not hold",
                 sections->path, section_name(kind));
        bit_set(section, chunks);
    }
    uint64_t begin = chunk * INDEX_CHUNK_BYTES;
    uint64_t left = section->size_bytes - begin;
    uint64_t length = left < INDEX_CHUNK_BYTES ? left : INDEX_CHUNK_BYTES;
    if (crc32c_update(0, section->data + begin, length) != load_le32(crcs + 4 * chunk))
        FAIL(STATUS_CORRUPT,
             "'%s' is damaged: the CRC of section %s does not hold in the %" PRIu64
             " bytes at offset %" PRIu64 "; copy the file again",
             sections->path, section_name(kind), length, section->offset + begin);
    bit_set(section, chunk);
    return OK;
}

struct status sections_check(const struct sections *sections, enum index_section kind,
                             uint64_t offset, uint64_t length)
{
    if (length == 0)
        return OK;
    const struct section *section = &sections->section[kind];
    uint64_t last = (offset + length - 1) / INDEX_CHUNK_BYTES;
    for (uint64_t chunk = offset / INDEX_CHUNK_BYTES; chunk <= last; chunk++) {
        if (!bit_test(section, chunk))
            TRY(chunk_check(sections, kind, chunk));
    }
    return OK;
}

struct status sections_check_all(const struct sections *sections, enum index_section kind)
{
    return sections_check(sections, kind, 0, sections->section[kind].size_bytes);
}
