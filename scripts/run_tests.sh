#!/usr/bin/env bash
# Runs test programs and CLI test scripts, several at once, and adds up what they say.
# Usage: BUILD=build scripts/run_tests.sh TEST...    (make test calls it)
# A cmocka program counts with each of its tests, a script as one. Exit status 77 means skipped.
# With T set (some tests were named) their output is shown even when they pass.
set -uo pipefail

limit_seconds=${TEST_TIMEOUT:-300}
# What starts a test program, if it cannot start by itself: an emulator of another processor, with arguments.
read -r -a runner <<<"${TEST_RUNNER:-}"

if [ $# -eq 0 ]; then
    echo "run_tests: no test is named \"${T:-}\": tests/test_NAME.c or tests/cli/NAME.sh" >&2
    exit 2
fi

# Waiting OpenMP threads that spin would starve the other tests.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
export HEADRACE_DATA=${HEADRACE_DATA:-$PWD/../shared/data}
export HEADRACE_BIN=${HEADRACE_BIN:-$PWD/${BUILD:-build}/headrace}
export HEADRACE_MODULES=${HEADRACE_MODULES:-$PWD/${BUILD:-build}}
[ ! -f tests/lsan.supp ] || export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$PWD/tests/lsan.supp:print_suppressions=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

# The number that a cmocka summary line such as "[  PASSED  ] 5 test(s)." gives, added over groups.
cmocka_count() # LABEL LOG
{
    sed -n "s/^\[ *$1 *\] \([0-9]*\) test(s).*/\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

# Where the threads of a test's processes are, by gdb if there is one. `timeout` is the first of their group.
stacks_show() # GROUP
{
    local stat pid group
    command -v gdb >/dev/null || return
    for stat in /proc/[0-9]*/stat; do
        { read -r pid _ _ _ group _ <"$stat"; } 2>/dev/null || continue
        if [ "$group" != "$1" ] || [ "$pid" = "$1" ]; then
            continue
        fi
        printf '\n--- process %s: %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline")"
        timeout --kill-after=10 60 gdb -nx -q -batch -ex 'thread apply all backtrace' -p "$pid"
    done
}

# Runs a test for at most limit_seconds. Of one that does not end, its output tells where it was.
run_limited() # TEST LOG
{
    local test timer status
    timeout --kill-after=10 "$((limit_seconds + 600))" "${runner[@]}" "$1" >"$2" 2>&1 </dev/null &
    test=$!
    sleep "$limit_seconds" >/dev/null 2>&1 &
    timer=$!
    wait -n "$test" "$timer"
    if ! kill "$timer" 2>/dev/null; then
        printf '\nstopped after %s s\n' "$limit_seconds" >>"$2"
        stacks_show "$test" >>"$2" 2>&1 </dev/null
        kill -s ALRM "$test" 2>/dev/null # its time is over, `timeout` concludes
    fi
    wait "$test" 2>/dev/null
    status=$?
    wait "$timer" 2>/dev/null
    return $status
}

# Runs one test; leaves "PASSED FAILED SKIPPED" in NAME.count and its output in NAME.log.
run_one() # TEST
{
    local name=${1##*/} log status passed failed skipped started=$SECONDS
    log=$results/$name.log
    run_limited "$1" "$log"
    status=$?

    passed=$(cmocka_count PASSED "$log")
    failed=$(cmocka_count FAILED "$log")
    skipped=$(cmocka_count SKIPPED "$log")
    if [ $status -eq 77 ] && [ "$failed" -eq 0 ]; then
        skipped=$((skipped + 1))
    elif [ $status -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
    elif [ $((passed + failed + skipped)) -eq 0 ]; then
        passed=1
    fi
    echo "$passed $failed $skipped" >"$results/$name.count"

    local word=ok
    [ "$failed" -gt 0 ] && word=FAILED
    [ $((passed + failed)) -eq 0 ] && word=skipped
    {
        printf '%-8s %s (%s s)\n' "$word" "$name" $((SECONDS - started))
        if [ "$failed" -gt 0 ] || [ -n "${T:-}" ]; then
            sed 's/^/    /' "$log"
        elif [ "$skipped" -gt 0 ]; then
            grep -i 'skip' "$log" | grep -v '^\[ *=\|test(s)' | sort -u | head -n 5 | sed 's/^/    /'
        fi
    } >"$results/$name.text"
    cat "$results/$name.text"
}

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

jobs=${TEST_JOBS:-$(nproc)}
for test in "$@"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n
    done
    run_one "$test" &
done
wait

cat "$results"/*.count | awk '
    { passed += $1; failed += $2; skipped += $3 }
    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit failed > 0 }'
