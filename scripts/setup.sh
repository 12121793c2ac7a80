#!/usr/bin/env bash
# Installs what building headrace needs; --test adds what tests and lint need, --peers also what the Python package is
# compared with: PyTorch by apt, DALI and timm in a virtual environment, build/deps/peers. Done at once when nothing is missing.
# Debian and Ubuntu: by apt, with sudo where this is not root; elsewhere the list is printed.
# ONEDNN=wheel (default): oneDNN is unpacked into build/deps/onednn, or into HEADRACE_DEPS, which several
# checkouts may share (build/deps is then a link). ONEDNN=system or none: nothing is fetched.
set -euo pipefail
cd "$(dirname "$0")/.."

onednn_version=2023.2.0
onednn_sha256="\
2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb  onednn_cpu_gomp-$onednn_version-py2.py3-none-manylinux1_x86_64.whl
9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284  onednn_devel_cpu_gomp-$onednn_version-py2.py3-none-manylinux1_x86_64.whl"

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

scratches=()
trap 'rm -rf "${scratches[@]}"' EXIT

case "$*" in
    "") with_tests='' with_peers='' ;;
    --test) with_tests=yes with_peers='' ;;
    --peers) with_tests=yes with_peers=yes ;;
    *) fail "usage: scripts/setup.sh [--test | --peers]" ;;
esac

# --- Packages ---

missing=()
need_command() { command -v "$1" >/dev/null || missing+=("$2"); }        # COMMAND PACKAGE
need_library() { pkg-config --exists "$1" 2>/dev/null || missing+=("$2"); } # PKG-CONFIG-NAME PACKAGE

wants_wheel() { [ "${ONEDNN:-wheel}" = wheel ] && [ "$(uname -m)" = x86_64 ]; }
has_wheel() { [ "$(cat build/deps/onednn/VERSION 2>/dev/null)" = "$onednn_version" ]; }

need_command cc build-essential
need_command make build-essential
need_command pkg-config pkg-config
need_library libarchive libarchive-dev
need_library matio libmatio-dev
need_library zlib zlib1g-dev
need_library libjpeg libjpeg-dev
need_library libpng libpng-dev
need_library jansson libjansson-dev
need_library libmd libmd-dev
need_library libcurl libcurl4-openssl-dev
[ "${MPICC:-}" = none ] || need_command "${MPICC:-mpicc}" libopenmpi-dev
need_command python3 python3
if { [ -n "$with_tests" ] || { wants_wheel && ! has_wheel; }; } && ! python3 -m pip --version >/dev/null 2>&1; then
    missing+=(python3-pip)
fi
# One of the Pythons that `make check-python` looks at has it.
need_module() # MODULE PACKAGE
{
    python3 -c "import $1" 2>/dev/null || /usr/bin/python3 -c "import $1" 2>/dev/null || missing+=("$2")
}

if [ -n "$with_tests" ]; then
    need_module numpy python3-numpy
    need_module PIL python3-pil
    need_module setuptools python3-setuptools
    need_module wheel python3-wheel
    need_module pip python3-pip
    need_library cmocka libcmocka-dev
    need_command clang clang
    need_command clang-format clang-format
    need_command shellcheck shellcheck
    need_command ctags universal-ctags
    need_command git git
    need_command gdb gdb-minimal
    need_command openssl openssl
    [ -x /usr/sbin/nginx ] || need_command nginx nginx-light
    compgen -G '/usr/lib*/nginx/modules/ngx_http_echo_module.so' >/dev/null || missing+=(libnginx-mod-http-echo)
    [ "${MPICC:-}" = none ] || need_command mpirun openmpi-bin
fi

# The Python that apt installs modules for.
system_python=/usr/bin/python3
need_system_module() # MODULE PACKAGE
{
    "$system_python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" 2>/dev/null ||
        missing+=("$2")
}

if [ -n "$with_peers" ]; then
    need_system_module torch python3-torch
    need_system_module torchvision python3-torchvision
    need_system_module numpy python3-numpy
    need_system_module PIL python3-pil
    need_system_module setuptools python3-setuptools
    need_system_module wheel python3-wheel
    need_system_module pip python3-pip
fi

# What a slow network may take at most. Only what fetches is ended: dpkg is left to finish its work.
fetch_seconds=900

install_packages() # PACKAGE...
{
    local sudo=()
    if ! command -v apt-get >/dev/null; then
        fail "install these with your package manager (Debian's names), then run this again: $*"
    fi
    if [ "$(id -u)" -ne 0 ]; then
        sudo=(sudo)
        if ! command -v sudo >/dev/null || ! { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
            fail "run as root, then run this again: apt-get install -y --no-install-recommends $*"
        fi
    fi
    say "installing $*"
    local install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends)
    if ! "${sudo[@]}" timeout "$fetch_seconds" apt-get update -qq ||
        ! "${sudo[@]}" timeout "$fetch_seconds" "${install[@]}" --download-only "$@" >/dev/null; then
        fail "apt could not fetch all of $* within $fetch_seconds s: see above what it says, then run this again"
    fi
    "${sudo[@]}" "${install[@]}" "$@" >/dev/null
}

