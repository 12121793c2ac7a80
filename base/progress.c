#include "base/progress.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/console.h"
#include "base/memory.h"

#define TEXT_BYTES 512

struct progress {
    const char *what, *unit;
    bool terminal;
    double start_s;
    atomic_uint_fast64_t items, bytes, total_items, total_bytes;
    atomic_uint_fast64_t next_draw_ms; /* since the start */

    pthread_mutex_t lock; /* guards the rates */
    struct {
        double at_s, items, bytes;                 /* when last measured */
        double items_per_second, bytes_per_second; /* smoothed over some seconds */
    } rate;
};

/* What is drawn: one consistent look at the counters. */
struct progress_view {
    uint64_t items, bytes, total_items, total_bytes;
    double fraction; /* 0 … 1, or −1 where no total is known */
    double items_per_second, bytes_per_second;
    double left_s; /* −1: unknown */
};

static atomic_bool quiet;

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

struct timespec clock_after_ms(unsigned wait_ms)
{
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    moment.tv_sec += wait_ms / 1000;
    moment.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    moment.tv_sec += moment.tv_nsec / 1000000000;
    moment.tv_nsec %= 1000000000;
    return moment;
}

const char *format_bytes(uint64_t bytes, char text[16])
{
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
    if (bytes < 1000) {
        snprintf(text, 16, "%u B", (unsigned)bytes);
        return text;
    }
    double value = (double)bytes / 1000;
    size_t unit = 0;
    while (value >= 999.95) { /* would be printed as 1000.0 */
        value /= 1000;
        unit++;
    }
    snprintf(text, 16, "%.1f %s", value, units[unit]);
    return text;
}

const char *format_seconds(double seconds, char text[16])
{
    const double most_seconds = 359999999; /* 99,999 hours and a bit: what fits */
    if (!(seconds > 0))
        seconds = 0;
    unsigned whole = (unsigned)fmin(round(seconds), most_seconds);
    unsigned hours = whole / 3600, minutes = whole / 60 % 60;
    if (hours)
        snprintf(text, 16, "%u:%02u:%02u", hours, minutes, whole % 60);
    else
        snprintf(text, 16, "%u:%02u", minutes, whole % 60);
    return text;
}

/* A line that grows in a fixed buffer: what does not fit is cut. */
struct line {
    char text[TEXT_BYTES];
    size_t length;
};

