#include <math.h>
#include <string.h>

#include "train/reference/ops.h"

/* log Σ exp(logits), without overflow. */
static double log_sum_exp(size_t classes, const real *logits)
{
    double largest = logits[0], sum = 0;
    for (size_t c = 1; c < classes; c++)
        if (logits[c] > largest)
            largest = logits[c];
    for (size_t c = 0; c < classes; c++)
        sum += exp(logits[c] - largest);
    return largest + log(sum);
}

/* How many classes come before `label`. Nothing beats a NaN, so that a broken network is never
 * right. */
static uint32_t label_rank(size_t classes, const real *logits, size_t label)
{
    uint32_t rank = 0;
    for (size_t c = 0; c < classes; c++) {
        bool after = logits[c] < logits[label] || (logits[c] == logits[label] && c >= label);
        rank += !after;
    }
    return rank;
}

void reference_loss(size_t batch, size_t classes, const real *logits, const int32_t *labels,
                    double smoothing, float mixed_in, double weight, real *dlogits,
                    struct loss_sums *ret_sums)
{
    *ret_sums = (struct loss_sums){0};
    if (dlogits)
        memset(dlogits, 0, sizeof *dlogits * batch * classes);
    for (size_t n = 0; n < batch; n++) {
        if (labels[n] < 0)
            continue;
        const real *row = logits + n * classes;
        size_t label = (size_t)labels[n];
        size_t other = (size_t)labels[step_partner(labels, mixed_in, (uint32_t)n)];
        double normaliser = log_sum_exp(classes, row);
        for (size_t c = 0; c < classes; c++) {
            double share = (c == label ? 1 - (double)mixed_in : 0) + (c == other ? mixed_in : 0);
            double target = smoothing / (double)classes + share * (1 - smoothing);
            double log_probability = row[c] - normaliser;
            if (target > 0)
                ret_sums->loss -= target * log_probability;
            if (dlogits)
                dlogits[n * classes + c] = (real)((exp(log_probability) - target) * weight);
        }
        uint32_t rank = label_rank(classes, row, label);
        ret_sums->top1 += rank < 1;
        ret_sums->top5 += rank < 5;
        ret_sums->count++;
    }
}
