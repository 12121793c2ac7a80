#!/usr/bin/env bash
# Builds everything but the CPU backend for arm64 and runs unit tests of it under an emulator: the plain functions and
# the NEON ones. Debian only; needs a gigabyte in build/ and takes minutes, so .ci/run leaves it out.
# Usage: scripts/check_arm64.sh [TEST...]    (tests/test_TEST.c; without: what depends on the processor)
set -euo pipefail
cd "$(dirname "$0")/.."

tests=("$@")
[ $# -gt 0 ] || tests=(bytes crc32c cpu random permutation idct block_decode block_sample crop tensor resample decode jpeg_scan
    dct_record loader pack_dct)

missing=()
command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
command -v qemu-aarch64 >/dev/null || missing+=(qemu-user)
command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
if [ ${#missing[@]} -gt 0 ]; then
    echo "check_arm64: these packages are missing; install them with: apt-get install -y ${missing[*]}" >&2
    exit 1
fi

# The libraries for arm64 are unpacked into a folder: this machine's packages stay as they are.
root=$PWD/build/arm64-root
if [ ! -d "$root" ]; then
    rm -rf "$root.partial"
    libraries=libc6-dev,libgcc-12-dev,libarchive-dev,libjpeg-dev,libpng-dev,libjansson-dev,libmd-dev,zlib1g-dev
    mmdebstrap --quiet --arch=arm64 --variant=extract --include="$libraries,libcurl4-openssl-dev,libmatio-dev,libcmocka-dev" bookworm "$root.partial"
    mv "$root.partial" "$root"
fi
export PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig

make -j"$(nproc)" --no-print-directory BUILD=build/arm64 ONEDNN=none MPICC=none CC="aarch64-linux-gnu-gcc --sysroot=$root" \
    OBJCOPY=aarch64-linux-gnu-objcopy all "${tests[@]/#/build/arm64/tests/test_}"

BUILD=build/arm64 TEST_RUNNER="qemu-aarch64 -L $root" HEADRACE_DATA=${HEADRACE_DATA:-/nonexistent} \
    scripts/run_tests.sh "${tests[@]/#/build/arm64/tests/test_}"
