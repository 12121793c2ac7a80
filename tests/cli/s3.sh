#!/usr/bin/env bash
# Shards in a bucket of moto's S3 server, which checks signatures by an implementation of its own.
source tests/cli/lib.sh
need_data cifar10.tar
export PYTHONPATH=${MOTO:-build/deps/moto}
if ! python3 -c 'import boto3, moto.server' 2>/dev/null; then
    [ "${HEADRACE_REQUIRE_DATA:-}" != 1 ] || fail "moto is missing"
    skip "there is no moto (scripts/setup.sh --test fetches it)"
fi
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY AWS_PROFILE AWS_SESSION_TOKEN AWS_ENDPOINT_URL_S3
export HOME=$work

mkdir "$work/bucket"
headrace_ok pack "$HEADRACE_DATA/cifar10.tar" --prefix val -o "$work/bucket/all of it.idx" --quiet
headrace_ok select "$work/bucket/all of it.idx" --every 100 -o "$work/bucket/few.idx"
mkfifo "$work/input"
sleep 1000 >"$work/input" &
holder=$!
python3 tests/support/s3_server.py "$work/bucket" <"$work/input" >"$work/server" 2>"$work/server.log" &
server=$!
trap 'kill "$holder" "$server" 2>/dev/null; wait; rm -rf "$work"' EXIT
for _ in $(seq 600); do
    [ ! -s "$work/server" ] || break
    sleep 0.1
done
read -r port key secret <"$work/server" || fail "the server did not start: $(tail -n 1 "$work/server.log")"

export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_REGION=eu-west-1
export AWS_ACCESS_KEY_ID=$key AWS_SECRET_ACCESS_KEY=$secret
headrace_ok verify "s3://shards/data set/few.idx" --quiet
headrace_ok info "s3://shards/data set/few.idx"
expect_stdout '^shard 0 +s3://shards/data set/all of it-00000.shard, packed'
headrace_ok unpack "s3://shards/data set/few.idx" "$work/remote" --quiet
headrace_ok unpack "$work/bucket/few.idx" "$work/local" --quiet
expect_same "$work/remote" "$work/local"

AWS_SECRET_ACCESS_KEY=another headrace info "s3://shards/data set/few.idx"
expect_error 1 'the server refuses \(403\): is the key right, and may it read this\?'
headrace info "s3://shards/data set/none.idx"
expect_error 1 "none.idx': .*(it is not there|refuses \(403\))"
