#!/usr/bin/env bash
# The GPU backend in several processes, on the CPU by stand-ins for CUDA's libraries: the same weights however devices
# are spread over processes, a stop that goes on elsewhere, and a lost process that is named.
source tests/cli/lib.sh

trial=$(dirname "$HEADRACE_BIN")/trial/headrace-cuda.so
[ -e "$trial" ] || skip "there is no $trial: it is made where the CUDA toolkit is"
mkdir "$work/modules"
ln -s "$trial" "$HEADRACE_MODULES/headrace-mpi.so" "$work/modules/"
export HEADRACE_MODULES=$work/modules TMPDIR=$work XDG_CACHE_HOME=$work/cache STANDIN_DEVICES=2

small=(--device cuda --dtype f32 --synthetic --synthetic-images 12 --synthetic-classes 4 --batch-size 4 --arch resnet18
    --image-size 32 --lr 0.01 --print-freq 1 --threads 1)

weights_are() # RUN RUN
{
    cmp "$work/$1/checkpoint.safetensors" "$work/$2/checkpoint.safetensors" || fail "the weights of $1 and $2 differ"
}

# Two devices, of one process and of two.
headrace_ok train "${small[@]}" --deterministic --epochs 2 --out "$work/one"
expect_stdout '^batch 4 = 2 devices x 2, lr 0\.01, not scaled; 12 images, 3 steps an epoch$'
refute_file "$work/cache" # a deterministic run keeps its plans itself
ranks 2 train "${small[@]}" --steps 1 --out "$work/two"
expect_statuses 0 0
expect_stdout '^2 processes on 1 machine, joined by TCP \(torchrun\)$'
expect_stdout '^batch 4 = 2 processes x 1 device x 2, lr 0\.01, not scaled; 12 images, 3 steps an epoch$'
[ ! -s "$work/1.stdout" ] || fail "rank 1 printed something"
[ "$(grep -c '"kind": "start"' "$work/two/log.jsonl")" -eq 1 ] || fail "the log does not have one start"

# A stop of one process in the middle of the second epoch; one process goes on with both devices, to the same weights.
ranks_start 2 train "${small[@]}" --deterministic --tune --epochs 2 --checkpoint-steps 1 --out "$work/stopped"
ranks_await '^Epoch: \[1\]\[0/3\]'
kill -USR1 "${pids[1]}"
ranks_finish
expect_statuses 75 75
expect_stderr 'error: stopped as asked at epoch 1, step [0-9] of 3; continue with: headrace train --resume auto --out '
cp -r "$work/stopped/plans" "$work/plans"
[ "$(find "$work/plans" -type f | wc -l)" -gt 20 ] || fail "the run did not keep its plans"
headrace_ok train --resume auto --out "$work/stopped" --deterministic
expect_stdout '^resumed at epoch 1, step [0-9]$'
expect_same "$work/plans" "$work/stopped/plans"
weights_are one stopped

# Killed or stopped: the other one says so, and what was saved is whole.
for signal in KILL STOP; do
    ranks_start 2 train "${small[@]}" --epochs 1000 --checkpoint-steps 1 --rank-timeout 1 --out "$work/$signal"
    ranks_await '^Epoch: \[0\]\[1/3\]'
    kill -$signal "${pids[1]}"
    wait "${pids[0]}"
    [ $? -eq 1 ] || fail "rank 0 did not end with status 1"
    grep -q 'error: rank 1 on .* is lost' "$work/0.stderr" || fail "rank 0 does not name rank 1"
    kill -KILL "${pids[1]}" 2>/dev/null
    ranks_finish
    headrace_ok train --resume auto --out "$work/$signal" --steps 1
done

# More processes than devices.
STANDIN_DEVICES=1 ranks 2 train "${small[@]}" --out "$work/crowded"
expect_statuses 2 2
expect_stderr 'GPU 0 of rank 1 is GPU 0 of rank 0 too: start at most as many processes on a machine as it has GPUs'
refute_file "$work/crowded/log.jsonl"

# The same under mpirun.
command -v mpirun >/dev/null || exit 0
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run mpirun --oversubscribe -np 2 "$HEADRACE_BIN" train "${small[@]}" --steps 1 --out "$work/mpi"
expect_status 0
expect_stdout '^2 processes on 1 machine, joined by MPI '
weights_are two mpi
