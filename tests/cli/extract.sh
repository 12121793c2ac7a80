#!/usr/bin/env bash
# headrace extract on the real archives and on wrong lines.
source tests/cli/lib.sh
need_data ILSVRC2012_img_val.tar
val=$HEADRACE_DATA/ILSVRC2012_img_val.tar
devkit=$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz

headrace_ok extract "$val" "$work/val" --devkit "$devkit"
expect_stdout 'val: 1300 images in 725 classes, 37.2 MB'
expect_stderr '48700 images of the ground truth are not in the archive'
mkdir "$work/flat" "$work/sorted"
tar -xf "$val" -C "$work/flat"
cp "$work"/val/*/*.JPEG "$work/sorted"
expect_same "$work/sorted" "$work/flat"

headrace_ok extract "$val" "$work/val" --devkit "$devkit" --quiet
refute_stdout .
refute_stderr .

headrace extract "$HEADRACE_DATA/ILSVRC2012_img_train.tar" "$work/val"
expect_error 1 "val' has validation images \(n01440764/ILSVRC2012_val_.*choose another folder"
mkdir -p "$work/train/n01440764"
touch "$work/train/n01440764/n01440764_1.JPEG"
headrace extract "$val" "$work/train" --devkit "$devkit"
expect_error 1 "train' has training images"
headrace organize "$work/train" --devkit "$devkit"
expect_error 1 'has training images'
headrace organize "$work" --devkit "$devkit"
expect_error 1 'but a folder val: headrace organize .*/val'
headrace extract "$val" "$work/val"
expect_error 1 'has class folders already'
headrace extract "$val"
expect_error 2 'DEST'
headrace extract "$val" "$work/x" --devkit "$work/nowhere"
expect_error 1 'nowhere'
head -c 20000000 "$val" >"$work/ILSVRC2012_img_val.tar"
headrace extract "$work/ILSVRC2012_img_val.tar" "$work/cut" --devkit "$devkit"
expect_error 1 'cut short: .*the published ILSVRC2012_img_val.tar has 6744924160 and MD5 29b22e2961454d5413ddabcf34fc5622'
[ -z "$(ls -A "$work/cut")" ] || fail "something half-written was left"
