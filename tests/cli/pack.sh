#!/usr/bin/env bash
# headrace pack: archives, folders and indexes of the same images give the same shards.
source tests/cli/lib.sh
need_data cifar10.tar
archive=$HEADRACE_DATA/cifar10.tar

mkdir "$work/folder"
tar -C "$work/folder" -xf "$archive" val/cat val/dog
tar -C "$work/folder" -cf "$work/part.tar" val

headrace_ok pack "$work/part.tar" -o "$work/tar.idx" --encoding jpeg --shard-size 100k -j 1
expect_stdout '^.*tar\.idx: 300 images in 2 classes'
expect_stderr 'note: .*300 images .* make 3 shards'
headrace_ok pack "$work/folder/val" -o "$work/folder.idx" --encoding jpeg --shard-size 100k -j 4
headrace_ok pack "$work/tar.idx" -o "$work/index.idx" --encoding jpeg --shard-size 100k
for i in 0 1 2; do
    expect_same "$work/tar-0000$i.shard" "$work/folder-0000$i.shard"
    expect_same "$work/tar-0000$i.shard" "$work/index-0000$i.shard"
done

# Coefficients: the same images in another form, and the same files back.
headrace_ok pack "$work/part.tar" -o "$work/dct.idx" --shard-size 100k -j 1 --json
expect_stdout '"encodings": ?\{"jpeg": ?0, "dct": ?300\}'
headrace_ok pack "$work/tar.idx" -o "$work/index-dct.idx" --shard-size 100k -j 4
expect_same "$work/dct-00001.shard" "$work/index-dct-00001.shard"
headrace_ok info "$work/dct.idx"
expect_stdout '^encodings +300 dct$'
headrace_ok verify "$work/dct.idx" --decode --quiet
expect_stdout 'nothing is wrong'
headrace_ok unpack "$work/dct.idx" "$work/unpacked"
diff -r "$work/folder/val" "$work/unpacked" || fail "other files came back"
headrace_ok pack "$work/dct.idx" -o "$work/back.idx" --encoding jpeg --shard-size 100k
expect_same "$work/tar-00001.shard" "$work/back-00001.shard"

# Lossy only when that was said.
headrace pack "$work/part.tar" -o "$work/lossy.idx" --max-side 16
expect_error 2 'add --lossy'
headrace pack "$work/part.tar" -o "$work/lossy.idx" --lossy
expect_error 2 'add --max-side or --quality'
headrace pack "$work/part.tar" -o "$work/lossy.idx" --in-place --encoding dct
expect_error 2 'can only be jpeg'
headrace_ok pack "$work/part.tar" -o "$work/lossy.idx" --lossy --max-side 16 --encoding dct
expect_stderr '300 images were shrunk'
headrace_ok info "$work/lossy.idx"
expect_stdout 'at most 16 x 16'

# Again: nothing to do; something else: refused, unless forced.
headrace_ok pack "$work/part.tar" -o "$work/tar.idx" --encoding jpeg --shard-size 100k
expect_stderr 'complete already'
headrace_ok pack "$work/part.tar" -o "$work/tar.idx" --encoding jpeg --shard-size 100k --json
expect_stdout '"written": false, "images": 300'
rm "$work/folder/val/cat/"*7.jpg
headrace pack "$work/folder/val" -o "$work/tar.idx" --encoding jpeg
expect_error 1 'exists and is not what packing this would make'
headrace_ok pack "$work/folder/val" -o "$work/tar.idx" --encoding jpeg --force
refute_file "$work/tar-00001.shard"

# In place: the archive itself is the shard.
headrace_ok pack "$archive" --in-place --prefix train -o "$work/place.idx" --json
expect_stdout '"images": ?7000'
refute_file "$work/place-00000.shard"
headrace_ok pack "$archive" --in-place --prefix val -o "$work/place-crc.idx"
headrace pack "$archive" --in-place --crc --prefix val -o "$work/place-crc.idx"
expect_error 1 'not what packing this would make'
headrace_ok pack "$archive" --in-place --crc --prefix val -o "$work/place-crc.idx" --force
headrace_ok pack "$work/place-crc.idx" -o "$work/from-place.idx"
expect_stdout '1500 images in 10 classes'

# Both parts at once, into a folder.
headrace_ok pack "$archive" --in-place -o "$work/both/"
refute_stderr 'are ignored'
expect_file "$work/both/train.idx"
expect_file "$work/both/val.idx"
headrace pack "$work/folder" -o "$work/both/"
expect_error 2 'neither folders train/ and val/'
mkdir -p "$work/folder/train/dog" "$work/folder/train/cat"
cp "$work/folder/val/dog/"*1.jpg "$work/folder/train/dog"
headrace_ok pack "$work/folder" -o "$work/pair/"
headrace pack "$work/folder" -o "$work/one.idx"
expect_error 2 'holds a training and a validation part'

# A dry run writes nothing; wrong lines are explained.
headrace_ok pack "$work/part.tar" -o "$work/dry.idx" --dry-run
refute_file "$work/dry.idx"
headrace pack "$work/part.tar" -o "$work/dry"
expect_error 2 'ends in \.idx'
headrace pack "$work/part.tar" -o "$work/dry.idx" --crc
expect_error 2 'goes with --in-place'
for dry in '' -n; do
    # shellcheck disable=SC2086 # no word is wanted where there is none
    headrace pack "$work/part.tar" -o "$work/none/dry.idx" $dry
    expect_error 1 "there is no folder '.*/none'"
