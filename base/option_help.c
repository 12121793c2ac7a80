#include <string.h>

#include "base/option.h"
#include "base/option_value.h"

enum { WIDTH = 92, HELP_COLUMN = 30, SHORT_NAMES = 20 };

/* Columns that a text takes: its characters, not its bytes. */
static size_t columns_of(const char *text, size_t length)
{
    size_t columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

static struct status pad(struct buffer *text, size_t columns)
{
    return buffer_append_text(text, "%*s", (int)columns, "");
}

/* Appends words from `column` on; lines that would pass the width go on in column `indent`. Ends
 * the line. */
static struct status wrap(struct buffer *text, const char *words, size_t length, size_t column,
                          size_t indent)
{
    const char *end = words + length;
    bool first = true;
    while (words < end) {
        size_t bytes = strcspn(words, " \n");
        if (bytes > (size_t)(end - words))
            bytes = (size_t)(end - words);
        size_t columns = columns_of(words, bytes);
        if (!first && column + 1 + columns > WIDTH) {
            TRY(buffer_append_text(text, "\n"));
            TRY(pad(text, indent));
            column = indent;
        } else if (!first) {
            TRY(buffer_append_text(text, " "));
            column++;
        }
        TRY(buffer_append(text, words, bytes));
        column += columns;
        first = false;
        words += bytes;
        words += strspn(words, " \n");
    }
    return buffer_append_text(text, "\n");
}

/* Paragraphs are wrapped; lines that begin with a space stand as they are. */
static struct status wrap_paragraphs(struct buffer *text, const char *paragraphs)
{
    while (*paragraphs) {
        const char *end = paragraphs;
        if (*paragraphs == ' ' || *paragraphs == '\n') {
            end += strcspn(end, "\n");
            TRY(buffer_append_text(text, "%.*s\n", (int)(end - paragraphs), paragraphs));
        } else {
            while (*end && !(end[0] == '\n' && (end[1] == '\n' || end[1] == ' ')))
                end++;
            while (end > paragraphs && end[-1] == '\n') /* the text's own last line end */
                end--;
            TRY(wrap(text, paragraphs, (size_t)(end - paragraphs), 0, 0));
        }
        paragraphs = *end ? end + 1 : end;
    }
    return OK;
}

/* "jpeg|dct", or "" where that would be too long. */
static struct status names_join(const struct option *row, struct buffer *text)
{
    for (size_t i = 0; row->names[i]; i++)
        TRY(buffer_append_text(text, "%s%s", i ? "|" : "", row->names[i]));
    if (text->length > SHORT_NAMES)
        text->length = 0;
    return OK;
}

static struct status placeholder_append(const struct option *row, struct buffer *text)
{
    static const char *const usual[] = {
        [OPT_INT] = "N",       [OPT_SIZE] = "SIZE", [OPT_REAL] = "X",
        [OPT_STRING] = "TEXT", [OPT_ENUM] = "NAME", [OPT_LIST] = "A,B,..",
    };
    CLEANUP(buffer_done) struct buffer names = {0};
    if (row->type == OPT_FLAG)
        return OK;
    if (row->value)
        return buffer_append_text(text, " %s", row->value);
    if (row->type == OPT_ENUM)
        TRY(names_join(row, &names));
    if (names.length)
        return buffer_append_text(text, " %.*s", (int)names.length, (const char *)names.data);
    return buffer_append_text(text, " %s", usual[row->type]);
}

/* A flag that is on unless refused is shown by the form that one would type. */
static struct status head_append(const struct option *row, const void *defaults,
                                 struct buffer *text)
{
    bool is_on = row->type == OPT_FLAG && *((const bool *)defaults + row->offset);
    if (row->letter)
        TRY(buffer_append_text(text, "  -%c, --%s%s", row->letter, is_on ? "[no-]" : "",
                               row->name));
    else
        TRY(buffer_append_text(text, "      --%s%s", is_on ? "[no-]" : "", row->name));
    return placeholder_append(row, text);
}

static struct status help_append(const struct option *row, const void *defaults,
                                 struct buffer *text)
{
    const char *rest = row->help ? row->help : "";
    const char *mark = strstr(rest, "%d");
    if (mark) {
        TRY(buffer_append(text, rest, (size_t)(mark - rest)));
        TRY(option_value_print(row, defaults, text));
        rest = mark + 2;
    }
    TRY(buffer_append_text(text, "%s", rest));
    CLEANUP(buffer_done) struct buffer names = {0};
    if (row->type == OPT_ENUM) {
        TRY(names_join(row, &names));
        if (names.length == 0 || row->value) {
            TRY(buffer_append_text(text, ": "));
            TRY(option_value_describe(row, text));
        }
    }
    if (row->alias)
        TRY(buffer_append_text(text, " (also --%s)", row->alias));
    return row->required ? buffer_append_text(text, " (required)") : OK;
}

static struct status row_append(struct buffer *text, const struct buffer *head, const char *help)
{
    size_t column = columns_of((const char *)head->data, head->length);
    TRY(buffer_append(text, head->data, head->length));
    if (column + 2 > HELP_COLUMN) {
        TRY(buffer_append_text(text, "\n"));
        column = 0;
    }
    TRY(pad(text, HELP_COLUMN - column));
    return wrap(text, help, strlen(help), HELP_COLUMN, HELP_COLUMN);
}

static struct status option_append(const struct option *row, const void *defaults,
                                   struct buffer *text)
{
    CLEANUP(buffer_done) struct buffer head = {0}, help = {0};
    const char *help_text;
    TRY(head_append(row, defaults, &head));
    TRY(help_append(row, defaults, &help));
    TRY(buffer_text(&help, &help_text));
    return row_append(text, &head, help_text);
}

static struct status usage_append(const struct option_usage *usage, const struct option *table,
                                  struct buffer *text)
{
    TRY(buffer_append_text(text, "Usage: headrace %s", usage->command));
    if (usage->positionals && *usage->positionals)
        TRY(buffer_append_text(text, " %s", usage->positionals));
    for (const struct option *row = table; row->type != OPT_END; row++) {
        if (!row->required)
            continue;
        if (row->letter)
            TRY(buffer_append_text(text, " -%c", row->letter));
        else
            TRY(buffer_append_text(text, " --%s", row->name));
        TRY(placeholder_append(row, text));
    }
    TRY(buffer_append_text(text, " [OPTION]...\n\n"));
    return wrap_paragraphs(text, usage->summary);
}

static struct status example_append(const char *example, struct buffer *text)
{
    TRY(buffer_append_text(text, "\nExample:\n"));
    while (*example) {
        size_t length = strcspn(example, "\n");
        TRY(buffer_append_text(text, "  %.*s\n", (int)length, example));
        example += length;
        example += *example == '\n';
    }
    return OK;
}

struct status option_help(const struct option_usage *usage, const struct option *table,
                          const void *defaults, struct buffer *text)
{
    TRY(usage_append(usage, table, text));
    TRY(buffer_append_text(text, "\nOptions:\n"));
    for (const struct option *row = table; row->type != OPT_END; row++)
        if (!row->hidden)
            TRY(option_append(row, defaults, text));
    TRY(buffer_append_text(text, "%-*s%s\n", HELP_COLUMN, "  -h, --help", "shows this"));
    if (usage->details) {
        TRY(buffer_append_text(text, "\n"));
        TRY(wrap_paragraphs(text, usage->details));
    }
    if (usage->example)
        TRY(example_append(usage->example, text));
    TRY(buffer_append_text(text, "\n"));
    return wrap_paragraphs(text, "Exit status: 0 done, 1 failed, 2 wrong usage, 3 a check found "
                                 "something, 75 stopped on request and resumable.");
}
