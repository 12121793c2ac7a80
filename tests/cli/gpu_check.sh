#!/usr/bin/env bash
# The script for a machine with a GPU, on the CPU: the same program and module, with stand-ins for CUDA's libraries.
source tests/cli/lib.sh

bundle=$(dirname "$HEADRACE_BIN")/trial/bundle
[ -x "$bundle/gpu_check.sh" ] || skip "there is no $bundle: it is made where the CUDA toolkit is"
cp -r "$bundle" "$work/bundle"
small=(ARCH=resnet18 SIZE=32 DTYPE=f32 BATCHES=2 BATCH=2 COPIES=1 RECORD_STEPS=2 TURNS=1 TURN_SECONDS=.1 PYTHON=
    PARITY='resnet18 32 2 1 f32' JOINED='resnet18 32 4 1 f32-joined' JOINED_STEPS=2 CURVE_SIZE=32 CURVE_BATCH=2 CURVE_STEPS=2 CURVE_DTYPES='f32 bf16')

check() # RESULTS ARGUMENT...
{
    run "$work/bundle/gpu_check.sh" "$work/$1" "${small[@]}" "${@:2}"
}
expect_summary() { grep -qE -- "$1" "$work/$results/summary.md" || fail "$(cat "$work/$results/summary.md"): no line matches: $1"; }

results=whole
check whole
expect_status 0
for part in facts tests parity sync_bn speed records curve same_bits; do
    expect_summary "^\| $part \| ok \|"
done
expect_summary '^ +resnet18: .*; cuda: CPU stand-in'
expect_summary '^- .test_cuda_update.: [1-9][0-9]* passed, 0 failed'
expect_summary 'f32 step 0: loss [0-9.]+, off by'
expect_summary 'f32-joined step 0: loss [0-9.]+, off by'
expect_summary '^resnet18, 32 pixels, f32, batch 2: [0-9.]+ images/s without, [0-9.]+ with --sync-bn: [0-9.]+ x'
expect_summary '; cuda: .*, NCCL [0-9.]+'
expect_summary '^\| 2 \| headrace \| [0-9.]+ \|'
expect_summary 'from dct records with four loader threads [0-9.]+ images/s'
expect_summary '^[0-9.]+.[0-9.]+$'
expect_summary 'ended in the same weights, bit for bit'

# A part that fails does not stop the others, and is named; so is one that has no time left.
results=failing
check failing PARTS='tests curve facts' CURVE_DTYPES='f32 fp8'
expect_status 1
expect_stdout '; failed: curve$'
expect_summary '^\| tests \| ok \|'
expect_summary "^\| curve \| failed \|.*fp8"
expect_summary '^Failed: curve\.$'
results=late
check late PARTS='facts tests' BUDGET=2
expect_status 1
expect_summary '^\| facts \| failed \|.*not begun: no time was left'
expect_summary '^Failed: facts tests\.$'

# Without cuDNN or a device the program says so.
rm "$work/bundle/lib/headrace/headrace-cuda.so"
results=empty
check empty PARTS='facts parity'
expect_status 1
expect_summary '^\| facts \| failed \|.*there is no headrace-cuda\.so'
expect_summary '^\| parity \| ok \|'
check empty NO_SUCH=1
expect_status 2
