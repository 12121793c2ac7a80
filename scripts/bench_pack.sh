#!/usr/bin/env bash
# What packing and indexing cost beside cp, tar and the extraction that they replace, from page cache:
#   pack --encoding jpeg   against cp ARCHIVE COPY && sync COPY
#   pack --in-place        against headrace extract
# Takes turns, prints medians and ratios.   scripts/bench_pack.sh [ARCHIVE] [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/.."

archive=${1:-${HEADRACE_DATA:-../shared/data}/ILSVRC2012_img_train.tar}
rounds=${2:-7}
headrace=build/headrace
work=$(mktemp -d "${TMPDIR:-/tmp}/headrace-bench-pack.XXXXXX")
trap 'rm -rf "$work"' EXIT

copy_and_sync() { cp "$archive" "$work/copy.tar" && sync "$work/copy.tar"; }
pack() { "$headrace" pack "$archive" -o "$work/packed.idx" --encoding jpeg --quiet >/dev/null; }
pack_in_place() { "$headrace" pack "$archive" -o "$work/in-place.idx" --in-place --quiet >/dev/null; }
extract() { "$headrace" extract "$archive" "$work/extracted" --quiet >/dev/null; }
clear_outputs() { rm -rf "${work:?}"/* && sync; }

# Appends the seconds that a function takes to the file of its name.
measure() # FUNCTION
{
    clear_outputs
    local started=$EPOCHREALTIME
    "$1"
    echo "$started $EPOCHREALTIME" | awk '{ print $2 - $1 }' >>"$times/$1"
}

median() { sort -g "$times/$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

times=$(mktemp -d)
trap 'rm -rf "$work" "$times"' EXIT
cat "$archive" >/dev/null
for ((round = 0; round < rounds; round++)); do
    for what in copy_and_sync pack pack_in_place extract; do
        measure "$what"
    done
done

ratio() { awk -v a="$(median "$1")" -v b="$(median "$2")" 'BEGIN { printf "%.2f", a / b }'; }
echo "| | seconds (median of $rounds) | speed |"
echo "|---|---|---|"
echo "| cp and sync | $(median copy_and_sync) | |"
echo "| pack | $(median pack) | $(ratio copy_and_sync pack) x cp and sync |"
echo "| extract | $(median extract) | |"
echo "| pack --in-place | $(median pack_in_place) | $(ratio extract pack_in_place) x extract |"
