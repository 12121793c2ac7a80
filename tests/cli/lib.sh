# Sourced by the CLI tests: `source tests/cli/lib.sh`. The runner starts them at the root of the repository.
# A test is a list of `headrace …` calls, each followed by what it expects; the first thing that is
# not so ends the test and shows the last command with its output. $work is a folder of the test's own.
# shellcheck shell=bash
# shellcheck disable=SC2034 # some variables are for the tests

set -uo pipefail

HEADRACE_BIN=${HEADRACE_BIN:-$PWD/build/headrace}
HEADRACE_DATA=${HEADRACE_DATA:-$PWD/../shared/data}
work=$(mktemp -d "${TMPDIR:-/tmp}/headrace-cli.XXXXXX")
stdout=$work/.stdout
stderr=$work/.stderr
servers=() # processes that end with the test

end_test()
{
    local server
    for server in "${servers[@]}"; do
        kill "$server" 2>/dev/null
        wait "$server" 2>/dev/null
    done
    chmod -R u+rwX "$work"
    rm -rf "$work"
}
trap end_test EXIT

fail() # MESSAGE
{
    echo "FAILED: $1"
    echo "  command: ${last_command:-none}"
    echo "  status: ${status:-none}"
    [ ! -f "$stdout" ] || head -c 4000 "$stdout" | sed 's/^/  stdout: /'
    [ ! -f "$stderr" ] || head -c 4000 "$stderr" | sed 's/^/  stderr: /'
    exit 1
}

skip() # REASON
{
    echo "skipped: $1"
    exit 77
}

# Skips the test, or fails it where HEADRACE_REQUIRE_DATA=1, when FILE is not in the data folder.
need_data() # FILE
{
    [ ! -e "$HEADRACE_DATA/$1" ] || return 0
    [ "${HEADRACE_REQUIRE_DATA:-}" != 1 ] || fail "$HEADRACE_DATA/$1 is missing"
    skip "$1 is not in $HEADRACE_DATA (set HEADRACE_DATA)"
}

# The same for a command that the test needs.
need_tool() # COMMAND
{
    ! command -v "$1" >/dev/null || return 0
    [ "${HEADRACE_REQUIRE_DATA:-}" != 1 ] || fail "the command $1 is missing"
    skip "there is no $1 (scripts/setup.sh --test installs it)"
}

# Runs any command; its exit status is in $status, its output in the files $stdout and $stderr.
run() # COMMAND...
{
    last_command=$*
    "$@" >"$stdout" 2>"$stderr" </dev/null
    status=$?
}

# The same as a user who may not read everything.
headrace_unprivileged()
{
    local drop=()
    [ "$(id -u)" -ne 0 ] || drop=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chmod 755 "$work"
    run "${drop[@]}" "$HEADRACE_BIN" "$@"
}

headrace() { run "$HEADRACE_BIN" "$@"; }

# The same, and it must succeed.
headrace_ok()
{
    headrace "$@"
    expect_status 0
}

expect_status() # N
{
    [ "$status" -eq "$1" ] || fail "expected exit status $1, got $status"
}

# Extended regular expressions, matched line by line.
expect_stdout() { grep -qE -- "$1" "$stdout" || fail "stdout has no line that matches: $1"; }
expect_stderr() { grep -qE -- "$1" "$stderr" || fail "stderr has no line that matches: $1"; }
refute_stdout() { ! grep -qE -- "$1" "$stdout" || fail "stdout has a line that matches: $1"; }
refute_stderr() { ! grep -qE -- "$1" "$stderr" || fail "stderr has a line that matches: $1"; }

expect_file() { [ -e "$1" ] || fail "$1 does not exist"; }
refute_file() { [ ! -e "$1" ] || fail "$1 exists"; }
expect_same() { diff -r "$1" "$2" >/dev/null || fail "$1 and $2 differ"; }

