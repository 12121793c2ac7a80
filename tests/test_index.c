#include "tests/test.h"

#include <inttypes.h>

#include "base/crc32c.h"
#include "base/progress.h"
#include "base/random.h"
#include "index/format.h"
#include "index/index.h"
#include "index/index_source.h"
#include "index/writer.h"
#include "tests/support/index_set.h"
#include "tests/support/process.h"

static const char provenance[] = "{\"from\": \"a test\"}";

/* Every answer of an index as bytes, or the failure that it met. */
static struct status contents_read(const char *path, struct buffer *contents)
{
    CLEANUP(index_close) struct index *index = NULL;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    const int32_t *labels;
    contents->length = 0;
    TRY(index_open(path, &index));
    TRY(index_labels(index, &labels));
    TRY(buffer_append_text(contents, "%s\n", index_provenance(index)));
    for (size_t i = 0; i < class_table_count(index_classes(index)); i++) {
        const struct class_entry *entry = class_table_at(index_classes(index), i);
        TRY(buffer_append_text(contents, "%s %s %" PRIu32 "\n", entry->wnid, entry->words,
                               entry->train_images));
    }
    for (uint64_t i = 0; i < index_count(index); i++) {
        struct record r;
        const char *name;
        TRY(index_record(index, i, &r));
        TRY(index_name(index, i, &name));
        TRY(index_blame(index, i, index_read(index, i, &bytes)));
        assert_int_equal(labels[i], r.label);
        TRY(buffer_append_text(contents, "%s %" PRIu32 " %d %d %d %u %08x\n", name, r.label,
                               r.width, r.height, r.crc_known, r.encoding, r.crc32c));
        TRY(buffer_append(contents, bytes.data, bytes.length));
    }
    return OK;
}

/* An index of 300 records written to NAME.idx, its bytes and its contents. */
struct specimen {
    struct source *source;
    const char *path;
    struct buffer bytes, contents;
};

static struct specimen specimen_make(const char *name)
{
    struct specimen specimen = {.source = index_set_make(test_path("shard"), 300, 7)};
    specimen.path = test_path(name);
    assert_ok(index_write(specimen.source, provenance, specimen.path));
    assert_ok(file_read_all(specimen.path, 1 << 20, &specimen.bytes));
    assert_ok(contents_read(specimen.path, &specimen.contents));
    return specimen;
}

static void specimen_done(struct specimen *specimen)
{
    source_free(specimen->source);
    buffer_done(&specimen->bytes);
    buffer_done(&specimen->contents);
}
CLEANUP_VALUE(specimen_done, struct specimen)

static void gives_back_what_was_written(void **state)
{
    (void)state;
    CLEANUP(specimen_done) struct specimen specimen = specimen_make("round.idx");
    CLEANUP(index_close) struct index *index = NULL;
    assert_ok(index_open(specimen.path, &index));
    assert_true(index_set_equal(index, specimen.source));
    assert_string_equal(index_provenance(index), provenance);
    assert_string_equal(index_shard(index, 0)->path, test_path("shard"));

    CLEANUP(buffer_done) struct buffer bytes = {0};
    assert_ok(index_read(index, 123, &bytes));
    assert_int_equal(bytes.length, specimen.source->items[123].length);
    for (size_t i = 0; i < RECORD_PADDING; i++)
        assert_int_equal(bytes.data[bytes.length + i], 0);

    CLEANUP(source_free) struct source *again = NULL;
    assert_ok(index_source_open(index, &again));
    assert_true(index_set_equal(index, again));
    assert_ok(index_write(again, provenance, test_path("again.idx")));
    CLEANUP(buffer_done) struct buffer copy = {0};
    assert_ok(file_read_all(test_path("again.idx"), 1 << 20, &copy));
    assert_int_equal(copy.length, specimen.bytes.length);
    assert_memory_equal(copy.data, specimen.bytes.data, copy.length);
}

