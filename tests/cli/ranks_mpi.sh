#!/usr/bin/env bash
# mpirun: losses of two and four processes are those of one, by the same global batch and joint normalisation.
source tests/cli/lib.sh
command -v mpirun >/dev/null || skip "there is no mpirun (openmpi-bin)"
# Open MPI runs nothing as root unless it is told twice.
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

small=(--device reference --synthetic --synthetic-images 20 --synthetic-classes 4 --batch-size 8 --arch resnet18
    --image-size 32 --lr 0.002 --print-freq 1 --threads 1 --epochs 1)

losses() # RUN
{
    sed -n 's/.*"kind": "train".*"loss": \([^,]*\),.*/\1/p' "$work/$1/log.jsonl"
}

headrace_ok train "${small[@]}" --out "$work/1"
for size in 2 4; do
    run mpirun --oversubscribe -np $size "$HEADRACE_BIN" train "${small[@]}" --sync-bn --out "$work/$size"
    expect_status 0
    expect_stdout "^$size processes on 1 machine, joined by "
    expect_stdout "^batch 8 = $size processes x 1 device x $((8 / size)), lr 0\.002, not scaled; 20 images, 3 steps an epoch$"
    paste <(losses 1) <(losses $size) >"$work/pairs"
    [ "$(wc -l <"$work/pairs")" -eq 3 ] || fail "$size processes did not print three steps"
    awk '{ off = ($1 - $2) / $1; if (off > 1e-5 || off < -1e-5) exit 1 }' "$work/pairs" ||
        fail "the losses of one process and of $size: $(cat "$work/pairs")"
done

# Evaluation of what was trained, in any number of processes.
run mpirun --oversubscribe -np 3 "$HEADRACE_BIN" train -e --resume "$work/2" "${small[@]}" --batch-size 4
expect_status 0
grep '^ \* Acc@1' "$stdout" >"$work/three"
headrace_ok train -e --resume "$work/2" "${small[@]}" --batch-size 4
grep '^ \* Acc@1' "$stdout" >"$work/one"
expect_same "$work/one" "$work/three"

# What a launcher says it started, and did not.
OMPI_COMM_WORLD_SIZE=2 headrace train "${small[@]}" --out "$work/half"
expect_error 2 'OMPI_COMM_WORLD_'
refute_file "$work/half"
