#include "tests/test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/disk.h"

static const char old_text[] = "what stood there before";
static char new_text[100000];

static void assert_content(const char *path, const char *expected, size_t length)
{
    CLEANUP(buffer_done) struct buffer content = {0};
    assert_ok(file_read_all(path, 1 << 20, &content));
    assert_int_equal(content.length, length);
    assert_memory_equal(content.data, expected, length);
}

static size_t entries_in(const char *folder)
{
    CLEANUP(folder_list_done) struct folder_list list = {0};
    assert_ok(folder_list_read(folder, &list));
    return list.count;
}

static void name_appears_with_the_commit(void **state)
{
    (void)state;
    CLEANUP(file_writer_free) struct file_writer *writer = NULL;
    assert_ok(folder_create(test_path("w")));
    const char *path = test_path("w/図 1.bin");
    assert_ok(file_writer_open(path, &writer));
    assert_ok(file_writer_write(writer, "....", 4));
    assert_ok(file_writer_write(writer, "body", 4));
    assert_ok(file_writer_write_at(writer, "head", 4, 0));
    assert_int_equal(file_writer_position(writer), 8);
    assert_false(path_exists(path));
    assert_int_equal(entries_in(test_path("w")), 1);
    assert_ok(file_writer_commit(writer));
    assert_content(path, "headbody", 8);
    assert_int_equal(entries_in(test_path("w")), 1);
}

static void nothing_is_left_without_a_commit(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("u")));
    {
        CLEANUP(file_writer_free) struct file_writer *opened = NULL;
        CLEANUP(file_writer_free) struct file_writer *prepared = NULL;
        assert_ok(file_writer_open(test_path("u/opened"), &opened));
        assert_ok(file_writer_open(test_path("u/prepared"), &prepared));
        assert_ok(file_writer_prepare(prepared));
        assert_int_equal(entries_in(test_path("u")), 2);
    }
    assert_int_equal(entries_in(test_path("u")), 0);
}

static void leftovers_are_removed_and_others_respected(void **state)
{
    (void)state;
    CLEANUP(file_writer_free) struct file_writer *writer = NULL;
    struct file_writer *second = NULL;
    size_t count;
    char own[64];
    snprintf(own, sizeof own, "l/.x.idx.tmp.%ld", (long)getpid());
    assert_ok(folder_create(test_path("l")));
    assert_ok(file_write_plain(test_path("l/.x.idx.tmp.1"), "left", 4));
    assert_ok(file_write_plain(test_path(own), "left by a process of this number", 32));
    assert_ok(file_write_plain(test_path("l/.x.idx2.tmp.1"), "another's", 9));
    assert_ok(file_writer_open(test_path("l/x.idx"), &writer));
    assert_int_equal(entries_in(test_path("l")), 2);
    assert_fails(file_writer_open(test_path("l/x.idx"), &second), STATUS_FAILED,
                 "another headrace is writing");
    assert_ok(file_writer_write(writer, "text", 4));
    assert_ok(file_writer_prepare(writer));
    assert_fails(file_writer_sweep(test_path("l/x.idx"), &count), STATUS_FAILED, "another");
    assert_ok(file_writer_publish(writer));
    assert_content(test_path("l/x.idx"), "text", 4);
    assert_ok(file_writer_sweep(test_path("l/x.idx2"), &count));
    assert_int_equal(count, 1);
    assert_int_equal(entries_in(test_path("l")), 1);
}

static void prepared_files_are_compared(void **state)
{
    (void)state;
    static const char *const before[] = {NULL, "text", "tex", "text and more", "tExt"};
    for (size_t i = 0; i < ARRAY_LENGTH(before); i++) {
        CLEANUP(file_writer_free) struct file_writer *writer = NULL;
        bool is_same;
        if (before[i])
            assert_ok(file_write_plain(test_path("compared"), before[i], strlen(before[i])));
        assert_ok(file_writer_open(test_path("compared"), &writer));
        assert_ok(file_writer_write(writer, "text", 4));
        assert_ok(file_writer_prepare(writer));
        file_writer_park(writer);
        assert_ok(file_writer_matches(writer, &is_same));
        assert_int_equal(is_same, i == 1);
    }
}

static void wrong_names_are_refused_at_once(void **state)
{
    (void)state;
    struct file_writer *writer = NULL;
    assert_fails(file_writer_open(test_folder(), &writer), STATUS_FAILED, "it is a folder");
    assert_int_equal(mkfifo(test_path("pipe"), 0600), 0);
    assert_fails(file_writer_open(test_path("pipe"), &writer), STATUS_FAILED,
                 "it is no regular file but a device, a pipe");
    assert_fails(file_writer_open(test_path("none/x"), &writer), STATUS_NOT_FOUND, "none/");
    assert_fails(file_writer_open("", &writer), STATUS_FAILED, "name of a file is missing");
    assert_null(writer);
}