static void moves_with_its_folder(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("here")));
    CLEANUP(source_free) struct source *source = index_set_make(test_path("here/shard"), 20, 2);
    assert_ok(index_write(source, "{}", test_path("here/x.idx")));
    assert_ok(file_rename(test_path("here"), test_path("there")));
    CLEANUP(buffer_done) struct buffer contents = {0};
    assert_ok(contents_read(test_path("there/x.idx"), &contents));
}

static void notices_a_damaged_record(void **state)
{
    (void)state;
    CLEANUP(specimen_done) struct specimen specimen = specimen_make("damaged.idx");
    CLEANUP(buffer_done) struct buffer shard = {0};
    assert_ok(file_read_all(test_path("shard"), 1 << 20, &shard));
    uint64_t offset = specimen.source->items[1].offset; /* its CRC is known */
    shard.data[offset] ^= 4;
    assert_ok(file_write_plain(test_path("shard"), shard.data, shard.length));
    CLEANUP(buffer_done) struct buffer contents = {0};
    char expected[64];
    snprintf(expected, sizeof expected, "at offset %" PRIu64 " are damaged", offset);
    assert_fails(contents_read(specimen.path, &contents), STATUS_CORRUPT, expected);
    assert_fails(contents_read(specimen.path, &contents), STATUS_CORRUPT,
                 "damaged.idx': record 1 (n0000/1.JPEG): ");
}

/* Writes changed bytes and demands a failure or the same contents. */
static void check_harmless(const struct specimen *specimen, const struct buffer *bytes,
                           struct buffer *contents)
{
    const char *path = test_path("changed.idx");
    assert_ok(file_write_plain(path, bytes->data, bytes->length));
    struct status status = contents_read(path, contents);
    if (status.code == STATUS_DONE) {
        assert_int_equal(contents->length, specimen->contents.length);
        assert_memory_equal(contents->data, specimen->contents.data, contents->length);
    }
    status_clear(&status);
}

static void no_flipped_byte_is_believed(void **state)
{
    (void)state;
    CLEANUP(specimen_done) struct specimen specimen = specimen_make("flipped.idx");
    CLEANUP(buffer_done) struct buffer contents = {0};
    const size_t head = INDEX_HEADER_BYTES + (SECTION_END - 1) * INDEX_ENTRY_BYTES;
    for (size_t i = 0; i < specimen.bytes.length; i += i < head ? 1 : 13) {
        for (unsigned flip = 0x01; flip <= 0x80; flip *= i < head ? 2 : 128) {
            specimen.bytes.data[i] ^= (uint8_t)flip;
            check_harmless(&specimen, &specimen.bytes, &contents);
            specimen.bytes.data[i] ^= (uint8_t)flip;
        }
    }
}

static void no_cut_is_believed(void **state)
{
    (void)state;
    CLEANUP(specimen_done) struct specimen specimen = specimen_make("cut.idx");
    CLEANUP(buffer_done) struct buffer contents = {0};
    const char *path = test_path("changed.idx");
    size_t length = specimen.bytes.length;
    for (size_t cut = 0; cut < length; cut += cut < 1100 ? 1 : 97) {
        assert_ok(file_write_plain(path, specimen.bytes.data, cut));
        struct status status = contents_read(path, &contents);
        assert_int_equal(status.code, STATUS_CORRUPT);
        status_clear(&status);
    }
    assert_ok(buffer_append_u8(&specimen.bytes, 0));
    assert_ok(file_write_plain(path, specimen.bytes.data, specimen.bytes.length));
    assert_fails(contents_read(path, &contents), STATUS_CORRUPT, "has grown");
}

/* Makes the CRCs of header and directory right again, as someone who means harm would. */
static void head_sign(struct buffer *bytes)
{
    uint32_t count = load_le32(bytes->data + 12);
    if (count <= SECTION_END)
        store_le32(bytes->data + INDEX_HEADER_CRCS,
                   crc32c_update(0, bytes->data + INDEX_HEADER_BYTES,
                                 (size_t)count * INDEX_ENTRY_BYTES));
    store_le32(bytes->data + INDEX_HEADER_CRCS + 4,
               crc32c_update(0, bytes->data, INDEX_HEADER_CRCS + 4));
}

