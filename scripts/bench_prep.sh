#!/usr/bin/env bash
# headrace extract against tar: the outer archive, then each of its members, as the loop of the TencentOS
# guide does it. Takes turns, also in going first; both have synced what they wrote when the clock stops, and
# the archive is not in the page cache when it starts. Prints the ratio of each round and their median.
# Usage: scripts/bench_prep.sh [ARCHIVE [ROUNDS]]
#        scripts/bench_prep.sh --large GB [ROUNDS]    a synthetic archive of 8 classes with GB gigabytes
# The memory that headrace needs is printed too; more than 256 MB is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
headrace=$root/build/headrace
max_memory_mb=256
class_count=8
image_bytes=110000
work=$(mktemp -d "${TMPDIR:-/tmp}/headrace-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

make_large() # GB
{
    local free_kb
    # The archive, its members, their images, and headrace's images.
    free_kb=$(df --output=avail -k "$work" | tail -n 1)
    if ((free_kb < $1 * 1000000 * 4)); then
        echo "bench_prep: $work has $((free_kb / 1000000)) GB free, $(($1 * 4)) are needed" >&2
        exit 1
    fi
    scripts/make_train_tar.py "$work/large.tar" --image-bytes $image_bytes --classes $class_count \
        --class-images $(($1 * 1000000000 / class_count / (image_bytes + 500)))
}

if [ "${1:-}" = --large ]; then
    make_large "${2:?GB}"
    archive=$work/large.tar
    rounds=${3:-4}
else
    archive=$(realpath "${1:-../shared/data/ILSVRC2012_img_train.tar}")
    rounds=${2:-4}
fi
cd "$work"

# shellcheck disable=SC2016 # expanded by the shell that runs it
guide_loop='
    mkdir train
    tar -xf "$1" -C train
    for inner in train/*tar; do
        folder=train/$(basename "$inner" .tar)
        mkdir "$folder"
        tar -xf "$inner" -C "$folder"
        rm -f "$folder.tar"
    done
    sync -f train'

run_tar() { "$root/scripts/measure.py" tar.measure bash -ec "$guide_loop" bash "$archive"; }
run_headrace() { "$root/scripts/measure.py" headrace.measure "$headrace" extract "$archive" ours --quiet; }

declare -A made_by=([run_tar]=train [run_headrace]=ours)

forget_archive() { dd if="$archive" iflag=nocache count=0 status=none; }

for ((i = 1; i <= rounds; i++)); do
    order=(run_tar run_headrace)
    ((i % 2)) || order=(run_headrace run_tar)
    for run in "${order[@]}"; do
        rm -rf "${made_by[$run]}"
        sync -f .
        forget_archive
        "$run"
    done
    read -r tar_seconds _ <tar.measure
    read -r seconds memory_mb <headrace.measure
    awk -v i="$i" -v a="$tar_seconds" -v b="$seconds" -v m="$memory_mb" 'BEGIN {
        printf "round %d: tar %.2f s, headrace %.2f s and %d MB of memory, ratio %.2f\n", i, a, b, m, a / b }' | tee -a ratios
    if ((memory_mb > max_memory_mb)); then
        echo "bench_prep: more than $max_memory_mb MB of memory" >&2
        exit 1
    fi
done

diff -r train ours
awk '{ print $NF }' ratios | sort -n | awk '{ r[NR] = $1 } END { print "median ratio: " (r[int((NR + 1) / 2)] + r[int(NR / 2) + 1]) / 2 }'
