#!/usr/bin/env bash
# headrace organize and headrace verify on the real validation images.
source tests/cli/lib.sh
need_data ILSVRC2012_img_val.tar
val=$HEADRACE_DATA/ILSVRC2012_img_val.tar
devkit=$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz

headrace_ok extract "$val" "$work/val"
expect_stderr 'headrace organize .*/val --devkit'
headrace verify "$work/val"
expect_error 2 'headrace organize .*/val --devkit ILSVRC2012_devkit_t12.tar.gz'
headrace organize "$work/val"
expect_error 1 'give --devkit ILSVRC2012_devkit_t12.tar.gz'
headrace_ok organize "$work/val" --devkit "$devkit" --dry-run
expect_stdout '^ILSVRC2012_val_00000347.JPEG -> n[0-9]{8}/ILSVRC2012_val_00000347.JPEG$'
[ "$(wc -l <"$stdout")" -eq 1300 ] || fail "expected 1300 moves"
refute_file "$work/val/n01440764"
headrace_ok organize "$work/val" --devkit "$devkit"
expect_stdout 'val: 1300 images moved into class folders'
headrace_ok organize "$work/val" --devkit "$devkit"
expect_stdout 'sorted already'

headrace_ok verify "$work/val" --devkit "$devkit" --subset
expect_stdout '1300 validation images in 725 classes, 37.2 MB'
expect_stdout 'nothing is wrong'
headrace verify "$work/val"
expect_error 3 'findings; if it is meant to be a part of the published data only, say --subset'
expect_stdout 'missing class \(275\):'
headrace_ok verify "$work/val" --expect 725/1300 --quiet
refute_stderr .
headrace verify "$work/val" --expect 725/1301
expect_error 3 '1 finding$'
expect_stdout '^    1300 images, expected are 1301$'
headrace verify "$work/val" --expect lots
expect_error 2 'expected CLASSES/IMAGES'

victim=$(find "$work/val" -name '*.JPEG' | sort | head -n 1)
truncate -s 5000 "$victim"
headrace verify "$work/val" --subset --json
expect_error 3 '1 finding$'
expect_stdout "\"kind\": \"truncated image\", \"path\": \"${victim#"$work/val/"}\""
headrace_ok verify "$work/val" --subset --devkit "$devkit" --repair "$val" --duplicates
expect_stderr '1 images \([0-9.]+ kB\) were extracted'
expect_stdout 'nothing is wrong'
# An archive of class folders may need --prefix.
mkdir -p "$work/tree/sub" "$work/tree/train/n01440764"
cp -r "$work/val" "$work/tree/sub/val"
cp "$victim" "$work/tree/train/n01440764/n01440764_1.JPEG"
tar -cf "$work/folders.tar" -C "$work/tree" sub train
rm "$victim"
headrace verify "$work/val" --subset --devkit "$devkit" --repair "$work/folders.tar"
expect_error 2 'choose one with --prefix: '
headrace_ok verify "$work/val" --subset --devkit "$devkit" --repair "$work/folders.tar" --prefix sub/val
expect_stderr '1 images \([0-9.]+ kB\) were extracted'
expect_file "$victim"
headrace verify "$val" --repair "$val"
expect_error 2 'is for folders'
cp "$victim" "${victim%/*}/ILSVRC2012_val_00049999.JPEG"
headrace verify "$work/val" --subset --duplicates
expect_error 3 '1 finding$'
expect_stdout '49999.JPEG: the same bytes as '
rm "${victim%/*}/ILSVRC2012_val_00049999.JPEG"

headrace_ok verify "$val" --md5 --subset
expect_stdout 'not the published file \(MD5 29b22e2961454d5413ddabcf34fc5622\)'

# An index is checked record by record.
headrace_ok pack "$val" --devkit "$devkit" -o "$work/val.idx" --encoding jpeg
headrace_ok verify "$work/val.idx" --quiet
expect_stdout '1300 images in 1000 classes'
expect_stdout 'nothing is wrong'
printf 'xxxx' | dd of="$work/val-00000.shard" bs=1 seek=1000000 conv=notrunc status=none
headrace verify "$work/val.idx"
expect_error 3 '1 finding; bring the files back from a copy or pack the set again \(headrace pack --force\)'
expect_stdout 'record \(1\):'
expect_stdout '^    n[0-9]{8}/ILSVRC2012_val_[0-9]{8}.JPEG: record [0-9]+: .*val-00000.shard.*their CRC is'
headrace verify "$work/val.idx" --json
expect_stdout '"kind": "record", "path": "n[0-9]{8}/ILSVRC2012_val_[0-9]{8}.JPEG", "text": "record [0-9]+: .*", "record": [0-9]+\}'
headrace unpack "$work/val.idx" "$work/unpacked"
expect_error 1 "val.idx': record [0-9]+ \(n[0-9]{8}/ILSVRC2012_val_[0-9]{8}.JPEG\): .*their CRC is .*; --on-error skip leaves such images out"
headrace_ok unpack "$work/val.idx" "$work/unpacked" --on-error skip --json
expect_stderr 'warning: left out n[0-9]{8}/ILSVRC2012_val_[0-9]{8}.JPEG: .*their CRC is'
expect_stdout '"images": 1299, .*"on_error": "skip", "problems": \[\{"record": "n[0-9]{8}/ILSVRC2012_val_[0-9]{8}.JPEG", "reason": .*their CRC is'
[ "$(find "$work/unpacked" -type f | wc -l)" -eq 1299 ] || fail "expected all images but one"
headrace_ok unpack "$work/val.idx" "$work/unpacked" --on-error skip
expect_stdout ': 0 images written \(0 B\), 1299 were there, 1 were left out'
for encoding in jpeg dct; do
    headrace pack "$work/val.idx" -o "$work/whole.idx" --encoding $encoding
    expect_error 1 'their CRC is .*; --on-error skip leaves such images out$'
    headrace pack "$work/val.idx" -o "$work/whole.idx" --encoding $encoding --on-error keep
    expect_error 1 'their CRC is'
    refute_file "$work/whole.idx"
    headrace_ok pack "$work/val.idx" -o "$work/whole-$encoding.idx" --encoding $encoding --on-error skip
    expect_stderr 'warning: left out n[0-9]{8}/ILSVRC2012_val_[0-9]{8}.JPEG: .*their CRC is'
    headrace_ok verify "$work/whole-$encoding.idx"
    expect_stdout '1299 images in 1000 classes'
