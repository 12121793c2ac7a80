#!/usr/bin/env bash
# From tarballs to a trained ResNet on drawn images: what `make demo` runs. Everything goes to build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."

headrace=build/headrace
demo=build/demo
least_top1=90

step() # COMMAND...
{
    printf '\n$ %s\n' "$*"
    "$@"
}

rm -rf "$demo"
mkdir -p "$demo"

echo "Ten classes of drawn patterns, in the layout of ILSVRC2012: a tar of tars, a flat validation tar, a devkit."
step build/make-demo "$demo/tarballs" --train 120 --val 20
tar -C "$demo/tarballs" -czf "$demo/tarballs/ILSVRC2012_devkit_t12.tar.gz" ILSVRC2012_devkit_t12
rm -r "$demo/tarballs/ILSVRC2012_devkit_t12"

step "$headrace" prep "$demo/tarballs" "$demo/imagenet"
step "$headrace" verify "$demo/imagenet" --devkit "$demo/tarballs/ILSVRC2012_devkit_t12.tar.gz" --decode
step "$headrace" pack "$demo/imagenet" -o "$demo/index/"
step "$headrace" info "$demo/index/train.idx"
step "$headrace" train "$demo/index" --recipe train/recipes/demo.recipe --out "$demo/run"
step "$headrace" eval "$demo/run/model_best.safetensors" "$demo/index/val.idx"
step "$headrace" report "$demo/run"

top1=$("$headrace" eval "$demo/run/model_best.safetensors" "$demo/index/val.idx" --json |
    grep -oE '"top1": ?[0-9.]+' | grep -oE '[0-9.]+$')
printf '\nTop-1 on the validation images: %s %%. The curves and some predictions: %s\n' "$top1" "$demo/run/report.html"
if ! awk -v top1="$top1" -v least="$least_top1" 'BEGIN { exit !(top1 >= least) }'; then
    echo "demo: top-1 is $top1 %, at least $least_top1 % was expected" >&2
    exit 1
fi
