#include "train/history.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "train/run_log.h"

static const size_t log_ceiling_bytes = (size_t)1 << 30;

static struct status count_get(const struct json *record, const char *key, uint64_t *ret_value)
{
    int64_t value = 0;
    TRY(json_get_integer(record, key, &value));
    if (value < 0)
        FAIL(STATUS_CORRUPT, "\"%s\" is negative", key);
    *ret_value = (uint64_t)value;
    return OK;
}

/* A number that a run writes as null where it was not finite. */
static struct status real_get(const struct json *record, const char *key, double *ret_value)
{
    *ret_value = 0;
    if (json_is_nothing(json_get(record, key)))
        return OK;
    return json_get_real(record, key, ret_value);
}

/* Drops what the log holds from a position on: a resumption does it again. */
static void history_cut(struct history *history, uint64_t epoch, uint64_t step)
{
    while (history->train_count > 0) {
        const struct history_train *last = &history->trains[history->train_count - 1];
        if (last->epoch < epoch || (last->epoch == epoch && last->step < step))
            break;
        history->train_count--;
    }
    while (history->eval_count > 0 && history->evals[history->eval_count - 1].epoch >= epoch)
        history->eval_count--;
}

static struct status start_add(struct history *history, const struct json *record)
{
    struct history_start start = {.options = json_get(record, "options")};
    TRY(count_get(record, "epoch", &start.epoch));
    TRY(count_get(record, "step", &start.step));
    TRY(count_get(record, "steps_per_epoch", &start.steps_per_epoch));
    TRY(count_get(record, "train_images", &start.train_images));
    TRY(count_get(record, "val_images", &start.val_images));
    TRY(count_get(record, "classes", &start.classes));
    TRY(json_get_string(record, "device", &start.device));
    TRY(json_get_string(record, "dtype", &start.dtype));
    if (!start.options || !start.steps_per_epoch)
        FAIL(STATUS_CORRUPT, "a start without options or steps");
    TRY(memory_grow(history->start_count + 1, sizeof *history->starts, &history->starts,
                    &history->start_capacity));
    history->starts[history->start_count++] = start;
    history_cut(history, start.epoch, start.step);
    return OK;
}

static struct status train_add(struct history *history, const struct json *record)
{
    struct history_train train = {0};
    uint64_t steps = 0;
    TRY(count_get(record, "epoch", &train.epoch));
    TRY(count_get(record, "step", &train.step));
    TRY(count_get(record, "steps", &steps));
    TRY(real_get(record, "loss", &train.loss));
    TRY(real_get(record, "loss_mean", &train.loss_mean));
    TRY(real_get(record, "top1_mean", &train.top1_mean));
    TRY(real_get(record, "lr", &train.lr));
    TRY(real_get(record, "images_per_second", &train.images_per_second));
    if (!steps)
        FAIL(STATUS_CORRUPT, "an epoch of no steps");
    train.position = (double)train.epoch + (double)train.step / (double)steps;
    TRY(memory_grow(history->train_count + 1, sizeof *history->trains, &history->trains,
                    &history->train_capacity));
    history->trains[history->train_count++] = train;
    return OK;
}

static struct status eval_add(struct history *history, const struct json *record)
{
    struct history_eval eval = {0};
    TRY(count_get(record, "epoch", &eval.epoch));
    TRY(count_get(record, "images", &eval.images));
    TRY(real_get(record, "loss", &eval.loss));
    TRY(real_get(record, "top1", &eval.top1));
    TRY(real_get(record, "top5", &eval.top5));
    TRY(memory_grow(history->eval_count + 1, sizeof *history->evals, &history->evals,
                    &history->eval_capacity));
    history->evals[history->eval_count++] = eval;
    return OK;
}

static struct status record_add(struct history *history, const struct json *record)
{
    const char *kind;
    TRY(json_get_string(record, "kind", &kind));
    if (strcmp(kind, "start") == 0)
        return start_add(history, record);
    if (strcmp(kind, "train") == 0)
        return train_add(history, record);
    return strcmp(kind, "eval") == 0 ? eval_add(history, record) : OK;
}

/* One line; the history owns its JSON. */
static struct status line_add(struct history *history, const char *line, size_t length,
                              const char *name)
{
    CLEANUP(json_free) struct json *record = NULL;
    TRY(json_parse(line, length, name, &record));
    TRY(memory_grow(history->record_count + 1, sizeof(struct json *), &history->records,
                    &history->record_capacity));
    struct json *kept = history->records[history->record_count++] = MOVE(record);
    return record_add(history, kept);
}

static struct status lines_add(struct history *history, const struct buffer *text, const char *path)
{
    const char *line = (const char *)text->data, *end = line + text->length;
    for (unsigned long number = 1; line < end; number++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            break; /* cut off by a kill */
        TRY(status_context(line_add(history, line, (size_t)(stop - line), path), "'%s', line %lu",
                           path, number));
        line = stop + 1;
    }
    return OK;
}

struct status history_read(const char *folder, struct history **ret_history)
{
    CLEANUP(history_free) struct history *history = NULL;
    CLEANUP(memory_free) char *path = NULL;
    CLEANUP(buffer_done) struct buffer text = {0};
    TRY(memory_alloc(1, sizeof *history, &history));
    TRY(path_join(folder, run_log_name, &path));
    if (!path_exists(path))
        FAIL(STATUS_NOT_FOUND,
             "'%s' is no folder of a run: it has no %s; expected the RUN_DIR of headrace train",
             folder, run_log_name);
    TRY(file_read_all(path, log_ceiling_bytes, &text));
    TRY(lines_add(history, &text, path));
    if (history->start_count == 0)
        FAIL(STATUS_CORRUPT,
             "'%s' does not tell of the start of a run: it was cut short, or it is no log of "
             "headrace train",
             path);
    *ret_history = MOVE(history);
    return OK;
}

void history_free(struct history *history)
{
    if (!history)
        return;
    for (size_t i = 0; i < history->record_count; i++)
        json_free(history->records[i]);
    memory_free(history->records);
    memory_free(history->starts);
    memory_free(history->trains);
    memory_free(history->evals);
    memory_free(history);
}

struct status history_start_at(const struct history *history, uint64_t epoch, uint64_t step,
                               const struct history_start **ret_start)
{
    for (size_t i = history->start_count; i-- > 0;) {
        const struct history_start *start = &history->starts[i];
        if (start->epoch > epoch || (start->epoch == epoch && start->step > step))
            continue;
        *ret_start = start;
        return OK;
    }
    FAIL(STATUS_NOT_FOUND, "the log has no start at or before epoch %llu, step %llu",
         (unsigned long long)epoch, (unsigned long long)step);
}
