#!/usr/bin/env bash
# Wrong lines, as a newcomer types them: each is answered by one sentence that says what to do instead.
source tests/cli/lib.sh
need_data ILSVRC2012_img_val.tar
val=$HEADRACE_DATA/ILSVRC2012_img_val.tar
devkit=$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz
mkdir "$work/empty" "$work/my downloads"
touch "$work/zero.tar"
echo 'Not an archive.' >"$work/notes.txt"
headrace_ok extract "$val" "$work/sorted/val" --devkit "$devkit" --quiet
class=$(find "$work/sorted/val" -mindepth 1 -type d | sort | head -n 1)
mkdir -p "$work/sorted/train/${class##*/}"
cp "$(find "$class" -type f | head -n 1)" "$work/sorted/train/${class##*/}/${class##*/}_1.JPEG"

# Something is missing on the line.
for command in prep extract; do
    headrace $command
    expect_error 2 "$command expects [A-Z]+ DEST, found 0 of them"
    headrace $command "$work/empty"
    expect_error 2 'found 1 of them; "headrace .* --help" has an example'
    headrace $command a b c
    expect_error 2 "found 'c' too"
done
headrace pack "$val"
expect_error 2 'the option --out NAME.idx|DIR/ is missing'
for wrong in '-o x' '-C x' '--output x' '--dest=x'; do
    # shellcheck disable=SC2086 # words are wanted
    headrace unpack x.idx $wrong
    expect_error 2 "no option '${wrong%[ =]x}': DEST is given without one: headrace unpack INDEX DEST"
done
headrace extract "$val" -o "$work/x"
expect_error 2 'headrace extract ARCHIVE DEST'
for command in info ls verify bench; do
    headrace $command x.idx -o x
    expect_error 2 "no option '-o': results are printed; to have them in a file: headrace $command [A-Z]+ >FILE"
done
headrace eval run x.idx --output x
expect_error 2 "no option '--output': results are printed; to have them in a file: headrace eval CHECKPOINT SET >FILE"
headrace prep "$work/empty" -o "$work/x"
expect_error 2 'DEST is given without one: headrace prep SRC DEST'
headrace organize "$work/empty" -o "$work/x"
expect_error 2 "no option '-o': images are sorted within VAL_DIR"
headrace fetch x.idx -o "$work/x"
expect_error 2 "no option '-o': records go into the folder of --cache: headrace fetch INDEX --cache DIR"
headrace train "$work/empty" -o "$work/x"
expect_error 2 "no option '-o'; did you mean '--out'"

# An output that is nothing to write to.
for command in "extract $val" "prep $HEADRACE_DATA" 'unpack x.idx' 'fetch x.idx --cache' 'show x.idx -o' 'report run -o' \
    'replay run --step 0 -o' 'select x.idx -o' 'pack x.idx -o' 'train x --out'; do
    # shellcheck disable=SC2086 # words are wanted
    headrace $command http://host/x
    expect_error 2 'is a URL, which is read only: write to a folder here'
    # shellcheck disable=SC2086
    [ "$command" = 'fetch x.idx --cache' ] || headrace $command ''
    expect_error 2 'the name of what is to be written is empty|is a URL'
done
headrace replay run --step 0 -o sheet.gif
expect_error 2 'a contact sheet is written as .png, .jpg or .jpeg'
headrace report run -o page.idx
expect_error 2 "'page.idx': a report is written as .html"
mkfifo "$work/pipe.html"
headrace report run -o "$work/pipe.html"
expect_error 1 'pipe.html.: it is no regular file but a device, a pipe or a socket'
headrace replay "$work/empty" --step 0
expect_error 1 'no folder of a run: it has no log.jsonl; expected the RUN_DIR of headrace train'
headrace verify "$val" --devkti "$devkit"
expect_error 2 "no option '--devkti'; did you mean '--devkit'"
headrace verify "$val" --devkit
expect_error 2 'devkit'

