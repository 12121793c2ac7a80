#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char out_of_memory[] = "out of memory while an error was being reported";

static char *message_format(const char *format, va_list arguments)
{
    char *message = NULL;
    if (vasprintf(&message, format, arguments) < 0)
        return out_of_memory;
    return message;
}

static void message_free(char *message)
{
    if (message != out_of_memory)
        free(message);
}

struct status status_make(enum status_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *message = message_format(format, arguments);
    va_end(arguments);
    return (struct status){code, message};
}

static enum status_code code_of_errno(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return STATUS_NO_SPACE;
    case ENOENT:
        return STATUS_NOT_FOUND;
    case ENOMEM:
        return STATUS_NO_MEMORY;
    default:
        return STATUS_IO;
    }
}

struct status status_errno(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *what = message_format(format, arguments);
    va_end(arguments);
    char reason[128];
    struct status status =
        status_make(code_of_errno(error), "%s: %s", what, strerror_r(error, reason, sizeof reason));
    message_free(what);
    return status;
}

struct status status_context(struct status status, const char *format, ...)
{
    if (status.code == STATUS_DONE)
        return status;
    va_list arguments;
    va_start(arguments, format);
    char *context = message_format(format, arguments);
    va_end(arguments);
    struct status wider = status_make(status.code, "%s: %s", context, status_message(&status));
    message_free(context);
    status_clear(&status);
    return wider;
}

struct status status_advise(struct status status, const char *advice)
{
    if (status.code == STATUS_DONE)
        return status;
    struct status advised = status_make(status.code, "%s; %s", status_message(&status), advice);
    status_clear(&status);
    return advised;
}

const char *status_message(const struct status *status)
{
    return status->message ? status->message : "";
}

void status_clear(struct status *status)
{
    message_free(status->message);
    *status = OK;
}

void status_ignore(struct status status)
{
    status_clear(&status);
}

int status_exit_code(enum status_code code)
{
    switch (code) {
    case STATUS_DONE:
        return 0;
    case STATUS_USAGE:
        return 2;
    case STATUS_FOUND:
        return 3;
    case STATUS_STOPPED:
        return 75;
    default:
        return 1;
    }
}
