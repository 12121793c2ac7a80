#include "index/index.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/pool.h"
#include "image/shard_reader.h"
#include "index/access.h"
#include "index/format.h"
#include "index/index_file.h"
#include "index/sections.h"
#include "index/url.h"

_Static_assert(RECORD_PADDING <= SHARD_PADDING, "records are read with too little padding");

struct index {
    char *path;
    struct index_file file;
    struct access *access, *own_access; /* NULL: no URL was met */
    struct remote_file *remote;         /* its file; NULL: one of this machine */
    struct sections sections;
    struct class_table *classes;
    struct source_shard *shards;
    size_t shard_count;
    struct shard_reader *reader;
    char *provenance;
    atomic_bool labels_checked;
    atomic_uint_fast64_t own_number; /* of index_identity where no version is known; 0: none yet */
};

/* A string of a section: copied, without zeros. */
static struct status text_take(struct reader *reader, uint32_t length, const char *what,
                               char **ret_text)
{
    const uint8_t *bytes = reader_take(reader, length);
    if (!bytes || memchr(bytes, '\0', length))
        FAIL(STATUS_CORRUPT, "%s runs over its section's end or holds a zero byte", what);
    TRY(memory_alloc((size_t)length + 1, 1, ret_text));
    memcpy(*ret_text, bytes, length);
    return OK;
}

/* The index's access, made where there is none yet. */
static struct status access_need(struct index *index)
{
    struct access_options options;
    if (index->access)
        return OK;
    access_options_init(&options);
    TRY(access_open(&options, &index->own_access));
    index->access = index->own_access;
    return OK;
}

/* Finds out how a shard is read whose path was resolved. */
static struct status shard_connect(struct index *index, struct source_shard *shard)
{
    struct remote_file *file;
    if (!url_is(shard->path))
        return OK;
    if (shard_is_folder(shard))
        FAIL(STATUS_UNSUPPORTED,
             "shard '%s' is a folder of files; only packed shards and tar archives can be read "
             "from a server: pack it",
             shard->path);
    TRY(access_need(index));
    if (!index->remote) /* our own file says so, not one from a server */
        TRY(access_trust(index->access, shard->path));
    TRY(access_file(index->access, shard->path, shard->size_bytes, &file));
    shard->remote = remote_file_shard(file);
    return OK;
}

/* The shard that the index itself stands in. */
static struct status shard_parse_own(struct index *index, struct source_shard *shard)
{
    shard->size_bytes = index->file.file_bytes;
    shard->remote = index->remote ? remote_file_shard(index->remote) : NULL;
    return string_copy(index->path, &shard->path);
}

static struct status shard_parse(struct index *index, struct reader *reader, uint32_t i)
{
    CLEANUP(memory_free) char *path = NULL;
    uint32_t kind = reader_le32(reader), length = reader_le32(reader);
    struct source_shard *shard = &index->shards[i];
    shard->size_bytes = reader_le64(reader);
    TRY(text_take(reader, length, "a shard's path", &path));
    if (kind >= SHARD_KINDS)
        FAIL(STATUS_UNSUPPORTED,
             "shard '%s' has kind %" PRIu32 ", which this program does not know", path, kind);
    shard->kind = (enum shard_kind)kind;
    if (path[0] == '\0')
        return shard_parse_own(index, shard);
    TRY(access_resolve(index->access, index->path, path, &shard->path));
    return shard_connect(index, shard);
}

static struct status shards_parse(struct index *index)
{
    const struct section *section = &index->sections.section[SECTION_SHARDS];
    uint32_t count = index->sections.shard_count;
    TRY(sections_check_all(&index->sections, SECTION_SHARDS));
    if ((uint64_t)count * INDEX_SHARD_ENTRY_BYTES > section->size_bytes)
        FAIL(STATUS_CORRUPT, "there are not as many as the header says: %" PRIu32, count);
    struct reader reader = reader_make(section->data, section->size_bytes);
    TRY(memory_alloc(count, sizeof *index->shards, &index->shards));
    index->shard_count = count;
    for (uint32_t i = 0; i < count; i++)
        TRY(shard_parse(index, &reader, i));
    if (reader_left(&reader))
        FAIL(STATUS_CORRUPT, "%zu bytes are left over", reader_left(&reader));
    return shard_reader_open(index->shards, count, &index->reader);
}

/* `texts` holds the strings, with their terminating zeros, until class_table_make has copied them.
 */