static void reads_are_exact(void **state)
{
    (void)state;
    const char *path = test_path("numbers");
    char bytes[8];
    CLEANUP(fd_close) int fd = -1;
    uint64_t size_bytes;
    assert_ok(file_write_plain(path, "0123456789", 10));
    assert_ok(file_append(path, "ab", 2));
    assert_ok(file_open_read(path, &fd));
    assert_ok(file_size(fd, path, &size_bytes));
    assert_int_equal(size_bytes, 12);
    assert_ok(file_read_at(fd, path, bytes, 4, 8));
    assert_memory_equal(bytes, "89ab", 4);
    assert_ok(file_read_at(fd, path, bytes, 0, 12));
    assert_fails(file_read_at(fd, path, bytes, 8, 9), STATUS_CORRUPT,
                 "expected 8 bytes at offset 9, found 3");
    assert_fails(file_read_at(fd, path, bytes, 8, UINT64_MAX - 3), STATUS_CORRUPT, "cannot have");

    CLEANUP(buffer_done) struct buffer content = {0};
    assert_ok(file_read_all(path, 12, &content));
    assert_fails(file_read_all(path, 11, &content), STATUS_CORRUPT, "longer than the 11 bytes");
    assert_ok(file_read_all("/proc/self/status", 1 << 20, &content)); /* has no size beforehand */
    assert_true(content.length > 100);
    assert_fails(file_read_all(test_folder(), 100, &content), STATUS_FAILED, "it is a folder");
    assert_fails(file_read_all(test_path("none"), 100, &content), STATUS_NOT_FOUND, "none'");
}

static void files_are_mapped(void **state)
{
    (void)state;
    CLEANUP(file_map_done) struct file_map map = {0};
    CLEANUP(file_map_done) struct file_map empty = {0};
    assert_ok(file_write_plain(test_path("mapped"), "content", 7));
    assert_ok(file_map_open(test_path("mapped"), &map));
    assert_int_equal(map.size_bytes, 7);
    assert_memory_equal(map.data, "content", 7);
    assert_ok(file_write_plain(test_path("empty"), "", 0));
    assert_ok(file_map_open(test_path("empty"), &empty));
    assert_int_equal(empty.size_bytes, 0);
    assert_non_null(empty.data);
}

static void names_are_moved_linked_and_removed(void **state)
{
    (void)state;
    assert_ok(file_write_plain(test_path("from"), "x", 1));
    assert_ok(file_rename(test_path("from"), test_path("to")));
    assert_ok(file_link(test_path("to"), test_path("second")));
    assert_ok(file_remove(test_path("to")));
    assert_ok(file_remove(test_path("to")));
    assert_content(test_path("second"), "x", 1);
    assert_fails(file_rename(test_path("to"), test_path("x")), STATUS_NOT_FOUND, "/to'");
}

/* Whichever call fails: the old file or the new one stands there, whole, and nothing beside it. */
static void any_call_may_fail(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("f")));
    const char *path = test_path("f/file"), *folder = test_path("f");
    int failures = 0;
    for (int call = 1;; call++) {
        char fault[32];
        snprintf(fault, sizeof fault, "ENOSPC:%d", call);
        assert_ok(file_write_atomic(path, old_text, sizeof old_text));
        disk_set_fault(fault);
        struct status status = file_write_atomic(path, new_text, sizeof new_text);
        disk_set_fault(NULL);
        assert_int_equal(entries_in(folder), 1);
        if (status.code == STATUS_DONE)
            break;
        failures++;
        if (call < 5) /* create, write, sync, rename; then the folder is synced */
            assert_content(path, old_text, sizeof old_text);
        else
            assert_content(path, new_text, sizeof new_text);
        assert_fails(status, STATUS_NO_SPACE, "free some space, then run the same command again");
    }
    assert_int_equal(failures, 5);
}

static void a_kill_leaves_the_old_or_the_new_file(void **state)
{
    (void)state;
    assert_ok(folder_create(test_path("k")));
    const char *path = test_path("k/file");
    int kills = 0;
    for (int call = 1;; call++) {
        assert_ok(file_write_atomic(path, old_text, sizeof old_text));
        pid_t child = fork();
        if (child == 0) {
            char fault[32];
            snprintf(fault, sizeof fault, "kill:%d", call);
            disk_set_fault(fault);
            struct status status = file_write_atomic(path, new_text, sizeof new_text);
            _exit(status.code == STATUS_DONE ? 0 : 1);
        }
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        if (WIFEXITED(result)) {
            assert_int_equal(WEXITSTATUS(result), 0);
            break;
        }
        assert_int_equal(WTERMSIG(result), SIGKILL);
        kills++;
        if (call < 5)
            assert_content(path, old_text, sizeof old_text);
        else
            assert_content(path, new_text, sizeof new_text);
    }
    assert_int_equal(kills, 5);
    assert_content(path, new_text, sizeof new_text);
}

static int exit_code_with_fault(const char *fault, const char *path)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("HEADRACE_FAULT", fault, 1);
        fclose(stderr);
        close(STDERR_FILENO);
        execl("/proc/self/exe", "test_file", path, (char *)NULL);
        _exit(99);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    return WIFSIGNALED(result) ? -WTERMSIG(result) : WEXITSTATUS(result);
}

