#include "cmd/command.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/shell.h"

struct status command_parse(const struct option_usage *usage, const struct option *table, int argc,
                            char **argv, void *arguments, struct option_parse *ret_parse)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    TRY(option_parse_arguments(usage, table, argc, argv, arguments, ret_parse));
    if (!ret_parse->help)
        return OK;
    TRY(option_help(usage, table, arguments, &text));
    fwrite(text.data, 1, text.length, stdout);
    return OK;
}

struct status command_print_text(struct buffer *text)
{
    CLEANUP(buffer_done) struct buffer shown = {0};
    const char *characters;
    TRY(buffer_text(text, &characters));
    TRY(shell_append_printable(&shown, characters, "\n\t"));
    fwrite(shown.data, 1, shown.length, stdout);
    return OK;
}

struct status command_print_json(const struct json *value)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    TRY(json_write(value, false, &text));
    TRY(buffer_append_u8(&text, '\n'));
    fwrite(text.data, 1, text.length, stdout);
    return OK;
}

unsigned command_threads(int64_t jobs)
{
    return jobs > 0 ? (unsigned)jobs : cores_available();
}

static struct status list_split(const char *value, struct text_list *lines)
{
    CLEANUP(memory_free) char *copy = NULL;
    TRY(string_copy(value, &copy));
    for (char *rest = copy, *entry; (entry = strsep(&rest, ","));) {
        if (entry[0] != '\0')
            TRY(text_list_add(lines, entry));
    }
    return OK;
}

/* Whether a list that is no file was meant to be one: no class and no image has such a name. */
static bool means_file(const char *value)
{
    const char *ending = strrchr(value, '.');
    return !strchr(value, ',') &&
           (strchr(value, '/') || (ending && (!strcmp(ending, ".txt") || !strcmp(ending, ".csv"))));
}

struct status command_list(const char *value, struct text_list *ret_lines)
{
    CLEANUP(text_list_done) struct text_list lines = {0};
    bool is_file = path_exists(value);
    if (!is_file && means_file(value))
        FAIL(STATUS_NOT_FOUND,
             "there is no file '%s': a list is a file with a line for each entry, or entries with "
             "commas between",
             value);
    TRY(is_file ? text_list_read(value, &lines) : list_split(value, &lines));
    if (lines.count == 0)
        FAIL(STATUS_USAGE, "the list '%s' has no entries", value);
    *ret_lines = lines;
    lines = (struct text_list){0};
    return OK;
}

struct status command_classes(const struct class_table *classes, const char *value,
                              bool **ret_wanted)
{
    CLEANUP(memory_free) bool *wanted = NULL;
    CLEANUP(text_list_done) struct text_list lines = {0};
    size_t count = class_table_count(classes);
    TRY(memory_alloc(count, sizeof *wanted, &wanted));
    memset(wanted, !value, count);
    if (value)
        TRY(command_list(value, &lines));
    for (size_t i = 0; i < lines.count; i++) {
        int64_t label = class_table_find(classes, lines.items[i].text);
        if (label < 0)
            FAIL(STATUS_NOT_FOUND, "there is no class '%s' among the %zu classes (first: %s)",
                 lines.items[i].text, count, count ? class_table_at(classes, 0)->wnid : "none");
        wanted[label] = true;
    }
    *ret_wanted = MOVE(wanted);
    return OK;
}
