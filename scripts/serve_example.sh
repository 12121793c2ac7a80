#!/usr/bin/env bash
# Serves a folder of indexes and shards with nginx, TLS and a password at a free port of 127.0.0.1, until Ctrl-C.
# It is an example of a server, to be copied from: real ones have a certificate that others trust, and listen to them.
# Usage: scripts/serve_example.sh FOLDER [STATE]    STATE: a folder for the configuration, certificate and password
#                                                   (default: a temporary one); `headrace-line` in it is printed too
set -euo pipefail

fail() { echo "serve_example: $*" >&2; exit 1; }

if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -d "$1" ]; then
    fail "usage: scripts/serve_example.sh FOLDER [STATE]"
fi
export PATH=$PATH:/usr/sbin
for tool in nginx openssl python3; do
    command -v "$tool" >/dev/null || fail "$tool is missing: scripts/setup.sh --test installs it"
done
folder=$(realpath "$1")
state=${2:-}
if [ -z "$state" ]; then
    state=$(mktemp -d)
    trap 'rm -rf "$state"' EXIT
fi
mkdir -p "$state/temporary"
state=$(realpath "$state")
chmod 711 "$state"

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
(umask 077; openssl rand -hex 16 >"$state/password")
echo "reader:$(openssl passwd -apr1 -in "$state/password")" >"$state/users"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
    -keyout "$state/key.pem" -out "$state/certificate.pem" 2>/dev/null

# Workers are the user who started this, so that they may read what that user may.
user=
[ "$(id -u)" -ne 0 ] || user="user root;"
cat >"$state/nginx.conf" <<END
$user
daemon off;
pid "$state/nginx.pid";
error_log "$state/error.log" warn;
worker_processes 2;
events { worker_connections 1024; }
http {
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    keepalive_requests 1000000; # a data set's worth over one connection
    client_body_temp_path "$state/temporary";
    proxy_temp_path "$state/temporary";
    fastcgi_temp_path "$state/temporary";
    uwsgi_temp_path "$state/temporary";
    scgi_temp_path "$state/temporary";
    server {
        listen 127.0.0.1:$port ssl http2;
        ssl_certificate "$state/certificate.pem";
        ssl_certificate_key "$state/key.pem";
        auth_basic "shards";
        auth_basic_user_file "$state/users";
        root "$folder";
    }
}
END

index=$(find "$folder" -name '*.idx' -printf '%P\n' | sort | head -n 1)
line="headrace info https://127.0.0.1:$port/${index:-NAME.idx} --user reader --password-file $state/password --ca-file $state/certificate.pem"
echo "$line" >"$state/headrace-line"
echo "$folder is served; Ctrl-C ends it. Try:"
echo "$line"
nginx -e "$state/error.log" -c "$state/nginx.conf" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server"; [ -n "${2:-}" ] || rm -rf "$state"' EXIT
trap 'exit 0' INT TERM
wait "$server" || fail "nginx ended: $(tail -n 1 "$state/error.log")"
