#!/usr/bin/env bash
# Exact pixels do not depend on the encoding: contact sheets, batches and accuracy of dct records are those of the files.
source tests/cli/lib.sh

need_data cifar10.tar
for encoding in jpeg dct; do
    headrace_ok pack "$HEADRACE_DATA/cifar10.tar" --prefix val -o "$work/all.idx" --encoding $encoding --force
    headrace_ok select "$work/all.idx" -o "$work/few.idx" --per-class 2 --force
    headrace_ok pack "$work/few.idx" -o "$work/$encoding.idx" --encoding $encoding
    headrace_ok show "$work/$encoding.idx" -o "$work/$encoding.png" -n 12
done
expect_same "$work/jpeg.png" "$work/dct.png"
headrace_ok verify "$work/dct.idx" --decode --quiet

headrace_ok train --train "$work/dct.idx" --val "$work/dct.idx" -a resnet18 --epochs 1 --steps 1 --batch-size 4 \
    --device reference --image-size 32 --out "$work/run"
headrace_ok replay "$work/run" --step 0 -o "$work/dct-step.png"
headrace_ok replay "$work/run" --step 0 -o "$work/jpeg-step.png" --data "$work/jpeg.idx"
expect_same "$work/jpeg-step.png" "$work/dct-step.png"
for encoding in jpeg dct; do
    headrace_ok eval "$work/run" "$work/$encoding.idx" --device reference --json
    grep -oE '"loss": [^,]*' "$stdout" >"$work/$encoding.loss"
done
expect_same "$work/jpeg.loss" "$work/dct.loss"
headrace train --resume "$work/run" --pixels pillow13 --out "$work/other"
expect_error 2 'trained with --pixels pillow,'
