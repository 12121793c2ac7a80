#!/usr/bin/env bash
# headrace train --plan: what training would take, on this machine's CPU and on GPUs that are only described.
source tests/cli/lib.sh

unset CUDA_VISIBLE_DEVICES SLURM_JOB_GPUS SLURM_STEP_GPUS SLURM_GPUS_ON_NODE
small=(-a resnet18 -b 8 --image-size 64 --synthetic-classes 10 --threads 1)

headrace train "${small[@]}" --plan-device h100
expect_error 2 '--plan-device belongs to --plan'
headrace train "${small[@]}" --json
expect_error 2 '--json belongs to --plan'
headrace train "${small[@]}" --plan --evaluate --weights w.safetensors
expect_error 2 '--plan prints what training takes'
headrace train "${small[@]}" --plan --device cpu --plan-device h100
expect_error 2 '--plan-device names a GPU, which --device cpu does not use'
headrace train "${small[@]}" --plan --device reference
expect_error 1 'the reference backend plans nothing ahead.*--device cpu'

if [ -e "$(dirname "$HEADRACE_BIN")/headrace-cpu.so" ]; then
    headrace train "${small[@]}" --plan --accumulate 3 --device cpu
    expect_error 2 'a batch of 8 cannot be divided evenly'
    headrace_ok train "${small[@]}" --plan --device cpu
    expect_stdout '^resnet18 for 10 classes on cpu: 1 thread'
    expect_stdout '^batch = 1 device x 8, crops of 64; .*no data was named'
    expect_stdout '^layer1\.0\.conv1 +3x3/1 +16x16x64 +16x16x64$'
    expect_stdout '^ +4 x 3x3/1 convolution of \(8, 16, 16, 64\) to 64 channels, forward: '
    expect_stdout '^activations '
    expect_stdout '^the largest batch that fits is [0-9]+ images a device, -b [0-9]+; the next one needs [0-9.]+ GiB$'
    headrace_ok train "${small[@]}" --plan --device cpu --val-flip --image-size-start 32 --ramp-start 1 --ramp-end 2
    expect_stdout '^batch = 1 device x 8, crops of 32 growing to 64; '
    expect_stdout '^host: .* GiB for the mirror images of --val-flip$'
    headrace_ok train "${small[@]}" --plan --device cpu --json
    expect_stdout '^\{"version": ?1,.*"arch": ?"resnet18"'
    expect_stdout '"largest_batch": ?[1-9]'
    # What no machine has is refused before any of it is taken.
    headrace train --synthetic -a resnet18 --image-size 1024 -b 65536 --device cpu --out "$work/large"
    expect_error 1 'training in batches of 65536 takes [0-9.]+ GiB of memory; [0-9.]+ of this machine.s [0-9.]+ GiB are free: (give -b [0-9]+ or less|not even)'
fi

[ -e "$(dirname "$HEADRACE_BIN")/headrace-cuda.so" ] || exit 0
headrace train "${small[@]}" --plan --plan-device a1000
expect_error 2 "no device is called 'a1000'; there are .*h200"
headrace train "${small[@]}" --plan --plan-device t4 --dtype bf16
expect_error 1 'bf16 on the GPU needs compute capability 8\.0'
headrace_ok train "${small[@]}" --plan --plan-device h200 --gpus 2
expect_stdout '^resnet18 for 10 classes on cuda: 2 x NVIDIA H200 \(sm_90\), fp16, cuDNN 9'
expect_stdout '^batch = 2 devices x 4, '
expect_stdout '^ +[0-9]+ x sbr_conv_stats n4 c64 h16 w16 k64 r3 s1 p1 fp16: engine [0-9]+, workspace [0-9]+$'
expect_stdout ' of 138\.[0-9]+ GiB are needed'
expect_stdout '^the largest batch that fits is [0-9]+ images a device, -b [0-9]*[02468]; the next one '
headrace_ok train "${small[@]}" --plan --plan-device h200 --gpus 2 --sync-bn
expect_stdout '^ +[0-9]+ x sbr_conv_stats n4 c64 h16 w16 k64 r3 s1 p1 fp16: engine [0-9]+, workspace [0-9]+$'
expect_stdout '^ +[0-9]+ x bn_finalize n4 c64 h16 w16 of 2048 fp16: engine '
headrace train "${small[@]}" --plan --plan-device h200 --gpus 3
expect_error 2 'a batch of 8 cannot be divided evenly over .*3 devices.*take --batch-size 6 or 9'