# Nothing of the machine's own settings for URLs.
leave_settings()
{
    unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY HEADRACE_CACHE HEADRACE_CACHE_SIZE
    unset HEADRACE_ORIGINS HEADRACE_USER HEADRACE_PASSWORD HEADRACE_TOKEN HEADRACE_CA_FILE
    export HOME=$work/home
    mkdir "$HOME"
}

# Makes $work/served/NAME.idx of every EVERY-th image of two classes, as they are: JPEG files of about a kilobyte.
serve_sets() # NAME:EVERY...
{
    local set
    need_data cifar10.tar
    mkdir -p "$work/files" "$work/served"
    tar -C "$work/files" -xf "$HEADRACE_DATA/cifar10.tar" val/bird val/cat
    headrace_ok pack "$work/files/val" -o "$work/all.idx" --quiet
    for set in "$@"; do
        headrace_ok select "$work/all.idx" --every "${set#*:}" -o "$work/${set%:*}.idx"
        headrace_ok pack "$work/${set%:*}.idx" -o "$work/served/${set%:*}.idx" --encoding jpeg --quiet
    done
}

# Starts a server of faults over $work/served; its port is in $port.
serve() # OPTIONS...
{
    mkfifo "$work/in.${#servers[@]}"
    sleep 1000 >"$work/in.${#servers[@]}" & # holds the server's input open
    servers+=($!)
    python3 tests/support/fault_server.py "$work/served" "$@" <"$work/in.$((${#servers[@]} - 1))" >"$work/port" 2>/dev/null &
    servers+=($!)
    for _ in $(seq 200); do
        [ ! -s "$work/port" ] || break
        sleep 0.05
    done
    port=$(cat "$work/port")
    rm "$work/port"
    [ -n "$port" ] || fail "the server did not start"
}

# Starts SIZE ranks in the background, as torchrun would; rank R prints into $work/R.stdout and R.stderr.
ranks_start() # SIZE ARGUMENT...
{
    size=$1
    shift
    job=$((${job:-0} + 1))
    last_command="$size ranks of headrace $*"
    rm -f "$work"/[0-9].std*
    for ((rank = 0; rank < size; rank++)); do
        RANK=$rank WORLD_SIZE=$size LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$size MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 \
            TORCHELASTIC_RUN_ID=$$-$job OMP_NUM_THREADS=1 \
            "$HEADRACE_BIN" "$@" >"$work/$rank.stdout" 2>"$work/$rank.stderr" </dev/null &
        pids[rank]=$!
    done
}

# Waits for all ranks and sets $status to their statuses; what rank 0 printed is in $stdout, all errors in $stderr.
ranks_finish()
{
    local statuses=()
    for ((rank = 0; rank < size; rank++)); do
        wait "${pids[rank]}"
        statuses[rank]=$?
    done
    status=${statuses[*]}
    cp "$work/0.stdout" "$stdout"
    cat "$work"/[0-9].stderr >"$stderr"
}

# Both.
ranks() # SIZE ARGUMENT...
{
    ranks_start "$@"
    ranks_finish
}

expect_statuses() # N...
{
    [ "$status" = "$*" ] || fail "expected exit statuses $*, got $status"
}

# Waits until rank 0 has printed a line that matches.
ranks_await() # PATTERN
{
    until grep -qE -- "$1" "$work/0.stdout" || ! kill -0 "${pids[0]}" 2>/dev/null; do sleep 0.05; done
}

# One clear sentence on stderr and nothing else: exit status N, one error line that matches.
expect_error() # N PATTERN
{
    expect_status "$1"
    expect_stderr "$2"
    [ "$(grep -c '^headrace: error: ' "$stderr")" -eq 1 ] || fail "expected one line 'headrace: error: …'"
}

# The command in the last message that PATTERN matches, typed into a shell.
run_advice() # PATTERN
{
    local advice
    advice=$(grep -oE -- "$1" "$stderr" | head -n 1)
    [ -n "$advice" ] || fail "no command in the message matches: $1"
    run bash -c "headrace() { '$HEADRACE_BIN' \"\$@\"; }; $advice"
    expect_status 0
}
