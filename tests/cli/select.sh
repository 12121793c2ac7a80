#!/usr/bin/env bash
# headrace info, ls, select, unpack and show on an index of CIFAR-10.
source tests/cli/lib.sh
need_data cifar10.tar

mkdir "$work/files"
tar -C "$work/files" -xf "$HEADRACE_DATA/cifar10.tar" val/bird val/cat val/dog
headrace_ok pack "$work/files/val" -o "$work/val.idx" --shard-size 100k

headrace_ok info "$work/val.idx" --classes
expect_stdout '^images +450, '
expect_stdout '^classes +3 .*150 to 150'
expect_stdout '^2.dog'
headrace_ok info "$work/val.idx" --json
expect_stdout '"version": 1, .*"images": 450, .*"provenance": \{'
headrace_ok ls "$work/val.idx" --classes dog -n 2
expect_stdout '^300.2.dog/.*\.jpg.[0-9]+.32 x 32.'
[ "$(wc -l <"$stdout")" -eq 2 ] || fail "expected two lines"
headrace_ok ls "$work/val.idx" --json --from 449
expect_stdout '"record": 449, "label": 2, "class": "dog"'
headrace ls "$work/val.idx" --classes wolf
expect_error 1 "no class 'wolf'"

# Everything that was packed comes back, and a second run has nothing to do.
headrace_ok unpack "$work/val.idx" "$work/again"
expect_stdout '450 images written'
expect_same "$work/files/val" "$work/again"
rm "$work/again/cat/"*3.jpg
headrace_ok unpack "$work/val.idx" "$work/again"
expect_same "$work/files/val" "$work/again"
headrace_ok unpack "$work/val.idx" "$work/again" --json
expect_stdout '"images": 0, .*"kept": 450'

# A lost index is made again from its shards.
headrace_ok select "$work"/val-*.shard -o "$work/rebuilt.idx"
"$HEADRACE_BIN" ls "$work/val.idx" --json >"$work/before"
"$HEADRACE_BIN" ls "$work/rebuilt.idx" --json >"$work/after"
expect_same "$work/before" "$work/after"

# Subsets, splits and unions.
headrace_ok select "$work/val.idx" --split 0.7 --seed 1 -o "$work/fit.idx" --rest "$work/tune.idx"
expect_stdout 'fit\.idx: 315 images in 3 classes'
expect_stdout 'tune\.idx: 135 images'
headrace_ok select "$work/fit.idx" "$work/tune.idx" -o "$work/both.idx"
"$HEADRACE_BIN" ls "$work/both.idx" --json >"$work/after"
expect_same "$work/before" "$work/after"
headrace_ok select "$work/val.idx" --split 0.7 --seed 1 -o "$work/fit.idx" --rest "$work/tune.idx"
headrace select "$work/val.idx" --split 0.7 --seed 2 -o "$work/fit.idx" --rest "$work/tune.idx"
expect_error 1 'exists and is another index'
headrace select "$work/val.idx" --every 2 -o "$work/two.idx" --rest "$work/two.idx"
expect_error 2 'two names'
headrace select "$work/fit.idx" "$work/val.idx" -o "$work/twice.idx"
expect_error 1 'two images named'
printf 'dog\r\n' >"$work/classes.txt"
headrace_ok select "$work/val.idx" --classes "$work/classes.txt" --per-class 5 -o "$work/dogs.idx"
expect_stdout '5 images in 1 classes'
headrace_ok unpack "$work/dogs.idx" "$work/dogs"
[ "$(find "$work/dogs/dog" -type f | wc -l)" -eq 5 ] || fail "expected five files"
printf 'cat pet\ndog pet\n' >"$work/map.txt"
headrace select "$work/val.idx" --relabel "$work/map.txt" -o "$work/pets.idx"
expect_error 1 'class pet has two images named'
headrace select "$work/val.idx" --every 2 -o "$work/fit.idx"
expect_error 1 'exists'
headrace_ok select "$work/val.idx" --every 2 -o "$work/fit.idx" --force
expect_stdout '225 images'

# A contact sheet; the same seed draws the same one.
headrace_ok show "$work/val.idx" -o "$work/a.png" -n 9 --columns 3 --seed 5
headrace_ok show "$work/val.idx" -o "$work/b.png" -n 9 --columns 3 --seed 5
expect_same "$work/a.png" "$work/b.png"
headrace_ok show "$work/val.idx" -o "$work/a.jpg" --classes cat
headrace show "$work/val.idx" -o "$work/a.gif"
expect_error 2 'gif'

