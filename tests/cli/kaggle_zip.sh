#!/usr/bin/env bash
# Kaggle's zip file of ILSVRC2012, as prep and extract take it: with the label files behind the images.
source tests/cli/lib.sh
need_data ILSVRC2012_img_val.tar
mkdir "$work/all"
tar -xf "$HEADRACE_DATA/ILSVRC2012_img_val.tar" -C "$work/all"
headrace_ok organize "$work/all" --devkit "$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz" --dry-run
head -n 40 "$stdout" >"$work/list"

images=$work/tree/ILSVRC/Data/CLS-LOC
mkdir -p "$images/val" "$images/test" "$work/tree/ILSVRC/Annotations/CLS-LOC/val" "$work/sorted/train" "$work/sorted/val"
echo 'ImageId,PredictionString' >"$work/tree/LOC_val_solution.csv"
number=0
while read -r name _ place; do
    number=$((number + 1))
    wnid=${place%/*}
    image=$(printf 'ILSVRC2012_val_%08d' "$number")
    mkdir -p "$images/train/$wnid" "$work/sorted/train/$wnid" "$work/sorted/val/$wnid"
    cp "$work/all/$name" "$images/val/$image.JPEG"
    cp "$work/all/$name" "$work/sorted/val/$wnid/$image.JPEG"
    cp "$work/all/$name" "$images/train/$wnid/${wnid}_$number.JPEG"
    cp "$work/all/$name" "$work/sorted/train/$wnid/${wnid}_$number.JPEG"
    cp "$work/all/$name" "$images/test/ILSVRC2012_test_${image##*_}.JPEG"
    echo '<xml/>' >"$work/tree/ILSVRC/Annotations/CLS-LOC/val/$image.xml"
    echo "$image,$wnid 1 2 3 4 " >>"$work/tree/LOC_val_solution.csv"
done <"$work/list"

make_zip() # ZIP METHOD: as zipfile writes it, the images first
{
    python3 - "$1" "$2" "$work/tree" <<'PY'
import os, sys, zipfile
path, method, tree = sys.argv[1:]
with zipfile.ZipFile(path, "w", getattr(zipfile, "ZIP_" + method)) as out:
    for folder, folders, files in os.walk(os.path.join(tree, "ILSVRC")):
        for name in sorted(folders) + sorted(files):
            out.write(os.path.join(folder, name), os.path.relpath(os.path.join(folder, name), tree))
    out.write(os.path.join(tree, "LOC_val_solution.csv"), "LOC_val_solution.csv")
PY
}

mkdir "$work/downloads"
for method in STORED DEFLATED; do
    make_zip "$work/downloads/imagenet-object-localization-challenge.zip" $method
    headrace_ok extract "$work/downloads/imagenet-object-localization-challenge.zip" "$work/$method"
    expect_stdout 'train: 40 images in '
    expect_stdout 'val: 40 images in '
    expect_same "$work/$method" "$work/sorted"
done
zip=$work/downloads/imagenet-object-localization-challenge.zip

# prep takes the folder of downloads and the file itself; again, it does what is missing.
headrace_ok prep "$work/downloads" "$work/out" --subset
expect_stdout 'nothing is wrong'
expect_same "$work/out" "$work/sorted"
rm -r "$work/out/train/$wnid"
headrace_ok prep "$zip" "$work/out" --subset
expect_stdout 'val: 40 images .* all were there already'
expect_same "$work/out" "$work/sorted"
headrace_ok verify "$work/out" --subset --devkit "$zip"
expect_stdout 'nothing is wrong'

# What it is not for, and what is wrong with it.
headrace extract "$zip" "$work/x" --delete-source
expect_error 2 'holds more than is extracted from it'
headrace pack "$zip" -o "$work/x.idx"
expect_error 1 "a zip file; Kaggle's of ILSVRC2012 is taken by headrace prep and extract"
printf 'no images' >"$work/readme"
python3 -m zipfile -c "$work/other.zip" "$work/readme"
python3 -m zipfile -c "$work/unlabelled.zip" "$work/tree/ILSVRC"
for command in prep extract; do
    headrace $command "$work/other.zip" "$work/x"
    expect_error 1 "error: .*/other.zip is a zip file, but not Kaggle's of ILSVRC2012 .*: unpack it with unzip first"
    headrace $command "$work/unlabelled.zip" "$work/x"
    expect_error 1 'error: .*/unlabelled.zip has no LOC_val_solution.csv, .*; download it again'
done
head -c 300000 "$zip" >"$work/cut.zip"
headrace prep "$work/cut.zip" "$work/x"
expect_error 1 'cut short at its 300000 bytes; go on with the download'
size=$(stat -c %s "$zip")
for i in {1..15}; do
    printf 'xxxx' | dd of="$zip" bs=1 seek=$((size * i / 16)) conv=notrunc status=none
done
headrace prep "$zip" "$work/damaged" --subset
expect_error 1 'imagenet-object-localization-challenge.zip: member .* at byte [0-9]+'
refute_file "$work/x"
