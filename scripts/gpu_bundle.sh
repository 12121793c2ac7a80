#!/usr/bin/env bash
# Puts together what scripts/gpu_check.sh needs on a machine that builds nothing: the program, its library, the CUDA
# module, tests, the shared libraries that such a machine may lack, and at most 20 MB of records. `make gpu-bundle` calls it.
# Usage: scripts/gpu_bundle.sh DEST MODULE TEST...
# Records come from the archives in HEADRACE_DATA (default ../shared/data); RECORDS=drawn takes make-demo's images.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
headrace=$build/headrace
data=${HEADRACE_DATA:-../shared/data}
max_record_bytes=20000000
# Of the thousand training images and the thirteen hundred of validation that the archives hold.
train_every=8 val_every=16

dest=$1 module=$2
shift 2
work=$(mktemp -d)
trap '[ $? -eq 0 ] || cat "$work/said" >&2; rm -rf "$work"' EXIT

# Those of the machine that a driver, the toolkit or any Linux brings are left out.
copy_libraries() # FILE...
{
    local path
    ldd "$@" | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u |
        grep -vE '/(ld-linux|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libcuda|libcudnn|libnccl|libheadrace)[.-]' |
        while read -r path; do cp -L "$path" "$dest/lib/"; done
}

drawn_records()
{
    "$build/make-demo" "$work/tars" --train 2 --val 1
    "$headrace" prep "$work/tars" "$work/images"
    "$headrace" pack "$work/images" -o "$dest/records/" -q
}

real_records()
{
    "$headrace" pack "$data/ILSVRC2012_img_train.tar" --in-place -o "$work/train.idx" -q
    "$headrace" pack "$data/ILSVRC2012_img_val.tar" --in-place --devkit "$data/ILSVRC2012_devkit_t12.tar.gz" -o "$work/val.idx" -q
    "$headrace" select "$work/train.idx" --every $train_every -o "$work/some_train.idx"
    "$headrace" select "$work/val.idx" --every $val_every -o "$work/some_val.idx"
    "$headrace" pack "$work/some_train.idx" -o "$dest/records/train.idx" -q
    "$headrace" pack "$work/some_val.idx" -o "$dest/records/val.idx" -q
}

rm -rf "$dest"
mkdir -p "$dest/bin" "$dest/lib/headrace" "$dest/tests" "$dest/records"
cp scripts/gpu_check.sh scripts/gpu_check_speed.py scripts/gpu_check_peer.py "$dest/"
cp "$headrace" "$dest/bin/"
cp "$build/libheadrace.so" "$dest/lib/"
cp "$module" "$dest/lib/headrace/"
cp "$@" "$dest/tests/"
copy_libraries "$headrace" "$build/libheadrace.so" "$module" "$@"
strip --strip-debug "$dest"/bin/* "$dest"/lib/*.so* "$dest"/lib/headrace/* "$dest"/tests/*

# What this prints is shown where it fails.
if [ "${RECORDS:-}" = drawn ]; then drawn_records; else real_records; fi >"$work/said" 2>&1
bytes=$(du -sb "$dest/records" | cut -f 1)
if [ "$bytes" -gt $max_record_bytes ]; then
    echo "gpu_bundle: the records take $bytes bytes, at most $max_record_bytes were meant: take fewer images" >&2
    exit 1
fi
