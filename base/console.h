#ifndef HEADRACE_BASE_CONSOLE_H
#define HEADRACE_BASE_CONSOLE_H

/* The one place that writes to stderr: lines, and at most one bar below them that redraws itself.
 */

#include <stdbool.h>

/* Whether stderr is a terminal that can redraw a line. */
bool console_is_terminal(void);
/* Columns of the terminal; 80 where that is unknown. */
unsigned console_columns(void);

/* Prints `text` and a line end, in one piece. On a terminal the bar is cleared first and drawn
 * again below. */
void console_print_line(const char *text);
/* Shows `text` (at most one line long) as the bar; NULL removes it. For terminals only. */
void console_set_bar(const char *text);

#endif
