#include "train/logits.h"

#include <math.h>
#include <stdbool.h>

double logits_log_sum(const float *logits, uint32_t count)
{
    float largest = logits[0]; /* not by fmax, over whose vectors GCC 12 stumbles for arm64 */
    double sum = 0;
    for (uint32_t i = 1; i < count; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    for (uint32_t i = 0; i < count; i++)
        sum += exp((double)(logits[i] - largest));
    return largest + log(sum);
}

uint32_t logits_rank(const float *logits, uint32_t count, uint32_t label)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool behind = logits[i] < logits[label] || (logits[i] == logits[label] && i > label);
        rank += i != label && !behind;
    }
    return rank;
}