static struct status classes_parse_into(struct index *index, struct class_entry *entries,
                                        struct arena *texts)
{
    const struct section *section = &index->sections.section[SECTION_CLASSES];
    struct reader reader = reader_make(section->data, section->size_bytes);
    for (uint32_t i = 0; i < index->sections.class_count; i++) {
        entries[i].train_images = reader_le32(&reader);
        uint32_t key_length = reader_le32(&reader), words_length = reader_le32(&reader);
        const char *key = (const char *)reader_take(&reader, key_length);
        const char *words = (const char *)reader_take(&reader, words_length);
        if (!key || !words || memchr(key, '\0', key_length) || memchr(words, '\0', words_length))
            FAIL(STATUS_CORRUPT, "class %" PRIu32 " runs over the end or holds a zero byte", i);
        TRY(arena_copy(texts, key, key_length, &entries[i].wnid));
        TRY(arena_copy(texts, words, words_length, &entries[i].words));
        if (i > 0 && strcmp(entries[i - 1].wnid, entries[i].wnid) >= 0)
            FAIL(STATUS_CORRUPT, "'%s' stands before '%s'", entries[i - 1].wnid, entries[i].wnid);
    }
    if (reader_left(&reader))
        FAIL(STATUS_CORRUPT, "%zu bytes are left over", reader_left(&reader));
    TRY(class_table_make(entries, index->sections.class_count, &index->classes));
    if (class_table_hash(index->classes) != index->sections.class_hash)
        FAIL(STATUS_CORRUPT, "their hash is %016" PRIx64 ", the header says %016" PRIx64,
             class_table_hash(index->classes), index->sections.class_hash);
    return OK;
}

static struct status classes_parse(struct index *index)
{
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    CLEANUP(arena_done) struct arena texts = {0};
    uint32_t count = index->sections.class_count;
    TRY(sections_check_all(&index->sections, SECTION_CLASSES));
    if ((uint64_t)count * INDEX_CLASS_ENTRY_BYTES >
        index->sections.section[SECTION_CLASSES].size_bytes)
        FAIL(STATUS_CORRUPT, "there are not as many as the header says: %" PRIu32, count);
    TRY(memory_alloc(count, sizeof *entries, &entries));
    return classes_parse_into(index, entries, &texts);
}

static struct status provenance_parse(struct index *index)
{
    const struct section *section = &index->sections.section[SECTION_PROVENANCE];
    TRY(sections_check_all(&index->sections, SECTION_PROVENANCE));
    if (section->size_bytes > INT32_MAX)
        FAIL(STATUS_CORRUPT, "it has %" PRIu64 " bytes", section->size_bytes);
    if (section->size_bytes == 0)
        return string_copy("{}", &index->provenance);
    struct reader reader = reader_make(section->data, section->size_bytes);
    return text_take(&reader, (uint32_t)section->size_bytes, "the text", &index->provenance);
}

/* What part of an index a failure is about. */
static struct status in_section(const struct index *index, enum index_section kind,
                                struct status status)
{
    return status_context(status, "'%s': section %s", index->path, section_name(kind));
}

struct status index_recognise(const char *path, bool *ret_is_index)
{
    CLEANUP(fd_close) int fd = -1;
    uint64_t size_bytes;
    char magic[8] = {0};
    *ret_is_index = url_is(path);
    if (*ret_is_index)
        return OK;
    TRY(url_refuse_kind(path));
    TRY(file_open_read(path, &fd));
    TRY(file_size(fd, path, &size_bytes));
    if (size_bytes >= sizeof magic)
        TRY(file_read_at(fd, path, magic, sizeof magic, 0));
    *ret_is_index =
        memcmp(magic, INDEX_MAGIC, 8) == 0 || memcmp(magic, PACKED_HEADER_MAGIC, 8) == 0;
    return OK;
}

/* Notes where the index stands, and how it is read. */
static struct status place_take(struct index *index, const char *path)
{
    if (!index->access && getenv("HEADRACE_ORIGINS"))
        TRY(access_need(index));
    TRY(url_refuse_kind(path));
    if (!url_is(path))
        return string_copy(path, &index->path);
    TRY(url_check(path));
    TRY(url_name(path, &index->path));
    TRY(access_need(index));
    TRY(access_trust(index->access, path));
    return access_file(index->access, path, 0, &index->remote);
}

/* Says once that what signs the URL of an index is not sent with its shards: a signature is of one
 * file. */