done
mkdir "$work/shut"
chmod 555 "$work/shut"
headrace_unprivileged pack "$work/part.tar" -o "$work/shut/dry.idx" -n
expect_error 1 "cannot create files in '.*/shut': Permission denied"
headrace_unprivileged pack "$archive" -o "$work/shut/new/" -n
expect_error 1 "cannot create files in '.*/shut': Permission denied"
headrace_ok pack "$archive" -o "$work/new/deep/" -n
refute_file "$work/new"
touch "$work/file"
headrace pack "$archive" -o "$work/file/" -n
expect_error 1 "file/?' exists and is not a folder"
headrace pack "$archive" -o "$work/dry.idx"
expect_error 2 'choose one with --prefix: '
headrace pack "$work/none" -o "$work/dry.idx"
expect_error 1 'none'
printf '<!DOCTYPE html>' >"$work/page.tar"
headrace pack "$work/page.tar" -o "$work/dry.idx"
expect_error 1 'HTML'

# Images that cannot be read.
printf 'no image' >"$work/folder/train/cat/bad.jpg"
headrace pack "$work/folder/train" -o "$work/bad.idx"
expect_error 1 'cat/bad\.jpg: .*--on-error skip'
refute_file "$work/bad.idx"
headrace_ok pack "$work/folder/train" -o "$work/bad.idx" --on-error skip
expect_stderr 'warning: left out cat/bad\.jpg'
headrace_ok pack "$work/folder/train" -o "$work/bad.idx" --on-error skip
expect_stderr 'complete already'
headrace_ok pack "$work/folder/train" -o "$work/kept.idx" --on-error keep --json
expect_stdout '"record": ?"cat/bad\.jpg"'

# One that was cut short is met without decoding everything.
rm "$work/folder/train/cat/bad.jpg"
whole=$(find "$work/folder/train/dog" -type f | sort | head -n 1)
head -c $(($(stat -c %s "$whole") - 30)) "$whole" >"$work/folder/train/cat/cut.jpg"
for encoding in jpeg dct; do
    headrace pack "$work/folder/train" -o "$work/cut.idx" --encoding $encoding
    expect_error 1 'cat/cut\.jpg: libjpeg: Premature end of JPEG file; --on-error skip'
    headrace_ok pack "$work/folder/train" -o "$work/cut-$encoding.idx" --encoding $encoding --on-error keep
    expect_stderr 'warning: kept cat/cut\.jpg'
    headrace_ok ls "$work/cut-$encoding.idx" --classes cat
    expect_stdout "^[0-9]+.0.cat/cut\.jpg.$(stat -c %s "$work/folder/train/cat/cut.jpg").-"
    headrace_ok verify "$work/cut-$encoding.idx"
    headrace verify "$work/cut-$encoding.idx" --decode
    expect_error 3 '1 finding'
done

# More shards than the soft limit of open files.
headrace_ok pack "$archive" --prefix train -o "$work/many.idx" --shard-size 65536
run bash -c 'ulimit -Sn 32; exec "$@"' bash "$HEADRACE_BIN" verify "$work/many.idx" --quiet
expect_status 0
run bash -c 'ulimit -Sn 32; exec "$@"' bash "$HEADRACE_BIN" bench "$work/many.idx" --image-size 8 --epochs 1
expect_status 0

# Closed streams: nothing that is printed ends up in a file, and lost results are a failure.
run bash -c 'exec "$@" 0>&- 1>&- 2>&-' bash "$HEADRACE_BIN" pack "$work/part.tar" -o "$work/mute.idx"
expect_status 1
headrace_ok verify "$work/mute.idx" --quiet

# A folder that cannot be written to, and one that another run is writing to.
mkdir "$work/closed"
chmod 555 "$work/closed"
headrace_unprivileged pack "$work/part.tar" -o "$work/closed/x.idx"
expect_error 1 "cannot write '.*/closed/x.idx': .*Permission denied"
headrace_unprivileged pack "$archive" -o "$work/closed/both/"
expect_error 1 "cannot create folder '.*/closed/both': Permission denied"
exec 8>"$work/.x.idx.tmp.1"
flock 8
headrace pack "$work/part.tar" -o "$work/x.idx"
expect_error 1 "another headrace is writing '.*/x.idx'; wait for it, or choose another name"
exec 8>&-
headrace_ok pack "$work/part.tar" -o "$work/x.idx"
refute_file "$work/.x.idx.tmp.1"

# A kill leaves nothing that the next run does not clear away; a file size limit is an error.
mkdir "$work/killed"
HEADRACE_FAULT=kill:4 headrace pack "$work/part.tar" -o "$work/killed/tar.idx" --shard-size 100k
expect_status 137
headrace_ok pack "$work/part.tar" -o "$work/killed/tar.idx" --shard-size 400k
[ "$(find "$work/killed" -type f | wc -l)" -eq 2 ] || fail "expected one shard and its index"
run bash -c 'ulimit -f 100; exec "$@"' bash "$HEADRACE_BIN" pack "$archive" --prefix train -o "$work/limit.idx"
expect_error 1 'File too large'
refute_file "$work/limit.idx"
