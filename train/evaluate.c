#include "train/evaluate.h"

#include "base/memory.h"
#include "base/progress.h"
#include "base/stop.h"

struct status evaluate_label_map(const struct class_table *set, const struct class_table *model,
                                 int32_t **ret_map)
{
    CLEANUP(memory_free) int32_t *map = NULL;
    *ret_map = NULL;
    if (class_table_hash(set) == class_table_hash(model))
        return OK;
    TRY(memory_alloc(class_table_count(set), sizeof *map, &map));
    for (size_t i = 0; i < class_table_count(set); i++) {
        const char *wnid = class_table_at(set, i)->wnid;
        int64_t label = class_table_find(model, wnid);
        if (label < 0)
            FAIL(STATUS_FAILED,
                 "class %s is not among the %zu that the model was trained on (hash %016llx, the "
                 "set's %016llx): give a set with the model's classes or some of them",
                 wnid, class_table_count(model), (unsigned long long)class_table_hash(model),
                 (unsigned long long)class_table_hash(set));
        map[i] = (int32_t)label;
    }
    *ret_map = MOVE(map);
    return OK;
}

/* The steps since the last line, of this process. */
struct tally {
    struct metric_sums all, last;
};

static void tally_add(struct tally *tally, const struct step_metrics *metrics)
{
    sums_add(&tally->all, metrics);
    tally->last = (struct metric_sums){0};
    sums_add(&tally->last, metrics);
}

static struct status step_run(const struct evaluation *evaluation, const struct step_input *input,
                              struct tally *tally)
{
    struct step_metrics metrics;
    if (!evaluation->mirrored)
        return evaluation->model->ops->plan_forward(evaluation->plan, input);
    TRY(mirrored_forward(evaluation->mirrored, evaluation->plan, input, &metrics));
    tally_add(tally, &metrics);
    return OK;
}

/* Adds what the plan kept of steps without a mirror image. */
static struct status tally_take_plan(const struct evaluation *evaluation, struct tally *tally)
{
    struct step_metrics metrics[64];
    size_t count = ARRAY_LENGTH(metrics);
    while (!evaluation->mirrored && count == ARRAY_LENGTH(metrics)) {
        TRY(evaluation->model->ops->plan_metrics(evaluation->plan, metrics, ARRAY_LENGTH(metrics),
                                                 &count));
        for (size_t i = 0; i < count; i++)
            tally_add(tally, &metrics[i]);
    }
    return OK;
}

/* Takes the steps since the last call, of all processes, into the line. */
static struct status metrics_take(const struct evaluation *evaluation, struct tally *tally,
                                  struct line *line)
{
    TRY(tally_take_plan(evaluation, tally));
    struct metric_sums sums[] = {tally->all, tally->last};
    if (evaluation->comm)
        TRY(sums_join(evaluation->comm, sums, ARRAY_LENGTH(sums)));
    sums_add_sums(&line->mean, &sums[0]);
    line->last = sums[1];
    *tally = (struct tally){0};
    return OK;
}

/* The next batch; *ret_done: there is none, on all processes. Fails with STATUS_STOPPED on all of
 * them once one was asked to stop. */
static struct status input_next(const struct evaluation *evaluation, struct step_input *ret_input,
                                bool *ret_done)
{
    struct comm *comm = evaluation->comm;
    struct status status = feed_next(evaluation->feed, ret_input, ret_done);
    bool stopping;
    if (status.code == STATUS_DONE && *ret_done)
        return OK;
    if (!comm || comm_size(comm) == 1) {
        TRY(status);
        return stop_check();
    }
    TRY(ranks_vote_stop(comm, stop_requested(), status, &stopping));
    if (stopping)
        FAIL(STATUS_STOPPED, "stopped on request, as all %u processes", comm_size(comm));
    return OK;
}

struct status evaluate_run(const struct evaluation *evaluation, struct run_log *log,
                           uint64_t print_freq, struct metric_sums *ret_sums)
{
    struct feed *feed = evaluation->feed;
    struct tally tally = {0};
    struct line line = {.steps = feed_steps(feed)};
    struct step_input input;
    bool done;
    double started_s = clock_seconds(), last_s = started_s;
    TRY(feed_start(feed, 0, 0));
    TRY(input_next(evaluation, &input, &done));
    for (; !done; line.step++) {
        TRY(step_run(evaluation, &input, &tally));
        bool print = line.step % print_freq == 0;
        if (print || line.step % 512 == 511)
            TRY(metrics_take(evaluation, &tally, &line));
        double now_s = clock_seconds();
        meter_add(&line.time, now_s - last_s);
        last_s = now_s;
        if (print)
            TRY(run_log_test(log, &line));
        run_log_bar(log, "evaluation", line.step + 1, line.steps,
                    (double)line.mean.count / (now_s - started_s));
        TRY(input_next(evaluation, &input, &done));
    }
    TRY(metrics_take(evaluation, &tally, &line));
    if (line.mean.count == 0)
        FAIL(STATUS_CORRUPT, "none of the images to evaluate on can be read: headrace verify INDEX "
                             "lists what is wrong with them");
    *ret_sums = line.mean;
    return OK;
}
