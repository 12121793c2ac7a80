#!/usr/bin/env bash
# The whole way on real images: class folders in, training under a launcher's variables, eval, replay, report.
source tests/cli/lib.sh
need_data ILSVRC2012_img_train.tar

headrace_ok pack "$HEADRACE_DATA/ILSVRC2012_img_train.tar" --in-place -o "$work/all.idx"
headrace_ok select "$work/all.idx" --every 40 -o "$work/some.idx"
mkdir -p "$work/datasets/imagenet"
headrace_ok unpack "$work/some.idx" "$work/datasets/imagenet/train"
cp -r "$work/datasets/imagenet/train" "$work/datasets/imagenet/val"

# The guide's command line, made small; WORLD_SIZE=1 is what torchrun sets for one process.
cd "$work" || exit 1
run env WORLD_SIZE=1 RANK=0 LOCAL_RANK=0 OMP_NUM_THREADS=1 "$HEADRACE_BIN" train --data datasets/imagenet \
    --arch resnet18 --epochs 1 --batch-size 8 --device reference --image-size 32 --pixels pillow13 --mixup 0.2
expect_status 0
expect_stdout '25 images, 4 steps an epoch'
expect_stdout '^ \* Acc@1 '
expect_file datasets/imagenet/train.idx

headrace_ok eval run datasets/imagenet/val --device reference --json
expect_stdout '"images": 25, "unreadable": 0.*"pixels": "pillow13"'
cp "$stdout" by-8
headrace_ok eval run/model_best.safetensors datasets/imagenet/val.idx --device reference --json -b 3
top1() { grep -oE '"top[15]_count": [0-9]+' "$1"; }
[ "$(top1 "$stdout")" = "$(top1 by-8)" ] || fail "the batch size changed the accuracy"
headrace_ok eval run datasets/imagenet/val --device reference --json --pixels fast
expect_stdout '"pixels": "fast"'
headrace_ok eval run datasets/imagenet/val --device reference --json --val-flip
expect_stdout '"images": 25, .*"val_flip": true'
headrace_ok eval run datasets/imagenet --device reference --json
[ "$(top1 "$stdout")" = "$(top1 by-8)" ] || fail "the folder around the set changed the accuracy"
mkdir indexes
headrace_ok select datasets/imagenet/val.idx -o indexes/val.idx
headrace_ok eval run indexes --device reference --json
expect_stdout '"images": 25, "unreadable": 0'
headrace eval run all.idx --device reference
expect_error 1 'is not among the 25'
trial=$(dirname "$HEADRACE_BIN")/trial
if [ -e "$trial/headrace-cuda.so" ]; then # stand-ins for two GPUs
    export STANDIN_DEVICES=2 XDG_CACHE_HOME=$work/cache
    HEADRACE_MODULES=$trial headrace_ok eval run datasets/imagenet/val --device cuda --dtype f32 --json -b 7
    expect_stdout '"images": 25, "unreadable": 0'
    [ "$(top1 "$stdout")" = "$(top1 by-8)" ] || fail "two devices changed the accuracy"
    HEADRACE_MODULES=$trial headrace_ok eval run datasets/imagenet/val --device cuda --gpus 1 --dtype f32 --json
    [ "$(top1 "$stdout")" = "$(top1 by-8)" ] || fail "a device changed the accuracy"
    HEADRACE_MODULES=$trial headrace eval run datasets/imagenet/val --device cuda --gpus 3
    expect_error 2 '3 GPUs were asked for'
fi
cp run/checkpoint.safetensors bare.safetensors
headrace eval bare.safetensors datasets/imagenet/val
expect_error 2 '--arch'
headrace_ok eval bare.safetensors datasets/imagenet/val --arch resnet18 --val-crop 32 --device reference
headrace eval bare.safetensors datasets/imagenet/val --arch resnet34 --device reference
expect_error 1 'missing.*layer1\.2\.conv1\.weight'

# Without a validation set that is said.
headrace_ok train --train datasets/imagenet/train.idx -a resnet18 --epochs 1 --steps 1 -b 8 --device reference \
    --image-size 32 --out unseen
expect_stderr 'note: there is no validation set \(--val\): nothing is evaluated'
refute_file unseen/model_best.safetensors

# A damaged image ends the work, and what goes on without it is said.
headrace_ok pack datasets/imagenet/val -o damaged.idx --encoding jpeg --quiet
printf 'xxxx' | dd of=damaged-00000.shard bs=1 seek=1000 conv=notrunc status=none
headrace eval run damaged.idx --device reference
expect_error 1 'damaged.*their CRC is .*; --on-error skip goes on without such images$'
headrace_ok eval run damaged.idx --device reference --json --on-error skip
expect_stdout '"images": 24, "unreadable": 1'
mkdir lone
cp damaged.idx lone/
headrace eval run lone/damaged.idx --device reference --on-error skip
expect_error 1 'none of the images to evaluate on can be read: headrace verify INDEX'
headrace train --train lone/damaged.idx -a resnet18 --epochs 1 -b 25 --device reference --image-size 32 --out lone/run --on-error skip
expect_error 1 'epoch 0: none of the 25 images can be read: headrace verify INDEX'
refute_file lone/run/checkpoint.safetensors
headrace train --train damaged.idx -a resnet18 --epochs 1 -b 25 --device reference --image-size 32 --out damaged
expect_error 1 'damaged.*their CRC is .*; --on-error skip goes on without such images$'

headrace replay run --step 4
expect_error 2 "step 4 is past the end of the run 'run', whose 4 steps are 0 to 3"
headrace_ok replay run --step 1 --checkpoint run --device reference --json
expect_stdout '"slot": 7, .*"flip": (true|false), "loss": '
expect_stdout '"mixed_in": 0\.[0-9]'
expect_file run/step-1.png
headrace_ok replay run run
expect_stdout 'the same images, crops and flips in all 4 steps'

headrace_ok report run --device reference --val nowhere.idx -o blind.html
expect_stderr "warning: the report has no images: .*nowhere.idx"
headrace_ok report run --device reference
[ "$(grep -c '<figure>' run/report.html)" -eq 12 ] || fail "the report has not 12 images"

# The class table is part of index and checkpoint: another set's labels are refused, and so is another number of classes.
small=(--device reference -a resnet18 -b 4 --image-size 32 --epochs 1 --steps 1)
classes=$(cut -f 3 <("$HEADRACE_BIN" ls all.idx -n 3) | cut -d / -f 1 | paste -sd ,)
headrace_ok select all.idx --classes "$classes" -o three.idx
headrace train --train three.idx --resume run --epochs 2 --device reference --out other
expect_error 1 "'three.idx' has other classes \(3, hash [0-9a-f]{16}\) than the checkpoint \(25, hash [0-9a-f]{16}\)"
headrace_ok train --synthetic --synthetic-classes 1001 --synthetic-images 8 "${small[@]}" --out run1001
headrace eval run1001 all.idx --device reference
expect_error 1 'class n01440764 is not among the 1001 that the model was trained on'
cp run1001/checkpoint.safetensors 1001.safetensors
headrace eval 1001.safetensors all.idx -a resnet18 --device reference
expect_error 2 'has 1001 classes and no .state beside it that names them, and the set has 1000: if its class 0'
headrace train --weights 1001.safetensors --train three.idx "${small[@]}" --out other
expect_error 1 "the shape of 'fc.weight' is \(1001, 512\), the network's is \(3, 512\): another number of classes"
