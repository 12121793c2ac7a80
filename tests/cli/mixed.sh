#!/usr/bin/env bash
# One index over records of every kind: a folder, an archive in place, files and coefficients in shards, lossy ones.
source tests/cli/lib.sh
need_data cifar10.tar
mkdir "$work/all"
tar -C "$work/all" -xf "$HEADRACE_DATA/cifar10.tar" val/cat val/dog val/frog

# Each part has twenty images of its own in two of the three classes.
part() # NAME CLASS CLASS DIGIT
{
    local class
    for class in "$2" "$3"; do
        mkdir -p "$work/$1/$class"
        cp "$work/all/val/$class/00$4"*.jpg "$work/$1/$class"
    done
}
part folder cat dog 0
part files cat frog 1
part dct cat dog 2
part lossy dog frog 3
part tar cat frog 4
tar -C "$work/tar" -cf "$work/tar.tar" cat frog
headrace_ok pack "$work/folder" --in-place -o "$work/folder.idx"
headrace_ok pack "$work/files" --encoding jpeg -o "$work/files.idx"
headrace_ok pack "$work/dct" -o "$work/dct.idx"
headrace_ok pack "$work/lossy" --lossy --max-side 16 -o "$work/lossy.idx"
headrace_ok pack "$work/tar.tar" --in-place -o "$work/tar.idx"

headrace_ok select "$work"/{folder,files,dct,lossy,tar}.idx -o "$work/mixed.idx"
expect_stdout '100 images in 3 classes'
headrace_ok info "$work/mixed.idx"
expect_stdout '^encodings +60 jpeg, 40 dct$'
expect_stdout '^lossy +20 images'
headrace_ok verify "$work/mixed.idx" --decode
expect_stdout 'note: 40 records have no CRC'
expect_stdout 'note: 20 records were packed with --lossy: not the original images'
expect_stdout 'nothing is wrong'
headrace_ok ls "$work/mixed.idx" --json
[ "$(grep -c '"lossy": true' "$stdout")" -eq 20 ] || fail "expected 20 lossy records"
headrace_ok show "$work/mixed.idx" -n 100 --out "$work/sheet.png"
refute_stderr warning

# The files come back; of the lossy ones it is said that they are others.
headrace_ok unpack "$work/mixed.idx" "$work/back"
expect_stderr 'note: 20 images were packed with --lossy: they are not the original files'
for name in folder files dct tar; do
    (cd "$work/$name" && find . -type f) | while read -r file; do
        cmp "$work/$name/$file" "$work/back/$file" || exit 1
    done || fail "another file came back from $name"
done
[ "$(find "$work/back" -type f | wc -l)" -eq 100 ] || fail "expected 100 files"
headrace_ok unpack "$work/dct.idx" "$work/dct-back"
refute_stderr lossy
expect_same "$work/dct" "$work/dct-back"

# Parts of it, and all of it packed into one encoding.
headrace_ok select "$work/mixed.idx" --every 3 -o "$work/third.idx"
headrace_ok unpack "$work/third.idx" "$work/third"
[ "$(find "$work/third" -type f | wc -l)" -eq 34 ] || fail "expected 34 files"
(cd "$work/third" && find . -type f) | while read -r file; do
    cmp "$work/third/$file" "$work/back/$file" || exit 1
done || fail "--every gives other files"
for encoding in jpeg dct; do
    headrace_ok pack "$work/mixed.idx" --encoding $encoding -o "$work/$encoding-all.idx"
    headrace_ok info "$work/$encoding-all.idx"
    expect_stdout "^encodings +100 $encoding\$"
    expect_stdout '^lossy +20 images'
    headrace_ok unpack "$work/$encoding-all.idx" "$work/$encoding-back"
    expect_same "$work/back" "$work/$encoding-back"
done

# Batches and training do not care.
headrace_ok bench "$work/mixed.idx" --image-size 16 --epochs 1
expect_stdout 'images/s'
for index in mixed jpeg-all; do
    headrace_ok train --train "$work/$index.idx" --val "$work/$index.idx" -a resnet18 --epochs 1 --steps 1 \
        --batch-size 4 --device reference --image-size 32 --out "$work/run-$index"
done
cmp "$work/run-mixed/checkpoint.safetensors" "$work/run-jpeg-all/checkpoint.safetensors" ||
    fail "training depends on how records are stored"
