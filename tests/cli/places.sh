#!/usr/bin/env bash
# Preparing from and to untidy places: small disks, relative paths, links, another run.
source tests/cli/lib.sh
need_data ILSVRC2012_img_train.tar
data=$(realpath "$HEADRACE_DATA")
train=$data/ILSVRC2012_img_train.tar

# Relative paths and links, from another folder. The source is only read.
mkdir "$work/here"
ln -s "$data" "$work/here/downloads"
ln -s "$work/here" "$work/linked"
cd "$work/linked" || exit 1
headrace_ok prep downloads out --subset --quiet
headrace_ok verify ../linked/out --subset
expect_stdout 'nothing is wrong'
[ "$(ls "$work/here/out")" = "$(printf 'train\nval')" ] || fail "expected train and val only"
cd - >/dev/null || exit 1

# Names with spaces and other letters, all the way; seen from within as from outside.
odd=$work/a\ b/图
mkdir -p "$odd"
cd "$odd" || exit 1
headrace_ok prep ../../here/downloads . --subset --quiet
expect_same "$odd/train" "$work/here/out/train"
headrace_ok pack . --in-place -o ./
headrace_ok verify val.idx --decode
cd "$work" || exit 1
headrace_ok pack "$odd" -o "$odd/packed/" --quiet
headrace_ok unpack "$odd/val.idx" "a b/back"
expect_same "$odd/val" "$work/a b/back"
headrace_ok extract "$data/ILSVRC2012_img_val.tar" "$odd/flat" --quiet
headrace_ok organize "$odd/flat" --devkit "$data/ILSVRC2012_devkit_t12.tar.gz" --link
headrace_ok verify "$odd/flat" --subset
expect_stdout 'nothing is wrong'
cd - >/dev/null || exit 1
rm -rf "$work/a b"

# From a folder that may only be read, as another user; the results lie on another file system, where there is one.
mkdir -p "$work/closed"
cp -r "$work/here/out/val" "$work/closed/"
chmod -R a-w,a+rX "$work/closed"
other=$(mktemp -d -p /dev/shm headrace-cli.XXXXXX 2>/dev/null) || other=$work/other
mkdir -p "$other"
trap 'chmod -R u+rwX "$work"; rm -rf "$work" "$other"' EXIT
chmod 777 "$other"
headrace_unprivileged verify "$work/closed/val" --subset
expect_status 0
headrace_unprivileged pack "$work/closed/val" -o "$other/val.idx" --quiet
expect_status 0
headrace_unprivileged pack "$work/closed/val" --in-place -o "$other/place.idx" --quiet
expect_status 0
headrace_unprivileged organize "$work/closed/val" --devkit "$data/ILSVRC2012_devkit_t12.tar.gz"
expect_stdout 'sorted already'
headrace_unprivileged extract "$data/ILSVRC2012_img_val.tar" "$other/val" --devkit "$data/ILSVRC2012_devkit_t12.tar.gz" --quiet
expect_status 0
expect_same "$other/val" "$work/closed/val"
headrace_unprivileged extract "$data/ILSVRC2012_img_val.tar" "$work/closed/more"
expect_error 1 "cannot create folder '.*/closed/more': Permission denied"
headrace_unprivileged unpack "$other/place.idx" "$other/back"
expect_status 0
expect_same "$other/back" "$work/closed/val"

# What is refused leaves no folder behind.
headrace extract "$data/ILSVRC2012_devkit_t12.tar.gz" "$work/vain/a"
expect_error 2 'is a devkit'
headrace extract "$work/nowhere.tar" "$work/vain/a"
expect_error 1 'nowhere.tar'
printf 'no archive' >"$work/n01440764.tar"
tar -cf "$work/broken.tar" -C "$work" n01440764.tar
headrace extract "$work/broken.tar" "$work/vain/a"
expect_error 1 'n01440764'
refute_file "$work/vain"

# A run at a time: the second says so and leaves.
mkdir "$work/busy"
exec 8<"$work/busy"
flock 8
headrace extract "$train" "$work/busy"
expect_error 1 "another headrace is writing to '.*/busy'; wait for it"
[ -z "$(ls -A "$work/busy")" ] || fail "the second run wrote something"
exec 8<&-

# Small file systems, where this user may mount them: too few bytes and too few inodes are said
# before anything is written.
mkdir "$work/mount"
if ! unshare -rm mount -t tmpfs none "$work/mount" 2>/dev/null; then
    echo "no mounts here: small file systems are not tested"
    exit 0
fi
on_tmpfs() # OPTIONS COMMAND: with the file system at $work/mount
{
    run unshare -rm bash -c "mount -t tmpfs -o $1 none '$work/mount' && $2"
}
on_tmpfs size=1m "'$HEADRACE_BIN' extract '$train' '$work/mount/train'; s=\$?; ls -A '$work/mount'; exit \$s"
expect_error 1 "needs [0-9.]+ MB, its file system has [0-9.]+ [kM]B free"
refute_stdout .
on_tmpfs size=1g,nr_inodes=500 "'$HEADRACE_BIN' extract '$train' '$work/mount/train'; s=\$?; ls -A '$work/mount'; exit \$s"
expect_error 1 'needs [0-9]+ files, its file system has inodes for [0-9]+; pack the archive in place'
refute_stdout .
# Headers are counted exactly: 1000 images and their folders fit, 1300 in 725 folders do not.
on_tmpfs size=200m,nr_inodes=2100 "'$HEADRACE_BIN' extract '$train' '$work/mount/train' -q || exit 9
    '$HEADRACE_BIN' extract '$data/ILSVRC2012_img_val.tar' '$work/mount/val' --devkit '$data'"
expect_error 1 'needs 2300 files, its file system has inodes for [0-9]+;'
# Both parts have to fit before the first is begun.
on_tmpfs size=200m,nr_inodes=2100 "'$HEADRACE_BIN' prep '$data' '$work/mount/out' -q; s=\$?; ls -A '$work/mount'; exit \$s"
expect_error 1 'needs 4300 files'
refute_stdout .
# What cannot be counted, a compressed archive, is stopped by the file system: cleanly, and the next
# run does the rest.
gzip -c --fast "$data/ILSVRC2012_img_val.tar" >"$work/val.tar.gz"
on_tmpfs size=200m,nr_inodes=1000 "'$HEADRACE_BIN' extract '$work/val.tar.gz' '$work/mount/val' -q; s=\$?
    find '$work/mount/val' -name '*.partial'
    mount -o remount,nr_inodes=5000 '$work/mount'
    '$HEADRACE_BIN' extract '$work/val.tar.gz' '$work/mount/val' -q || exit 8
    ls '$work/mount/val' | wc -l; exit \$s"
expect_error 1 'run the same command again'
expect_stdout '^1300$'
refute_stdout partial
# A source on read-only media.
run unshare -rm bash -c "mount --bind '$data' '$work/mount' && mount -o remount,bind,ro '$work/mount' &&
    '$HEADRACE_BIN' pack '$work/mount/ILSVRC2012_img_train.tar' --in-place -o '$work/x.idx' &&
    ! '$HEADRACE_BIN' extract '$work/mount/ILSVRC2012_img_train.tar' '$work/mount/out' -q"
expect_status 0
expect_stderr "Read-only file system"
