#!/usr/bin/env bash
# Commands on indexes and shards behind URLs: nginx with TLS and a password, certificates that are no good, origins.
source tests/cli/lib.sh
need_data cifar10.tar
need_tool openssl
PATH=$PATH:/usr/sbin
need_tool nginx
leave_settings

mkdir -p "$work/files" "$work/served"
tar -C "$work/files" -xf "$HEADRACE_DATA/cifar10.tar" val/bird val/cat
cp "$HEADRACE_DATA/cifar10.tar" "$work/served/cifar10.tar"
headrace_ok pack "$work/files/val" -o "$work/served/val.idx" --shard-size 100k
headrace_ok pack "$work/served/cifar10.tar" --prefix val --in-place -o "$work/served/tar.idx"

# nginx, as the example has it.
scripts/serve_example.sh "$work/served" "$work/state" >"$work/serving" 2>&1 &
servers+=($!)
for _ in $(seq 200); do
    [ ! -s "$work/state/nginx.pid" ] || break
    sleep 0.05
done
read -r -a typed <"$work/state/headrace-line"
headrace_ok "${typed[@]:1}"
expect_stdout '^images +[0-9]+, '
expect_stdout '^index +https://127.0.0.1:[0-9]+/tar.idx$'
access=("${typed[@]:3}")
url=${typed[2]%/*}
for name in val tar; do
    headrace_ok ls "$work/served/$name.idx" --json
    sed 's/"shard": "[^"]*"//' "$stdout" >"$work/local"
    headrace_ok ls "$url/$name.idx" "${access[@]}" --json
    expect_stdout "\"shard\": \"$url/"
    sed 's/"shard": "[^"]*"//' "$stdout" >"$work/remote"
    expect_same "$work/local" "$work/remote"
    headrace_ok verify "$url/$name.idx" "${access[@]}" --quiet
done
headrace_ok verify "$url/val.idx?sign=sEcReT" "${access[@]}" --quiet
expect_stdout "^$url/val.idx: index$"
grep -q "note: '$url/val.idx?…': what follows the ? goes with the index alone" "$stderr" || fail "nothing is said of the shards"
! grep sEcReT "$stdout" "$stderr" || fail "a query is shown"
headrace_ok unpack "$url/val.idx" "$work/again" "${access[@]}" --quiet
expect_same "$work/files/val" "$work/again"
headrace_ok show "$url/val.idx" -o "$work/a.png" -n 9 "${access[@]}"
headrace_ok show "$work/served/val.idx" -o "$work/b.png" -n 9
expect_same "$work/a.png" "$work/b.png"
headrace_ok bench "$url/val.idx" --image-size 32 --epochs 1 -j 4 "${access[@]}"
expect_stdout '^pass 0: 320 images'
headrace_ok pack "$url/val.idx" -o "$work/packed.idx" --quiet "${access[@]}"
headrace_ok pack "$work/served/val.idx" -o "$work/expected.idx" --quiet
expect_same "$work/packed-00000.shard" "$work/expected-00000.shard"

# A selection of what a server has is an index here, over shards there; its own shard is an index too.
headrace_ok select "$url/val.idx" --every 3 -o "$work/third.idx" "${access[@]}"
headrace_ok verify "$work/third.idx" "${access[@]}" --quiet
headrace_ok info "$work/third.idx"
expect_stdout "^shard 0 +$url/val-00000.shard, packed"
headrace_ok select "$url/val-00000.shard" -o "$work/first.idx" "${access[@]}"
headrace_ok verify "$work/first.idx" "${access[@]}" --quiet
! grep -aq "$(cat "$work/state/password")" "$work"/*.idx || fail "an index holds the password"

# The environment and a netrc file in the place of options.
export HEADRACE_CA_FILE=$work/state/certificate.pem
HEADRACE_USER=reader HEADRACE_PASSWORD=$(cat "$work/state/password") headrace_ok info "$url/val.idx"
echo "machine 127.0.0.1 login reader password $(cat "$work/state/password")" >"$HOME/.netrc"
headrace_ok info "$url/val.idx"
rm "$HOME/.netrc"
headrace info "$url/val.idx"
expect_error 1 "val.idx': .*asks who we are \(401\): give --user"
HEADRACE_USER=reader HEADRACE_PASSWORD=wrong headrace info "$url/val.idx"
expect_error 1 "refuses the user 'reader' with this password"
refute_stderr 'wrong'
unset HEADRACE_CA_FILE

# Training and evaluating.
headrace_ok select "$work/served/val.idx" --every 40 -o "$work/served/train.idx"
cp "$work/served/val.idx" "$work/whole.idx"
cp "$work/served/train.idx" "$work/served/val.idx"
headrace_ok train --data "$url" -a resnet18 --image-size 32 -b 4 --steps 2 --epochs 1 \
    --device reference --out "$work/run" "${access[@]}"
! grep -rq "$(cat "$work/state/password")" "$work/run" || fail "a run holds the password"
headrace_ok replay "$work/run" --step 1 "${access[@]}"
headrace_ok train --val "$url/val.idx" -e --resume "$work/run" --device reference "${access[@]}"
mv "$work/whole.idx" "$work/served/val.idx"

# Whom not to trust.
headrace info "$url/val.idx" --user reader --password-file "$work/state/password"
expect_error 1 "certificate is not trusted: .*self.signed certificate.*--ca-file"
openssl req -new -newkey rsa:2048 -nodes -keyout "$work/key.pem" -out "$work/request" -subj /CN=localhost 2>/dev/null
certify() # DAYS NAME
{
    openssl x509 -req -in "$work/request" -signkey "$work/key.pem" -days "$1" -out "$work/certificate.pem" \
        -extfile <(echo "subjectAltName=$2") 2>/dev/null
    cat "$work/certificate.pem" "$work/key.pem" >"$work/both.pem"
}
certify -1 IP:127.0.0.1
serve --certificate "$work/both.pem"
headrace info "https://127.0.0.1:$port/fine/val.idx" --ca-file "$work/certificate.pem"
expect_error 1 'certificate is not trusted: .*expired'
certify 1 DNS:elsewhere
serve --certificate "$work/both.pem"
headrace info "https://127.0.0.1:$port/fine/val.idx" --ca-file "$work/certificate.pem"
expect_error 1 'certificate is not trusted: .*subject name'
headrace info "https://127.0.0.1:$port/fine/val.idx" --ca-file "$work/none.pem"
expect_error 1 'no file .*none.pem'

# Two origins, of which one ends in the middle of the first pass: the same batches.
serve --die-after 100
first=$port
serve
headrace_ok bench "$work/served/val.idx" --image-size 32 --epochs 2 -j 4 --origins "http://127.0.0.1:$first/fine,http://127.0.0.1:$port/fine"
expect_stdout '^pass 1: 320 images'
headrace_ok verify "http://127.0.0.1:$first/fine/val.idx" --quiet --origins "127.0.0.1:$first,127.0.0.1:$port"

# What is behind a URL is found wanting as what is here.
headrace verify "http://127.0.0.1:$port/corrupt/val.idx" --quiet
expect_status 3
expect_stdout 'they are damaged: their CRC is'
headrace verify "http://127.0.0.1:$port/missing/val.idx" --quiet
expect_status 3
expect_stdout 'val-00000.shard.*it is not there \(the server answers 404\)'

# Nothing is written to a URL, and no password stands in one.
for command in "pack $work/files/val -o" "select $work/served/val.idx -o" "unpack $work/served/val.idx"; do
    # shellcheck disable=SC2086 # a command line
    headrace $command "http://127.0.0.1:$port/x.idx"
    expect_error 2 'is a URL, which is read only: write to a folder here'
done
headrace info "http://me:hidden@127.0.0.1:$port/fine/val.idx"
expect_error 2 "'http://127.0.0.1:[0-9]+/fine/val.idx' holds a user or a password"
refute_stderr hidden
headrace pack "http://127.0.0.1:$port/fine/val.idx" -o "$work/out/"
expect_error 2 'is one index; give -o NAME.idx'

# Who meets no URL does not load what reads them.
if command -v ldd >/dev/null; then
    run ldd "$(dirname "$HEADRACE_BIN")/libheadrace.so"
    refute_stdout libcurl
fi
