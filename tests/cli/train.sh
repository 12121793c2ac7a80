#!/usr/bin/env bash
# Training from the command line: the guide's flags, resuming, stopping, evaluating, replaying, reporting.
source tests/cli/lib.sh

small=(--device reference --synthetic --synthetic-images 10 --synthetic-classes 6 -b 4 --image-size 32 --lr 0.01)

headrace_ok train "${small[@]}" --epochs 1 -p 1 --out "$work/run"
expect_stdout '^batch 4 = 1 device x 4, lr 0\.01, not scaled; 10 images, 3 steps an epoch$'
expect_stdout $'^Epoch: \\[0\\]\\[2/3\\]\tTime +[0-9.]+ \\( *[0-9.]+\\)\tData .*\tLoss [0-9.]+e[+-][0-9]+ \\(.*\\)\tAcc@1 .*\tAcc@5 .*\timages/s [0-9.]+\tlr 0\.01$'
expect_stdout $'^Test: \\[0/1\\]\tTime '
expect_stdout '^ \* Acc@1 [0-9]+\.[0-9]{3} Acc@5 [0-9]+\.[0-9]{3}$'
for file in checkpoint.safetensors checkpoint.state model_best.safetensors model_best.state log.jsonl; do
    expect_file "$work/run/$file"
done

# A second run does not write over the first, and a finished one has nothing left to do.
headrace train "${small[@]}" --epochs 1 --out "$work/run"
expect_error 2 'holds a run already.*--resume auto'
headrace_ok train --resume auto --out "$work/run"
refute_stdout '^Epoch'

# A run that --steps cuts short says where it stands.
headrace_ok train "${small[@]}" --epochs 2 --steps 2 --out "$work/short"
expect_stdout '^ended at epoch 0, step 2 of 3, as --steps asks; the weights: .*/short/checkpoint\.safetensors$'

# A stop finishes the step and is gone on from.
"$HEADRACE_BIN" train --resume "$work/run" --epochs 100000 --out "$work/stopped" >"$work/lines" 2>"$work/messages" &
pid=$!
for _ in $(seq 300); do
    grep -q '^Epoch: \[1\]' "$work/lines" && break
    sleep 0.1
done
kill -TERM $pid
wait $pid
status=$?
cp "$work/messages" "$stderr"
expect_error 75 'stopped as asked at epoch [0-9]+, step [0-3] of 3; continue with: headrace train --resume auto --out '
headrace_ok train --resume auto --out "$work/stopped" --epochs 1
headrace_ok train -e --resume "$work/stopped"
expect_stdout '^ \* Acc@1 '

# Lines that nobody reads, or that find no room, do not end a training, whose log has them all; they are all that an
# evaluation has.
for reader in pipe disk; do
    last_command="headrace train, with nobody behind the $reader"
    if [ $reader = pipe ]; then
        "$HEADRACE_BIN" train "${small[@]}" --epochs 1 -p 1 --out "$work/$reader" 2>"$stderr" | :
        status=${PIPESTATUS[0]}
    else
        "$HEADRACE_BIN" train "${small[@]}" --epochs 1 -p 1 --out "$work/$reader" 2>"$stderr" >/dev/full
        status=$?
    fi
    expect_status 0
    expect_stderr "warning: the lines of the run could not be written to stdout: .*Training goes on without them; '.*/$reader/log.jsonl' has what they say$"
    [ "$(grep -c 'could not be written' "$stderr")" -eq 1 ] || fail "it is not said once"
    [ "$(grep -c '"kind": "train"' "$work/$reader/log.jsonl")" -eq 3 ] || fail "the log does not have three steps"
    expect_same "$work/run/checkpoint.safetensors" "$work/$reader/checkpoint.safetensors"
done
last_command='headrace train -e >/dev/full'
"$HEADRACE_BIN" train -e --resume "$work/run" >/dev/full 2>"$stderr"
status=$?
expect_error 1 'could not be written to stdout: is its disk full'

# What the flags of the guide's trainer turn into.
headrace train --synthetic --pretrained
expect_error 2 'weights with --weights FILE'
headrace train --synthetic --arch resnet20
expect_error 2 'resnet18'
headrace train --batch_size 0
expect_error 2 'batch-size'
headrace train "$work/run"
expect_error 1 'neither train\.idx nor a folder train/'
headrace train
expect_error 2 'no training set'
WORLD_SIZE=8 headrace train --synthetic
expect_error 2 'WORLD_SIZE is .8., but RANK is not set: .* --launcher alone'
printf 'PK\003\004' >"$work/w.pth"
headrace train -e --weights "$work/w.pth" "${small[@]}"
expect_error 1 'save_file'
echo '--lr 0.5 --no-such' >"$work/recipe"
headrace train --recipe "$work/recipe" --synthetic
expect_error 2 'no-such'
headrace train --recipe no-such --synthetic
expect_error 1 "no file 'no-such', and no recipe of this name in .*/share/headrace/recipes"
headrace_ok train --recipe demo "${small[@]}" --steps 1 --epochs 1 --out "$work/named"

headrace_ok report "$work/stopped" --samples 0
expect_file "$work/stopped/report.html"
grep -q '<th>lr</th><td>0\.01</td>' "$work/stopped/report.html" || fail "the report does not say lr as it was typed"
headrace replay "$work/run" --step 0
expect_error 1 'synthetic'
