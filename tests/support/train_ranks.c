#include "tests/support/train_ranks.h"

#include <math.h>

#include "base/file.h"
#include "image/decode.h"
#include "image/picture.h"
#include "tests/support/train_run.h"
#include "tests/test.h"
#include "train/history.h"

struct ranks_train_settings ranks_train_settings;
static struct ranks_train_settings *const with = &ranks_train_settings;
static char arguments[1024];

static struct status rank_train(struct comm *comm)
{
    struct metric_sums sums = {0};
    bool odd = *with->odd_arguments && comm_rank(comm) == with->odd_rank;
    struct status status =
        train_run_with(comm, odd ? with->odd_arguments : arguments, with->prepare, &sums);
    if (status.code != STATUS_DONE) {
        comm_abort(comm, status.code, status_message(&status));
        return status;
    }
    if (with->sums_path && comm_rank(comm) == 0)
        return file_write_atomic(with->sums_path, &sums, sizeof sums);
    return OK;
}

struct rank_end ranks_train(unsigned size, bool fails, unsigned speaker, const char *text,
                            const char *path)
{
    struct ranks ranks;
    struct rank_end end = {0};
    snprintf(arguments, sizeof arguments, "%s%s", text, test_path(path));
    ranks_begin(&ranks, size, (struct comm_options){.silence_timeout_s = 60});
    ranks_start_all(&ranks, rank_train);
    for (unsigned rank = 0; rank < size; rank++) {
        struct rank_end one = ranks_wait(&ranks, rank);
        if (one.status < 0 || (one.status != 0) != fails)
            fail_msg("rank %u of '%s' ended with %d: %s", rank, arguments, one.status, one.message);
        if (rank == speaker)
            end = one;
    }
    *with->odd_arguments = '\0';
    return end;
}

void ranks_train_well(unsigned size, const char *text, const char *path)
{
    ranks_train(size, false, 0, text, path);
}

void expect_message(const struct rank_end *end, const char *part)
{
    if (!strstr(end->message, part))
        fail_msg("'%s' does not say '%s'", end->message, part);
}

void expect_losses(const char *found_run, const char *wanted_run, size_t steps, double tolerance)
{
    CLEANUP(history_free) struct history *found = NULL, *wanted = NULL;
    assert_ok(history_read(test_path(found_run), &found));
    assert_ok(history_read(test_path(wanted_run), &wanted));
    assert_int_equal(found->train_count, steps);
    assert_int_equal(wanted->train_count, steps);
    for (size_t i = 0; i < steps; i++) {
        double a = found->trains[i].loss, b = wanted->trains[i].loss;
        if (!(fabs(a - b) <= tolerance * b))
            fail_msg("step %zu of %s: loss %.9g, expected %.9g", i, found_run, a, b);
        assert_true(found->trains[i].lr == wanted->trains[i].lr);
    }
}

void plain_image_write(const char *part, unsigned class_number, unsigned i, size_t cut)
{
    CLEANUP(picture_done) struct picture picture = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    char name[128];
    snprintf(name, sizeof name, "data/%s/class%u", part, class_number);
    assert_ok(folder_create(test_path(name)));
    assert_ok(picture_resize(&picture, 36 + i % 5, 36));
    for (uint32_t y = 0; y < picture.height; y++)
        memset(picture.pixels + y * picture.stride_bytes, (int)(i * 37 + y * class_number),
               (size_t)picture.width * 3);
    assert_ok(jpeg_encode(&picture, 90, &bytes));
    snprintf(name, sizeof name, "data/%s/class%u/%03u.JPEG", part, class_number, i);
    assert_ok(file_write_plain(test_path(name), bytes.data, cut ? cut : bytes.length));
}