# A path that is not there, or something else than it should be.
headrace prep "$work/nowhere" "$work/x"
expect_error 1 'nowhere does not exist; prep looks for the archives in a folder'
headrace prep "$val" "$work/x"
expect_error 2 'is not a folder; prep looks for the archives in a folder, headrace extract takes one archive'
headrace prep "$HEADRACE_DATA" "$work/notes.txt"
expect_error 1 "notes.txt' exists and is not a folder"
headrace extract "$work/nowhere.tar" "$work/x"
expect_error 1 "cannot open '.*nowhere.tar': No such file"
headrace extract "$work/my downloads" "$work/x"
expect_error 2 "is a folder, expected one archive; .*: headrace prep '.*/my downloads' .*/x\$"
headrace extract "$work/zero.tar" "$work/x"
expect_error 1 'zero.tar is not a tar archive but empty'
mkdir -p "$work/part/val/cat"
cp "$(find "$class" -type f | head -n 1)" "$work/part/val/cat/1.JPEG"
tar -cf "$work/class folders.tar" -C "$work/part" val
headrace extract "$work/class folders.tar" "$work/un packed"
expect_error 2 'has class folders already'
run_advice 'mkdir -p [^;]*'
expect_file "$work/un packed/val/cat/1.JPEG"
headrace extract "$devkit" "$work/x"
expect_error 2 'is a devkit; it needs no unpacking: give it with --devkit'
headrace pack "$HEADRACE_DATA/cifar10.tar" -o "$work/x.idx"
expect_error 2 'choose one with --prefix: val, train; or give a folder for both, .*: -o DIR/'
headrace pack "$devkit" -o "$work/x.idx"
expect_error 2 'is the devkit, which has no images'
headrace organize "$work/nowhere"
expect_error 1 'nowhere does not exist, expected a folder of validation images'
headrace organize "$val"
expect_error 2 'is a file, expected a folder .*: headrace extract .*ILSVRC2012_img_val.tar DEST --devkit ILSVRC2012_devkit_t12.tar.gz'
headrace organize "$work/empty" --devkit "$devkit"
expect_error 1 'empty has no images: expected ILSVRC2012_val_00000001.JPEG'
for wrong in "$work/empty" "$val"; do
    headrace organize "$work/sorted/val" --devkit "$wrong"
    expect_error 1 'is not a devkit: it has no meta.mat; expected ILSVRC2012_devkit_t12.tar.gz or the folder'
done
headrace organize "$work/sorted/val" --devkit "$work/zero.tar"
expect_error 1 'devkit: .*zero.tar is not a tar archive but empty'
headrace verify "$work/nowhere"
expect_error 1 'nowhere does not exist'
headrace verify "$work/empty"
expect_error 1 'empty has no class folders and no images; expected .*/empty/CLASS/NAME.JPEG'
headrace verify "$work/notes.txt"
expect_error 1 'notes.txt is not a tar archive but '

mkdir "$work/test images"
cp "$(find "$class" -type f | head -n 1)" "$work/test images/ILSVRC2012_test_00000001.JPEG"
tar -cf "$work/test.tar" -C "$work/test images" ILSVRC2012_test_00000001.JPEG
headrace extract "$work/test.tar" "$work/x" --devkit "$devkit"
expect_error 2 'test.tar has test images, whose classes are not published'
headrace pack "$work/test images" -o "$work/x.idx"
expect_error 2 'has test images .*, whose classes are not published'
headrace_ok verify "$work/test images"
expect_stdout '1 test images, '

# The right folder, one level too deep or too high.
for command in verify organize 'pack -o x.idx'; do
    # shellcheck disable=SC2086 # words are wanted
    headrace $command "$class"
    expect_error 2 'is the folder of one class( already)?; name the folder around it'
done
headrace organize "$work/sorted"
expect_error 1 'has no images, but a folder val: headrace organize .*/sorted/val'
headrace organize "$work/sorted/train"
expect_error 1 'has training images .*are sorted already: headrace verify .*/sorted/train'
headrace pack "$work/sorted" -o "$work/x.idx"
expect_error 2 'holds a training and a validation part; name one of them .* or give a folder for both, .*: -o DIR/'
headrace prep "$work/sorted" "$work/x"
expect_error 2 'has folders of images already, .*: headrace verify .*/sorted; pack them: headrace pack .*/sorted -o DIR/'
headrace verify "$work/sorted" --expect 1/1
expect_error 2 'expect is for one set; verify .*/train and .*/val one after the other'