static void query_note(const struct index *index, const char *url)
{
    static atomic_bool noted;
    const char *slash = strrchr(index->path, '/');
    bool beside = false;
    if (!url_is(url) || strlen(url) == strlen(index->path))
        return;
    for (size_t i = 0; !beside && i < index->shard_count; i++)
        beside = strcmp(index->shards[i].path, index->path) != 0 &&
                 strncmp(index->shards[i].path, index->path, (size_t)(slash - index->path)) == 0;
    if (beside && !atomic_exchange(&noted, true))
        log_note("'%s?…': what follows the ? goes with the index alone, and its shards are asked "
                 "for without; where the server refuses them, give --user, --token-file, --origins "
                 "or s3:// with a key",
                 index->path);
}

struct status index_open_with(const char *path, struct access *access, struct index **ret_index)
{
    CLEANUP(index_close) struct index *index = NULL;
    TRY(memory_alloc(1, sizeof *index, &index));
    index->access = access;
    TRY(place_take(index, path));
    TRY(index_file_open(index->path, index->remote, &index->file));
    TRY(sections_open(index->path, index->file.data, index->file.size_bytes, &index->sections));
    TRY(in_section(index, SECTION_SHARDS, shards_parse(index)));
    TRY(in_section(index, SECTION_CLASSES, classes_parse(index)));
    TRY(in_section(index, SECTION_PROVENANCE, provenance_parse(index)));
    query_note(index, path);
    *ret_index = MOVE(index);
    return OK;
}

struct status index_open(const char *path, struct index **ret_index)
{
    return index_open_with(path, NULL, ret_index);
}

struct status index_rename(struct index *index, const char *name)
{
    memory_free(MOVE(index->path));
    return string_copy(name, &index->path);
}

void index_close(struct index *index)
{
    if (!index)
        return;
    shard_reader_close(index->reader);
    for (size_t i = 0; i < index->shard_count; i++)
        memory_free(index->shards[i].path);
    memory_free(index->shards);
    class_table_free(index->classes);
    sections_done(&index->sections);
    index_file_done(&index->file);
    access_close(index->own_access);
    memory_free(index->provenance);
    memory_free(index->path);
    memory_free(index);
}

struct status index_check_sections(const struct index *index)
{
    const uint8_t *header = index->file.header;
    if (index->file.is_packed &&
        crc32c_update(0, header, PACKED_CRC) != load_le32(header + PACKED_CRC))
        FAIL(STATUS_CORRUPT, "'%s' is damaged: the CRC of the shard's header does not hold",
             index->path);
    for (enum index_section kind = SECTION_SHARDS; kind < SECTION_END; kind++)
        TRY(sections_check_all(&index->sections, kind));
    return OK;
}

const char *index_path(const struct index *index)
{
    return index->path;
}

struct access *index_access(const struct index *index)
{
    return index->access;
}

uint64_t index_count(const struct index *index)
{
    return index->sections.record_count;
}

bool index_has_urls(const struct index *index)
{
    bool found = false;
    for (size_t i = 0; !found && i < index_shard_count(index); i++)
        found = url_is(index_shard(index, i)->path);
    return found;
}

size_t index_shard_count(const struct index *index)
{
    return index->shard_count;
}

const struct source_shard *index_shard(const struct index *index, size_t shard)
{
    return &index->shards[shard];
}

const struct class_table *index_classes(const struct index *index)
{
    return index->classes;
}

const char *index_provenance(const struct index *index)
{
    return index->provenance;
}

/* Whether the CRCs of all records are known. */
static struct status crcs_known(const struct index *index, bool *ret_known)
{
    const uint8_t *flags = index->sections.section[SECTION_FLAGS].data;
    TRY(sections_check_all(&index->sections, SECTION_FLAGS));
    *ret_known = true;
    for (uint64_t i = 0; *ret_known && i < index->sections.record_count; i++)
        *ret_known = flags[i] & INDEX_CRC_KNOWN;
    return OK;
}

/* Appends what tells one file or folder of this machine from a later one of its name. The time of
 * change and the inode's number do so where a file was put into its place with the old time. The
 * device is left out: that of a network's file system is another one after each start. */
static struct status place_describe_change(const char *path, const struct stat *state,
                                           struct buffer *text)
{
    return buffer_append_text(text, "%s %lld %lld.%09ld %lld.%09ld %llu\n", path,
                              (long long)state->st_size, (long long)state->st_mtim.tv_sec,
                              state->st_mtim.tv_nsec, (long long)state->st_ctim.tv_sec,
                              state->st_ctim.tv_nsec, (unsigned long long)state->st_ino);
}

