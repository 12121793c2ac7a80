#!/usr/bin/env bash
# Compares training in N processes of a thread each with one process of N threads, by the same global batch, in turns.
# Prints the median images a second of both and their ratio, and exits with 3 where that is below WANTED.
# Usage: scripts/bench_ranks.sh [RANKS [ARCH [BATCH [TURNS [STEPS]]]]]     (2 resnet50 64 3 5)
set -euo pipefail
cd "$(dirname "$0")/.."

ranks=${1:-2} arch=${2:-resnet50} batch=${3:-64} turns=${4:-3} steps=${5:-5}
wanted=${WANTED:-0.9}
mpirun=${MPIRUN:-mpirun}
headrace=build/headrace
command -v "$mpirun" >/dev/null || { echo "bench_ranks: there is no $mpirun: install openmpi-bin" >&2; exit 1; }
make -j"$(nproc)" --no-print-directory --silent all
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Open MPI runs nothing as root unless it is told twice.
[ "$(id -u)" -ne 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Trains and adds the rate of each step but the first two to FILE.
turn() # FILE THREADS COMMAND...
{
    local file=$1 threads=$2
    shift 2
    rm -rf "$work/run"
    "$@" "$headrace" train --synthetic --arch "$arch" --batch-size "$batch" --steps $((steps + 2)) --threads "$threads" \
        --print-freq 1 --out "$work/run" >"$work/lines"
    sed -n 's/.*"kind": "train".*"images_per_second": \([0-9.]*\).*/\1/p' "$work/run/log.jsonl" | tail -n +3 >>"$file"
}

median() # FILE
{
    sort -n "$1" | awk '{ value[NR] = $1 } END { print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'
}

for ((i = 0; i < turns; i++)); do
    turn "$work/one" "$ranks" env
    turn "$work/many" 1 "$mpirun" -np "$ranks"
done
one=$(median "$work/one") many=$(median "$work/many")
ratio=$(awk "BEGIN { printf \"%.3f\", $many / $one }")
echo "$arch, batch $batch: one process of $ranks threads $one images/s, $ranks processes of a thread $many images/s: $ratio x"
awk "BEGIN { exit !($ratio < $wanted) }" || exit 0
echo "bench_ranks: $wanted was wanted" >&2
exit 3
