/* The demonstration's drawings: the same for the same seed, and not to be told apart by colour
 * alone. */

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "demo/patterns.h"
#include "tests/test.h"

enum { TRAIN_IMAGES = 30, VAL_IMAGES = 15 };

static void mean_colour(unsigned part, unsigned label, unsigned number, double ret_mean[3])
{
    CLEANUP(picture_done) struct picture picture = {0};
    struct random_stream stream =
        random_stream_make(1, RANDOM_SYNTHETIC, part * 100 + label, number);
    assert_ok(pattern_draw(label, &stream, &picture));
    memset(ret_mean, 0, 3 * sizeof *ret_mean);
    for (uint32_t y = 0; y < picture.height; y++)
        for (uint32_t x = 0; x < picture.width; x++)
            for (int c = 0; c < 3; c++)
                ret_mean[c] += picture.pixels[y * picture.stride_bytes + 3 * x + (unsigned)c];
    for (int c = 0; c < 3; c++)
        ret_mean[c] /= (double)picture.width * picture.height;
}

static unsigned nearest_class(double (*means)[3], const double colour[3])
{
    unsigned best = 0;
    double best_distance = INFINITY;
    for (unsigned label = 0; label < PATTERN_CLASSES; label++) {
        double distance = 0;
        for (int c = 0; c < 3; c++)
            distance += pow(means[label][c] - colour[c], 2);
        if (distance < best_distance) {
            best_distance = distance;
            best = label;
        }
    }
    return best;
}

static void test_colour_tells_little(void **state)
{
    (void)state;
    double means[PATTERN_CLASSES][3] = {{0}};
    unsigned correct = 0;
    for (unsigned label = 0; label < PATTERN_CLASSES; label++)
        for (unsigned i = 0; i < TRAIN_IMAGES; i++) {
            double colour[3];
            mean_colour(0, label, i, colour);
            for (int c = 0; c < 3; c++)
                means[label][c] += colour[c] / TRAIN_IMAGES;
        }
    for (unsigned label = 0; label < PATTERN_CLASSES; label++)
        for (unsigned i = 0; i < VAL_IMAGES; i++) {
            double colour[3];
            mean_colour(1, label, i, colour);
            correct += nearest_class(means, colour) == label;
        }
    assert_true(correct < PATTERN_CLASSES * VAL_IMAGES * 4 / 10);
}

static void test_drawing_repeats(void **state)
{
    (void)state;
    for (unsigned label = 0; label < PATTERN_CLASSES; label++) {
        CLEANUP(picture_done) struct picture a = {0};
        CLEANUP(picture_done) struct picture b = {0};
        struct random_stream stream_a = random_stream_make(7, RANDOM_SYNTHETIC, label, 5);
        struct random_stream stream_b = stream_a;
        assert_ok(pattern_draw(label, &stream_a, &a));
        assert_ok(pattern_draw(label, &stream_b, &b));
        assert_int_equal(a.width, b.width);
        for (uint32_t y = 0; y < a.height; y++)
            assert_memory_equal(a.pixels + y * a.stride_bytes, b.pixels + y * b.stride_bytes,
                                3 * a.width);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colour_tells_little),
        cmocka_unit_test(test_drawing_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
