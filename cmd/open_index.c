#include "cmd/open_index.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/shell.h"
#include "index/url.h"

static bool is_index_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot != name && strcmp(dot, ".idx") == 0;
}

/* The first index in a folder, or the one beside it; NULL if there is none. */
static struct status find_index(const char *folder, char **ret_path)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    CLEANUP(memory_free) char *beside = NULL;
    size_t length = strlen(folder);
    *ret_path = NULL;
    TRY(folder_list_read(folder, &list));
    for (size_t i = 0; i < list.count; i++)
        if (list.entries[i].is_file && is_index_name(list.entries[i].name))
            return path_join(folder, list.entries[i].name, ret_path);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    TRY(string_format(&beside, "%.*s.idx", (int)length, folder));
    if (path_exists(beside))
        *ret_path = MOVE(beside);
    return OK;
}

/* DIR/train and DIR/val become two indexes in DIR, other folders one beside them. */
static struct status pack_command(const char *folder, char **ret_command)
{
    CLEANUP(memory_free) char *train = NULL;
    CLEANUP(memory_free) char *out = NULL;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    TRY(path_join(folder, "train", &train));
    TRY(string_format(&out, "%.*s%s", (int)length, folder, path_is_folder(train) ? "/" : ".idx"));
    return shell_command(ret_command, "headrace pack %s --in-place -o %s", folder, out);
}

/* `usage` is a command line with the word INDEX, in whose place an index is put that was found. */
static struct status fail_folder(const char *usage, const char *folder)
{
    CLEANUP(memory_free) char *index = NULL;
    CLEANUP(memory_free) char *advice = NULL;
    TRY(find_index(folder, &index));
    if (!index) {
        TRY(pack_command(folder, &advice));
        FAIL(STATUS_USAGE,
             "'%s' is a folder, expected an index; to make one of its images without copying "
             "them: %s",
             folder, advice);
    }
    const char *place = strstr(usage, "INDEX");
    TRY(shell_command(&advice, "%s", index));
    FAIL(STATUS_USAGE, "'%s' is a folder, expected an index, for instance: headrace %.*s%s%s",
         folder, (int)(place - usage), usage, advice, place + strlen("INDEX"));
}

struct status command_open_index(const char *usage, const char *path, struct access *access,
                                 struct index **ret_index)
{
    return path_is_folder(path) ? fail_folder(usage, path)
                                : index_open_with(path, access, ret_index);
}

struct status command_check_output(const char *path)
{
    CLEANUP(memory_free) char *shown = NULL;
    if (path[0] == '\0')
        FAIL(STATUS_USAGE, "the name of what is to be written is empty");
    if (url_is_like(path)) {
        TRY(url_shown(path, &shown));
        FAIL(STATUS_USAGE,
             "'%s' is a URL, which is read only: write to a folder here, and copy what was written "
             "to the server",
             shown);
    }
    return OK;
}
