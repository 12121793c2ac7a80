#include "base/text_list.h"

#include <string.h>

#include "base/bytes.h"
#include "base/file.h"

static struct status line_add(struct text_list *lines, const char *text, size_t length,
                              size_t number)
{
    TRY(memory_grow(lines->count + 1, sizeof *lines->items, &lines->items, &lines->capacity));
    struct text_line *line = &lines->items[lines->count];
    line->number = number;
    TRY(arena_copy(&lines->texts, text, length, &line->text));
    lines->count++;
    return OK;
}

struct status text_list_add(struct text_list *lines, const char *text)
{
    return line_add(lines, text, strlen(text), 0);
}

/* Adds what is left of a line without the blanks around it. */
static struct status line_take(struct text_list *lines, const char *text, size_t length,
                               size_t number)
{
    static const char blanks[] = " \t\r";
    while (length > 0 && strchr(blanks, text[0])) {
        text++;
        length--;
    }
    while (length > 0 && strchr(blanks, text[length - 1]))
        length--;
    if (length == 0 || text[0] == '#')
        return OK;
    return line_add(lines, text, length, number);
}

struct status text_list_read(const char *path, struct text_list *ret_lines)
{
    CLEANUP(buffer_done) struct buffer content = {0};
    TRY(file_read_all(path, ((size_t)1 << 30) - 1, &content));
    return text_list_parse(content.data, content.length, path, ret_lines);
}

struct status text_list_parse(const void *bytes, size_t length, const char *path,
                              struct text_list *ret_lines)
{
    static const char mark[] = "\xef\xbb\xbf";
    CLEANUP(text_list_done) struct text_list lines = {0};
    const char *text = bytes;
    size_t at = 0, number = 0;
    if (length >= 3 && memcmp(text, mark, 3) == 0)
        at = 3;
    while (at < length) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t line_length = end ? (size_t)(end - text) - at : length - at;
        number++;
        if (memchr(text + at, '\0', line_length))
            FAIL(STATUS_CORRUPT, "'%s' line %zu holds a zero byte; a list of names was expected",
                 path, number);
        TRY(line_take(&lines, text + at, line_length, number));
        at += line_length + 1;
    }
    *ret_lines = lines;
    lines = (struct text_list){0};
    return OK;
}

void text_list_done(struct text_list *lines)
{
    memory_free(lines->items);
    arena_done(&lines->texts);
    *lines = (struct text_list){0};
}
