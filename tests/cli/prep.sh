#!/usr/bin/env bash
# headrace prep on the real archives, on wrong folders, and twice.
source tests/cli/lib.sh
need_data ILSVRC2012_img_train.tar

headrace_ok prep "$HEADRACE_DATA" "$work/im age" --subset
expect_stdout 'train: 1000 images in 1000 classes, 109.6 MB$'
expect_stdout 'val: 1300 images in 725 classes, 37.2 MB$'
expect_stdout 'nothing is wrong'
[ "$(find "$work/im age/train" -type d -name 'n*' | wc -l)" -eq 1000 ] || fail "expected 1000 classes"
[ "$(find "$work/im age/train" -type f | wc -l)" -eq 1000 ] || fail "expected 1000 images"
[ "$(find "$work/im age/val" -type f | wc -l)" -eq 1300 ] || fail "expected 1300 images"

mkdir "$work/empty"
headrace prep "$work/empty" "$work/x"
expect_error 1 'log in at https://image-net.org'
expect_stderr 'curl -C - -O'
expect_stderr 'ILSVRC2012_img_train.tar +147897477120 bytes  MD5 1d675b47d978889d74fa0da5fadfb00e  MISSING'
expect_stderr 'ILSVRC2012_img_val.tar +6744924160 bytes  MD5 29b22e2961454d5413ddabcf34fc5622  MISSING'
expect_stderr 'ILSVRC2012_devkit_t12.tar.gz +2568145 bytes  MD5 fa75699e90414af021442c21a62c3abf  MISSING'
refute_file "$work/x"

# Other names are found by what the files hold; what is missing is said.
ln -s "$HEADRACE_DATA/ILSVRC2012_img_train.tar" "$work/empty/a"
ln -s "$HEADRACE_DATA/ILSVRC2012_img_val.tar" "$work/empty/b"
headrace prep "$work/empty" "$work/x"
expect_error 1 'log in'
expect_stderr 'img_train.tar .*\(there\)'
expect_stderr 'devkit_t12.tar.gz .*MISSING'
ln -s "$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz" "$work/empty/c"
headrace prep "$work/empty" "$work/im age"
expect_error 3 'findings; .*--subset'
expect_stdout 'all were there already'
headrace_ok prep "$work/empty" "$work/im age" --subset --quiet
refute_stdout .
refute_stderr .

echo '<!DOCTYPE html>' >"$work/empty/ILSVRC2012_img_val.tar"
headrace prep "$work/empty" "$work/y" --subset
expect_error 1 'ILSVRC2012_img_val.tar is not a tar archive but an HTML page'
refute_file "$work/y"
headrace prep "$HEADRACE_DATA/cifar10.tar" "$work/z"
expect_error 2 'is not a folder'

# An unpacked devkit is known by what it holds, whatever it is called.
mkdir -p "$work/unpacked/my kit" "$work/loose"
for folder in unpacked loose; do ln -s "$HEADRACE_DATA"/ILSVRC2012_img_*.tar "$work/$folder"; done
tar -xzf "$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz" -C "$work/unpacked/my kit" --strip-components=1
tar -xzf "$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz" -C "$work/loose" --strip-components=2
for folder in unpacked loose; do
    headrace_ok prep "$work/$folder" "$work/im age" --subset
    expect_stdout 'nothing is wrong'
done
cp -r "$work/unpacked/my kit" "$work/unpacked/again"
headrace prep "$work/unpacked" "$work/y" --subset
expect_error 2 'unpacked/again and .*unpacked/my kit are each an unpacked devkit'
truncate -s 9000 "$work/loose/meta.mat"
headrace prep "$work/loose" "$work/y" --subset
expect_error 1 'loose/meta.mat is cut short'
refute_file "$work/y"

# Archives go only where nothing was found, and a later run does without them.
cp "$HEADRACE_DATA"/ILSVRC2012_* "$work/"
mkdir "$work/own"
mv "$work"/ILSVRC2012_* "$work/own"
headrace prep "$work/own" "$work/im age" --delete-source
expect_error 3 'findings'
expect_file "$work/own/ILSVRC2012_img_train.tar"
headrace_ok prep "$work/own" "$work/im age" --delete-source --subset
refute_file "$work/own/ILSVRC2012_img_train.tar"
refute_file "$work/own/ILSVRC2012_img_val.tar"
headrace_ok prep "$work/own" "$work/im age" --delete-source --subset
expect_stderr 'no archive of .*im age/train any more'
expect_stdout 'nothing is wrong'
headrace prep "$work/own" "$work/y" --subset
expect_error 1 'ILSVRC2012_img_train.tar .*MISSING'
headrace extract "$HEADRACE_DATA/ILSVRC2012_img_val.tar" "$work/y" --subset
expect_error 2 'goes with --delete-source'
