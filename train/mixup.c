#include "train/mixup.h"

#include <math.h>

#include "base/random.h"

/* The logarithm of a number of the gamma distribution with shape a >= 1. After Marsaglia, Tsang, "A
 * simple method for generating gamma variables", 2000. */
static double log_gamma_draw(struct random_stream *stream, double a)
{
    const double d = a - 1. / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = random_normal(stream), u = 1 - random_double(stream);
        double v = pow(1 + c * x, 3);
        if (v > 0 && log(u) < x * x / 2 + d - d * v + d * log(v))
            return log(d * v);
    }
}

/* For any shape a > 0: as a + 1, times the 1/a-th power of a uniform number. A logarithm, because
 * the number itself may be too small for a double. */
static double log_small_gamma_draw(struct random_stream *stream, double a)
{
    double logarithm = log_gamma_draw(stream, a + 1);
    return logarithm + log(1 - random_double(stream)) / a;
}

float mixup_share(double alpha, uint64_t seed, uint64_t epoch, uint64_t step)
{
    if (alpha == 0)
        return 0;
    struct random_stream stream = random_stream_make(seed, RANDOM_MIXUP, epoch, step);
    double one = log_small_gamma_draw(&stream, alpha), other = log_small_gamma_draw(&stream, alpha);
    return (float)(1 / (1 + exp(fabs(one - other))));
}
