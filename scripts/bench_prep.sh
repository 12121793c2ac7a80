#!/usr/bin/env bash
# headrace extract against the loop of the TencentOS guide, alternately on the same training archive; prints the ratio of each round and
# their median. headrace syncs what it writes, the loop does not.
# Usage: scripts/bench_prep.sh [ARCHIVE [ROUNDS]]
set -euo pipefail
cd "$(dirname "$0")/.."

archive=$(realpath "${1:-../shared/data/ILSVRC2012_img_train.tar}")
rounds=${2:-3}
headrace=$PWD/build/headrace
work=$(mktemp -d "${TMPDIR:-/tmp}/headrace-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

guide_loop()
{
    local inner folder
    mkdir train
    tar -xf "$archive" -C train
    for inner in train/*tar; do
        folder=train/$(basename "$inner" .tar)
        mkdir "$folder"
        tar -xf "$inner" -C "$folder"
        rm -f "$folder.tar"
    done
}

seconds_of() # COMMAND...
{
    local start=$EPOCHREALTIME
    "$@"
    awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
}

cat "$archive" >/dev/null # both read it from the page cache
for ((i = 1; i <= rounds; i++)); do
    rm -rf train ours
    loop=$(seconds_of guide_loop)
    ours=$(seconds_of "$headrace" extract "$archive" ours --quiet)
    diff -r train ours
    awk -v i="$i" -v a="$loop" -v b="$ours" \
        'BEGIN { printf "round %d: loop %.2f s, headrace %.2f s, ratio %.1f\n", i, a, b, a / b }' | tee -a ratios
done
awk '{ print $NF }' ratios | sort -n | awk '{ r[NR] = $1 } END { print "median ratio: " r[int((NR + 1) / 2)] }'
