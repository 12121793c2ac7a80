#ifndef HEADRACE_INDEX_FORMAT_H
#define HEADRACE_INDEX_FORMAT_H

/* Numbers of the format (FORMAT.md) that reader and writer share. */

#include <stdint.h>

enum {
    INDEX_VERSION = 1,
    INDEX_HEADER_BYTES = 128,
    INDEX_HEADER_RESERVED = 48, /* where the reserved bytes begin */
    INDEX_HEADER_CRCS = 120,
    INDEX_ENTRY_BYTES = 64, /* of the section directory */
    INDEX_ENTRY_RESERVED = 28,
    INDEX_MAX_SECTIONS = 64,
    INDEX_ALIGNMENT = 64,
    INDEX_CHUNK_BYTES = 64 << 10, /* what one CRC covers */
    INDEX_SECTION_REQUIRED = 1,   /* flag of a section */
    INDEX_CRC_KNOWN = 1,          /* flags of a record */
    INDEX_LOSSY = 2,
    INDEX_SHARD_ENTRY_BYTES = 16, /* without the path */
    INDEX_CLASS_ENTRY_BYTES = 12, /* without the strings */
    PACKED_HEADER_BYTES = 64,     /* of a packed shard; its footer is as long */
    PACKED_CRC = 60,              /* where the CRC of header and footer stands */
    PACKED_RESERVED = 24,
};

#define INDEX_MAGIC "HEADRACE"        /* 8 bytes, no zero */
#define PACKED_HEADER_MAGIC "HRSHARD" /* 8 bytes with the zero */
#define PACKED_TRAILER_MAGIC "HRTRAIL"

enum index_section {
    SECTION_SHARDS = 1,
    SECTION_CLASSES,
    SECTION_PROVENANCE,
    SECTION_LABELS,
    SECTION_OFFSETS,
    SECTION_LENGTHS,
    SECTION_SHARD_NUMBERS,
    SECTION_SIZES,
    SECTION_ENCODINGS,
    SECTION_CRCS,
    SECTION_FLAGS,
    SECTION_NAME_OFFSETS,
    SECTION_NAMES,
    SECTION_END, /* one more than the last kind */
};

/* Bytes of one record in a column; 0 for the sections that are not columns of fixed width. */
static const uint8_t index_column_bytes[SECTION_END] = {
    [SECTION_LABELS] = 4,        [SECTION_OFFSETS] = 8, [SECTION_LENGTHS] = 4,
    [SECTION_SHARD_NUMBERS] = 4, [SECTION_SIZES] = 4,   [SECTION_ENCODINGS] = 1,
    [SECTION_CRCS] = 4,          [SECTION_FLAGS] = 1,
};

static inline uint64_t index_align(uint64_t offset)
{
    return (offset + INDEX_ALIGNMENT - 1) / INDEX_ALIGNMENT * INDEX_ALIGNMENT;
}

static inline uint64_t index_chunks(uint64_t size_bytes)
{
    return size_bytes / INDEX_CHUNK_BYTES + (size_bytes % INDEX_CHUNK_BYTES != 0);
}

#endif