if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
    install_packages "${missing[@]}"
fi

# --- oneDNN ---

# The wheel holds three copies of one 54 MB library: one is kept, the other names are links.
unpack_onednn() # WHEELS-DIR PREFIX
{
    local wheel
    for wheel in "$1"/*.whl; do
        python3 -m zipfile -e "$wheel" "$1/unpacked"
    done
    mkdir -p "$2"
    cp -R "$1"/unpacked/*.data/data/{include,lib,share} "$2/"
    ln -sf libdnnl.so.3.2 "$2/lib/libdnnl.so.3"
    ln -sf libdnnl.so.3 "$2/lib/libdnnl.so"
    echo "$onednn_version" >"$2/VERSION"
}

fetch_onednn()
{
    local scratch=build/onednn.$$
    scratches+=("$scratch")
    mkdir -p "$scratch"
    say "fetching oneDNN $onednn_version"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$scratch" \
        "onednn-cpu-gomp==$onednn_version" "onednn-devel-cpu-gomp==$onednn_version" ||
        fail "oneDNN could not be fetched; to build without the CPU backend: make ONEDNN=none"
    (cd "$scratch" && sha256sum --quiet --strict --check <<<"$onednn_sha256") ||
        fail "oneDNN's files are not the expected ones; nothing was unpacked"
    unpack_onednn "$scratch" build/deps/onednn.$$
    rm -rf build/deps/onednn
    # Another checkout that shares the folder may have been faster: its copy is the same.
    mv -T build/deps/onednn.$$ build/deps/onednn 2>/dev/null || rm -rf build/deps/onednn.$$
}

if wants_wheel; then
    mkdir -p build
    if [ -n "${HEADRACE_DEPS:-}" ] && [ ! "$HEADRACE_DEPS" -ef build/deps ]; then
        mkdir -p "$HEADRACE_DEPS"
        rm -rf build/deps
        ln -s "$(realpath "$HEADRACE_DEPS")" build/deps
    fi
    mkdir -p build/deps
    has_wheel || fetch_onednn
elif [ "${ONEDNN:-wheel}" = wheel ]; then
    say "no oneDNN wheel for $(uname -m): headrace-cpu.so is built only with ONEDNN=system"
fi

# --- moto, an S3 server for tests ---

moto_version=5.2.5
has_moto() { PYTHONPATH=build/deps/moto python3 -c 'import boto3, moto.server' 2>/dev/null; }

fetch_moto()
{
    local scratch=build/deps/moto.$$
    mkdir -p build/deps
    say "fetching moto $moto_version"
    if python3 -m pip install --quiet --disable-pip-version-check --target "$scratch" "moto[s3,server]==$moto_version"; then
        mv -T "$scratch" build/deps/moto 2>/dev/null && return
    else
        say "moto could not be fetched: tests/cli/s3.sh is skipped"
    fi
    rm -rf "$scratch"
}

if [ -n "$with_tests" ] && ! has_moto; then
    fetch_moto
fi

# --- DALI and timm, which the Python package is compared with, beside the system's PyTorch ---

# Tried with Debian 12's PyTorch 1.13: DALI 1.30 and 1.34 work, 2.4 does not.
peers="nvidia-dali-cuda120==1.34.0 dm-tree==0.1.8 gast==0.5.4 timm==1.0.31"
has_peers()
{
    [ "$(cat build/deps/peers/VERSION 2>/dev/null)" = "$peers" ] &&
        build/deps/peers/bin/python -c 'import importlib.util as u, sys; sys.exit(None in map(u.find_spec, ["tree", "timm"]))'
}

fetch_peers()
{
    local scratch=build/deps/peers.$$ wanted
    scratches+=("$scratch")
    read -r -a wanted <<<"$peers"
    mkdir -p build/deps
    say "fetching DALI and timm"
    "$system_python" -m venv --without-pip --system-site-packages "$scratch"
    timeout "$fetch_seconds" "$scratch/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        "${wanted[@]}" || fail "DALI and timm could not be fetched within $fetch_seconds s: see above what pip says, then run this again"
    echo "$peers" >"$scratch/VERSION"
    rm -rf build/deps/peers
    # Another checkout that shares the folder may have been faster: its copy is the same.
    mv -T "$scratch" build/deps/peers 2>/dev/null || rm -rf "$scratch"
}

if [ -n "$with_peers" ] && ! has_peers; then
    fetch_peers
fi
