#!/usr/bin/env bash
# Data sets as other people lay them out: read, or refused with a command, and that command works.
source tests/cli/lib.sh
need_data ILSVRC2012_img_val.tar
devkit=$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz
mkdir "$work/all"
tar -xf "$HEADRACE_DATA/ILSVRC2012_img_val.tar" -C "$work/all"
headrace_ok organize "$work/all" --devkit "$devkit" --dry-run
head -n 20 "$stdout" >"$work/list"

# Kaggle: class folders for training, flat validation images, and the CSV four folders above them.
kaggle=$work/kaggle
images=$kaggle/ILSVRC/Data/CLS-LOC
mkdir -p "$images/val"
echo 'ImageId,PredictionString' >"$kaggle/LOC_val_solution.csv"
number=0
while read -r name _ place; do
    number=$((number + 1))
    wnid=${place%/*}
    image=$(printf 'ILSVRC2012_val_%08d' "$number")
    cp "$work/all/$name" "$images/val/$image.JPEG"
    mkdir -p "$images/train/$wnid"
    cp "$work/all/$name" "$images/train/$wnid/${wnid}_$number.JPEG"
    echo "$image,$wnid 1 2 3 4 " >>"$kaggle/LOC_val_solution.csv"
done <"$work/list"

# As it lies, and without a write into it: the CSV is the label source, and that is said.
chmod -R a-w "$kaggle"
headrace prep "$kaggle" "$work/x"
expect_error 2 'nothing to extract; check them: headrace verify'
headrace_ok verify "$kaggle" --subset
expect_stdout '20 validation images, '
expect_stdout 'note: their classes are in .*kaggle/LOC_val_solution.csv'
headrace verify "$kaggle"
expect_error 3 'findings'
expect_stdout 'missing image \(49980\):'
headrace_ok pack "$kaggle" -o "$work/kaggle-flat/"
expect_stderr 'val has flat images, whose classes are in .*kaggle/LOC_val_solution.csv'
expect_stderr "of ILSVRC2012's 1000 classes are there: labels count these only"
headrace_ok pack "$kaggle" --in-place -o "$work/kaggle-place/"
headrace_ok verify "$work/kaggle-place/val.idx" --decode
expect_stdout 'nothing is wrong'
headrace_ok info "$work/kaggle-place/val.idx" --json
expect_stdout '"kind": "flat folder"'
headrace_ok pack "$images/val" -o "$work/kaggle-val.idx"
expect_stdout 'kaggle-val.idx: 20 images in 1000 classes'
headrace_ok pack "$images/val" --devkit "$devkit" -o "$work/kaggle-devkit.idx" --dry-run
chmod -R u+w "$kaggle"
mv "$kaggle/LOC_val_solution.csv" "$work/solution.csv"
headrace verify "$kaggle"
expect_error 2 'flat validation images \(ILSVRC2012_val_00000001.JPEG, …\), not 1000 class folders of 50; .* devkit'
headrace pack "$kaggle" -o "$work/x/"
expect_error 2 'flat validation images .*headrace organize .*/CLS-LOC/val --devkit ILSVRC2012_devkit_t12.tar.gz'
mv "$work/solution.csv" "$kaggle/LOC_val_solution.csv"

# Sorted, it gives the same records.
headrace_ok organize "$images/val" --devkit "$kaggle/LOC_val_solution.csv"
expect_stdout 'val: 20 images moved into class folders'
headrace_ok verify "$kaggle" --subset --devkit "$kaggle/LOC_val_solution.csv"
expect_stdout '20 validation images'
headrace_ok pack "$kaggle" -o "$work/kaggle-packed/"
for part in train val; do expect_same "$work/kaggle-flat/$part-00000.shard" "$work/kaggle-packed/$part-00000.shard"; done
headrace pack "$kaggle" --devkit "$devkit" -o "$work/x/"
expect_error 2 'devkit tells the classes of flat validation images, but .* has class folders'
headrace pack "$images/val" --devkit "$devkit" -o "$work/x.idx"
expect_error 2 'devkit tells the classes of flat validation images, but .* has class folders'
headrace pack "$work/kaggle-val.idx" --devkit "$devkit" -o "$work/x.idx"
expect_error 2 'but .* is an index, which has its labels'
mkdir "$images/train/background"
cp "$images"/train/*/*_1.JPEG "$images/train/background/n.JPEG"
headrace_ok pack "$images/train" -o "$work/more.idx"
expect_stderr "warning: .* are ILSVRC2012's, others \(background, …\) are not"
rm -r "$images/train/background"
headrace prep "$kaggle" "$work/x"
expect_error 2 'nothing to extract; check them: headrace verify'

# Flat validation images in one folder would pass for a class.
mkdir -p "$work/one/images"
cp "$work"/all/*0.JPEG "$work/one/images"
headrace pack "$work/one" -o "$work/x.idx"
expect_error 2 'one/images has flat validation images .*organize .*one/images --devkit ILSVRC2012_devkit_t12.tar.gz'
headrace verify "$work/one"
expect_error 2 'one/images has flat validation images'
refute_file "$work/x.idx"

# Hugging Face: the names tell the classes.
mkdir -p "$work/hf"
while read -r name _ place; do
    cp "$work/all/$name" "$work/hf/${name%.JPEG}_${place%/*}.JPEG"
done <"$work/list"
tar -czf "$work/val_images.tar.gz" -C "$work/hf" .
headrace_ok extract "$work/val_images.tar.gz" "$work/hf-extracted"
expect_stderr 'lie flat; .*: headrace organize .*/hf-extracted$'
run_advice 'headrace organize [^;]*'
headrace_ok pack "$work/hf" -o "$work/hf.idx"
expect_stderr 'hf has flat images, whose classes are in their names'
headrace_ok verify "$work/hf" --subset
expect_stdout '20 validation images, '
expect_stdout 'note: their classes are in their names'
headrace_ok organize "$work/hf"
headrace_ok verify "$work/hf" --subset --devkit "$devkit"
expect_stdout 'nothing is wrong'
expect_same "$work/hf" "$work/hf-extracted"

# Its training images come in several archives, flat too.
mkdir -p "$work/hf-train/data"
for part in 0 1; do
    mkdir "$work/hf-part$part"
    for wnid in n01440764 n01443537; do cp "$images"/val/*/ILSVRC2012_val_00000001.JPEG "$work/hf-part$part/${wnid}_$part"1_$wnid.JPEG; done
    tar -czf "$work/hf-train/data/train_images_$part.tar.gz" -C "$work/hf-part$part" .
done
for command in "pack -o $work/x.idx" verify; do
    # shellcheck disable=SC2086 # words are wanted
    headrace $command "$work/hf-train/data/train_images_0.tar.gz"
    expect_error 2 'has flat training images, whose names tell their classes; .*: mkdir -p train && tar -xf '
done
headrace prep "$work/hf-train" "$work/hf made"
expect_error 2 'data/train_images_0.tar.gz has flat training images'
run_advice 'mkdir -p .*'
headrace extract "$work/hf-train/data/train_images_1.tar.gz" "$work/hf made/train"
expect_error 2 'has flat training images'
run_advice 'mkdir -p .*'
headrace_ok verify "$work/hf made" --subset
expect_stdout '4 training images in 2 classes'

# Imagenette: class folders of ten classes, in parts of its own.
for part in train val; do
    for wnid in n01440764 n02102040 n02979186 n03000684 n03028079 n03394916 n03417042 n03425413 n03445777 n03888257; do
        mkdir -p "$work/imagenette2/$part/$wnid"
        cp "$images"/val/*/ILSVRC2012_val_00000001.JPEG "$work/imagenette2/$part/$wnid/${wnid}_1.JPEG"
    done
done
headrace_ok verify "$work/imagenette2"
expect_stdout 'note: these are the ten classes of Imagenette'
headrace_ok pack "$work/imagenette2" -o "$work/imagenette/"
expect_stderr "10 of ILSVRC2012's 1000 classes are there: labels count these only, 0 … 9"

# ImageNet-V2's folders are labels; ILSVRC2012_IDs look the same and are something else.
mkdir -p "$work/v2"/{0,1,999} "$work/ids"/{1,10}
for folder in "$work"/{v2,ids}/*; do cp "$images"/val/*/ILSVRC2012_val_00000001.JPEG "$folder/a.jpeg"; done
headrace pack "$work/v2" -o "$work/x.idx"
expect_error 1 'not guessed: .*organize .*v2 --folders labels; .*organize .*v2 --folders ids --devkit'
tar -cf "$work/v2.tar" -C "$work" v2
headrace pack "$work/v2.tar" -o "$work/x.idx"
expect_error 1 'v2.tar: the class folders are numbers \(0, 1, …\)'
headrace organize "$work/v2" --folders labels --dry-run
expect_stdout '^999 -> n15075141$'
headrace_ok organize "$work/v2" --folders labels
expect_stdout 'v2: 3 folders named by WNID'
expect_file "$work/v2/n01440764/a.jpeg"
expect_file "$work/v2/n01443537/a.jpeg"
expect_file "$work/v2/n15075141/a.jpeg"
headrace_ok verify "$work/v2" --subset
headrace organize "$work/ids" --folders ids
expect_error 2 'needs --devkit'
headrace_ok organize "$work/ids" --folders ids --devkit "$devkit"
# The devkit's IDs 1 and 10, which no table of labels has in these places.
expect_file "$work/ids/n02119789/a.jpeg"
[ "$(ls "$work/ids" | wc -l)" -eq 2 ] || fail "expected two folders"
mkdir "$work/ids/0"
headrace organize "$work/ids" --folders ids --devkit "$devkit"
expect_error 1 'no class with the ILSVRC2012_ID 0'

# Tiny-ImageNet: the command in the message is for a shell.
tiny=$work/tiny
mkdir -p "$tiny/val/images" "$tiny/train"/n0144{0764,3537}/images
cp "$work/v2/n01440764/a.jpeg" "$tiny/train/n01440764/images/n01440764_0.JPEG"
cp "$work/v2/n01440764/a.jpeg" "$tiny/train/n01443537/images/n01443537_0.JPEG"
cp "$work/v2/n01440764/a.jpeg" "$tiny/val/images/val_0.JPEG"
printf 'val_0.JPEG\tn01443537\t0\t32\t44\t62\n' >"$tiny/val/val_annotations.txt"
headrace verify "$tiny"
expect_error 2 "Tiny-ImageNet's training images"
run_advice '\(cd .*'
headrace pack "$tiny" -o "$work/tiny-packed/"
expect_error 2 "Tiny-ImageNet's validation images"
run_advice '\(cd .*'
headrace_ok verify "$tiny" --subset
expect_file "$tiny/val/n01443537/val_0.JPEG"

# Parquet and zip are named, with the way out.
printf 'PAR1 rest' >"$work/train-00000-of-00294.parquet"
headrace verify "$work/train-00000-of-00294.parquet"
expect_error 1 'a Parquet file, as Hugging Face hands data sets out: .*headrace organize'
printf 'PK\003\004 rest' >"$work/imagenet-object-localization-challenge.zip"
headrace extract "$work/imagenet-object-localization-challenge.zip" "$work/x"
expect_error 1 'a zip file whose end is missing: it is cut short at its 9 bytes'
mkdir -p "$work/snapshot/data"
mv "$work/train-00000-of-00294.parquet" "$work/snapshot/data"
headrace prep "$work/snapshot" "$work/x"
expect_error 1 'data/train-00000-of-00294.parquet is not a tar archive but a Parquet file'
refute_file "$work/x"
