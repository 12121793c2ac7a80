#ifndef HEADRACE_BASE_STATUS_H
#define HEADRACE_BASE_STATUS_H

/* How errors travel.
 *
 * A function that can fail returns a struct status by value. Its message is made once, where the
 * failure happens, and says what, where, expected and what to do; callers put context before it on
 * the way up (status_context). Only commands print a status, only main() turns it into an exit
 * status. A status that is dropped is a compiler warning. */

#ifdef __clang__
#define MUST_USE_TYPE __attribute__((warn_unused_result))
#else
#define MUST_USE_TYPE [[nodiscard]]
#endif

#define PRINTF_LIKE(format_index, first_argument)                                                  \
    __attribute__((format(printf, format_index, first_argument)))

enum status_code {
    STATUS_DONE = 0,
    STATUS_FAILED,      /* anything without a code of its own */
    STATUS_USAGE,       /* the command line is wrong: exit status 2 */
    STATUS_FOUND,       /* a check ran to its end and found something: exit status 3 */
    STATUS_CORRUPT,     /* bytes that do not hold what their format promises */
    STATUS_NOT_FOUND,   /* a file, a class, a record that is not there */
    STATUS_IO,          /* the operating system refused; the message ends in its reason */
    STATUS_NO_SPACE,    /* full disk, quota or no inodes */
    STATUS_NO_MEMORY,   /* allocation failed or a ceiling was reached */
    STATUS_UNSUPPORTED, /* valid input that this build or format version does not handle */
    STATUS_STOPPED,     /* stopped on request, resumable: exit status 75 */
};

/* `message` is heap memory owned by the status (or a constant when memory ran out), NULL when
 * code is STATUS_DONE. A status has one owner: return it, or end it with status_clear. */
struct MUST_USE_TYPE status {
    enum status_code code;
    char *message;
};

#define OK ((struct status){STATUS_DONE, NULL})

/* Returns from the calling function when `call` fails. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        struct status try_status_ = (call);                                                        \
        if (try_status_.code != STATUS_DONE)                                                       \
            return try_status_;                                                                    \
    } while (0)

/* Returns a failure made from a code and a printf-like message. */
#define FAIL(...) return status_make(__VA_ARGS__)

/* Makes a failure. `code` must not be STATUS_DONE. */
struct status status_make(enum status_code code, const char *format, ...) PRINTF_LIKE(2, 3);

/* Makes a failure from an errno value: message, ": ", its text. ENOSPC, EDQUOT become
 * STATUS_NO_SPACE, ENOENT STATUS_NOT_FOUND, ENOMEM STATUS_NO_MEMORY, everything else STATUS_IO. */
struct status status_errno(int error, const char *format, ...) PRINTF_LIKE(2, 3);

/* Puts "context: " before the message of a failure; hands a success through unchanged. */
struct status status_context(struct status status, const char *format, ...) PRINTF_LIKE(2, 3);

/* Puts "; advice" behind the message of a failure; hands a success through unchanged. */
struct status status_advise(struct status status, const char *advice);

/* The message of a failure, "" for a success. Borrowed. */
const char *status_message(const struct status *status);

/* Frees the message; the status is a success afterwards. */
void status_clear(struct status *status);

/* Drops a status whose failure changes nothing (say, while another failure is on its way up). */
void status_ignore(struct status status);

/* The process's exit status for a code: 0, 1, 2, 3 or 75. */
int status_exit_code(enum status_code code);

#endif
