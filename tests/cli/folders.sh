#!/usr/bin/env bash
# Class folders as they are found: litter among them, endings of all kinds, empty classes, odd roots.
source tests/cli/lib.sh
need_data ILSVRC2012_img_val.tar
mkdir "$work/images"
tar -xf "$HEADRACE_DATA/ILSVRC2012_img_val.tar" -C "$work/images"
mapfile -t images < <(find "$work/images" -name '*.JPEG' | sort | head -n 12)

# make_tree ROOT CLASS...: train/ and val/ with these classes, made in this order, two images each.
make_tree()
{
    local root=$1 class part
    shift
    for class in "$@"; do
        for part in train val; do
            mkdir -p "$root/$part/$class"
            cp "${images[$((1 + $(printf '%d' "'$class") % 5))]}" "$root/$part/$class/${class}_1.JPEG"
            cp "${images[$((6 + $(printf '%d' "'$class") % 5))]}" "$root/$part/$class/${class}_2.JPEG"
        done
    done
}

# Only class folders count, whatever else lies among them, and one line tells of the rest.
make_tree "$work/litter" a b
mkdir "$work"/litter/train/{.ipynb_checkpoints,__MACOSX,.git}
mkdir -m 700 "$work/litter/train/lost+found"
cp "${images[0]}" "$work/litter/train/.ipynb_checkpoints/a.JPEG"
touch "$work"/litter/train/{.DS_Store,Thumbs.db,README.md} "$work/litter/train/a/.DS_Store"
headrace_ok pack "$work/litter/train" -o "$work/litter.idx"
expect_stdout 'litter.idx: 4 images in 2 classes'
[ "$(grep -c 'are ignored' "$stderr")" -eq 1 ] || fail "expected one line of what is ignored"
expect_stderr '8 files and folders that are no images in class folders are ignored'
headrace_ok verify "$work/litter"
expect_stdout '4 training images in 2 classes'
expect_stdout 'nothing is wrong'

# The same for a user who may not look into lost+found; flat images beside it are flat.
chmod -R a+rX "$work/litter"
chmod 700 "$work/litter/train/lost+found"
mkdir -m 777 "$work/anybody"
for command in verify "pack --dry-run -o $work/anybody/x.idx"; do
    # shellcheck disable=SC2086 # words are wanted
    headrace_unprivileged $command "$work/litter/train"
    expect_status 0
done
mkdir "$work/mounted"
mkdir -m 700 "$work/mounted/lost+found"
cp "${images[@]}" "$work/mounted"
headrace_unprivileged verify "$work/mounted"
expect_error 2 'mounted has flat validation images'
headrace_ok verify "$work/mounted" --subset --devkit "$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz"
expect_stdout '12 validation images, '
headrace_ok organize "$work/mounted" --devkit "$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz"
headrace_ok verify "$work/mounted" --subset

# Links to folders and to images are as good as these.
make_tree "$work/real" a b
mkdir -p "$work/links/b"
ln -s "$work/real/train/a" "$work/links/a"
ln -s ../../real/train/b/b_1.JPEG "$work/links/b/b_1.JPEG"
headrace_ok pack "$work/links" -o "$work/links.idx"
expect_stdout 'links.idx: 3 images in 2 classes'
headrace_ok verify "$work/links"

# All endings are taken.
make_tree "$work/endings" a
mv "$work/endings/train/a/a_1.JPEG" "$work/endings/train/a/a_1.jpeg"
mv "$work/endings/train/a/a_2.JPEG" "$work/endings/train/a/a_2.JPG"
cp "${images[3]}" "$work/endings/train/a/a_3.JPEG"
headrace_ok pack "$work/endings/train" -o "$work/endings.idx"
expect_stdout 'endings.idx: 3 images in 1 classes'

# One class map for both parts: an empty class keeps its label, and verify finds it.
make_tree "$work/empty" a b c
rm "$work"/empty/val/b/*
headrace_ok pack "$work/empty" -o "$work/empty-packed/"
headrace_ok ls "$work/empty-packed/val.idx"
expect_stdout 'c/c_1.JPEG'
headrace_ok info "$work/empty-packed/val.idx" --json
expect_stdout '"classes": 3'
headrace verify "$work/empty"
expect_error 3 'empty: 1 finding'
expect_stdout 'empty class \(1\):'
expect_stdout '^ +b: no images$'
headrace_ok verify "$work/empty" --subset
rm -r "$work/empty/train/b"
headrace pack "$work/empty" -o "$work/more-packed/"
expect_error 1 'val/b is not a class of the table of 2 classes'

# The order of labels is that of the names' bytes, not of making or of a locale.
make_tree "$work/forward" B a b_ b ä
make_tree "$work/backward" ä b b_ a B
LC_ALL=C headrace_ok pack "$work/forward/train" -o "$work/forward/x.idx"
LC_ALL=C.UTF-8 headrace_ok pack "$work/backward/train" -o "$work/backward/x.idx" -j 1
expect_same "$work/forward/x.idx" "$work/backward/x.idx"
expect_same "$work/forward/x-00000.shard" "$work/backward/x-00000.shard"

# Spaces and other letters in the root.
make_tree "$work/a b/图" a b
headrace_ok verify "$work/a b/图"
headrace_ok pack "$work/a b/图" -o "$work/a b/图/packed/"
headrace_ok verify "$work/a b/图/packed/train.idx"
expect_stdout '4 images in 2 classes'
