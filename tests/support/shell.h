#ifndef HEADRACE_TESTS_SUPPORT_SHELL_H
#define HEADRACE_TESTS_SUPPORT_SHELL_H

/* Runs a shell command line; its exit status, or -1 if it did not exit. */
int test_shell(const char *command);

#endif