static void faults_come_from_the_environment(void **state)
{
    (void)state;
    const char *path = test_path("env");
    assert_int_equal(exit_code_with_fault("EIO:2", path), STATUS_IO);
    assert_int_equal(exit_code_with_fault("ENOSPC:1", path), STATUS_NO_SPACE);
    assert_int_equal(exit_code_with_fault("EACCES:4", path), STATUS_IO);
    assert_int_equal(exit_code_with_fault("kill:3", path), -SIGKILL);
    assert_false(path_exists(path));
    assert_int_equal(exit_code_with_fault("nonsense", path), STATUS_IO);
    assert_int_equal(exit_code_with_fault("ENOSPC:0", path), STATUS_IO);
    assert_false(path_exists(path));
    assert_int_equal(exit_code_with_fault("EIO:100", path), STATUS_DONE);
    assert_true(path_exists(path));
}

/* A real limit of the system: a write is cut short, the next one refused. */
static void short_writes_are_continued(void **state)
{
    (void)state;
    const char *path = test_path("limited");
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){sizeof new_text - 1, sizeof new_text - 1});
        struct status status = file_write_atomic(path, new_text, sizeof new_text);
        _exit(status.code == STATUS_IO && strstr(status.message, "too large") ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    assert_false(path_exists(path));
}

/* Makes `path` and takes it back; `stays` is what was there before and has to be afterwards. */
static void assert_unmade(const char *path, const char *stays)
{
    CLEANUP(memory_free) char *first = NULL;
    assert_ok(folder_make(path, &first));
    assert_non_null(first);
    assert_true(path_is_folder(path));
    folder_unmake(path, first);
    assert_int_equal(entries_in(stays), 0);
}

static void folders_made_in_vain_go_again(void **state)
{
    (void)state;
    CLEANUP(memory_free) char *first = NULL;
    CLEANUP(memory_free) char *none = NULL;
    assert_ok(folder_create(test_path("there")));
    assert_unmade(test_path("there/a"), test_path("there"));
    assert_unmade(test_path("there/a/"), test_path("there"));
    assert_unmade(test_path("there/a//b/c//"), test_path("there"));
    assert_ok(folder_make(test_path("there"), &none));
    assert_null(none);
    folder_unmake(test_path("there"), none);
    assert_true(path_is_folder(test_path("there")));
    /* What was filled meanwhile stays. */
    assert_ok(folder_make(test_path("there/a/b"), &first));
    assert_ok(file_write_plain(test_path("there/a/file"), "x", 1));
    folder_unmake(test_path("there/a/b"), first);
    assert_int_equal(entries_in(test_path("there/a")), 1);
    assert_fails(folder_make(test_path("there/a/file/x"), &none), STATUS_IO, "not a folder");
    assert_null(none);
    disk_set_fault("ENOSPC:2");
    assert_fails(folder_make(test_path("there/b/c"), &none), STATUS_NO_SPACE, "there/b/c");
    disk_set_fault(NULL);
    assert_false(path_exists(test_path("there/b")));
}

static void a_folder_is_asked_whether_it_can_be_filled(void **state)
{
    (void)state;
    CLEANUP(memory_free) char *nearest = NULL;
    assert_ok(folder_create(test_path("fill")));
    assert_ok(folder_check_writable(test_path("fill/a//b/"), &nearest));
    assert_string_equal(nearest, test_path("fill"));
    assert_int_equal(entries_in(test_path("fill")), 0);
    memory_free(MOVE(nearest));
    assert_ok(file_write_plain(test_path("fill/file"), "x", 1));
    assert_fails(folder_check_writable(test_path("fill/file"), &nearest), STATUS_IO,
                 "is not a folder");
    assert_fails(folder_check_writable("/proc/self", &nearest), STATUS_IO, "cannot create files");
}

int main(int argc, char **argv)
{
    if (argc == 2) { /* started by faults_come_from_the_environment */
        struct status status = file_write_atomic(argv[1], old_text, sizeof old_text);
        int code = (int)status.code;
        status_clear(&status);
        return code;
    }
    memset(new_text, 'n', sizeof new_text);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_made_in_vain_go_again),
        cmocka_unit_test(a_folder_is_asked_whether_it_can_be_filled),
        cmocka_unit_test(name_appears_with_the_commit),
        cmocka_unit_test(nothing_is_left_without_a_commit),
        cmocka_unit_test(leftovers_are_removed_and_others_respected),
        cmocka_unit_test(prepared_files_are_compared),
        cmocka_unit_test(wrong_names_are_refused_at_once),
        cmocka_unit_test(reads_are_exact),
        cmocka_unit_test(files_are_mapped),
        cmocka_unit_test(names_are_moved_linked_and_removed),
        cmocka_unit_test(any_call_may_fail),
        cmocka_unit_test(a_kill_leaves_the_old_or_the_new_file),
        cmocka_unit_test(faults_come_from_the_environment),
        cmocka_unit_test(short_writes_are_continued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