/* What the servers of shards tell versions by; of one loop over the shards. */
struct versions {
    const struct index *index;
    char (*text)[HTTP_VALIDATOR_BYTES]; /* (shard_count), "" for those of this machine */
};

static struct status version_ask(uint64_t item, unsigned thread, void *context)
{
    const struct versions *versions = context;
    struct shard_remote *remote = versions->index->shards[item].remote;
    (void)thread;
    return remote ? remote_shard_version(remote, versions->text[item]) : OK;
}

/* Appends what tells a shard's version. *ret_known becomes false where nothing does. */
static struct status shard_describe_change(const struct index *index, size_t i, const char *version,
                                           struct buffer *text, bool *ret_known)
{
    const struct source_shard *shard = &index->shards[i];
    struct stat state;
    if (shard->remote) {
        *ret_known = *ret_known && version[0];
        return buffer_append_text(text, "%s %s\n", shard->path, version);
    }
    struct status status = shard_state(index->reader, (uint32_t)i, &state);
    bool is_there = status.code == STATUS_DONE;
    status_ignore(status); /* told by who reads it */
    return is_there ? place_describe_change(shard->path, &state, text) : OK;
}

/* Appends the places and versions of the shards. *ret_known: all have one. */
static struct status shards_describe_change(const struct index *index, struct buffer *text,
                                            bool *ret_known)
{
    const unsigned most_at_once = 32;
    CLEANUP(memory_free) char(*versions_text)[HTTP_VALIDATOR_BYTES] = NULL;
    CLEANUP(pool_close) struct pool *pool = NULL;
    TRY(memory_alloc(index->shard_count, sizeof *versions_text, &versions_text));
    struct versions versions = {index, versions_text};
    unsigned threads =
        index->shard_count < most_at_once ? (unsigned)index->shard_count : most_at_once;
    TRY(pool_open(index->access && threads ? threads : 1, &pool));
    TRY(pool_run(pool, index->shard_count, version_ask, &versions));
    *ret_known = true;
    for (size_t i = 0; i < index->shard_count; i++)
        TRY(shard_describe_change(index, i, versions_text[i], text, ret_known));
    return OK;
}

/* A number that no other open index has. */
static struct status own_number(const struct index *index, uint64_t *ret_number)
{
    atomic_uint_fast64_t *number = (atomic_uint_fast64_t *)&index->own_number; /* as a cache is */
    uint_fast64_t drawn, before = 0;
    if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn)
        return status_errno(errno, "cannot draw a random number");
    drawn |= 1;
    bool is_first = atomic_compare_exchange_strong(number, &before, drawn);
    *ret_number = is_first ? drawn : before;
    if (is_first)
        log_warning("'%s': its records are not known by CRCs, and their server tells no version of "
                    "them (an ETag or Last-Modified): what a cache keeps of them serves only until "
                    "the index is closed",
                    index->path);
    return OK;
}

struct status index_identity(const struct index *index, uint64_t *ret_identity, bool *ret_lasts)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    uint8_t digest[SHA256_BYTES];
    struct stat state;
    bool known;
    *ret_lasts = true;
    for (enum index_section kind = SECTION_SHARDS; kind < SECTION_END; kind++) {
        const struct section *section = &index->sections.section[kind];
        if (kind != SECTION_PROVENANCE)
            TRY(buffer_append_text(&text, "%" PRIu64 " %08" PRIx32 "\n", section->size_bytes,
                                   section->crcs_crc));
    }
    TRY(crcs_known(index, &known));
    if (!known && !index->remote && stat(index->path, &state) == 0)
        TRY(place_describe_change(index->path, &state, &text));
    if (!known)
        TRY(shards_describe_change(index, &text, ret_lasts));
    if (!*ret_lasts)
        return own_number(index, ret_identity);
    digest_sha256_bytes(text.data, text.length, digest);
    *ret_identity = load_le64(digest);
    return OK;
}

static struct status label_check(const struct index *index, uint64_t i, uint32_t label)
{
    if (label >= index->sections.class_count)
        FAIL(STATUS_CORRUPT,
             "'%s': record %" PRIu64 " has label %" PRId32 ", expected 0 … %" PRId64, index->path,
             i, (int32_t)label, (int64_t)index->sections.class_count - 1);
    return OK;
}

