#include "base/log.h"

#include <stdarg.h>

#include "base/bytes.h"
#include "base/console.h"
#include "base/shell.h"

static const char *speaker;

void log_speak_as(const char *name)
{
    speaker = name;
}

static struct status line_format(struct buffer *line, const char *kind, const char *format,
                                 va_list arguments, const char **ret_text)
{
    CLEANUP(buffer_done) struct buffer message = {0};
    const char *text;
    TRY(buffer_append_text_va(&message, format, arguments));
    TRY(buffer_text(&message, &text));
    TRY(buffer_append_text(line, "headrace: %s: ", kind));
    if (speaker)
        TRY(buffer_append_text(line, "%s: ", speaker));
    TRY(shell_append_printable(line, text, "\n\t"));
    return buffer_text(line, ret_text);
}

static void line_print(const char *kind, const char *format, va_list arguments)
{
    CLEANUP(buffer_done) struct buffer line = {0};
    const char *text;
    struct status status = line_format(&line, kind, format, arguments, &text);
    console_print_line(status.code == STATUS_DONE ? text : status_message(&status));
    status_ignore(status);
}

void log_note(const char *format, ...)
{
    va_list arguments;
    if (speaker)
        return;
    va_start(arguments, format);
    line_print("note", format, arguments);
    va_end(arguments);
}

void log_warning(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line_print("warning", format, arguments);
    va_end(arguments);
}

void log_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line_print("error", format, arguments);
    va_end(arguments);
}
