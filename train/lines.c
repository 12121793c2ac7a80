#include "train/lines.h"

#include <inttypes.h>
#include <stdio.h>

void meter_add(struct meter *meter, double value)
{
    meter->last = value;
    meter->sum += value;
    meter->count++;
}

double meter_mean(const struct meter *meter)
{
    return meter->count ? meter->sum / (double)meter->count : 0;
}

static double mean(double sum, uint64_t count)
{
    return count ? sum / (double)count : 0;
}

double sums_loss(const struct metric_sums *sums)
{
    return mean(sums->loss, sums->count);
}

double sums_top1(const struct metric_sums *sums)
{
    return mean(100 * (double)sums->top1, sums->count);
}

double sums_top5(const struct metric_sums *sums)
{
    return mean(100 * (double)sums->top5, sums->count);
}

void sums_add(struct metric_sums *sums, const struct step_metrics *metrics)
{
    sums->loss += metrics->loss_sum;
    sums->top1 += metrics->top1;
    sums->top5 += metrics->top5;
    sums->count += metrics->count;
}

void sums_add_sums(struct metric_sums *sums, const struct metric_sums *added)
{
    sums->loss += added->loss;
    sums->top1 += added->top1;
    sums->top5 += added->top5;
    sums->count += added->count;
}

/* "[ 10/401]": the step as wide as the count of steps. */
static struct status step_append(struct buffer *text, const struct line *line)
{
    int width = snprintf(NULL, 0, "%" PRIu64, line->steps);
    return buffer_append_text(text, "[%*" PRIu64 "/%" PRIu64 "]", width, line->step, line->steps);
}

static struct status results_append(struct buffer *text, const struct line *line)
{
    return buffer_append_text(text, "\tLoss %.4e (%.4e)\tAcc@1 %6.2f (%6.2f)\tAcc@5 %6.2f (%6.2f)",
                              sums_loss(&line->last), sums_loss(&line->mean),
                              sums_top1(&line->last), sums_top1(&line->mean),
                              sums_top5(&line->last), sums_top5(&line->mean));
}

static struct status seconds_append(struct buffer *text, const char *name,
                                    const struct meter *meter)
{
    return buffer_append_text(text, "\t%s %6.3f (%6.3f)", name, meter->last, meter_mean(meter));
}

struct status line_append_train(struct buffer *text, const struct line *line)
{
    TRY(buffer_append_text(text, "Epoch: [%" PRIu64 "]", line->epoch));
    TRY(step_append(text, line));
    TRY(seconds_append(text, "Time", &line->time));
    TRY(seconds_append(text, "Data", &line->data));
    TRY(results_append(text, line));
    TRY(buffer_append_text(text, "\timages/s %.1f\tlr %.6g", line->images_per_second, line->lr));
    bool scaled = line->loss_scale != 0 && line->loss_scale != 1;
    return scaled ? buffer_append_text(text, "\tscale %g", line->loss_scale) : OK;
}

struct status line_append_test(struct buffer *text, const struct line *line)
{
    TRY(buffer_append_text(text, "Test: "));
    TRY(step_append(text, line));
    TRY(seconds_append(text, "Time", &line->time));
    return results_append(text, line);
}

struct status line_append_summary(struct buffer *text, const struct metric_sums *sums)
{
    return buffer_append_text(text, " * Acc@1 %.3f Acc@5 %.3f", sums_top1(sums), sums_top5(sums));
}
