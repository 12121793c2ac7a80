#ifndef HEADRACE_BASE_SHELL_H
#define HEADRACE_BASE_SHELL_H

/* Text that goes into a shell or onto a terminal: names of files may hold anything but '/' and
 * '\0'. */

#include "base/bytes.h"
#include "base/status.h"

/* A command line that can be typed, on the heap: `format`, whose only conversion is %s, with each
 * argument quoted for a shell where it needs that. A word that begins with '-' gets "./" before it,
 * so that it is no flag. */
struct status shell_command(char **ret_command, const char *format, ...) PRINTF_LIKE(2, 3);

/* Appends text with its control characters written out (\x1b), so that a name can neither move a
 * terminal's cursor nor begin another line. Those in `keep` stay as they are. */
struct status shell_append_printable(struct buffer *buffer, const char *text, const char *keep);

#endif
