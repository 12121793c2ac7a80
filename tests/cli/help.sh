#!/usr/bin/env bash
# The program explains itself: its commands, each command's --help, and what to do about a wrong line.
source tests/cli/lib.sh

headrace_ok --version
expect_stdout '^headrace [0-9]+\.[0-9]+\.[0-9]+$'

headrace_ok --help
expect_stdout '^Usage: headrace COMMAND'
expect_stdout 'Exit status: 0 done, 1 failed, 2 wrong usage'
commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$stdout")

for command in $commands; do
    headrace_ok "$command" --help
    expect_stdout '^Usage: headrace '
    refute_stderr .
    cp "$stdout" "$work/by-flag"
    headrace_ok help "$command"
    expect_same "$stdout" "$work/by-flag"

    [ "$command" != help ] || continue
    expect_stdout '^Example'
    headrace "$command" --no-such-option
    expect_error 2 'no-such-option'
done

headrace
expect_error 2 'a command is missing'
headrace hepl
expect_error 2 'did you mean "headrace help"'
headrace xyzzy
expect_error 2 'no command "xyzzy"'

# Results that do not arrive are a failure.
last_command='headrace --help >/dev/full'
"$HEADRACE_BIN" --help >/dev/full 2>"$stderr"
status=$?
expect_error 1 'could not be written'
