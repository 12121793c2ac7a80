#!/usr/bin/env bash
# Installs into a temporary folder and uses what was installed from there: the program, the library by
# pkg-config, every public header, the module.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
prefix=/opt/headrace
make -s -j"$(nproc)" install DESTDIR="$root" PREFIX=$prefix
installed=$root$prefix

"$installed/bin/headrace" --help >/dev/null
"$installed/bin/headrace" --version

export PKG_CONFIG_PATH=$installed/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
read -r -a flags <<<"$(pkg-config --cflags --libs headrace)"
{
    (cd "$installed/include/headrace" && find . -name '*.h' | sort) | sed 's|^\./\(.*\)|#include "\1"|'
    echo 'int main(void) { return status_exit_code(STATUS_DONE); }'
} >"$root/use.c"
"${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -Wall -Werror "$root/use.c" -o "$root/use" "${flags[@]}" \
    -Wl,-rpath,"$installed/lib"
"$root/use"

if [ -e build/headrace-cpu.so ]; then
    missing=$(ldd "$installed/lib/headrace/headrace-cpu.so" | grep 'not found\|build/' || true)
    [ -z "$missing" ] || { echo "headrace-cpu.so looks outside the installed place: $missing" >&2; exit 1; }
    "$installed/bin/headrace" train --synthetic --device cpu -a resnet18 --image-size 32 -b 4 --epochs 1 \
        --steps 1 --out "$root/run" >/dev/null
fi
echo "install: $(find "$installed" -type f | wc -l) files, used from where they were put"