static void line_add(struct line *line, const char *format, ...) PRINTF_LIKE(2, 3);
static void line_add(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof line->text - line->length;
    int length = vsnprintf(line->text + line->length, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        line->length += (size_t)length < room ? (size_t)length : room - 1;
}

static const char *format_rate(double per_second, char text[16])
{
    if (per_second >= 100)
        snprintf(text, 16, "%.0f", fmin(per_second, 1e14));
    else
        snprintf(text, 16, "%.3g", per_second);
    return text;
}

static void line_add_counts(struct line *line, const struct progress *progress,
                            const struct progress_view *view)
{
    char text[16];
    if (view->total_items)
        line_add(line, "%" PRIu64 "/%" PRIu64 " %s", view->items, view->total_items,
                 progress->unit);
    else if (view->items)
        line_add(line, "%" PRIu64 " %s", view->items, progress->unit);
    if (view->bytes)
        line_add(line, "%s%s", line->length ? "  " : "", format_bytes(view->bytes, text));
}

static void line_add_rates(struct line *line, const struct progress *progress,
                           const struct progress_view *view)
{
    char text[16];
    if (view->items)
        line_add(line, "  %s %s/s", format_rate(view->items_per_second, text), progress->unit);
    if (view->bytes)
        line_add(line, "  %s/s", format_bytes((uint64_t)view->bytes_per_second, text));
    if (view->left_s >= 0)
        line_add(line, "  %s left", format_seconds(view->left_s, text));
}

/* The smoothed rates: the newest stretch counts for its share of some seconds. */
static void rates_update(struct progress *progress, const struct progress_view *view, double now_s)
{
    const double smoothing_s = 8;
    double items = (double)view->items, bytes = (double)view->bytes;
    double stretch_s = now_s - progress->rate.at_s;
    if (stretch_s < 0.05) /* too short to tell anything */
        return;
    bool first = progress->rate.at_s == progress->start_s;
    double weight = first ? 1 : 1 - exp(-stretch_s / smoothing_s);
    progress->rate.items_per_second +=
        weight * ((items - progress->rate.items) / stretch_s - progress->rate.items_per_second);
    progress->rate.bytes_per_second +=
        weight * ((bytes - progress->rate.bytes) / stretch_s - progress->rate.bytes_per_second);
    progress->rate.at_s = now_s;
    progress->rate.items = items;
    progress->rate.bytes = bytes;
}

static double left_seconds(uint64_t done, uint64_t total, double per_second)
{
    if (done >= total)
        return 0;
    return per_second > 0 ? (double)(total - done) / per_second : -1;
}

static struct progress_view view_take(struct progress *progress)
{
    struct progress_view view = {
        .items = atomic_load(&progress->items),
        .bytes = atomic_load(&progress->bytes),
        .total_items = atomic_load(&progress->total_items),
        .total_bytes = atomic_load(&progress->total_bytes),
        .fraction = -1,
        .left_s = -1,
    };
    pthread_mutex_lock(&progress->lock);
    rates_update(progress, &view, clock_seconds());
    view.items_per_second = progress->rate.items_per_second;
    view.bytes_per_second = progress->rate.bytes_per_second;
    pthread_mutex_unlock(&progress->lock);

    /* Bytes tell more about the work left than items do. */
    if (view.total_bytes) {
        view.fraction = (double)view.bytes / (double)view.total_bytes;
        view.left_s = left_seconds(view.bytes, view.total_bytes, view.bytes_per_second);
    } else if (view.total_items) {
        view.fraction = (double)view.items / (double)view.total_items;
        view.left_s = left_seconds(view.items, view.total_items, view.items_per_second);
    }
    view.fraction = fmin(view.fraction, 1);
    return view;
}

static void draw_bar(const struct progress *progress, const struct progress_view *view)
{
    static const char full[] = "########################################";
    static const char empty[] = "........................................";
    struct line numbers = {0}, line = {0};
    line_add_counts(&numbers, progress, view);
    line_add_rates(&numbers, progress, view);
    line_add(&line, "%s  ", progress->what);

    size_t columns = console_columns() - 1; /* a full last column would wrap on some terminals */
    if (view->fraction >= 0) {
        size_t taken = line.length + numbers.length + strlen("100 %  [] ") + 1;
        size_t width = columns > taken ? columns - taken : 0;
        width = width < sizeof full - 1 ? width : sizeof full - 1;
        int done = (int)(view->fraction * (double)width);
        line_add(&line, "%3d %%  ", (int)(view->fraction * 100));
        if (width >= 8)
            line_add(&line, "[%.*s%.*s]  ", done, full, (int)width - done, empty);
    }
    line_add(&line, "%s", numbers.text);
    if (line.length > columns)
        line.text[columns] = '\0';
    console_set_bar(line.text);
}

static void print_line(const struct progress *progress, const struct progress_view *view)
{
    struct line line = {0}, counts = {0};
    line_add_counts(&counts, progress, view);
    line_add(&line, "headrace: %s: ", progress->what);
    if (view->fraction >= 0)
        line_add(&line, "%d %%  ", (int)(view->fraction * 100));
    line_add(&line, "%s", counts.text);
    line_add_rates(&line, progress, view);
    console_print_line(line.text);
}

static void print_last_line(const struct progress *progress, const struct progress_view *view)
{
    char text[16];
    double seconds = clock_seconds() - progress->start_s;
    struct progress_view whole = *view;
    whole.items_per_second = (double)view->items / fmax(seconds, 1e-3);
    whole.bytes_per_second = (double)view->bytes / fmax(seconds, 1e-3);
    whole.left_s = -1;
    if (whole.items == whole.total_items)
        whole.total_items = 0; /* "50 images" says more than "50/50 images" */

    struct line line = {0}, counts = {0};
    line_add_counts(&counts, progress, &whole);
    if (counts.length == 0)
        return; /* it ended before it began: what follows says why */
    line_add(&line, "headrace: %s: %s in %s", progress->what, counts.text,
             format_seconds(seconds, text));
    line_add_rates(&line, progress, &whole);
    console_print_line(line.text);
}

static uint64_t interval_ms(const struct progress *progress)
{
    return progress->terminal ? 100 : 10000;
}

struct status progress_open(const char *what, const char *unit, uint64_t total_items,
                            uint64_t total_bytes, struct progress **ret_progress)
{
    *ret_progress = NULL;
    if (atomic_load(&quiet))
        return OK;
    struct progress *progress;
    TRY(memory_alloc(1, sizeof *progress, &progress));
    progress->what = what;
    progress->unit = unit;
    progress->terminal = console_is_terminal();
    progress->start_s = progress->rate.at_s = clock_seconds();
    atomic_store(&progress->next_draw_ms, interval_ms(progress));
    progress_set_total(progress, total_items, total_bytes);
    pthread_mutex_init(&progress->lock, NULL);
    *ret_progress = progress;
    return OK;
}

void progress_add(struct progress *progress, uint64_t items, uint64_t bytes)
{
    if (!progress)
        return;
    atomic_fetch_add(&progress->items, items);
    atomic_fetch_add(&progress->bytes, bytes);

    uint64_t now_ms = (uint64_t)((clock_seconds() - progress->start_s) * 1e3);
    uint64_t next_ms = atomic_load(&progress->next_draw_ms);
    if (now_ms < next_ms || !atomic_compare_exchange_strong(&progress->next_draw_ms, &next_ms,
                                                            now_ms + interval_ms(progress)))
        return; /* not yet, or another thread draws */
    struct progress_view view = view_take(progress);
    if (progress->terminal)
        draw_bar(progress, &view);
    else
        print_line(progress, &view);
}

void progress_set_total(struct progress *progress, uint64_t total_items, uint64_t total_bytes)
{
    if (!progress)
        return;
    atomic_store(&progress->total_items, total_items);
    atomic_store(&progress->total_bytes, total_bytes);
}

void progress_close(struct progress *progress)
{
    if (!progress)
        return;
    struct progress_view view = view_take(progress);
    console_set_bar(NULL);
    print_last_line(progress, &view);
    pthread_mutex_destroy(&progress->lock);
    memory_free(progress);
}

void progress_set_quiet(int new_quiet)
{
    atomic_store(&quiet, new_quiet != 0);
}