/* What is asked for here is to stay within bounds (the sanitizers watch), not to fail: an empty
 * provenance is legal. */
static void no_hostile_size_leads_astray(void **state)
{
    (void)state;
    CLEANUP(specimen_done) struct specimen specimen = specimen_make("hostile.idx");
    CLEANUP(buffer_done) struct buffer contents = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    static const uint64_t values[] = {0,
                                      1,
                                      63,
                                      64,
                                      299,
                                      301,
                                      0xffff,
                                      0x10000,
                                      INT32_MAX,
                                      UINT32_MAX,
                                      INT64_MAX,
                                      (uint64_t)1 << 61,
                                      UINT64_MAX,
                                      UINT64_MAX - 63,
                                      UINT64_MAX / 8 + 1,
                                      (uint64_t)1 << 62,
                                      UINT64_MAX / 4 + 1};
    const size_t head = INDEX_HEADER_BYTES + (SECTION_END - 1) * INDEX_ENTRY_BYTES;
    for (size_t field = 8; field + 8 <= head; field += 4) {
        for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
            for (size_t width = 4; width <= 8; width += 4) {
                bytes.length = 0;
                assert_ok(buffer_append(&bytes, specimen.bytes.data, specimen.bytes.length));
                if (width == 8)
                    store_le64(bytes.data + field, values[i]);
                else
                    store_le32(bytes.data + field, (uint32_t)values[i]);
                head_sign(&bytes);
                assert_ok(file_write_plain(test_path("changed.idx"), bytes.data, bytes.length));
                status_ignore(contents_read(test_path("changed.idx"), &contents));
            }
        }
    }
}

/* The place of a section's directory entry in the file. */
static uint8_t *entry_at(struct buffer *bytes, enum index_section kind)
{
    return bytes->data + INDEX_HEADER_BYTES + (size_t)(kind - 1) * INDEX_ENTRY_BYTES;
}

/* Overwrites four bytes of a section and makes all CRCs right again. */
static void section_forge(struct buffer *bytes, enum index_section kind, size_t at, uint32_t value)
{
    uint8_t *entry = entry_at(bytes, kind);
    uint64_t offset = load_le64(entry + 8), size = load_le64(entry + 16);
    assert_true(size <= INDEX_CHUNK_BYTES);
    store_le32(bytes->data + offset + at, value);
    uint8_t *crcs = bytes->data + index_align(offset + size);
    store_le32(crcs, crc32c_update(0, bytes->data + offset, size));
    store_le32(entry + 24, crc32c_update(0, crcs, 4));
    head_sign(bytes);
}

