#!/usr/bin/env bash
# Ctrl-C once stops cleanly and the next run goes on, twice ends at once; a second run leaves the first alone.
source tests/cli/lib.sh
# Thousands of files: in memory, where there is such a place.
fast=$(mktemp -d /dev/shm/headrace-cli.XXXXXX 2>/dev/null) || fast=$work
[ "$fast" = "$work" ] || trap 'rm -rf "$fast"; chmod -R u+rwX "$work"; rm -rf "$work"' EXIT
run scripts/make_train_tar.py "$fast/train.tar" --classes 2 --class-images 15000
expect_status 0

# Starts headrace in the background and waits until it has begun to write below FOLDER.
start() # FOLDER ARGUMENT...
{
    local folder=$1
    shift
    last_command="headrace $*"
    "$HEADRACE_BIN" "$@" >"$stdout" 2>"$stderr" </dev/null &
    pid=$!
    until compgen -G "$folder/.*.partial" >/dev/null || ! kill -0 $pid 2>/dev/null; do sleep 0.002; done
}

# Sets $status to that of the command started last.
finish()
{
    wait $pid
    status=$?
}

start "$fast/out" extract "$fast/train.tar" "$fast/out" -j 1
kill -INT $pid
finish
expect_status 75
expect_stderr 'stopping at the next safe point; Ctrl-C again ends at once'
expect_stderr 'error: stopped on request; run the same command again to finish'
[ -z "$(find "$fast/out" -name '*.partial')" ] || fail "something half-done was left"

# Another run while the first one stands still.
start "$fast/out" extract "$fast/train.tar" "$fast/out" -j 1
kill -STOP $pid
headrace extract "$fast/train.tar" "$fast/out"
expect_error 1 "another headrace is writing to '.*/out'; wait for it, or choose another folder"
kill -CONT $pid
finish
expect_status 0
headrace_ok extract "$fast/train.tar" "$fast/out"
expect_stdout '30000 images in 2 classes, .* all were there already'

# SIGTERM, as schedulers send it, is a clean stop too.
rm -r "$fast/out"
start "$fast/out" extract "$fast/train.tar" "$fast/out" -j 2
kill -TERM $pid
finish
expect_status 75
headrace_ok extract "$fast/train.tar" "$fast/out" --quiet

# A read that never returns, as from a server that is gone, meets no safe point: Ctrl-C again ends it.
mkfifo "$work/never.tar"
"$HEADRACE_BIN" extract "$work/never.tar" "$work/none" 2>"$work/never.stderr" &
pid=$!
# Before it is the program, it is a copy of this shell, which catches SIGINT too.
until [ /proc/$pid/exe -ef "$HEADRACE_BIN" ]; do sleep 0.01; done
until [ $((0x$(awk '/^SigCgt/ { print $2 }' /proc/$pid/status) & 2)) -ne 0 ]; do sleep 0.01; done
kill -INT $pid
until grep -q 'Ctrl-C again' "$work/never.stderr" || ! kill -0 $pid; do sleep 0.01; done
kill -0 $pid || fail "expected the process to wait for a safe point"
kill -INT $pid
finish
expect_status 130
refute_file "$work/none"
