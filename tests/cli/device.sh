#!/usr/bin/env bash
# Which device computes, and why: never the CPU in place of a GPU that does not answer.
source tests/cli/lib.sh

unset CUDA_VISIBLE_DEVICES SLURM_JOB_GPUS SLURM_STEP_GPUS SLURM_GPUS_ON_NODE
[ ! -e /dev/nvidiactl ] || skip "there is an NVIDIA device here"
small=(--synthetic --synthetic-images 4 --synthetic-classes 6 -a resnet18 -b 4 --image-size 32 --epochs 1 --threads 1)

headrace_ok train "${small[@]}" --out "$work/auto"
refute_stderr 'NVIDIA|CUDA'

export CUDA_VISIBLE_DEVICES=''
headrace_ok train "${small[@]}" --out "$work/hidden"
expect_stderr 'note: CUDA_VISIBLE_DEVICES hides all GPUs, so the CPU computes'

export CUDA_VISIBLE_DEVICES=0
headrace train "${small[@]}" --out "$work/asked"
expect_error 1 'CUDA_VISIBLE_DEVICES speaks of an NVIDIA device'
expect_error 1 '(there is no headrace-cuda\.so|no CUDA device: there is no NVIDIA driver on this machine).*--device cpu'
unset CUDA_VISIBLE_DEVICES

headrace train "${small[@]}" --device cuda --out "$work/cuda"
expect_error 1 '(there is no headrace-cuda\.so|no CUDA device: there is no NVIDIA driver on this machine).*--device cpu'
