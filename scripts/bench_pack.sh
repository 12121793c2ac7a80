#!/usr/bin/env bash
# How fast packing is, as ratios of peers from the same run, the archive being in the page cache:
#   pack      against  cp ARCHIVE COPY && sync COPY
#   in place  against  extracting with tar (the outer archive, then each inner one)
# Usage: scripts/bench_pack.sh [ARCHIVE [ROUNDS [FOLDER]]]
# ARCHIVE: a training archive (default: the one in HEADRACE_DATA); FOLDER: where to write (default: TMPDIR).
# Prints the median of each ratio; above 1 the program is the faster one.
set -euo pipefail
cd "$(dirname "$0")/.."

archive=${1:-${HEADRACE_DATA:-../shared/data}/ILSVRC2012_img_train.tar}
rounds=${2:-7}
folder=$(mktemp -d "${3:-${TMPDIR:-/tmp}}/headrace-bench.XXXXXX")
trap 'rm -rf "$folder"' EXIT
program=$PWD/build/headrace

# Seconds that a command takes; what it wrote is removed before the next.
seconds() # COMMAND...
{
    local begin end
    begin=$(date +%s.%N)
    "$@" >"$folder/.log" 2>&1 || { cat "$folder/.log" >&2; exit 1; }
    end=$(date +%s.%N)
    find "$folder" -mindepth 1 -delete
    sync -f "$folder"
    awk "BEGIN { print $end - $begin }"
}

copy() { cp "$archive" "$folder/copy" && sync "$folder/copy"; }
pack() { "$program" pack "$archive" -o "$folder/set.idx"; }
in_place() { "$program" pack "$archive" --in-place -o "$folder/set.idx"; }
extract()
{
    tar -C "$folder" -xf "$archive"
    for inner in "$folder"/*.tar; do
        mkdir "${inner%.tar}"
        tar -C "${inner%.tar}" -xf "$inner"
        rm "$inner"
    done
}

median() { sort -n | awk '{ v[NR] = $1 } END { printf "%.2f\n", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

# Both in turn, ROUNDS times: what the machine does besides meets both.
ratio() # PEER OURS
{
    local round
    for ((round = 0; round < rounds; round++)); do
        awk "BEGIN { print $(seconds "$1") / $(seconds "$2") }"
    done | median
}

cat "$archive" >/dev/null
echo "pack / (cp && sync), times as fast:  $(ratio copy pack)"
echo "in place / extracting, times as fast: $(ratio extract in_place)"
