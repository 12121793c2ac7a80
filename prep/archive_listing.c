#include "prep/archive_listing.h"

#include <string.h>
#include <strings.h>

#include "base/path.h"
#include "base/shell.h"
#include "base/stop.h"
#include "image/source.h"
#include "prep/image_name.h"

/* Read-me files and folders may stand before the first image. */
static const int max_members_looked_at = 200;

void archive_listing_done(struct archive_listing *listing)
{
    memory_free(listing->items);
    arena_done(&listing->names);
    *listing = (struct archive_listing){0};
}

static struct status listing_add(struct archive_listing *listing,
                                 const struct archive_reader *reader,
                                 const struct archive_member *member)
{
    if (!member->is_range)
        return archive_reader_fail(
            reader, STATUS_UNSUPPORTED,
            member->is_sparse ? "a member is stored with holes (sparse), so it has no byte range; "
                                "use headrace extract"
                              : "it is compressed, so its members have no byte ranges; use "
                                "headrace extract");
    TRY(memory_grow(listing->count + 1, sizeof *listing->items, &listing->items,
                    &listing->capacity));
    struct archive_item *item = &listing->items[listing->count];
    *item = (struct archive_item){NULL, member->offset, member->size_bytes};
    TRY(arena_copy(&listing->names, member->name, strlen(member->name), &item->name));
    listing->count++;
    return OK;
}

static struct status list_all(struct archive_reader *reader, struct archive_listing *listing)
{
    struct archive_member member;
    bool found;
    for (;;) {
        TRY(stop_check());
        TRY(archive_reader_next(reader, &member, &found));
        if (!found)
            break;
        if (!member.is_folder)
            TRY(listing_add(listing, reader, &member));
    }
    listing->warnings += archive_reader_warnings(reader);
    archive_reader_show_warnings(reader);
    return OK;
}

struct status archive_list(const struct archive_file *file, struct archive_listing *listing)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    TRY(archive_file_check_ranges(file));
    TRY(archive_reader_open(file, ARCHIVE_HEADERS, &reader));
    return list_all(reader, listing);
}

struct status archive_list_inner(const struct archive_file *file, const struct archive_item *inner,
                                 struct archive_listing *listing)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    TRY(archive_reader_open_range(file, inner->name, inner->offset, inner->size_bytes,
                                  ARCHIVE_HEADERS, &reader));
    return list_all(reader, listing);
}

const char *archive_layout_name(enum archive_layout layout)
{
    static const char *const names[] = {
        [LAYOUT_UNKNOWN] = "an archive of unknown layout",
        [LAYOUT_TRAIN] = "a training archive (a tar of one tar a class)",
        [LAYOUT_VAL] = "a validation archive (flat images)",
        [LAYOUT_TEST] = "a test archive (flat images)",
        [LAYOUT_TRAIN_FLAT] = "an archive of flat training images",
        [LAYOUT_CLASS_FOLDERS] = "an archive of class folders",
        [LAYOUT_DEVKIT] = "a devkit",
    };
    return names[layout];
}

struct status archive_fail_train_flat(const char *path, const char *dest)
{
    CLEANUP(memory_free) char *command = NULL;
    TRY(shell_command(&command, "mkdir -p %s && tar -xf %s -C %s && headrace organize %s", dest,
                      path, dest, dest));
    FAIL(STATUS_USAGE,
         "%s has flat training images, whose names tell their classes; this sorts them into class "
         "folders, and those of further archives beside them: %s",
         path, command);
}

/* Whether the file lies directly in a folder named like a class. */
static bool is_in_wnid_folder(const char *name, const char *base)
{
    return base - name > WNID_LENGTH && is_wnid_prefix(base - WNID_LENGTH - 1) &&
           (base - WNID_LENGTH - 1 == name || base[-WNID_LENGTH - 2] == '/');
}

enum archive_layout archive_layout_of_member(const char *name)
{
    const char *base = path_base(name);
    const char *dot = strrchr(base, '.');
    if (strcmp(base, "meta.mat") == 0)
        return LAYOUT_DEVKIT;
    if (dot && strcasecmp(dot, ".tar") == 0)
        return LAYOUT_TRAIN;
    if (!source_is_image_name(base))
        return LAYOUT_UNKNOWN;
    enum image_set set = image_name_parse(base).set;
    if (set == IMAGE_SET_TEST)
        return LAYOUT_TEST;
    if (set == IMAGE_SET_VAL && !is_in_wnid_folder(name, base))
        return LAYOUT_VAL;
    if (base != name)
        return LAYOUT_CLASS_FOLDERS;
    return set == IMAGE_SET_TRAIN ? LAYOUT_TRAIN_FLAT : LAYOUT_UNKNOWN;
}

struct status archive_layout_find(const struct archive_file *file, enum archive_layout *ret_layout)
{
    CLEANUP(archive_reader_close) struct archive_reader *reader = NULL;
    struct archive_member member;
    bool found;
    *ret_layout = LAYOUT_UNKNOWN;
    TRY(archive_reader_open(file, ARCHIVE_HEADERS, &reader));
    for (int i = 0; i < max_members_looked_at && *ret_layout == LAYOUT_UNKNOWN; i++) {
        TRY(archive_reader_next(reader, &member, &found));
        if (!found)
            break;
        if (!member.is_folder)
            *ret_layout = archive_layout_of_member(member.name);
    }
    return OK;
}
