#include "base/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"

bool path_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool path_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

struct status path_join(const char *folder, const char *name, char **ret_path)
{
    size_t length = strlen(folder);
    if (name[0] == '/' || length == 0)
        return string_copy(name, ret_path);
    if (name[0] == '\0')
        return string_copy(folder, ret_path);
    return string_format(ret_path, "%s%s%s", folder, folder[length - 1] == '/' ? "" : "/", name);
}

const char *path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

struct status path_folder(const char *path, char **ret_folder)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return string_copy(".", ret_folder);
    if (slash == path)
        return string_copy("/", ret_folder);
    return string_format(ret_folder, "%.*s", (int)(slash - path), path);
}

struct status path_real(const char *path, char **ret_path)
{
    char *real = realpath(path, NULL);
    if (!real)
        return status_errno(errno, "cannot find '%s'", path);
    *ret_path = real;
    return OK;
}

struct status path_program_folder(char **ret_folder)
{
    CLEANUP(memory_free) char *program = NULL;
    TRY(path_real("/proc/self/exe", &program));
    return path_folder(program, ret_folder);
}

struct status path_cache_folder(char **ret_folder)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *ret_folder = NULL;
    if (cache && cache[0] == '/')
        return path_join(cache, "headrace", ret_folder);
    if (home && home[0] == '/')
        return path_join(home, ".cache/headrace", ret_folder);
    return OK;
}

/* The absolute path of something that may not exist yet, in a folder that does. */
static struct status path_absolute(const char *path, char **ret_path)
{
    if (path_exists(path))
        return path_real(path, ret_path);
    CLEANUP(memory_free) char *folder = NULL;
    CLEANUP(memory_free) char *real_folder = NULL;
    TRY(path_folder(path, &folder));
    TRY(path_real(folder, &real_folder));
    return path_join(real_folder, path_base(path), ret_path);
}

struct status path_relative(const char *path, const char *folder, char **ret_path)
{
    CLEANUP(memory_free) char *absolute = NULL;
    CLEANUP(memory_free) char *root = NULL;
    TRY(path_absolute(path, &absolute));
    TRY(path_real(folder, &root));

    size_t length = strlen(root);
    if (root[length - 1] == '/')
        length--; /* the root folder itself */
    bool below = strncmp(absolute, root, length) == 0 && absolute[length] == '/' &&
                 absolute[length + 1] != '\0';
    return string_copy(below ? absolute + length + 1 : absolute, ret_path);
}
