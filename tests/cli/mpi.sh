#!/usr/bin/env bash
# Under mpirun: the same numbers as over TCP, a launcher of another MPI is refused, a lost rank is named.
source tests/cli/lib.sh
need_tool mpirun
[ -e "${HEADRACE_MODULES:-build}/headrace-mpi.so" ] || fail "headrace-mpi.so was not built"

small=(--device reference --synthetic --synthetic-images 12 --synthetic-classes 4 --batch-size 6 --arch resnet18
    --image-size 32 --lr 0.01 --print-freq 1 --threads 1)
# Machines of tests run as root and have fewer cores than ranks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export HEADRACE_BIN work

# Rank R writes its process id to $work/R.pid and prints errors to $work/R.stderr.
# shellcheck disable=SC2016 # the ranks' own shells replace these
in_rank='echo $$ >"$work/$OMPI_COMM_WORLD_RANK.pid"; exec "$HEADRACE_BIN" "$@" 2>"$work/$OMPI_COMM_WORLD_RANK.stderr"'
mpi() { run mpirun -np "$1" bash -c "$in_rank" rank "${@:2}"; } # SIZE ARGUMENT...

mpi 3 train "${small[@]}" --epochs 1 --out "$work/mpi"
expect_status 0
expect_stdout "^3 processes on 1 machine, joined by MPI \(Open MPI's mpirun\)$"
expect_stdout '^batch 6 = 3 processes x 1 device x 2, lr 0\.01, not scaled; 12 images, 2 steps an epoch$'

# Without the module the same processes meet over TCP, and each sum has the same bits.
HEADRACE_MODULES=$work mpi 3 train "${small[@]}" --epochs 1 --out "$work/tcp"
expect_status 0
expect_stdout "joined by TCP \(Open MPI's mpirun\)$"
expect_same "$work/mpi/checkpoint.safetensors" "$work/tcp/checkpoint.safetensors"

# A launcher says two, MPI sees one.
run env PMI_RANK=0 PMI_SIZE=2 "$HEADRACE_BIN" train "${small[@]}" --epochs 1 --out "$work/single"
expect_error 2 'PMI_SIZE says that there are 2 processes, but MPI sees 1: .* another MPI'
refute_file "$work/single/checkpoint.safetensors"

# One is killed, one does not move: the others say so before mpirun ends them.
for signal in KILL STOP; do
    rm -f "$work"/*.pid "$work"/*.stderr
    mpirun -np 3 bash -c "$in_rank" rank train "${small[@]}" --epochs 1000 --rank-timeout 3 --out "$work/$signal" \
        >"$stdout" 2>"$stderr" </dev/null &
    pid=$!
    until grep -q '^Epoch: \[1\]' "$stdout" || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
    kill -$signal "$(cat "$work/2.pid")"
    wait $pid
    status=$?
    [ $status -ne 0 ] || fail "mpirun ended with status 0 after SIG$signal"
    grep -q 'rank 2 on ' "$work/0.stderr" "$work/1.stderr" || fail "rank 2 is not named: $(cat "$work"/[01].stderr)"
    for rank in 0 1 2; do
        while kill -0 "$(cat "$work/$rank.pid")" 2>/dev/null; do sleep 0.05; done
    done
    headrace_ok train --resume auto --out "$work/$signal" --launcher alone --steps 1
done
