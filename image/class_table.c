#include "image/class_table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/digest.h"
#include "base/memory.h"
#include "base/shell.h"

struct class_table {
    const struct class_entry *entries; /* sorted by WNID */
    size_t count;
    uint64_t hash;
    struct class_entry *owned; /* what `entries` points at, or NULL for the built-in table */
    struct arena strings;
};

static const struct class_entry ilsvrc2012_classes[] = {
#include "image/ilsvrc2012_classes.inc"
};
_Static_assert(ARRAY_LENGTH(ilsvrc2012_classes) == ILSVRC2012_CLASSES, "a class is missing");

static const struct class_table ilsvrc2012 = {
    .entries = ilsvrc2012_classes,
    .count = ARRAY_LENGTH(ilsvrc2012_classes),
    .hash = 0xa360def50f2b0070, /* tests/test_class_table.c computes it anew */
};

const struct class_table *class_table_ilsvrc2012(void)
{
    return &ilsvrc2012;
}

static int entry_compare(const void *a, const void *b)
{
    return strcmp(((const struct class_entry *)a)->wnid, ((const struct class_entry *)b)->wnid);
}

/* Keys become folder names, so nothing may lead out of the folder they are made in. */
static struct status key_check(const char *wnid)
{
    if (wnid[0] == '\0')
        FAIL(STATUS_CORRUPT, "a class has an empty name");
    if (strchr(wnid, '/') || strcmp(wnid, ".") == 0 || strcmp(wnid, "..") == 0)
        FAIL(STATUS_CORRUPT, "a class is named \"%s\", which cannot be a folder's name", wnid);
    return OK;
}

static struct status entries_copy(struct class_table *table, const struct class_entry *entries)
{
    for (size_t i = 0; i < table->count; i++) {
        struct class_entry *entry = &table->owned[i];
        *entry = entries[i];
        TRY(key_check(entry->wnid));
        TRY(arena_copy(&table->strings, entry->wnid, strlen(entry->wnid), &entry->wnid));
        TRY(arena_copy(&table->strings, entry->words, strlen(entry->words), &entry->words));
    }
    return OK;
}

static struct status hash_compute(struct class_table *table)
{
    CLEANUP(buffer_done) struct buffer keys = {0};
    for (size_t i = 0; i < table->count; i++)
        TRY(buffer_append_text(&keys, "%s\n", table->entries[i].wnid));
    uint8_t digest[SHA256_BYTES];
    digest_sha256_bytes(keys.data, keys.length, digest);
    table->hash = load_le64(digest);
    return OK;
}

struct status class_table_make(const struct class_entry *entries, size_t count,
                               struct class_table **ret_table)
{
    CLEANUP(class_table_free) struct class_table *table = NULL;
    if (count > INT32_MAX)
        FAIL(STATUS_UNSUPPORTED, "%zu classes are more than labels of 32 bits can name", count);
    TRY(memory_alloc(1, sizeof *table, &table));
    TRY(memory_alloc(count, sizeof *table->owned, &table->owned));
    table->entries = table->owned;
    table->count = count;
    TRY(entries_copy(table, entries));

    qsort(table->owned, count, sizeof *table->owned, entry_compare);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(table->entries[i - 1].wnid, table->entries[i].wnid) == 0)
            FAIL(STATUS_CORRUPT, "the class \"%s\" occurs twice", table->entries[i].wnid);
    }
    TRY(hash_compute(table));
    *ret_table = MOVE(table);
    return OK;
}

struct status class_table_from_names(const char *const *names, size_t count,
                                     const struct class_table *known,
                                     struct class_table **ret_table)
{
    CLEANUP(memory_free) struct class_entry *entries = NULL;
    bool all_known = true;
    if (!known)
        known = class_table_ilsvrc2012();
    TRY(memory_alloc(count, sizeof *entries, &entries));
    for (size_t i = 0; i < count; i++)
        all_known = all_known && class_table_find(known, names[i]) >= 0;
    for (size_t i = 0; i < count; i++)
        entries[i] = all_known ? *class_table_at(known, (size_t)class_table_find(known, names[i]))
                               : (struct class_entry){.wnid = names[i], .words = ""};
    return class_table_make(entries, count, ret_table);
}

static bool is_number(const char *name)
{
    return strspn(name, "0123456789") == strlen(name);
}

struct status class_names_refuse_numbers(const char *const *names, size_t count, const char *where,
                                         const char *folder)
{
    size_t shortest = SIZE_MAX, longest = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_number(names[i]))
            return OK;
        size_t length = strlen(names[i]);
        shortest = length < shortest ? length : shortest;
        longest = length > longest ? length : longest;
    }
    if (count < 2 || (shortest == longest && count != ILSVRC2012_CLASSES))
        return OK;
    CLEANUP(memory_free) char *organize = NULL;
    TRY(shell_command(&organize, "headrace organize %s", folder));
    FAIL(STATUS_CORRUPT,
         "%s: the class folders are numbers (%s, %s, …) where WNIDs such as n01440764 were "
         "expected, and what numbers mean is not guessed: if they are labels, 0 … 999 as in "
         "ImageNet-V2: %s --folders labels; if they are ILSVRC2012_IDs, 1 … 1000: %s --folders "
         "ids --devkit ILSVRC2012_devkit_t12.tar.gz; if they are neither, rename them to numbers "
         "of one length (001, 002, …)",
         where, names[0], names[1], organize, organize);
}

struct status class_table_copy(const struct class_table *table, struct class_table **ret_copy)
{
    return class_table_make(table->entries, table->count, ret_copy);
}

void class_table_free(struct class_table *table)
{
    if (!table || table == &ilsvrc2012)
        return;
    memory_free(table->owned);
    arena_done(&table->strings);
    memory_free(table);
}

size_t class_table_count(const struct class_table *table)
{
    return table->count;
}

const struct class_entry *class_table_at(const struct class_table *table, size_t label)
{
    return &table->entries[label];
}

int64_t class_table_find(const struct class_table *table, const char *wnid)
{
    struct class_entry key = {.wnid = wnid};
    const struct class_entry *found =
        bsearch(&key, table->entries, table->count, sizeof key, entry_compare);
    return found ? found - table->entries : -1;
}

uint64_t class_table_hash(const struct class_table *table)
{
    return table->hash;
}
