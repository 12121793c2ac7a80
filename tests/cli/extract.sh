#!/usr/bin/env bash
# headrace extract on the real archives and on wrong lines.
source tests/cli/lib.sh
need_data ILSVRC2012_img_val.tar
need_data ILSVRC2012_img_train.tar
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
refute_file "$work/cut"

# A class of an earlier attempt that lacks an image and has one too many: the rest is left as it is.
headrace_ok extract "$HEADRACE_DATA/ILSVRC2012_img_train.tar" "$work/again" --quiet
first=$(find "$work/again" -name '*.JPEG' | sort | head -n 1)
mv "$first" "${first%/*}/other.JPEG"
headrace_ok extract "$HEADRACE_DATA/ILSVRC2012_img_train.tar" "$work/again"
expect_stdout '; 999 were there already$'
expect_stderr '1 files in class folders of .*/again are not in the archive; they were left as they are'
expect_file "$first"

# The dogs of task 3 are recognised by their classes; they are not the training archive.
mkdir "$work/inner"
tar -xf "$HEADRACE_DATA/ILSVRC2012_img_train.tar" -C "$work/inner"
(cd "$work/inner" && for f in *.tar; do [[ $f < n02085620 || $f > n02116738.tar ]] || echo "$f"; done >"$work/dogs")
tar -cf "$work/t3.tar" -C "$work/inner" -T "$work/dogs"
headrace_ok extract "$work/t3.tar" "$work/dogs-only" --quiet
expect_stderr 'warning: .* has only dogs, 125 classes of them: it is the archive of task 3'
expect_stderr 'all 1000 classes are in ILSVRC2012_img_train.tar'
# 5,620 classes, as of another year: taken as they are, or refused with a devkit.
mv "$work/inner/n01440764.tar" "$work/inner/n99999999.tar"
tar -cf "$work/other.tar" -C "$work/inner" n99999999.tar n01443537.tar
headrace extract "$work/other.tar" "$work/other" --devkit "$devkit"
expect_error 1 "1 classes that the devkit's 1000 do not have \(n99999999\) and lacks 999 \(n01440764, "
refute_file "$work/other/n01443537"
headrace_ok extract "$work/other.tar" "$work/other"
expect_stderr 'has 2 classes, and 1 of them are not in ILSVRC2012'
