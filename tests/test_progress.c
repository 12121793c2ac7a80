#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "base/progress.h"

/* The time of day is an hour ahead of the kernel's, as where somebody set it back a moment ago. */
int clock_gettime(clockid_t id, struct timespec *ret_now)
{
    int result = (int)syscall(SYS_clock_gettime, id, ret_now);
    if (id == CLOCK_REALTIME)
        ret_now->tv_sec += 3600;
    return result;
}

/* Runs `speak` with stderr going to `fd`. */
static void with_stderr(int fd, void (*speak)(void))
{
    int saved = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    speak();
    dup2(saved, STDERR_FILENO);
    close(saved);
}

/* What `speak` writes to a stderr that is a file. */
static void capture_file(void (*speak)(void), char *text, size_t size)
{
    CLEANUP(fd_close) int fd = open(test_path("stderr"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    with_stderr(fd, speak);
    ssize_t length = pread(fd, text, size - 1, 0);
    assert_true(length >= 0);
    text[length] = '\0';
}

/* What `speak` writes to a stderr that is a terminal of 70 columns; at most the terminal's own
 * buffer of 4 KB. */
static void capture_terminal(void (*speak)(void), char *text, size_t size)
{
    CLEANUP(fd_close) int master = posix_openpt(O_RDWR | O_NOCTTY);
    CLEANUP(fd_close) int slave = -1;
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        skip();
    slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (slave < 0)
        skip();
    ioctl(slave, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = 70});
    setenv("TERM", "xterm", 1);
    with_stderr(slave, speak);
    fcntl(master, F_SETFL, O_NONBLOCK);
    size_t length = 0;
    for (;;) {
        ssize_t count = read(master, text + length, size - 1 - length);
        if (count <= 0)
            break;
        length += (size_t)count;
    }
    text[length] = '\0';
}

static void work(void)
{
    CLEANUP(progress_close) struct progress *progress = NULL;
    assert_ok(progress_open("extract", "images", 50, 5000000, &progress));
    for (int i = 0; i < 50; i++) {
        progress_add(progress, 1, 100000);
        if (i == 20 || i == 30)
            usleep(110000); /* a bar is drawn ten times a second */
        if (i == 25)
            log_warning("image %d is odd", i);
    }
}

static void elsewhere_there_is_one_last_line(void **state)
{
    (void)state;
    char text[1024];
    capture_file(work, text, sizeof text);
    static const char before[] = "headrace: warning: image 25 is odd\n"
                                 "headrace: extract: 50 images  5.0 MB in ";
    assert_memory_equal(text, before, sizeof before - 1);
    assert_null(strchr(text, '\r'));
    assert_non_null(strstr(text, " images/s  "));
    assert_ptr_equal(strstr(text + sizeof before, "\n"), text + strlen(text) - 1);
}

static void terminal_has_a_bar_below_the_lines(void **state)
{
    (void)state;
    static char text[8192];
    capture_terminal(work, text, sizeof text);
    /* The bar, the line in its place, the bar again; in the end the line that stays. */
    const char *bar = strstr(text, "\r\033[Kextract  ");
    assert_non_null(bar);
    const char *line = strstr(bar, "\r\033[Kheadrace: warning: image 25 is odd\r\nextract  ");
    assert_non_null(line);
    const char *last = strstr(line, "\r\033[Kheadrace: extract: 50 images  5.0 MB in ");
    assert_non_null(last);
    assert_string_equal(text + strlen(text) - 2, "\r\n");

    for (const char *p = text; (p = strstr(p, "\r\033[Kextract"));) {
        p += strlen("\r\033[K");
        assert_true(strcspn(p, "\r\n") < 70); /* never wraps */
    }
}

static void work_quietly(void)
{
    progress_set_quiet(1);
    work();
    CLEANUP(progress_close) struct progress *none = NULL;
    assert_ok(progress_open("x", "y", 1, 1, &none));
    assert_null(none);
    progress_set_total(none, 2, 2);
    progress_set_quiet(0);
}

static void quiet_says_nothing_but_warnings(void **state)
{
    (void)state;
    char text[1024];
    capture_file(work_quietly, text, sizeof text);
    assert_string_equal(text, "headrace: warning: image 25 is odd\n");
}

static void *log_much(void *argument)
{
    for (int i = 0; i < 200; i++)
        log_note("thread %s says a line that is long enough to be torn, number %d",
                 (char *)argument, i);
    return NULL;
}

static void log_from_threads(void)
{
    pthread_t threads[4];
    static char names[4][2] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, log_much, names[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void lines_are_whole(void **state)
{
    (void)state;
    static char text[100000];
    capture_file(log_from_threads, text, sizeof text);
    int lines = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        assert_memory_equal(line, "headrace: note: thread ", 23);
        assert_ptr_equal(strstr(line + 1, "headrace"), NULL);
        lines++;
    }
    assert_int_equal(lines, 800);
}

static void numbers_are_readable(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {
        {0, "0 B"},           {999, "999 B"},     {1000, "1.0 kB"},       {37400000, "37.4 MB"},
        {999949, "999.9 kB"}, {999950, "1.0 MB"}, {1200000000, "1.2 GB"}, {UINT64_MAX, "18.4 EB"},
    };
    char text[16];
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
        assert_string_equal(format_bytes(sizes[i].bytes, text), sizes[i].text);
    assert_string_equal(format_seconds(0, text), "0:00");
    assert_string_equal(format_seconds(245.4, text), "4:05");
    assert_string_equal(format_seconds(3723, text), "1:02:03");
    assert_string_equal(format_seconds(-1, text), "0:00");
    assert_string_equal(format_seconds(1e300, text), "99999:59:59");
}

static void waits_end_whatever_the_time_of_day(void **state)
{
    (void)state;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    clock_cond_init(&cond);
    struct timespec until = clock_after_ms(1020);
    pthread_mutex_lock(&mutex);
    while (pthread_cond_timedwait(&cond, &mutex, &until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&mutex);
    struct timespec now = clock_after_ms(0);
    assert_true(now.tv_sec > until.tv_sec ||
                (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
    pthread_cond_destroy(&cond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elsewhere_there_is_one_last_line),
        cmocka_unit_test(terminal_has_a_bar_below_the_lines),
        cmocka_unit_test(quiet_says_nothing_but_warnings),
        cmocka_unit_test(lines_are_whole),
        cmocka_unit_test(numbers_are_readable),
        cmocka_unit_test(waits_end_whatever_the_time_of_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