static void forged_records_are_refused(void **state)
{
    (void)state;
    static const struct {
        enum index_section kind;
        size_t at;
        uint32_t value;
        enum status_code code;
        const char *part;
    } forgeries[] = {
        {SECTION_LABELS, 8, 7, STATUS_CORRUPT, "record 2 has label 7"},
        {SECTION_LABELS, 8, UINT32_MAX, STATUS_CORRUPT, "record 2 has label -1"},
        {SECTION_OFFSETS, 20, UINT32_MAX, STATUS_CORRUPT, "record 2 has"},
        {SECTION_LENGTHS, 8, UINT32_MAX, STATUS_CORRUPT, "record 2 has 4294967295 bytes"},
        {SECTION_SHARD_NUMBERS, 8, 1, STATUS_CORRUPT, "stands in shard 1 of 1"},
        {SECTION_ENCODINGS, 0, 9, STATUS_UNSUPPORTED, "encoding 9"},
        {SECTION_FLAGS, 0, 4, STATUS_UNSUPPORTED, "flags 4"},
        {SECTION_NAME_OFFSETS, 16, 1, STATUS_CORRUPT, "the name of record"},
        {SECTION_NAME_OFFSETS, 300 * 8, 1 << 20, STATUS_CORRUPT, "the name of record 299"},
        {SECTION_NAMES, 0, 0x2f2e2e2f, STATUS_CORRUPT, "not a file's name"},
        {SECTION_SHARDS, 0, 9, STATUS_UNSUPPORTED, "kind 9"},
        {SECTION_SHARDS, 4, UINT32_MAX, STATUS_CORRUPT, "section shards"},
        {SECTION_SHARDS, 8, 1, STATUS_CORRUPT, "1 were recorded"},
        {SECTION_CLASSES, 4, UINT32_MAX, STATUS_CORRUPT, "section classes"},
        {SECTION_CLASSES, 8, UINT32_MAX, STATUS_CORRUPT, "section classes"},
        {SECTION_CLASSES, 12, 0x3939396e, STATUS_CORRUPT, "stands before"},
    };
    CLEANUP(specimen_done) struct specimen specimen = specimen_make("forged.idx");
    CLEANUP(buffer_done) struct buffer contents = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    for (size_t i = 0; i < ARRAY_LENGTH(forgeries); i++) {
        bytes.length = 0;
        assert_ok(buffer_append(&bytes, specimen.bytes.data, specimen.bytes.length));
        section_forge(&bytes, forgeries[i].kind, forgeries[i].at, forgeries[i].value);
        assert_ok(file_write_plain(test_path("changed.idx"), bytes.data, bytes.length));
        assert_fails(contents_read(test_path("changed.idx"), &contents), forgeries[i].code,
                     forgeries[i].part);
    }
}

/* Turns the flags section into one of an unknown kind beside it: optional ones are passed over,
 * required ones refused. */
static void later_sections_are_passed_over(void **state)
{
    (void)state;
    CLEANUP(specimen_done) struct specimen specimen = specimen_make("later.idx");
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(buffer_done) struct buffer contents = {0};
    const char *path = test_path("changed.idx");

    /* One more entry fits where the first section began, if that is moved behind everything else.
     */
    assert_ok(buffer_append(&bytes, specimen.bytes.data, specimen.bytes.length));
    uint8_t *shards = entry_at(&bytes, SECTION_SHARDS);
    uint64_t offset = load_le64(shards + 8), size = load_le64(shards + 16), end = bytes.length;
    size_t room = (size_t)(load_le64(entry_at(&bytes, SECTION_CLASSES) + 8) - offset);
    assert_true(room >= 128);
    assert_ok(buffer_resize(&bytes, bytes.length + 2 * room));
    memmove(bytes.data + end, bytes.data + offset, room);
    memmove(bytes.data + end + room, bytes.data + offset, room);
    shards = entry_at(&bytes, SECTION_SHARDS);
    uint8_t moved[INDEX_ENTRY_BYTES];
    memcpy(moved, shards, sizeof moved);
    memmove(shards, shards + sizeof moved, (SECTION_END - 2) * sizeof moved);
    uint8_t *last = entry_at(&bytes, SECTION_END - 1);
    memcpy(last, moved, sizeof moved);
    store_le64(last + 8, end);
    memcpy(last + sizeof moved, moved, sizeof moved);
    store_le32(last + sizeof moved, 1000);
    store_le32(last + sizeof moved + 4, 0);
    store_le64(last + sizeof moved + 8, end + room);
    store_le64(last + sizeof moved + 16, size);
    store_le32(bytes.data + 12, SECTION_END);
    store_le64(bytes.data + 16, bytes.length);
    head_sign(&bytes);
    assert_ok(file_write_plain(path, bytes.data, bytes.length));
    assert_ok(contents_read(path, &contents));
    assert_memory_equal(contents.data, specimen.contents.data, contents.length);

    store_le32(last + sizeof moved + 4, INDEX_SECTION_REQUIRED);
    head_sign(&bytes);
    assert_ok(file_write_plain(path, bytes.data, bytes.length));
    assert_fails(contents_read(path, &contents), STATUS_UNSUPPORTED, "needs section 1000");
}

