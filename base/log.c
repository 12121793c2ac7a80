#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/console.h"

static void log_print(const char *kind, const char *format, va_list arguments)
{
    char *message = NULL, *line = NULL;
    if (vasprintf(&message, format, arguments) >= 0 &&
        asprintf(&line, "headrace: %s: %s", kind, message) >= 0)
        console_print_line(line);
    else
        console_print_line("headrace: out of memory while a message was being written");
    free(message);
    free(line);
}

void log_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_print("note", format, arguments);
    va_end(arguments);
}

void log_warning(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_print("warning", format, arguments);
    va_end(arguments);
}

void log_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_print("error", format, arguments);
    va_end(arguments);
}
