#include "train/run_log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio_ext.h>

#include "base/console.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"

const char run_log_name[] = "log.jsonl";

struct run_log {
    FILE *lines;
    char *path; /* of log.jsonl; NULL: none */
    bool write_failed;
    double bar_drawn_s;
};

struct status run_log_open(FILE *lines, const char *folder, struct run_log **ret_log)
{
    CLEANUP(run_log_close) struct run_log *log = NULL;
    TRY(memory_alloc(1, sizeof *log, &log));
    log->lines = lines;
    if (folder)
        TRY(path_join(folder, run_log_name, &log->path));
    *ret_log = MOVE(log);
    return OK;
}

void run_log_close(struct run_log *log)
{
    if (!log)
        return;
    if (console_is_terminal())
        console_set_bar(NULL);
    memory_free(log->path);
    memory_free(log);
}

/* Lines that nobody takes do not end a run whose log has what they say; one without a log has
 * nothing but them. What stdio holds of them goes, or the end of the program would fail of it. */
static struct status lines_end(struct run_log *log)
{
    if (!log->path)
        FAIL(STATUS_IO, "the lines of the run could not be written to stdout: is its disk full, or "
                        "its reader gone?");
    log_warning("the lines of the run could not be written to stdout: is its disk full, or its "
                "reader gone? Training goes on without them; '%s' has what they say",
                log->path);
    __fpurge(log->lines);
    clearerr(log->lines);
    log->lines = NULL;
    return OK;
}

/* Prints the text as a line, above the bar: both may be on one terminal. */
static struct status text_print(struct run_log *log, struct buffer *text)
{
    if (!log->lines)
        return OK;
    if (console_is_terminal())
        console_set_bar(NULL);
    TRY(buffer_append_u8(text, '\n'));
    if (fwrite(text->data, 1, text->length, log->lines) != text->length || fflush(log->lines) != 0)
        return lines_end(log);
    return OK;
}

struct status run_log_print(struct run_log *log, const char *format, ...)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    TRY(buffer_append_text(&text, "%s", line));
    return text_print(log, &text);
}

static void sums_set(struct json *record, const struct metric_sums *sums)
{
    json_set_real(record, "loss", sums_loss(sums));
    json_set_real(record, "top1", sums_top1(sums));
    json_set_real(record, "top5", sums_top5(sums));
}

struct status run_log_train(struct run_log *log, const struct line *line)
{
    struct json *record = json_object_new();
    json_set_integer(record, "epoch", (int64_t)line->epoch);
    json_set_integer(record, "step", (int64_t)line->step);
    json_set_integer(record, "steps", (int64_t)line->steps);
    sums_set(record, &line->last);
    json_set_real(record, "loss_mean", sums_loss(&line->mean));
    json_set_real(record, "top1_mean", sums_top1(&line->mean));
    json_set_real(record, "top5_mean", sums_top5(&line->mean));
    json_set_real(record, "lr", line->lr);
    json_set_real(record, "loss_scale", line->loss_scale);
    json_set_real(record, "images_per_second", line->images_per_second);
    json_set_real(record, "seconds", line->time.last);
    json_set_real(record, "data_seconds", line->data.last);
    run_log_record(log, "train", record);

    CLEANUP(buffer_done) struct buffer text = {0};
    TRY(line_append_train(&text, line));
    return text_print(log, &text);
}

struct status run_log_test(struct run_log *log, const struct line *line)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    TRY(line_append_test(&text, line));
    return text_print(log, &text);
}

struct status run_log_loader(struct run_log *log, uint64_t epoch,
                             const struct loader_statistics *statistics)
{
    char text[LOADER_STATISTICS_TEXT_BYTES];
    struct json *record = json_object_new();
    json_set_integer(record, "epoch", (int64_t)epoch);
    loader_statistics_store(statistics, record);
    run_log_record(log, "loader", record);
    return run_log_print(log, "%s", loader_statistics_text(statistics, text));
}

static struct status eval_put(struct run_log *log, const char *kind, const char *title,
                              uint64_t epoch, const struct metric_sums *sums, double seconds)
{
    struct json *record = json_object_new();
    json_set_integer(record, "epoch", (int64_t)epoch);
    sums_set(record, sums);
    json_set_integer(record, "images", (int64_t)sums->count);
    json_set_real(record, "seconds", seconds);
    run_log_record(log, kind, record);

    CLEANUP(buffer_done) struct buffer text = {0};
    TRY(buffer_append_text(&text, "%s", title));
    TRY(line_append_summary(&text, sums));
    return text_print(log, &text);
}

struct status run_log_eval(struct run_log *log, uint64_t epoch, const struct metric_sums *sums,
                           double seconds)
{
    return eval_put(log, "eval", "", epoch, sums, seconds);
}

struct status run_log_eval_average(struct run_log *log, uint64_t epoch,
                                   const struct metric_sums *sums, double seconds)
{
    return eval_put(log, "eval_ema", "EMA", epoch, sums, seconds);
}

static struct status record_append(const struct run_log *log, const char *kind,
                                   const struct json *record)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    CLEANUP(json_free) struct json *line = json_object_new();
    json_set_string(line, "kind", kind);
    for (size_t i = 0; i < json_length(record); i++)
        json_set_copy(line, json_key_at(record, i), json_get(record, json_key_at(record, i)));
    TRY(json_write(line, false, &text));
    TRY(buffer_append_u8(&text, '\n'));
    return file_append(log->path, text.data, text.length);
}

void run_log_record(struct run_log *log, const char *kind, struct json *record)
{
    CLEANUP(json_free) struct json *owned = record;
    if (!log->path)
        return;
    struct status status = record_append(log, kind, owned);
    if (status.code != STATUS_DONE && !log->write_failed)
        log_warning("%s; the run goes on without this record", status_message(&status));
    log->write_failed = status.code != STATUS_DONE;
    status_ignore(status);
}

void run_log_bar(struct run_log *log, const char *what, uint64_t step, uint64_t steps,
                 double images_per_second)
{
    enum { CELLS = 24 };
    double now = clock_seconds();
    if (!console_is_terminal() || now - log->bar_drawn_s < .1)
        return;
    log->bar_drawn_s = now;
    char bar[CELLS + 1], text[160];
    for (unsigned i = 0; i < CELLS; i++)
        bar[i] = i < CELLS * step / (steps ? steps : 1) ? '#' : '.';
    bar[CELLS] = '\0';
    snprintf(text, sizeof text, "%s [%s] %" PRIu64 "/%" PRIu64 "  %.1f images/s", what, bar, step,
             steps, images_per_second);
    console_set_bar(text);
}
