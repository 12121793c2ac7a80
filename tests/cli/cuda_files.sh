#!/usr/bin/env bash
# What a training on GPUs reads and writes, on the CPU by stand-ins for CUDA's libraries: a kill and a full disk while it
# saves, foreign weights, one index for all GPUs and threads, a forecast for several processes.
source tests/cli/lib.sh

trial=$(dirname "$HEADRACE_BIN")/trial
[ -e "$trial/headrace-cuda.so" ] || skip "there is no $trial/headrace-cuda.so: it is made where the CUDA toolkit is"
export HEADRACE_MODULES=$trial TMPDIR=$work XDG_CACHE_HOME=$work/cache STANDIN_DEVICES=2

common=(--device cuda --dtype f32 --batch-size 4 --arch resnet18 --image-size 32 --lr 0.01 --print-freq 1 --threads 1 --epochs 1)
small=("${common[@]}" --synthetic --synthetic-images 16 --synthetic-classes 4)

weights_are() # RUN RUN
{
    cmp "$work/$1/checkpoint.safetensors" "$work/$2/checkpoint.safetensors" || fail "the weights of $1 and $2 differ"
}
half_saved() { compgen -G "$work/$1/.checkpoint*.tmp.*" >/dev/null; } # RUN

# Killed while it saves the second step's weights, and as they take the place of the first step's: what was there is whole.
headrace_ok train "${small[@]}" --checkpoint-steps 1 --out "$work/whole"
plans=$(find "$XDG_CACHE_HOME" -type f -printf '%f %T@\n' | sort)
for kill in 1:300 2:400; do
    run=$work/killed-${kill#*:}
    HEADRACE_FAULT=kill:${kill#*:} ranks "${kill%:*}" train "${small[@]}" --checkpoint-steps 1 --out "$run"
    [ "${status%% *}" -eq 137 ] || fail "rank 0 was not killed"
    [ "$size" -eq 1 ] || expect_stderr 'error: rank 1: rank 0 on .* is lost'
    half_saved "${run##*/}" || fail "nothing was being saved"
    headrace_ok train --resume auto --out "$run"
    expect_stdout '^resumed at epoch 0, step 1$'
    ! half_saved "${run##*/}" || fail "something half-done was left"
    weights_are whole "${run##*/}"
done
[ "$(find "$XDG_CACHE_HOME" -type f -printf '%f %T@\n' | sort)" = "$plans" ] || fail "plans were made again"

# A full disk ends the saving, not the training, and what was saved before is whole.
headrace_ok train "${small[@]}" --steps 2 --out "$work/full"
HEADRACE_FAULT=ENOSPC:100 headrace train --resume auto --checkpoint-steps 1 --out "$work/full"
expect_status 1
expect_stderr 'error: .*the run ended without its last checkpoint'
headrace_ok train --resume auto --out "$work/full"
expect_stdout '^resumed at epoch 0, step 2$'
weights_are whole full

# Names with the prefix of DataParallel: said once, also by several processes. Other shapes: which layer, and both.
python3 - "$work" <<'PYTHON' || fail "the weights cannot be renamed"
import json
import sys

work = sys.argv[1]
data = open(work + "/whole/checkpoint.safetensors", "rb").read()
end = 8 + int.from_bytes(data[:8], "little")
names = {k if k == "__metadata__" else "module." + k: v for k, v in json.loads(data[8:end]).items()}
header = json.dumps(names).encode()
header += b" " * (-len(header) % 8)
open(work + "/module.safetensors", "wb").write(len(header).to_bytes(8, "little") + header + data[end:])
PYTHON
headrace_ok train "${small[@]}" --steps 1 --weights "$work/whole/checkpoint.safetensors" --out "$work/plain"
ranks 2 train "${small[@]}" --steps 1 --weights "$work/module.safetensors" --out "$work/module"
expect_statuses 0 0
[ "$(grep -c 'the prefix "module." was dropped from all names' "$stderr")" -eq 1 ] || fail "the prefix is not told once"
weights_are plain module
headrace train "${small[@]}" --synthetic-classes 5 --weights "$work/module.safetensors" --out "$work/no"
expect_error 1 "the shape of 'fc.weight' is \(4, 512\), the network's is \(5, 512\): another number of classes"

# All GPUs and threads of a process read one mapping of the index.
run scripts/make_train_tar.py "$work/train.tar" --classes 2 --class-images 20
expect_status 0
headrace_ok pack "$work/train.tar" -o "$work/train.idx"
ranks_start 1 train --train "$work/train.idx" "${common[@]}" --epochs 9 -j 4 --out "$work/mapped"
ranks_await '^Epoch: \[0\]\[ 0/10\]'
[ "$(grep -c '/train\.idx$' "/proc/${pids[0]}/maps")" -eq 1 ] || fail "the index is not mapped once"
kill -TERM "${pids[0]}"
ranks_finish
expect_statuses 75

# Other devices go on with what is normalised together, so that there is nothing to say about it.
headrace_ok train "${small[@]}" --accumulate 2 --sync-bn --steps 1 --out "$work/joined"
headrace_ok train --resume auto --gpus 1 --steps 2 --out "$work/joined"
expect_stdout '^batch 4 = 1 device x 2 micro-batches x 2,'
refute_stderr 'at a time'

# Of two processes on a machine each drives one of its two GPUs, in a forecast too.
ranks 2 train "${small[@]}" --sync-bn --plan
expect_statuses 0 0
expect_stdout '^batch = 2 processes x 1 device x 2, '
[ ! -s "$work/1.stdout" ] || fail "rank 1 printed something"