struct status index_labels(const struct index *index, const int32_t **ret_labels)
{
    const int32_t *labels = (const int32_t *)index->sections.section[SECTION_LABELS].data;
    if (!index->labels_checked) {
        TRY(sections_check_all(&index->sections, SECTION_LABELS));
        for (uint64_t i = 0; i < index->sections.record_count; i++)
            TRY(label_check(index, i, (uint32_t)labels[i]));
        ((struct index *)index)->labels_checked = true; /* a cache: the index itself is as before */
    }
    *ret_labels = labels;
    return OK;
}

struct status index_column(const struct index *index, uint32_t section, const void **ret_column)
{
    if (section >= SECTION_END || index_column_bytes[section] == 0)
        FAIL(STATUS_USAGE, "section %" PRIu32 " of an index is not a column of fixed width",
             section);
    TRY(sections_check_all(&index->sections, section));
    *ret_column = index->sections.section[section].data;
    return OK;
}

/* The bytes of one record in a column. */
static struct status column_value(const struct index *index, enum index_section kind, uint64_t i,
                                  const uint8_t **ret_bytes)
{
    uint64_t width = index_column_bytes[kind];
    *ret_bytes = index->sections.section[kind].data + i * width;
    return sections_check(&index->sections, kind, i * width, width);
}

static struct status record_fetch(const struct index *index, uint64_t i, struct record *record)
{
    const uint8_t *bytes;
    TRY(column_value(index, SECTION_LABELS, i, &bytes));
    record->label = load_le32(bytes);
    TRY(column_value(index, SECTION_OFFSETS, i, &bytes));
    record->offset = load_le64(bytes);
    TRY(column_value(index, SECTION_LENGTHS, i, &bytes));
    record->length = load_le32(bytes);
    TRY(column_value(index, SECTION_SHARD_NUMBERS, i, &bytes));
    record->shard = load_le32(bytes);
    TRY(column_value(index, SECTION_SIZES, i, &bytes));
    record->width = load_le16(bytes);
    record->height = load_le16(bytes + 2);
    TRY(column_value(index, SECTION_ENCODINGS, i, &bytes));
    record->encoding = bytes[0];
    TRY(column_value(index, SECTION_CRCS, i, &bytes));
    record->crc32c = load_le32(bytes);
    TRY(column_value(index, SECTION_FLAGS, i, &bytes));
    if (bytes[0] & ~(INDEX_CRC_KNOWN | INDEX_LOSSY))
        FAIL(STATUS_UNSUPPORTED,
             "'%s': record %" PRIu64 " has flags %u, which this program does not know", index->path,
             i, bytes[0]);
    record->crc_known = bytes[0] & INDEX_CRC_KNOWN;
    record->is_lossy = bytes[0] & INDEX_LOSSY;
    return OK;
}

struct status index_record(const struct index *index, uint64_t i, struct record *ret_record)
{
    struct record record;
    TRY(record_fetch(index, i, &record));
    TRY(label_check(index, i, record.label));
    if (record.shard >= index->shard_count)
        FAIL(STATUS_CORRUPT, "'%s': record %" PRIu64 " stands in shard %" PRIu32 " of %zu",
             index->path, i, record.shard, index->shard_count);
    const struct source_shard *shard = &index->shards[record.shard];
    uint64_t end;
    if (!shard_is_folder(shard) &&
        (!size_add(record.offset, record.length, &end) || end > shard->size_bytes))
        FAIL(STATUS_CORRUPT,
             "'%s': record %" PRIu64 " has %" PRIu32 " bytes at offset %" PRIu64
             " of '%s', which ends at %" PRIu64,
             index->path, i, record.length, record.offset, shard->path, shard->size_bytes);
    *ret_record = record;
    return OK;
}

