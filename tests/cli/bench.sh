#!/usr/bin/env bash
# headrace bench: orders, memory, and what the loader says of itself.
source tests/cli/lib.sh

need_data cifar10.tar
headrace_ok pack "$HEADRACE_DATA/cifar10.tar" --prefix val -o "$work/set.idx"

for order in shuffle "window --window 100" sequential; do
    # shellcheck disable=SC2086 # options of their own
    headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1 --order $order
    expect_stdout '^pass 0: 1536 images in .* images/s, .*; loader: read [0-9]+ %, decode [0-9]+ %, waited for batches [0-9.e-]+ s of [0-9.]+ s$'
done
headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1 --mode eval --memory 16M --json
expect_stdout '"version": ?1, .*"images": ?1500, .*"read_seconds": ?[0-9].*"decode_seconds": ?[0-9].*"wait_seconds": ?[0-9].*"memory_bytes": ?[0-9]+'
# Threads that did little held little: it is no sum of what they might have held.
headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1 -j 100 --json
[ "$(grep -oE '"memory_bytes": ?[0-9]+' "$stdout" | grep -oE '[0-9]+$')" -lt 50000000 ] || fail "100 threads need no 50 MB for images of 32 pixels"
headrace bench "$work/set.idx" --memory 1M
expect_error 2 '1000000 bytes of memory are too few: .* need [0-9]+; give --memory as much'
headrace bench "$work/set.idx" -b 65536 --image-size 4096
expect_error 2 '3 batches of [0-9]+ bytes are more than the [0-9]+ bytes of memory that this machine has'
headrace bench "$work/set.idx" --order random
expect_error 2 'shuffle, window, sequential|shuffle.*window.*sequential'

# An image that cannot be read ends it, or is counted.
printf 'xxxx' | dd of="$work/set-00000.shard" bs=1 seek=100000 conv=notrunc status=none
headrace bench "$work/set.idx" --image-size 16 --epochs 1
expect_error 1 'their CRC is .*; --on-error skip goes on without such images$'
headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1 --mode eval --on-error skip
expect_stdout '^pass 0: 1500 images, 1 of them unreadable in '
expect_stderr 'warning: .*their CRC is .*; its place stays empty$'
headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1 --mode eval --on-error skip --json
expect_stdout '"bad_records": ?1,'
