#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "prep/verify_set.h"

/* What desktops, notebooks and file systems leave in any folder. */
static bool is_litter(const char *name)
{
    return !source_is_class_name(name) || strcmp(name, "Thumbs.db") == 0 ||
           strcmp(name, "desktop.ini") == 0;
}

static bool is_unfinished(const char *name)
{
    size_t length = strlen(name);
    static const char suffix[] = ".partial";
    return *name == '.' && length > sizeof suffix &&
           strcmp(name + length - (sizeof suffix - 1), suffix) == 0;
}

/* headrace organize --link leaves the flat images beside the folders that they are linked into. */
static bool has_other_links(const char *folder, const char *name)
{
    CLEANUP(memory_free) char *path = NULL;
    struct stat info;
    struct status status = path_join(folder, name, &path);
    if (status.code != STATUS_DONE) {
        status_clear(&status);
        return false;
    }
    return stat(path, &info) == 0 && info.st_nlink > 1;
}

static struct status check_top(struct verify_set *set, uint64_t *ignored)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    TRY(folder_list_read(set->path, &list));
    for (size_t i = 0; i < list.count; i++) {
        const struct folder_entry *entry = &list.entries[i];
        if (is_unfinished(entry->name))
            TRY(verify_found(set, FOUND_UNFINISHED, entry->name,
                             "left by a stopped extraction: run it again"));
        else if (is_litter(entry->name) || (!entry->is_file && !entry->is_folder))
            ++*ignored;
        else if (entry->is_file && !source_is_image_name(entry->name))
            ++*ignored;
        else if (entry->is_file && !has_other_links(set->path, entry->name))
            TRY(verify_found(set, FOUND_STRAY, entry->name, "an image outside the class folders"));
    }
    return OK;
}

/* A name that leads to nothing. */
static bool is_dead_link(const char *folder, const char *name)
{
    CLEANUP(memory_free) char *path = NULL;
    struct stat info;
    struct status status = path_join(folder, name, &path);
    bool is_dead = status.code == STATUS_DONE && lstat(path, &info) == 0 && S_ISLNK(info.st_mode) &&
                   stat(path, &info) != 0;
    status_clear(&status);
    return is_dead;
}

static struct status found_stray(struct verify_set *set, const char *folder, const char *path,
                                 const struct folder_entry *entry)
{
    if (!entry->is_file && !entry->is_folder && is_dead_link(folder, entry->name))
        return verify_found(set, source_is_image_name(entry->name) ? FOUND_UNREADABLE : FOUND_STRAY,
                            path, "a link to something that is not there");
    return verify_found(set, FOUND_STRAY, path, "%s",
                        entry->is_folder ? "a folder among images"
                        : entry->is_file ? "not named like an image"
                                         : "neither a file nor a folder");
}

static struct status check_class_folder(struct verify_set *set, const char *class_name,
                                        uint64_t *ignored)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    CLEANUP(memory_free) char *folder = NULL;
    TRY(path_join(set->path, class_name, &folder));
    struct status status = folder_list_read(folder, &list);
    if (status.code == STATUS_NO_MEMORY)
        return status;
    status_clear(&status); /* one that cannot be read was found fault with when it was listed */
    for (size_t i = 0; i < list.count; i++) {
        const struct folder_entry *entry = &list.entries[i];
        CLEANUP(memory_free) char *path = NULL;
        if (entry->is_file && source_is_image_name(entry->name))
            continue;
        if (is_litter(entry->name)) {
            ++*ignored;
            continue;
        }
        TRY(path_join(class_name, entry->name, &path));
        TRY(found_stray(set, folder, path, entry));
    }
    return OK;
}

struct status verify_strays(struct verify_set *set, const struct source *source)
{
    uint64_t ignored = 0;
    TRY(check_top(set, &ignored));
    for (size_t i = 0; i < class_table_count(source->classes); i++)
        TRY(check_class_folder(set, class_table_at(source->classes, i)->wnid, &ignored));
    if (ignored)
        TRY(verify_note(set, "%" PRIu64 " other files and hidden folders were ignored", ignored));
    return OK;
}
