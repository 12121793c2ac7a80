#!/usr/bin/env bash
# One run at a time writes a RUN_DIR, and what a killed one left there is removed by the next.
source tests/cli/lib.sh

small=(--device reference --synthetic --synthetic-images 10 --synthetic-classes 6 -b 4 --image-size 32 --lr 0.01)

# Starts a training without an end in $work/run and waits until it prints its first line of epoch $1.
train_behind() # EPOCH OPTIONS...
{
    local epoch=$1
    shift
    last_command="headrace train $* &"
    "$HEADRACE_BIN" train "$@" --epochs 100000 -p 1 --out "$work/run" >"$work/lines" 2>"$stderr" </dev/null &
    pid=$!
    for _ in $(seq 600); do
        ! grep -q "^Epoch: \[$epoch\]" "$work/lines" || return 0
        kill -0 $pid 2>/dev/null || fail "the training has ended"
        sleep 0.1
    done
    fail "no line of epoch $epoch"
}

train_behind 1 "${small[@]}"
busy="^headrace: error: another headrace is training in '.*/run': stop it or wait for its end, or choose another folder with --out$"
headrace train --resume auto --out "$work/run" --epochs 2
expect_error 1 "$busy"
headrace train --resume "$work/run" --out "$work/run" --epochs 2
expect_error 1 "$busy"
headrace train "${small[@]}" --out "$work/run"
expect_error 2 'holds a run already'

# Reading it, from elsewhere too, is nobody's harm.
headrace_ok report "$work/run"
headrace_ok train -e --resume "$work/run" "${small[@]}"
headrace_ok train --resume "$work/run" --out "$work/other" --epochs 1

# What a kill leaves is taken over: the lock went with its process.
kill -0 $pid || fail 'the first training has ended'
kill -KILL $pid
wait $pid 2>/dev/null
touch "$work/run/.checkpoint.state.tmp.1" "$work/run/.checkpoint.safetensors.tmp.1" "$work/run/.ema.state.tmp.1" \
    "$work/run/.mine.tmp.1"
train_behind "$(sed -n 's/.*"kind": "train", "epoch": \([0-9]*\).*/\1/p' "$work/run/log.jsonl" | tail -n 1)" --resume auto
kill -TERM $pid
wait $pid
status=$?
expect_status 75
[ "$(cd "$work/run" && echo .*.tmp.*)" = .mine.tmp.1 ] || fail "left in RUN_DIR: $(cd "$work/run" && echo .*.tmp.*)"