# What the messages say to type works as it stands, in folders of any name.
cd "$work" || exit 1
odd="a b/it's \$1/图"
mkdir -p "$odd/val/val"
cp "$(find "$work/sorted/val" -type f | head -n 1)" "$odd/val/val"
headrace organize "$odd/val" --devkit "$devkit"
expect_error 1 'but a folder val'
run_advice 'headrace organize .*'
expect_stdout 'val/val: 1 images moved into class folders'
cp -r "$odd/val/val/" "$work/one"
mkdir -p "$odd/flat/val"
mv "$odd"/val/val/*/*.JPEG "$odd/flat/val"
headrace verify "$odd/flat/val"
expect_error 2 'their classes are told by the devkit'
cp "$devkit" .
run_advice 'headrace organize .*'
expect_stdout "flat/val: 1 images moved into class folders"
headrace verify "$odd/flat/val" --subset
expect_status 0
headrace info "$odd/flat/val"
expect_error 2 'is a folder, expected an index'
run_advice 'headrace pack .*'
headrace info "$odd/flat/val"
run_advice 'headrace info .*'
expect_stdout '^images +1, '
mkdir "$odd/archives"
cp "$HEADRACE_DATA/cifar10.tar" "$odd/archives/"
headrace verify "$odd/archives"
expect_error 1 'holds no images but archives: cifar10.tar; name that: headrace verify '
headrace extract "$odd/archives" "$odd/x"
expect_error 2 'headrace prep '
mkdir -p "$odd/numbers"/{0,10}
for n in 0 10; do cp "$odd"/flat/val/*/*.JPEG "$odd/numbers/$n/a.JPEG"; done
headrace pack "$odd/numbers" -o "$work/x.idx"
expect_error 1 'not guessed'
run_advice 'headrace organize .* --folders labels'
expect_file "$odd/numbers/n01440764/a.JPEG"

for command in verify info 'pack -o x.idx' 'eval run' 'train --out none --train'; do
    # shellcheck disable=SC2086 # words are wanted
    headrace $command ftp://host/val.idx
    expect_error 2 "'ftp://host/val.idx' is a URL of a kind that is not read; those of http://, https:// and s3:// are"
done
# Passwords of what was meant to be a URL, and queries, are never shown.
for url in http:/us:sEcReT@h/x ' http://us:sEcReT@h/x' https//us:sE/cReT@h/x 'http://us:sE?cReT@h/x' us:sEcReT@h/x 'http://h:x/x?sEcReT' \
    'ftp://h/x?sEcReT'; do
    for command in info 'verify --md5' 'pack -o x.idx' 'pack -o folder' 'train --out none --data' 'train --out none --train' \
        "select $work/x.idx -o" 'info x.idx --origins'; do
        # shellcheck disable=SC2086
        headrace $command "$url"
        [ "$status" -ne 0 ] || fail "headrace $command '$url' succeeds"
        ! grep -q 'cReT' "$stdout" "$stderr" || fail "headrace $command '$url' shows a password: $(cat "$stderr")"
    done
done
headrace_ok pack "$work/one" --in-place -o "$work/indexes.idx" --quiet
mkdir "$work/indexes"
headrace_ok select "$work/indexes.idx" -o "$work/indexes/one.idx"
headrace pack "$work/indexes" -o "$work/x.idx"
expect_error 1 'holds no images but an index; name that: .*/indexes/one.idx'
mkdir "$work/run"
head -c 10 "$work/indexes/one.idx" >"$work/run/log.jsonl"
for command in 'replay --step 0' report; do
    # shellcheck disable=SC2086
    headrace $command "$work/run"
    expect_error 1 "log.jsonl' does not tell of the start of a run"
done
head -c 20 "$work/indexes/one.idx" >"$work/cut.idx"
headrace info "$work/cut.idx"
expect_error 1 'cut short: it ends within the header, at byte 20; copy it again, or make it anew'

# What has nothing to do says so.
headrace_ok organize "$work/sorted/val" --folders labels
expect_stdout "no folder's name is a number, so there is nothing to rename"
headrace_ok organize "$work/sorted/val" --devkit "$devkit"
expect_stdout 'sorted already'
for left in x x.idx; do refute_file "$work/$left"; done
