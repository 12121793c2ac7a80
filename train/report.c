#include "train/report.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/memory.h"
#include "train/chart.h"
#include "train/history.h"
#include "train/report_samples.h"

/* Curves keep their shape with this many points; a long run prints a hundred times as many lines.
 */
enum { MOST_POINTS = 800 };

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width\"><title>headrace report</title><style>\n"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;"
    "color:#222;background:#fff}h1{font-size:1.5em}h2{font-size:1.15em;margin-top:1.6em}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1em}\n"
    "svg{width:100%;height:auto;font-size:12px}svg text{fill:#555}svg .title{fill:#222;"
    "font-weight:600;font-size:13px}svg .grid{stroke:#ddd}\n"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.1em 1.2em .1em 0}\n"
    ".images{display:grid;grid-template-columns:repeat(auto-fill,minmax(180px,1fr));gap:1em}\n"
    "figure{margin:0}figure img{width:100%;image-rendering:auto}figcaption{font-size:13px}\n"
    ".right{color:#1a7f37}.wrong{color:#b42318}\n</style></head><body>\n";

/* Columns of numbers for a chart, thinned to MOST_POINTS. */
struct columns {
    double *x, *y[2];
    size_t count;
};

static void columns_done(struct columns *columns)
{
    memory_free(columns->x);
    memory_free(columns->y[0]);
    memory_free(columns->y[1]);
}
CLEANUP_VALUE(columns_done, struct columns)

static struct status columns_make(size_t count, struct columns *columns, size_t *ret_stride)
{
    *ret_stride = count / MOST_POINTS + 1;
    size_t kept = (count + *ret_stride - 1) / *ret_stride;
    TRY(memory_alloc(kept, sizeof(double), &columns->x));
    TRY(memory_alloc(kept, sizeof(double), &columns->y[0]));
    return memory_alloc(kept, sizeof(double), &columns->y[1]);
}

/* A quantity of the training lines. */
typedef double train_value_fn(const struct history_train *train);

static double loss_of(const struct history_train *train)
{
    return train->loss;
}

static double lr_of(const struct history_train *train)
{
    return train->lr;
}

static double rate_of(const struct history_train *train)
{
    return train->images_per_second;
}

static double top1_of(const struct history_train *train)
{
    return train->top1_mean;
}

static struct status train_columns(const struct history *history, train_value_fn *value,
                                   struct columns *columns)
{
    size_t stride;
    TRY(columns_make(history->train_count, columns, &stride));
    for (size_t i = 0; i < history->train_count; i += stride) {
        columns->x[columns->count] = history->trains[i].position;
        columns->y[0][columns->count++] = value(&history->trains[i]);
    }
    return OK;
}

/* Position: the end of the epoch. y: top-1 or loss, and top-5. */
static struct status eval_columns(const struct history *history, bool loss, struct columns *columns)
{
    size_t stride;
    TRY(columns_make(history->eval_count, columns, &stride));
    for (size_t i = 0; i < history->eval_count; i += stride) {
        const struct history_eval *eval = &history->evals[i];
        columns->x[columns->count] = (double)eval->epoch + 1;
        columns->y[0][columns->count] = loss ? eval->loss : eval->top1;
        columns->y[1][columns->count++] = eval->top5;
    }
    return OK;
}

static struct status loss_chart(struct buffer *html, const struct history *history)
{
    CLEANUP(columns_done) struct columns train = {0};
    CLEANUP(columns_done) struct columns eval = {0};
    TRY(train_columns(history, loss_of, &train));
    TRY(eval_columns(history, true, &eval));
    const struct chart_series series[] = {
        {"training", "#8fb4e3", train.x, train.y[0], train.count},
        {"validation", "#d9480f", eval.x, eval.y[0], eval.count},
    };
    const struct chart chart = {"Loss", "epoch", "", series, ARRAY_LENGTH(series)};
    return chart_append(html, &chart);
}

static struct status accuracy_chart(struct buffer *html, const struct history *history)
{
    CLEANUP(columns_done) struct columns train = {0};
    CLEANUP(columns_done) struct columns eval = {0};
    TRY(train_columns(history, top1_of, &train));
    TRY(eval_columns(history, false, &eval));
    const struct chart_series series[] = {
        {"training top-1", "#8fb4e3", train.x, train.y[0], train.count},
        {"validation top-1", "#d9480f", eval.x, eval.y[0], eval.count},
        {"top-5", "#2b8a3e", eval.x, eval.y[1], eval.count},
    };
    const struct chart chart = {"Accuracy", "epoch", "%", series, ARRAY_LENGTH(series)};
    return chart_append(html, &chart);
}

static struct status train_chart(struct buffer *html, const struct history *history,
                                 const char *title, const char *unit, train_value_fn *value)
{
    CLEANUP(columns_done) struct columns train = {0};
    TRY(train_columns(history, value, &train));
    const struct chart_series series = {title, "#3b6fb5", train.x, train.y[0], train.count};
    const struct chart chart = {title, "epoch", unit, &series, 1};
    return chart_append(html, &chart);
}

