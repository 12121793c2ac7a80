#!/usr/bin/env bash
# headrace fetch, and --cache of the commands that load batches.
source tests/cli/lib.sh

need_data cifar10.tar
headrace_ok pack "$HEADRACE_DATA/cifar10.tar" --prefix val -o "$work/set.idx"
cache="$work/cache"

headrace_ok bench "$work/set.idx" --image-size 16 --epochs 2 --cache "$cache" --cache-size 32M
expect_stdout '^pass 0: .*; cache: [0-9]+ of 1536 in it, [0-9.]+ [kM]B fetched, [0-9]+ made dct$'
expect_stdout '^pass 1: .*; cache: 1536 of 1536 in it, 0 B fetched, [0-9]+ made dct$'
headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1 --mode eval --cache "$cache" --json
expect_stdout '"cache_hits": ?1500, .*"fetched": ?0, .*"fetched_bytes": ?0, .*"converted": ?[0-9]+, .*"fetch_wait_seconds": ?[0-9]'
[ "$(cat "$cache"/* | wc -c)" -le 32000000 ] || fail "the cache is larger than --cache-size"

# Parts of a folder that another run fills; a smaller size keeps what fits.
headrace_ok fetch "$work/set.idx" --cache "$work/parts" --cache-size 32M --part 1/4 --as-stored --quiet
expect_stdout ': 375 of 375 records fetched \(.*\), 0 were there, 0 did not fit; 0 made dct; .* of 3[0-9.]+ MB in use$'
headrace_ok fetch "$work/set.idx" --cache "$work/parts" --quiet --json
expect_stdout '"records": ?1500, .*"fetched": ?1125, .*"held": ?375, .*"no_room": ?0'
headrace_ok fetch "$work/set.idx" --cache "$work/parts" --cache-size 4M --quiet --json
expect_stdout '"no_room": ?[1-9]'
[ "$(cat "$work/parts"/* | wc -c)" -le 4000000 ] || fail "the cache is larger than --cache-size"

headrace fetch "$work/set.idx" --cache "$work/none"
expect_error 2 "holds no cache whose size could be kept; give one: --cache-size"
headrace fetch "$work/set.idx"
expect_error 2 'no cache to fill: name its folder with --cache'
headrace fetch "$work/set.idx" --cache "$cache" --part 4/4
expect_error 2 'expected a part and how many there are, for instance 0/4'
headrace bench "$work/set.idx" --cache-size 4M
expect_error 2 '--cache-size goes with --cache DIR'
headrace bench "$work/set.idx" --cache "$cache" --cache-size 4k
expect_error 2 'a cache of 4000 bytes is too small, expected at least 1048576'
echo "mine" >"$work/none/headrace-cache.table"
headrace bench "$work/set.idx" --cache "$work/none" --cache-size 4M
expect_error 1 "is not the table of a cache; remove it and '.*', or give another folder"
chmod -R a-w "$cache"
headrace_unprivileged bench "$work/set.idx" --cache "$cache"
expect_error 1 'headrace-cache.table.*[Pp]ermission denied'
