#!/usr/bin/env bash
# headrace fetch, and --cache of the commands that load batches.
source tests/cli/lib.sh

need_data cifar10.tar
unset HEADRACE_CACHE HEADRACE_CACHE_SIZE
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

# Many small records: it is their number that does not fit, which is said.
headrace_ok fetch "$work/set.idx" --cache "$work/small" --cache-size 4M --as-stored --quiet
expect_stdout ' [1-9][0-9]* did not fit; 0 made dct;'
expect_stdout '^a cache of this size holds at most [0-9]+ records, however small they are; give it a larger --cache-size$'

# Four processes at once, of which each wants other records or another order, in a cache that has room for some of them.
headrace_ok pack "$work/set.idx" -o "$work/jpeg.idx" --encoding jpeg --quiet
at_once() # ARGUMENT...
{
    local commands=() rank
    for rank in 0 1 2 3; do
        commands+=("exec '$HEADRACE_BIN' ${*//RANK/$rank} --cache '$work/shared' --cache-size 1100k")
    done
    run python3 tests/support/folder_peak.py "$work/shared" "${commands[@]}"
    expect_status 0
    [ "$(cat "$stdout")" -le 1100000 ] || fail "the cache was larger than --cache-size: $(cat "$stdout") bytes"
    [ "$(cat "$stdout")" -ge 1000000 ] || fail "the cache was not used: $(cat "$stdout") bytes"
}
at_once fetch "$work/jpeg.idx" --part RANK/4 --quiet
at_once bench "$work/jpeg.idx" --image-size 16 --epochs 2 -j 2 --seed RANK
rm -r "$work/shared"
at_once bench "$work/jpeg.idx" --image-size 16 --epochs 1 -j 2 --seed RANK

# Parts cover the set once, in its order, however many there are of them.
headrace_ok select "$work/set.idx" --every 300 -o "$work/five.idx"
for part in 0 1 2; do
    headrace_ok fetch "$work/five.idx" --cache "$work/few" --cache-size 4M --part $part/3 --quiet
    expect_stdout ": $((part < 2 ? 2 : 1)) of $((part < 2 ? 2 : 1)) records fetched .*, 0 were there"
done
headrace_ok fetch "$work/five.idx" --cache "$work/few" --part 4/7 --quiet
expect_stdout ': 0 of 1 records fetched .*, 1 were there'
for part in 5/7 18446744073709551614/18446744073709551615; do
    headrace_ok fetch "$work/five.idx" --cache "$work/few" --part $part --quiet
    expect_stdout ': 0 of 0 records fetched .*, 0 were there'
done

# The environment says what options do not.
HEADRACE_CACHE=$cache headrace_ok fetch "$work/set.idx" --quiet
expect_stdout "^$cache: 0 of 1500 records fetched"
HEADRACE_CACHE=$cache HEADRACE_CACHE_SIZE=1 headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1 --cache-size 32M
expect_stdout '^pass 0: .*; cache: 1536 of 1536 in it, 0 B fetched'
HEADRACE_CACHE=$work/absent HEADRACE_CACHE_SIZE=32M headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1 --cache "$cache"
expect_stdout '^pass 0: .*; cache: 1536 of 1536 in it'
HEADRACE_CACHE=$work/absent headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1 --cache ''
refute_stdout 'cache:'
refute_file "$work/absent"
HEADRACE_CACHE_SIZE=1 headrace_ok bench "$work/set.idx" --image-size 16 --epochs 1
refute_stdout 'cache:'
HEADRACE_CACHE=$work/named HEADRACE_CACHE_SIZE=4M headrace_ok fetch "$work/five.idx" --quiet
expect_stdout "^$work/named: 5 of 5 records fetched"
HEADRACE_CACHE_SIZE=plenty headrace bench "$work/set.idx"
expect_error 2 "HEADRACE_CACHE_SIZE is 'plenty', expected a size in bytes such as 200G"

headrace fetch "$work/set.idx" --cache "$work/none"
expect_error 2 "holds no cache whose size could be kept; give one: --cache-size"
headrace fetch "$work/set.idx"
expect_error 2 'no cache to fill: name its folder with --cache'
for part in 4/4 3/2 0/0 -1/4 1/-4 1/ /4 4 1/4/4 '' 99999999999999999999/1; do
    headrace fetch "$work/set.idx" --cache "$cache" --part "$part"
    expect_error 2 "--part is '$part', expected a part and how many there are, for instance 0/4"
done
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