static struct status row_append(struct buffer *html, const char *name, const char *value)
{
    TRY(buffer_append_text(html, "<tr><th>"));
    TRY(html_append_text(html, name));
    TRY(buffer_append_text(html, "</th><td>"));
    TRY(html_append_text(html, value));
    return buffer_append_text(html, "</td></tr>\n");
}

/* Results first: what a reader came for. */
static struct status results_append(struct buffer *html, const struct history *history)
{
    const struct history_eval *best = NULL;
    for (size_t i = 0; i < history->eval_count; i++)
        if (!best || history->evals[i].top1 > best->top1)
            best = &history->evals[i];
    if (!best)
        return buffer_append_text(html, "<p>Nothing was evaluated yet.</p>\n");
    const struct history_eval *last = &history->evals[history->eval_count - 1];
    return buffer_append_text(html,
                              "<p><b>Best top-1 %.3f %%</b> (top-5 %.3f %%) after epoch %" PRIu64
                              "; last: %.3f %% after epoch %" PRIu64 ", of %" PRIu64
                              " images.</p>\n",
                              best->top1, best->top5, best->epoch, last->top1, last->epoch,
                              last->images);
}

/* As a person types it: 0.1 and resnet50, not 0.10000000000000001 and "resnet50". */
static struct status option_row_append(struct buffer *html, const char *name,
                                       const struct json *value)
{
    CLEANUP(buffer_done) struct buffer text = {0};
    const char *shown;
    double number;
    if (json_holds_string(value)) {
        TRY(json_as_string(value, &shown));
        return row_append(html, name, shown);
    }
    if (json_holds_number(value)) {
        TRY(json_as_real(value, &number));
        TRY(buffer_append_text(&text, "%.12g", number));
    } else {
        TRY(json_write(value, false, &text));
    }
    TRY(buffer_text(&text, &shown));
    return row_append(html, name, shown);
}

static struct status options_append(struct buffer *html, const struct history_start *start)
{
    TRY(buffer_append_text(html, "<h2>Configuration</h2>\n<table>\n"));
    TRY(row_append(html, "device", start->device));
    TRY(buffer_append_text(html,
                           "<tr><th>images</th><td>%" PRIu64 " training and %" PRIu64
                           " validation images, %" PRIu64 " classes, %" PRIu64
                           " steps an epoch</td></tr>\n",
                           start->train_images, start->val_images, start->classes,
                           start->steps_per_epoch));
    for (size_t i = 0; i < json_length(start->options); i++) {
        const char *name = json_key_at(start->options, i);
        const struct json *value = json_get(start->options, name);
        if (!json_is_nothing(value))
            TRY(option_row_append(html, name, value));
    }
    return buffer_append_text(html, "</table>\n");
}

static struct status samples_append(struct buffer *html, const char *run_folder,
                                    const struct history_start *start,
                                    const struct report_options *options)
{
    TRY(buffer_append_text(html, "<h2>Some validation images</h2>\n"));
    struct status status = report_append_samples(html, run_folder, start, options);
    if (status.code == STATUS_DONE || status.code == STATUS_NO_MEMORY)
        return status;
    /* The curves are worth having without the images. */
    log_warning("the report has no images: %s", status_message(&status));
    struct status said = buffer_append_text(html, "<p>Not shown: ");
    if (said.code == STATUS_DONE)
        said = html_append_text(html, status_message(&status));
    if (said.code == STATUS_DONE)
        said = buffer_append_text(html, "</p>\n");
    status_ignore(status);
    return said;
}

struct status report_append(struct buffer *html, const char *run_folder,
                            const struct report_options *options)
{
    CLEANUP(history_free) struct history *history = NULL;
    const struct history_start *start;
    const char *arch;
    TRY(history_read(run_folder, &history));
    TRY(history_start_at(history, UINT64_MAX, 0, &start));
    TRY(json_get_string(start->options, "arch", &arch));
    TRY(buffer_append_text(html, "%s<h1>", page_head));
    TRY(html_append_text(html, arch));
    TRY(buffer_append_text(html, ": "));
    TRY(html_append_text(html, run_folder));
    TRY(buffer_append_text(html, "</h1>\n"));
    TRY(results_append(html, history));
    TRY(buffer_append_text(html, "<div class=\"charts\">\n"));
    TRY(loss_chart(html, history));
    TRY(accuracy_chart(html, history));
    TRY(train_chart(html, history, "Learning rate", "", lr_of));
    TRY(train_chart(html, history, "Throughput", "images/s", rate_of));
    TRY(buffer_append_text(html, "</div>\n"));
    if (options->samples)
        TRY(samples_append(html, run_folder, start, options));
    TRY(options_append(html, start));
    return buffer_append_text(html, "</body></html>\n");
}
