#include "base/shell.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"

/* Characters that no shell treats in a way of its own, wherever in a word they stand. */
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            "%+,-./:@_";

/* Length in bytes of the control character that the text begins with; 0 for another one. Those of
 * the second set (U+0080 … U+009F) have two bytes in UTF-8. */
static size_t control_length(const char *text)
{
    unsigned char c = (unsigned char)text[0], next = c ? (unsigned char)text[1] : 0;
    if ((c && c < 0x20) || c == 0x7f)
        return 1;
    return c == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if (control_length(text))
            return true;
    return false;
}

static bool is_plain(const char *word)
{
    for (; *word; word++)
        if (!strchr(plain, *word) && (unsigned char)*word < 0x80)
            return false;
    return true;
}

/* The content of '…'. */
static struct status append_quoted(struct buffer *buffer, const char *word)
{
    for (; *word; word++) {
        if (*word == '\'')
            TRY(buffer_append_text(buffer, "'\\''"));
        else
            TRY(buffer_append_u8(buffer, (uint8_t)*word));
    }
    return OK;
}

/* The content of $'…', which bash, zsh and newer sh know. */
static struct status append_escaped(struct buffer *buffer, const char *word)
{
    for (; *word; word++) {
        unsigned char c = (unsigned char)*word;
        if (c == '\'' || c == '\\')
            TRY(buffer_append_text(buffer, "\\%c", c));
        else if (c < 0x20 || c >= 0x7f)
            TRY(buffer_append_text(buffer, "\\%03o", c)); /* \x would go on into digits behind it */
        else
            TRY(buffer_append_u8(buffer, c));
    }
    return OK;
}

static struct status append_word(struct buffer *buffer, const char *word)
{
    if (word[0] == '-')
        TRY(buffer_append_text(buffer, "./"));
    if (word[0] && is_plain(word) && !has_control(word))
        return buffer_append_text(buffer, "%s", word);
    bool is_escaped = has_control(word);
    TRY(buffer_append_text(buffer, is_escaped ? "$'" : "'"));
    TRY(is_escaped ? append_escaped(buffer, word) : append_quoted(buffer, word));
    return buffer_append_u8(buffer, '\'');
}

static struct status append_command(struct buffer *buffer, const char *format, va_list arguments)
{
    for (; *format; format++) {
        if (*format != '%') {
            TRY(buffer_append_u8(buffer, (uint8_t)*format));
            continue;
        }
        format++;
        assert(*format == 's');
        TRY(append_word(buffer, va_arg(arguments, const char *)));
    }
    return OK;
}

struct status shell_command(char **ret_command, const char *format, ...)
{
    CLEANUP(buffer_done) struct buffer buffer = {0};
    const char *text;
    va_list arguments;
    va_start(arguments, format);
    struct status status = append_command(&buffer, format, arguments);
    va_end(arguments);
    TRY(status);
    TRY(buffer_text(&buffer, &text));
    return string_copy(text, ret_command);
}

struct status shell_append_printable(struct buffer *buffer, const char *text, const char *keep)
{
    while (*text) {
        size_t length = strchr(keep, *text) ? 0 : control_length(text);
        if (!length)
            TRY(buffer_append_u8(buffer, (uint8_t)*text++));
        for (; length; length--)
            TRY(buffer_append_text(buffer, "\\x%02x", (unsigned char)*text++));
    }
    return OK;
}
