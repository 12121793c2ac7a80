#!/usr/bin/env bash
# One of everything that verify finds, named and counted in text and in JSON.
source tests/cli/lib.sh
need_data ILSVRC2012_img_train.tar
train=$work/set/train
val=$work/set/val
headrace_ok prep "$HEADRACE_DATA" "$work/set" --subset --quiet
devkit=$HEADRACE_DATA/ILSVRC2012_devkit_t12.tar.gz
mapfile -t classes < <(ls "$train")
first_of() { find "$1" -type f | sort | head -n 1; } # FOLDER

# Each in a class of its own, so that one does not hide another.
extra=$(first_of "$train/${classes[0]}")
rm -r "${train:?}/${classes[1]}"
mkdir "$train/n99999999" && cp "$extra" "$train/n99999999/n99999999_1.JPEG"
rm "${train:?}/${classes[2]}/"*
mv "$(first_of "$train/${classes[3]}")" "$train/${classes[4]}/"
cp "$(first_of "$train/${classes[5]}")" "$train/${classes[5]}/${classes[5]}_999999.JPEG"
cp "$extra" "$train/stray.JPEG"
mkdir "$train/.${classes[6]}.partial"
truncate -s 0 "$(first_of "$train/${classes[7]}")"
echo '<html>' >"$(first_of "$train/${classes[8]}")"
cut=$(first_of "$train/${classes[9]}")
truncate -s $(($(stat -c %s "$cut") * 6 / 10)) "$cut"
printf '\xff\xd8' >"$(first_of "$train/${classes[10]}")"
dead=$(first_of "$train/${classes[11]}")
ln -sf nowhere "$dead"
wrong=$(first_of "$val/${classes[0]}")
mv "$wrong" "$val/${classes[1]}/"
twice=$(first_of "$val/${classes[2]}")
cp "$twice" "$val/${classes[3]}/"

for decode in '' --decode; do
    # shellcheck disable=SC2086 # no word is wanted where there is none
    headrace verify "$work/set" --devkit "$devkit" --duplicates $decode
    expect_status 3
    for kind in 'missing class' 'unexpected class' 'empty class' 'image count' 'missing image' 'image twice' 'same bytes' \
        'misplaced image' 'stray' 'unfinished folder' 'empty file' 'not an image' 'truncated image' 'unreadable'; do
        expect_stdout "^  $kind \\([0-9]+\\):"
    done
    # shellcheck disable=SC2086
    headrace verify "$work/set" --devkit "$devkit" --duplicates $decode --json
    expect_status 3
    expect_found() # KIND PATH TEXT
    {
        expect_stdout "\"kind\": \"$1\", \"path\": \"$2\", \"text\": \"$3"
    }
    expect_found 'missing class' "${classes[1]}" ''
    expect_found 'unexpected class' n99999999 'no such class \(images: 1\)'
    expect_found 'empty class' "${classes[2]}" 'no images'
    expect_found 'image count' "${classes[0]}" 'has 1, published are [0-9]+'
    expect_found 'missing image' ILSVRC2012_val_00000001.JPEG 'not there'
    expect_found 'image twice' "n[0-9]+/${twice##*/}" 'another image has the same number'
    expect_found 'same bytes' "${classes[5]}/${classes[5]}_999999.JPEG" "the same bytes as ${classes[5]}/"
    expect_found 'misplaced image' "${classes[4]}/${classes[3]}_[0-9]+.JPEG" "belongs to ${classes[3]}"
    expect_found 'misplaced image' "${classes[1]}/${wrong##*/}" "belongs to ${classes[0]}"
    expect_found 'stray' stray.JPEG 'an image outside the class folders'
    expect_found 'unfinished folder' ".${classes[6]}.partial" 'left by a stopped extraction'
    expect_found 'empty file' "${classes[7]}/.*JPEG" '0 bytes'
    expect_found 'not an image' "${classes[8]}/.*JPEG" 'an HTML page'
    expect_found 'truncated image' "${classes[9]}/.*JPEG" 'libjpeg: Premature end'
    expect_found 'truncated image' "${classes[10]}/.*JPEG" 'a JPEG image that ends after 2 bytes'
    expect_found 'unreadable' "${classes[11]}/${dead##*/}" 'a link to something that is not there'
    count=$(grep -oE '"findings": [0-9]+' "$stdout" | head -n 1 | grep -oE '[0-9]+')
    [ "$(grep -o '"kind": "[^"]*", "path": "[^"]*", "text"' "$stdout" | wc -l)" -eq "$count" ] || fail "expected $count findings"
done

# Repairing from the archive leaves what it cannot know of.
headrace verify "$train" --subset --repair "$HEADRACE_DATA/ILSVRC2012_img_train.tar"
expect_status 3
for kind in 'empty class' 'empty file' 'not an image' 'truncated image' 'unreadable'; do
    refute_stdout "^  $kind "
done
expect_stdout '^  misplaced image \(1\):'
