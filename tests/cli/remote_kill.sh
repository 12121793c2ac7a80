#!/usr/bin/env bash
# Trainings and fetches over a URL that are killed at any moment: the next one uses or repairs the cache that they leave,
# and ends in the weights of a training that nothing disturbed, bit for bit.
source tests/cli/lib.sh
leave_settings
seed=${HEADRACE_SEED:-$RANDOM}
echo "HEADRACE_SEED=$seed"
RANDOM=$seed

serve_sets train:2
serve --log "$work/log"
url=http://127.0.0.1:$port/fine/train.idx
cached=(--cache "$work/cache" --cache-size 1100k) # a part of the set
train=(train -a resnet18 --image-size 16 -b 8 --device reference --lr 0.01 --workers 2 --epochs 2)

# Kills a command after a random part of the time that one takes to its end, $usual.
kill_at_some_time() # ARGUMENT...
{
    local pid wait_ms
    last_command="headrace $*, killed"
    "$HEADRACE_BIN" "$@" >"$stdout" 2>"$stderr" </dev/null &
    pid=$!
    wait_ms=$((usual * RANDOM / 32768))
    sleep "$((wait_ms / 1000)).$(printf %03d $((wait_ms % 1000)))"
    kill -KILL $pid 2>/dev/null
    wait $pid 2>/dev/null
}

now() { echo $(($(date +%s%N) / 1000000)); } # ms

begun=$(now)
headrace_ok "${train[@]}" --train "$url" "${cached[@]}" --out "$work/whole"
usual=$(($(now) - begun))
rm -r "$work/cache"
for round in 0 1 2; do
    for life in 0 1; do
        kill_at_some_time "${train[@]}" --train "$url" "${cached[@]}" --out "$work/killed-$round-$life"
    done
    headrace_ok "${train[@]}" --train "$url" "${cached[@]}" --out "$work/after-$round"
    refute_stderr 'warning'
    expect_same "$work/whole/checkpoint.safetensors" "$work/after-$round/checkpoint.safetensors"
    [ "$(cat "$work/cache"/* | wc -c)" -le 1100000 ] || fail "the cache is larger than --cache-size"
done

# While a cache is made, filled and turned to dct.
begun=$(now)
headrace_ok fetch "$url" --cache "$work/filled" --cache-size 4M --quiet
usual=$(($(now) - begun))
for round in $(seq 12); do
    [ $((round % 4)) -ne 0 ] || rm -rf "$work/filled"
    kill_at_some_time fetch "$url" --cache "$work/filled" --cache-size 4M --quiet
done
headrace_ok fetch "$url" --cache "$work/filled" --cache-size 4M --quiet --json
expect_stdout '"no_room": ?0'
headrace_ok "${train[@]}" --train "$url" --cache "$work/filled" --out "$work/after-fetch"
expect_stdout '; cache: 152 of 152 in it, 0 B fetched'
expect_same "$work/whole/checkpoint.safetensors" "$work/after-fetch/checkpoint.safetensors"
