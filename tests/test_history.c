#include "tests/test.h"

#include "train/chart.h"
#include "train/history.h"

#define START(epoch, step)                                                                         \
    "{\"kind\":\"start\",\"version\":1,\"epoch\":" #epoch ",\"step\":" #step                       \
    ",\"steps_per_epoch\":10,\"train_images\":40,\"val_images\":4,\"classes\":3,\"device\":\"d\"," \
    "\"dtype\":\"f32\",\"options\":{\"lr\":0.1}}\n"
#define TRAIN(epoch, step, loss)                                                                   \
    "{\"kind\":\"train\",\"epoch\":" #epoch ",\"step\":" #step ",\"steps\":10,\"loss\":" #loss     \
    ",\"loss_mean\":1,\"top1_mean\":2,\"lr\":0.1,\"images_per_second\":9}\n"
#define EVAL(epoch, top1)                                                                          \
    "{\"kind\":\"eval\",\"epoch\":" #epoch ",\"loss\":1,\"top1\":" #top1                           \
    ",\"top5\":9,\"images\":4}\n"

static struct status log_read(const char *text, struct history **ret_history)
{
    TRY(file_write_plain(test_path("log.jsonl"), text, strlen(text)));
    return history_read(test_folder(), ret_history);
}

static void test_what_was_done_again_counts_once(void **state)
{
    (void)state;
    CLEANUP(history_free) struct history *history = NULL;
    assert_ok(log_read(START(0, 0) TRAIN(0, 0, 7) TRAIN(0, 5, 6) EVAL(0, 1) TRAIN(1, 0, 5)
                           TRAIN(1, 5, 4) START(1, 3) TRAIN(1, 5, 3)
                               EVAL(1, 2) "{\"kind\":\"checkpoint\"}\n{\"kind\":\"tr",
                       &history));
    const double losses[] = {7, 6, 5, 3};
    assert_int_equal(history->start_count, 2);
    assert_int_equal(history->train_count, 4);
    assert_int_equal(history->eval_count, 2);
    for (size_t i = 0; i < 4; i++)
        assert_true(history->trains[i].loss == losses[i]);
    assert_true(history->trains[3].position == 1.5);
    const struct history_start *start;
    assert_ok(history_start_at(history, 1, 2, &start));
    assert_ptr_equal(start, &history->starts[0]);
    assert_ok(history_start_at(history, 1, 3, &start));
    assert_ptr_equal(start, &history->starts[1]);
}

static void test_bad_logs(void **state)
{
    (void)state;
    struct history *history = NULL;
    assert_fails(history_read(test_path("nothing"), &history), STATUS_NOT_FOUND, "log.jsonl");
    assert_fails(log_read(START(0, 0) "{]\n", &history), STATUS_CORRUPT, "line 2");
    assert_fails(log_read("{\"kind\":\"train\",\"epoch\":-1}\n", &history), STATUS_CORRUPT,
                 "epoch");
    assert_fails(log_read("{}\n", &history), STATUS_CORRUPT, "kind");
}

/* An infinite loss is null in the log, and not drawn. */
static void test_a_chart_leaves_out_what_is_not_finite(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer html = {0};
    const double x[] = {0, 1, 2}, y[] = {1, 1. / 0., 3};
    const struct chart_series series = {"a<b", "#000", x, y, 3};
    struct chart chart = {"t & u", "epoch", "%", &series, 1};
    const char *text;
    assert_ok(chart_append(&html, &chart));
    assert_ok(buffer_text(&html, &text));
    assert_non_null(strstr(text, "t &amp; u, %"));
    assert_non_null(strstr(text, "points=\"62.0,222.0 546.0,34.0 \""));
    const struct chart_series point = {"zero", "#000", x, x, 1};
    chart.series = &point;
    html.length = 0;
    assert_ok(chart_append(&html, &chart));
    assert_ok(buffer_text(&html, &text));
    assert_non_null(strstr(text, "cx=\"62.0\" cy=\"222.0\""));
    chart.series_count = 0;
    html.length = 0;
    assert_ok(chart_append(&html, &chart));
    assert_ok(buffer_text(&html, &text));
    assert_non_null(strstr(text, "nothing yet"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_done_again_counts_once),
        cmocka_unit_test(test_bad_logs),
        cmocka_unit_test(test_a_chart_leaves_out_what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
