#!/usr/bin/env bash
# Several processes train together, started as torchrun starts them: rank 0 prints and saves, a stop of one is a stop of
# all, and a lost one is named.
source tests/cli/lib.sh

small=(--device reference --synthetic --synthetic-images 12 --synthetic-classes 4 --batch-size 4 --arch resnet18
    --image-size 32 --lr 0.01 --print-freq 1 --threads 1)

ranks 2 train "${small[@]}" --epochs 1 --out "$work/run"
expect_statuses 0 0
expect_stdout '^2 processes on 1 machine, joined by TCP \(torchrun\)$'
expect_stdout '^batch 4 = 2 processes x 1 device x 2, lr 0\.01, not scaled; 12 images, 3 steps an epoch$'
expect_stdout '^Epoch: \[0\]\[2/3\]'
[ ! -s "$work/1.stdout" ] || fail "rank 1 printed something"
[ "$(grep -c '"kind": "start"' "$work/run/log.jsonl")" -eq 1 ] || fail "the log does not have one start"
headrace_ok train "${small[@]}" --epochs 1 --out "$work/alone"
expect_stdout '^batch 4 = 1 device x 4, lr 0\.01, not scaled; 12 images, 3 steps an epoch$'

# A stop of one rank, in the middle of an epoch.
ranks_start 2 train "${small[@]}" --epochs 1000 --out "$work/stopped"
ranks_await '^Epoch: \[1\]\[0/3\]'
kill -TERM "${pids[1]}"
ranks_finish
expect_statuses 75 75
expect_stderr 'error: stopped as asked at epoch [0-9]+, step [0-9] of 3; continue with: headrace train --resume auto --out '
[ "$(grep -c 'stopped as asked' "$stderr")" -eq 1 ] || fail "the stop is not told once"
steps=$(grep -c '"kind": "train"' "$work/stopped/log.jsonl")
ranks 2 train --resume auto --out "$work/stopped" --steps $((steps + 1))
expect_statuses 0 0
expect_stdout '^resumed at epoch [0-9]+, step [0-9]+$'
[ "$(grep -c '"kind": "train"' "$work/stopped/log.jsonl")" -eq $((steps + 1)) ] || fail "the run did not go on where it stopped"

# On another number of ranks: the same batches.
ranks 3 train --resume auto --out "$work/stopped" --batch-size 4
expect_stderr 'error: .*a batch of 4 cannot be divided evenly over 3 processes'
ranks 1 train --resume auto --out "$work/stopped" --steps $((steps + 2))
expect_statuses 0
expect_stderr 'note: the run normalised 2 images at a time, now it is 4: batches and their order are the same'

# One rank is killed, another does not move: the others name it and leave, and what was saved is whole.
for signal in KILL STOP; do
    ranks_start 3 train "${small[@]}" --batch-size 6 --epochs 1000 --checkpoint-steps 1 --rank-timeout 3 --out "$work/$signal"
    ranks_await '^Epoch: \[1\]\[0/2\]'
    kill -$signal "${pids[2]}"
    for rank in 0 1; do
        wait "${pids[rank]}"
        [ $? -eq 1 ] || fail "rank $rank did not end with status 1"
        grep -q 'rank 2' "$work/$rank.stderr" || fail "rank $rank does not name rank 2"
    done
    kill -CONT "${pids[2]}" 2>/dev/null
    ranks_finish
    ranks 3 train --resume auto --out "$work/$signal" --epochs 2
    expect_statuses 0 0 0
done