struct status index_name(const struct index *index, uint64_t i, const char **ret_name)
{
    const struct section *offsets = &index->sections.section[SECTION_NAME_OFFSETS];
    const struct section *names = &index->sections.section[SECTION_NAMES];
    TRY(sections_check(&index->sections, SECTION_NAME_OFFSETS, i * 8, 16));
    uint64_t begin = load_le64(offsets->data + i * 8), end = load_le64(offsets->data + i * 8 + 8);
    if (begin >= end || end > names->size_bytes)
        FAIL(STATUS_CORRUPT, "'%s': the name of record %" PRIu64 " cannot stand at %" PRIu64,
             index->path, i, begin);
    TRY(sections_check(&index->sections, SECTION_NAMES, begin, end - begin));
    const char *name = (const char *)names->data + begin;
    size_t length = end - begin - 1;
    /* Names become files' names again: nothing may lead out of a folder. */
    if (length == 0 || memchr(name, '\0', end - begin) != name + length ||
        memchr(name, '/', length) || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        FAIL(STATUS_CORRUPT, "'%s': the name of record %" PRIu64 " is not a file's name",
             index->path, i);
    *ret_name = name;
    return OK;
}

/* Where a record stands to (label, name): below 0, 0, or above. */
static struct status record_compare(const struct index *index, uint64_t i, uint32_t label,
                                    const char *name, int *ret_order)
{
    const uint8_t *bytes;
    const char *own_name;
    TRY(column_value(index, SECTION_LABELS, i, &bytes));
    uint32_t own_label = load_le32(bytes);
    *ret_order = own_label < label ? -1 : 1;
    if (own_label != label)
        return OK;
    TRY(index_name(index, i, &own_name));
    *ret_order = strcmp(own_name, name);
    return OK;
}

struct status index_find(const struct index *index, uint32_t label, const char *name,
                         uint64_t *ret_i)
{
    uint64_t low = 0, high = index->sections.record_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order;
        TRY(record_compare(index, middle, label, name, &order));
        if (order == 0) {
            *ret_i = middle;
            return OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    FAIL(STATUS_NOT_FOUND, "'%s' has no record '%s' in class %" PRIu32, index->path, name, label);
}

/* Where a record stands. */
static struct status range_find(const struct index *index, uint64_t i, struct shard_range *range)
{
    struct record record;
    TRY(index_record(index, i, &record));
    *range = (struct shard_range){
        .shard = record.shard,
        .offset = record.offset,
        .length = record.length,
        .crc32c = record.crc32c,
        .crc_known = record.crc_known,
        .class_name = class_table_at(index->classes, record.label)->wnid,
    };
    if (shard_is_folder(&index->shards[record.shard]))
        TRY(index_name(index, i, &range->name));
    return OK;
}

struct status index_read_stored(struct index *index, uint64_t i, struct buffer *bytes)
{
    struct shard_range range;
    TRY(range_find(index, i, &range));
    return shard_read_buffer(index->reader, &range, bytes);
}

struct status index_read_into(struct index *index, uint64_t i, void *bytes)
{
    struct shard_range range;
    TRY(range_find(index, i, &range));
    return shard_read(index->reader, &range, bytes);
}

struct status index_read(struct index *index, uint64_t i, struct buffer *bytes)
{
    struct record record;
    TRY(index_record(index, i, &record));
    if (record.encoding >= ENCODINGS)
        FAIL(STATUS_UNSUPPORTED,
             "it has encoding %u, which this program does not know; use a newer one",
             record.encoding);
    return index_read_stored(index, i, bytes);
}

struct status index_blame(const struct index *index, uint64_t i, struct status status)
{
    struct record record;
    const char *class_name = "class unknown", *name = "name unknown";
    if (status.code == STATUS_DONE || status.code == STATUS_STOPPED)
        return status;
    struct status known = index_record(index, i, &record);
    if (known.code == STATUS_DONE)
        class_name = class_table_at(index->classes, record.label)->wnid;
    status_ignore(known);
    status_ignore(index_name(index, i, &name));
    return status_context(status, "'%s': record %" PRIu64 " (%s/%s)", index->path, i, class_name,
                          name);
}

/* Of a record that is there. */
static struct status place_describe(const struct index *index, uint64_t i, char **ret_place)
{
    struct record record;
    const char *name;
    TRY(index_record(index, i, &record));
    const struct source_shard *shard = &index->shards[record.shard];
    if (!shard_is_folder(shard))
        return string_format(ret_place, "'%s': the %" PRIu32 " bytes at offset %" PRIu64,
                             shard->path, record.length, record.offset);
    TRY(index_name(index, i, &name));
    return shard_record_path(shard, class_table_at(index->classes, record.label)->wnid, name,
                             ret_place);
}

struct status index_blame_bytes(const struct index *index, uint64_t i, struct status status)
{
    CLEANUP(memory_free) char *place = NULL;
    if (status.code == STATUS_DONE)
        return status;
    struct status described = place_describe(index, i, &place);
    if (described.code == STATUS_DONE)
        status = status_context(status, "%s", place);
    status_ignore(described);
    return status;
}

void index_read_ahead(struct index *index, uint32_t shard, uint64_t offset, uint64_t length)
{
    shard_read_ahead(index->reader, shard, offset, length);
}