done
headrace_ok select "$work/whole-dct.idx" --classes n01440764 --per-class 1 -o "$work/one.idx"
printf 'xxxx' | dd of="$work/whole-dct-00000.shard" bs=1 seek=2000 conv=notrunc status=none
headrace unpack "$work/one.idx" "$work/one" --on-error skip
expect_error 1 'none of the 1 images can be read; the first: n01440764/'
headrace unpack "$work/one.idx" "$work/one"
expect_error 1 'leaves such images out'
refute_file "$work/one"
headrace verify "$work/val.idx" --devkit "$devkit"
expect_error 2 'class table of its own'
headrace verify "$work/val.idx" --md5
expect_error 2 'is an index'
headrace verify "$work/val.idx" --duplicates
expect_error 2 'is an index'

# One class too many does not end the comparison; classes of another kind have nothing to be compared with.
mkdir "$work/val/extra"
cp "$victim" "$work/val/extra/other.JPEG"
headrace verify "$work/val"
expect_error 3 'findings'
expect_stdout 'missing class \(275\):'
expect_stdout 'unexpected class \(1\):'
expect_stdout '^    extra: no such class'
mkdir -p "$work/numeric/1" "$work/numeric/2"
cp "$victim" "$work/numeric/1/a.JPEG"
cp "$victim" "$work/numeric/2/b.JPEG"
headrace_ok verify "$work/numeric"
expect_stdout 'classes \(1, …\) are not those of ILSVRC2012, whose folders are named like n01440764'

# What cannot be read is a finding, and not the end: a class folder, an image, a link to nothing.
cp -r "$work/val" "$work/closed"
chmod -R a+rX "$work/closed"
rm -r "$work/closed/extra"
mapfile -t closed < <(cd "$work/closed" && printf '%s\n' */*.JPEG | sort | awk -F/ '!seen[$1]++' | head -n 3)
chmod 000 "$work/closed/${closed[0]%/*}" "$work/closed/${closed[1]}"
ln -sf nowhere "$work/closed/${closed[2]}"
headrace_unprivileged verify "$work/closed" --subset
expect_error 3 'closed: 3 findings'
expect_stdout 'unreadable \(3\):'
expect_stdout "^    ${closed[0]%/*}: cannot open folder .*Permission denied"
expect_stdout "^    ${closed[1]}: .*Permission denied"
expect_stdout "^    ${closed[2]}: a link to something that is not there"
headrace_unprivileged verify "$work/closed" --subset --json --decode
expect_error 3 'closed: 3 findings'
expect_stdout "\"kind\": \"unreadable\", \"path\": \"${closed[0]%/*}\""
chmod 000 "$work"/closed/*
headrace_unprivileged verify "$work/closed"
expect_error 1 'nothing in .*/closed can be read: .*Permission denied'
headrace_unprivileged pack "$work/closed" -o "$work/closed.idx"
expect_error 1 'Permission denied'
chmod -R u+rwX "$work/closed"

# A report in JSON has all findings, of an index too.
truncate -s 0 "$work/val-00000.shard"
headrace verify "$work/val.idx" --json
expect_status 3
[ "$(grep -o '"kind": "record"' "$stdout" | wc -l)" -eq 1300 ] || fail "expected 1300 findings"
expect_stdout '"findings": 1301'

# What has no images of its own, and what a flag is not for.
headrace verify "$HEADRACE_DATA"
expect_error 1 'holds no images but archives: .*headrace verify '
mkdir "$work/indexes"
mv "$work"/val.idx "$work/indexes/"
headrace verify "$work/indexes"
expect_error 1 'an index, val.idx; name that: headrace verify .*/indexes/val.idx'
for path in "$work/val" "$work/indexes/val.idx" "$val"; do
    headrace verify "$path" --prefix val
    expect_error 2 'prefix is for archives of class folders'
    headrace pack "$path" --prefix val -o "$work/prefixed.idx"
    expect_error 2 'prefix is for archives of class folders'
done
