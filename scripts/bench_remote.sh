#!/usr/bin/env bash
# How fast one thread decodes JPEG records that come from a server far away, beside the same from local files: nginx on
# 127.0.0.1 that takes 30 ms more for each request and fails 1 % of them, and a cache smaller than the set. Fetching,
# converting and nginx have the other core. The first pass fills the cache and is not counted. Takes turns, prints
# medians, and exits with 3 where the server's share is below 0.9.
# Usage: scripts/bench_remote.sh [ARCHIVE [ROUNDS [CACHE_SIZE]]]       (the mini set's train archive, 5, 64M)
#        EPOCHS=N, DELAY=SECONDS and FAILING=PERCENT in the environment change what their names say (4, 0.03, 1).
set -euo pipefail
cd "$(dirname "$0")/.."

archive=$(realpath "${1:-${HEADRACE_DATA:-../shared/data}/ILSVRC2012_img_train.tar}")
rounds=${2:-5} cache_size=${3:-64M} epochs=${EPOCHS:-4} delay=${DELAY:-0.03} failing=${FAILING:-1}
wanted=0.9
headrace=build/headrace
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY HEADRACE_ORIGINS
export PATH=$PATH:/usr/sbin

fail() { echo "bench_remote: $*" >&2; exit 1; }

# Where distributions keep nginx's modules.
module=$(compgen -G '/usr/lib*/nginx/modules/ngx_http_echo_module.so' | head -n 1 || true)
command -v nginx >/dev/null || fail "nginx is missing: scripts/setup.sh --test installs it"
[ -n "$module" ] || fail "nginx cannot wait: scripts/setup.sh --test installs libnginx-mod-http-echo"

work=$(mktemp -d "${TMPDIR:-/tmp}/headrace-bench-remote.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 711 "$work"
mkdir "$work/served" "$work/temporary"
cp --reflink=auto "$archive" "$work/served/train.tar" # a server gives out what is in the folder of the index
"$headrace" pack "$work/served/train.tar" --in-place -o "$work/served/train.idx" --quiet >/dev/null

# ---- the server ----

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
user=
[ "$(id -u)" -ne 0 ] || user="user root;"
cat >"$work/nginx.conf" <<CONF
load_module $module;
$user
daemon off;
pid $work/nginx.pid;
error_log $work/error.log crit;
worker_processes 1;
events { worker_connections 1024; }
http {
    log_format status "\$status";
    access_log $work/access.log status buffer=64k flush=1s;
    sendfile on;
    keepalive_requests 1000000;
    client_body_temp_path $work/temporary;
    proxy_temp_path $work/temporary;
    fastcgi_temp_path $work/temporary;
    uwsgi_temp_path $work/temporary;
    scgi_temp_path $work/temporary;
    split_clients \$request_id \$verdict { $failing% failing; * fine; }
    server {
        listen 127.0.0.1:$port;
        location / { echo_sleep $delay; echo_exec /\$verdict\$uri; }
        location /fine/ { internal; alias $work/served/; }
        location /failing/ { internal; return 503; }
    }
}
CONF
nginx -e "$work/error.log" -c "$work/nginx.conf" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server"; rm -rf "$work"' EXIT
url=http://127.0.0.1:$port/train.idx
for _ in $(seq 100); do
    [ ! -s "$work/nginx.pid" ] || break
    kill -0 "$server" 2>/dev/null || fail "nginx ended: $(tail -n 1 "$work/error.log")"
    sleep 0.1
done

# ---- measuring ----

# Appends the images a second of each pass but the first.
measure() # NAME OPTIONS...
{
    local name=$1
    shift
    "$headrace" bench "$@" -j 1 --epochs "$epochs" --image-size 224 --json >"$work/passes"
    grep -o '"images_per_second": *[0-9.e+]*' "$work/passes" | tail -n +2 | grep -o '[0-9.e+]*$' >>"$work/$name"
}
median() { sort -g "$work/$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

cat "$archive" >/dev/null
for ((round = 0; round < rounds; round++)); do
    measure local "$work/served/train.idx"
    rm -rf "$work/cache"
    measure remote "$url" --cache "$work/cache" --cache-size "$cache_size"
done
sleep 1.2 # until nginx has written its log

ratio=$(awk -v a="$(median remote)" -v b="$(median local)" 'BEGIN { printf "%.2f", a / b }')
echo "| one thread, JPEG records, ${delay} s a request, cache of $cache_size for a set of $(stat -c %s "$archive") bytes | images/s (median of $rounds x $((epochs - 1)) passes) |"
echo "|---|---|"
echo "| local files | $(median local) |"
echo "| server and cache | $(median remote) |"
echo "ratio $ratio; $(grep -c 206 "$work/access.log") ranges sent, $(grep -c 503 "$work/access.log" || true) requests failed"
awk -v ratio="$ratio" -v wanted="$wanted" 'BEGIN { exit ratio < wanted }' || { echo "bench_remote: $wanted was wanted" >&2; exit 3; }
