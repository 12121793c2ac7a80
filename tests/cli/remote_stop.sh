#!/usr/bin/env bash
# Trainings whose server has stopped answering, stopped by a signal: with micro-batches, in several processes of which one
# is told, while they evaluate. All leave with status 75 and the state of the last whole step, from which the run goes on
# to the weights of one that nobody stopped, bit for bit.
source tests/cli/lib.sh
leave_settings

serve_sets train:8 few:20 val:20
options=(-a resnet18 --image-size 16 --device reference --threads 1 --lr 0.01 --workers 2 --print-freq 1 --epochs 1 --ema 0.9)
hour=(--timeout 86400 --idle-timeout 3600)
there=() # options of runs that read from the server
log=$work/log

# RANKS processes train on a set of a server that answers its first 20 requests; rank TOLD is to stop when they wait for
# more. Then the run goes on elsewhere.
stop_and_go_on() # RANKS TOLD SET ARGUMENT...
{
    local size=$1 told=$2 set=$3 done=(0 0) left=(75 75)
    shift 3
    ranks "$size" train --train "$work/served/$set.idx" --val "$work/served/val.idx" --out "$work/whole" "${options[@]}" "$@"
    expect_statuses "${done[@]:0:size}"
    : >"$log"
    serve --log "$log"
    ranks_start "$size" train --train "http://127.0.0.1:$port/silent-later/$set.idx" \
        --val "http://127.0.0.1:$port/silent-later/val.idx" --out "$work/stopped" "${options[@]}" "${hour[@]}" "${there[@]}" "$@"
    until [ "$(grep -c '\.shard ' "$log")" -ge 21 ] || ! kill -0 "${pids[$told]}" 2>/dev/null; do sleep 0.05; done
    sleep 1 # to be waiting, if it is quick
    kill -TERM "${pids[$told]}"
    ranks_finish
    expect_statuses "${left[@]:0:size}"
    expect_stderr 'stopped as asked at epoch 0, step [0-9]+ of [0-9]+; continue with: headrace train --resume auto'
    [ "$(grep -c '^headrace.* error: ' "$stderr")" -eq 1 ] || fail "the stop is not told once"
    ranks "$size" train --train "$work/served/$set.idx" --val "$work/served/val.idx" --out "$work/stopped" --resume auto
    expect_statuses "${done[@]:0:size}"
    expect_same "$work/whole/checkpoint.safetensors" "$work/stopped/checkpoint.safetensors"
    expect_same "$work/whole/ema.safetensors" "$work/stopped/ema.safetensors"
    rm -r "$work/whole" "$work/stopped"
}

stop_and_go_on 1 0 train -b 8 --accumulate 4
stop_and_go_on 2 1 train -b 8 --accumulate 2
stop_and_go_on 2 1 few -b 8
there=(--cache "$work/cache" --cache-size 1100k)
stop_and_go_on 2 0 train -b 8

# Before the first step there is nothing to save.
: >"$log"
serve --log "$log"
ranks_start 2 train --train "http://127.0.0.1:$port/all-silent/train.idx" --out "$work/none" "${options[@]}" "${hour[@]}"
until grep -q '/train.idx ' "$log" || ! kill -0 "${pids[0]}" 2>/dev/null; do sleep 0.05; done
kill -TERM "${pids[1]}"
ranks_finish
expect_statuses 75 75
expect_stderr 'error: stopped on request; run the same command again to finish'
refute_file "$work/none"