static void other_files_are_named_for_what_they_are(void **state)
{
    (void)state;
    struct index *index = NULL;
    assert_ok(file_write_plain(test_path("text.idx"), "hello, this is text", 19));
    assert_fails(index_open(test_path("text.idx"), &index), STATUS_CORRUPT, "is not an index");
    assert_fails(index_open(test_path("none.idx"), &index), STATUS_NOT_FOUND, "none.idx");
    assert_fails(index_open(test_folder(), &index), STATUS_FAILED, "folder");
    CLEANUP(specimen_done) struct specimen specimen = specimen_make("version.idx");
    store_le32(specimen.bytes.data + 8, 2);
    head_sign(&specimen.bytes);
    assert_ok(file_write_plain(specimen.path, specimen.bytes.data, specimen.bytes.length));
    assert_fails(index_open(specimen.path, &index), STATUS_UNSUPPORTED, "format version 2");
    assert_null(index);
}

static void large_index_write(const char *path, uint64_t count)
{
    CLEANUP(source_free) struct source *source = NULL;
    uint32_t shard;
    assert_ok(source_new(&source));
    assert_ok(class_table_copy(class_table_ilsvrc2012(), &source->classes));
    assert_ok(source_add_shard(source, test_path("absent"), count * 128, SHARD_TAR, &shard));
    for (uint64_t i = 0; i < count; i++) {
        struct source_item item = {.offset = i * 128, .length = 100};
        item.label = (uint32_t)(i * ILSVRC2012_CLASSES / count);
        char name[40];
        int length = snprintf(name, sizeof name, "n%08u_%07" PRIu64 ".JPEG", item.label, i);
        assert_ok(source_add_item(source, &item, name, (size_t)length));
    }
    assert_ok(source_finish(source));
    assert_ok(index_write(source, "{}", path));
}

/* Opening reads a few pages whatever the number of records, and the labels alone stay resident
 * after they were read. */
static void large_indexes_stay_on_the_disk(void **state)
{
    (void)state;
    const uint64_t count = 1300000;
    large_index_write(test_path("large.idx"), count);
    CLEANUP(index_close) struct index *index = NULL;
    uint64_t before = process_resident_bytes();
    double begin = clock_seconds();
    assert_ok(index_open(test_path("large.idx"), &index));
    double open_ms = (clock_seconds() - begin) * 1e3;
    uint64_t opened = process_resident_bytes();
    const int32_t *labels;
    uint64_t sum = 0;
    assert_ok(index_labels(index, &labels));
    for (uint64_t i = 0; i < count; i++)
        sum += (uint64_t)labels[i];
    uint64_t read = process_resident_bytes();
    assert_int_equal(sum, count / 1000 * 999 * 1000 / 2);
    print_message("opened in %.2f ms with %" PRIu64 " KiB resident, %" PRIu64
                  " KiB with all labels\n",
                  open_ms, (opened - before) >> 10, (read - before) >> 10);
#if !defined(__SANITIZE_ADDRESS__)
    assert_true(opened < before + (2 << 20));
    assert_true(read < before + (20 << 20));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_back_what_was_written),
        cmocka_unit_test(moves_with_its_folder),
        cmocka_unit_test(notices_a_damaged_record),
        cmocka_unit_test(no_flipped_byte_is_believed),
        cmocka_unit_test(no_cut_is_believed),
        cmocka_unit_test(no_hostile_size_leads_astray),
        cmocka_unit_test(forged_records_are_refused),
        cmocka_unit_test(later_sections_are_passed_over),
        cmocka_unit_test(other_files_are_named_for_what_they_are),
        cmocka_unit_test(large_indexes_stay_on_the_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
