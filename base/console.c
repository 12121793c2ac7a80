#include "base/console.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char bar[512]; /* what stands on the last line; "" for nothing */

static const char clear_line[] = "\r\033[K";

bool console_is_terminal(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDERR_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
}

unsigned console_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

static struct iovec piece_of(const char *text)
{
    return (struct iovec){(char *)text, strlen(text)};
}

/* One write for all, so that other processes' lines do not come between. A stderr that fails is
 * nobody's concern. */
static void put(const char *before, const char *text, const char *after)
{
    const struct iovec pieces[] = {piece_of(before), piece_of(text), piece_of(after)};
    if (writev(STDERR_FILENO, pieces, 3) < 0)
        return;
}

void console_print_line(const char *text)
{
    pthread_mutex_lock(&lock);
    put(bar[0] ? clear_line : "", text, "\n");
    if (bar[0])
        put("", bar, "");
    pthread_mutex_unlock(&lock);
}

void console_set_bar(const char *text)
{
    pthread_mutex_lock(&lock);
    if (text || bar[0])
        put(clear_line, text ? text : "", "");
    snprintf(bar, sizeof bar, "%s", text ? text : "");
    pthread_mutex_unlock(&lock);
}