# What is damaged is told.
printf x | dd of="$work/val-00000.shard" bs=1 seek=100 conv=notrunc 2>/dev/null
headrace unpack "$work/val.idx" "$work/damaged"
expect_error 1 'damaged.*CRC'
refute_file "$work/damaged/bird"
headrace info "$work/files/val/cat"
expect_error 2 'is a folder, expected an index; to make one .*: headrace pack .*/val/cat --in-place -o .*/val/cat.idx$'
mkdir -p "$work/files/train"
for command in info ls bench; do
    headrace $command "$work/files/"
    expect_error 2 'headrace pack .*/files/ --in-place -o .*/files/$'
    headrace $command "$work/files/val"
    expect_error 2 'headrace pack .*/files/val --in-place -o .*/files/val.idx$'
done
cp "$work/fit.idx" "$work/files/val.idx"
headrace bench "$work/files/val/"
expect_error 2 'for instance: headrace bench .*/files/val.idx$'
mkdir "$work/packed set"
cp "$work/fit.idx" "$work/packed set/train.idx"
headrace show "$work/packed set" -o "$work/x.png"
expect_error 2 "for instance: headrace show '.*/packed set/train.idx' -o FILE.png\$"

# Flags that would have no say are refused.
headrace select "$work/val.idx" --every 2 --seed 1 -o "$work/x.idx"
expect_error 2 'seed goes with --split'
headrace pack "$work/files/val" --in-place --shard-size 1M -o "$work/x.idx"
expect_error 2 'shard-size is for shards that are written'
headrace pack "$work/files/val" --in-place --on-error skip -o "$work/x.idx"
expect_error 2 'on-error with --in-place goes with --crc'
headrace pack "$work/files/val" --in-place --crc --on-error skip -o "$work/x.idx" --dry-run
expect_status 0
headrace pack "$HEADRACE_DATA/cifar10.tar" --prefix val -o "$work/x/"
expect_error 2 'prefix names one set'
headrace bench "$work/val.idx" --window 5
expect_error 2 'window goes with --order window'
headrace bench "$work/val.idx" --mode eval --order window
expect_error 2 'order is of training'
headrace verify "$work/val.idx" --subset
expect_error 2 'subset is for folders and archives'

# Names that would move a terminal's cursor are written out; in JSON they are what they are.
mkdir -p "$work/odd names/cat"
cp "$work/files/val/cat/"*3.jpg "$work/odd names/cat"
mv "$(find "$work/odd names/cat" -name '*3.jpg' | sort | head -n 1)" "$work/odd names/cat/"$'a\e[2J\tb\n.jpg'
headrace_ok pack "$work/odd names" -o "$work/odd.idx"
headrace_ok ls "$work/odd.idx"
expect_stdout 'cat/a\\x1b\[2J\\x09b\\x0a\.jpg'
headrace_ok ls "$work/odd.idx" --json
expect_stdout '"name": "a\\u001B\[2J\\tb\\n\.jpg"'
headrace verify "$work/"$'no\e[2Jthing'
expect_error 1 'no\\x1b\[2Jthing does not exist'
mv "$work/odd names/cat" "$work/odd names/"$'c\nat'
headrace_ok pack "$work/odd names" -o "$work/line.idx"
headrace_ok info "$work/line.idx" --classes
expect_stdout $'^0\tc\\\\x0aat\t$'
headrace_ok info "$work/odd.idx" --json --classes
expect_stdout '"class_table": \[\{"label": 0, "key": "cat", "words": ""\}\]'

# What stands for something else is named, with what to do.
headrace extract "$work/val.idx" "$work/x"
expect_error 1 'an index of headrace: headrace unpack INDEX DEST'
head -c 5000 "$work/val.idx" >"$work/cut.idx"
headrace info "$work/cut.idx"
expect_error 1 'cut short .*: headrace select NAME'
headrace ls "$work/val.idx" --from 5000000
expect_error 2 'beyond the last of the [0-9]+ records'
headrace select "$work/val.idx" --classes "$work/none.txt" -o "$work/x.idx"
expect_error 1 "there is no file '.*/none.txt': a list is a file"
echo '<html>' | gzip >"$work/page.tar.gz"
headrace extract "$work/page.tar.gz" "$work/x"
expect_error 1 'what the gzip file holds is no tar archive'
refute_file "$work/x"
