#!/usr/bin/env bash
# Training and evaluating over a server that fails now and then, through a cache smaller than the set, and stopping where
# the server has stopped answering: the weights are those of local files, bit for bit.
source tests/cli/lib.sh
leave_settings

serve_sets train:2 val:8
log=$work/log
serve --log "$log"
server=http://127.0.0.1:$port

# The reference backend is everywhere.
train() # ROOT OUT OPTIONS...
{
    local root=$1 out=$2
    shift 2
    headrace train --data "$root" --out "$work/$out" -a resnet18 --image-size 16 -b 8 --device reference --lr 0.01 \
        --workers 2 --print-freq 1 "$@"
}

requests() { grep -c '\.shard ' "$log"; }

# A second epoch asks for less than a first one.
train "$work/served" local --epochs 2
expect_status 0
cached=(--cache "$work/cache" --cache-size 1100k)
train "$server/troubled" once --epochs 1 "${cached[@]}"
expect_status 0
first=$(requests)
rm -r "$work/cache"
train "$server/troubled" twice --epochs 2 "${cached[@]}"
expect_status 0
expect_same "$work/local/checkpoint.safetensors" "$work/twice/checkpoint.safetensors"
second=$(($(requests) - 2 * first))
[ "$second" -gt 0 ] || fail "the set fits into the cache: $second requests"
[ "$second" -lt $((first * 3 / 4)) ] || fail "the second epoch made $second requests after $first"
[ "$(cat "$work/cache"/* | wc -c)" -le 1100000 ] || fail "the cache is larger than --cache-size"

# What is left of the cache serves other commands, by the environment too.
result() { sed -E 's/"(set|seconds)": *("[^"]*"|[0-9.e-]+),?//g' "$stdout" >"$work/$1"; }
headrace_ok eval "$work/local" "$work/served/val.idx" --device reference --json
result local.json
headrace_ok eval "$work/local" "$server/troubled/val.idx" --device reference --json "${cached[@]}"
result remote.json
expect_same "$work/local.json" "$work/remote.json"
before=$(requests)
HEADRACE_CACHE=$work/cache headrace_ok eval "$work/local" "$server/troubled/val.idx" --device reference --json
result remote.json
expect_same "$work/local.json" "$work/remote.json"
[ "$(requests)" -eq "$before" ] || fail "the set was asked for again"

# What may sign a URL is kept nowhere, and asked for again.
signed="$server/troubled/train.idx?Signature=hush-hush"
once=(--val "$work/served/val.idx" --origins "$server/troubled" --out "$work/signed" -a resnet18 --image-size 16 -b 8
    --device reference --workers 2 --steps 1)
headrace_ok train --train "$signed" "${once[@]}"
! grep -rlE 'hush-hush' "$work/signed" || fail "the query of a URL is kept in the run's folder"
grep -q 'train\.idx?…' "$work/signed/log.jsonl" || fail "the log does not say that there was a query"
headrace train --resume auto --origins "$server/troubled" --out "$work/signed" --steps 2
expect_error 2 'train\.idx\?…, but no checkpoint keeps a URL.s query.*--train URL'
headrace_ok train --train "$signed" "${once[@]}" --resume auto --steps 2
headrace replay "$work/signed" --step 0 --origins "$server/troubled"
expect_error 2 'train\.idx\?…, but no checkpoint keeps a URL.s query.*--data URL'
headrace_ok replay "$work/signed" --step 0 --origins "$server/troubled" --data "$signed"

# A path that looks like a URL with a password is no URL, and is kept as it is.
mkdir "$work/like:a@url"
cp "$work/served"/* "$work/like:a@url/"
like=(--out "$work/like" -a resnet18 --image-size 16 -b 8 --device reference --workers 2)
headrace_ok train --train "$work/like:a@url/train.idx" --val "$work/like:a@url/val.idx" "${like[@]}" --steps 1
headrace_ok train --resume auto "${like[@]}" --steps 2

# Starts a command in the background, interrupts it when the server was asked so often, and waits for its end.
interrupt() # REQUESTS ARGUMENT...
{
    local wanted=$(($(requests) + $1)) pid
    shift
    last_command="headrace $*"
    "$HEADRACE_BIN" "$@" >"$stdout" 2>"$stderr" </dev/null &
    pid=$!
    until [ "$(requests)" -ge "$wanted" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
    sleep 0.3 # to be waiting, if it is quick
    kill -INT $pid
    wait $pid
    status=$?
}

# A server that never answers holds up nobody who wants to leave.
hour=(--timeout 86400 --idle-timeout 3600)
for options in "" "--cache $work/cache"; do
    # shellcheck disable=SC2086 # several words
    interrupt 1 bench "$server/silent/train.idx" --image-size 16 "${hour[@]}" $options
    expect_error 75 'error: stopped on request; run the same command again to finish'
done
interrupt 1 fetch "$server/silent/train.idx" --cache "$work/other" --cache-size 1100k --quiet "${hour[@]}"
expect_error 75 'error: stopped on request; run the same command again to finish'
interrupt 21 train --train "$server/silent-later/train.idx" --val "$work/served/val.idx" --out "$work/stopped" \
    -a resnet18 --image-size 16 -b 8 --device reference --lr 0.01 --workers 2 --print-freq 1 --epochs 2 "${hour[@]}"
expect_error 75 'stopped as asked at epoch 0, step [0-9]+ of 19; continue with: headrace train --resume auto'
train "$server/troubled" stopped --resume auto --epochs 2
expect_status 0
expect_same "$work/local/checkpoint.safetensors" "$work/stopped/checkpoint.safetensors"
