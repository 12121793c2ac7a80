#!/usr/bin/env bash
# Everything that preparation does, at the size of ImageNet: a synthetic training archive with the 1000
# published classes and their 1,281,167 images, tiny ones (2 GB in all), is extracted, verified as a folder
# and as an archive, packed in place and opened. The peer of extraction is the loop of the TencentOS guide
# with a sync at its end. Prints seconds and peak memory; wrong counts or more than 256 MB are failures.
# Usage: scripts/bench_full_size.sh [--no-peer]      Needs 14 GB and 2.6 million inodes in TMPDIR, or half.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
headrace=$root/build/headrace
images=1281167
max_memory_mb=256
sets=2
[ "${1:-}" != --no-peer ] || sets=1
work=$(mktemp -d "${TMPDIR:-/tmp}/headrace-full-size.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() { echo "bench_full_size: $*" >&2; exit 1; }

read -r free_kb free_inodes < <(df --output=avail,iavail -k "$work" | tail -n 1)
((free_kb > 2000000 + sets * 6000000)) || fail "$work has only $((free_kb / 1000000)) GB free"
((free_inodes == 0 || free_inodes > sets * (images + 2000))) || fail "$work has only $free_inodes inodes free"

scripts/make_train_tar.py "$work/train.tar"
cd "$work"

measure() # WHAT COMMAND...
{
    local what=$1 seconds memory_mb
    shift
    "$root/scripts/measure.py" measured "$@" >output 2>&1 || { cat output; fail "$what failed"; }
    read -r seconds memory_mb <measured
    printf '| %s | %s s | %s MB |\n' "$what" "$seconds" "$memory_mb"
    ((memory_mb <= max_memory_mb)) || fail "$what took more than $max_memory_mb MB of memory"
}

expect_output() { grep -qF "$1" output || { cat output; fail "expected \"$1\""; }; }

echo "| | time | memory |"
echo "|---|---|---|"
if ((sets == 2)); then
    # shellcheck disable=SC2016 # expanded by the shell that runs it
    measure "tar, the loop, sync" bash -ec '
        mkdir loop
        tar -xf train.tar -C loop
        for inner in loop/*.tar; do
            mkdir "${inner%.tar}"
            tar -xf "$inner" -C "${inner%.tar}"
            rm "$inner"
        done
        sync -f loop'
fi
measure "extract" "$headrace" extract train.tar train
expect_output "train: $images images in 1000 classes"
measure "extract, all there already" "$headrace" extract train.tar train
expect_output "all were there already"
measure "verify a folder" "$headrace" verify train
expect_output "nothing is wrong"
measure "verify an archive" "$headrace" verify train.tar
expect_output "nothing is wrong"
measure "pack --in-place" "$headrace" pack train.tar --in-place -o train.idx
expect_output "train.idx: $images images in 1000 classes"
measure "info" "$headrace" info train.idx
expect_output "images        $images"

found=$(find train -type f | wc -l)
((found == images)) || fail "$found files, expected $images"
[ $sets -eq 1 ] || diff -rq loop train
