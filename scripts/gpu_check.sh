#!/usr/bin/env bash
# What only a GPU can show, in at most six minutes on one: tests, parity with the reference, loss curves, speed against
# PyTorch, a profile. Stands in the folder that `make gpu-bundle` makes, which has all it needs but a driver, cuDNN 9 and NCCL 2
# (those of the CUDA toolkit or of PyTorch) and, for the comparison, a python3 with PyTorch.
# Usage: gpu_check.sh [RESULTS] [NAME=VALUE]...
# Writes the folder RESULTS (default gpu_check_results) with summary.md. Each part has a time limit, and one that fails
# does not stop the others. Exit status 1: a part failed. The values that can be given, and what they are without:
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

defaults()
{
    PARTS=all BUDGET=355                          # some of the parts below; seconds for all of them
    ARCH=resnet50 SIZE=224 DTYPE=fp16             # that speeds are measured of
    BATCHES='64 128 256' BATCH=256                # with synthetic data against PyTorch; with records
    COPIES=150 RECORD_STEPS=70                    # of each record; steps
    TURNS=3 TURN_SECONDS=1.5 FORMS=compile        # of PyTorch: eager compile
    PYTHON=python3                                # one with PyTorch; empty: no comparison
    PARITY='resnet18 64 8 3 all'                  # as in tests/test_cuda_parity.c
    JOINED='resnet18 32 8 2 joined' JOINED_STEPS=30 # the same with --sync-bn; steps that its speed is measured of
    CURVE_ARCH=resnet18 CURVE_SIZE=128 CURVE_BATCH=32 CURVE_STEPS=60 CURVE_DTYPES='fp16 bf16 tf32'
}

# The parts in the order of their worth, and the most seconds that each may take.
parts=(facts:20 tests:60 parity:90 sync_bn:60 speed:150 records:70 curve:60 same_bits:40 profile:45 sanitizer:45)

# --- Help for the parts ---------------------------------------------------------------------------------------------

# Folders of cuDNN, NCCL and NVRTC where the machine's own loader does not find them: those of PyTorch's packages.
library_folders()
{
    LD_LIBRARY_PATH=$here/lib ldd "$here/lib/headrace/headrace-cuda.so" | grep -q 'not found' || return
    [ -n "$PYTHON" ] || return
    "$PYTHON" - <<'END' 2>/dev/null
import glob
import importlib.util

spec = importlib.util.find_spec("nvidia")
print(":".join(lib for root in spec.submodule_search_locations for lib in sorted(glob.glob(root + "/*/lib"))) if spec else "")
END
}

own_libraries() { echo "$here/lib${FOLDERS:+:$FOLDERS}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"; }

# Runs one of the programs that were brought along.
own() # PROGRAM ARGUMENT...
{
    LD_LIBRARY_PATH=$(own_libraries) "$@"
}

# A training run on the device; its lines go to NAME.txt, what it complains of is shown.
train() # NAME ARGUMENT...
{
    local name=$1
    shift
    own "$here/bin/headrace" train "$@" --device cuda --gpus 1 --out "$name" >"$name.txt" 2>"$name.err" || {
        echo "$name: $(tail -n 1 "$name.err")"
        return 1
    }
}

say() { echo "$@" >>summary.md; }

# A value of every "train" line of a run's log, one a line.
logged() # RUN KEY
{
    grep '"kind": *"train"' "$1/log.jsonl" | sed -n "s/.*\"$2\": *\([^,}]*\).*/\1/p"
}

# The median of the lines of stdin, without the first fifth.
median_later() { awk '{ v[NR] = $1 } END { for (i = int(NR / 5) + 1; i <= NR; i++) print v[i] }' | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# --- The parts: each runs in a folder of its own and may write a summary.md there -----------------------------------

part_facts()
{
    {
        date -u
        uname -a
        nproc
        nvidia-smi
        nvidia-smi -q -d CLOCK,POWER,MEMORY,ECC
        own ldd "$here/lib/headrace/headrace-cuda.so"
    } >machine.txt 2>&1
    say '```'
    nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,clocks.max.sm,power.limit --format=csv >>summary.md 2>/dev/null || say "nvidia-smi does not answer"
    say '```'
    own "$here/bin/headrace" --version >>machine.txt 2>&1 || { echo "the program does not start: $(tail -n 1 machine.txt)"; return 1; }
    train start --synthetic --synthetic-images 8 --synthetic-classes 10 -a resnet18 -b 4 --image-size 32 --epochs 1 --steps 1 || return 1
    head -n 4 start.txt | sed 's/^/    /' >>summary.md
}

part_tests()
{
    local test failed=0
    for test in test_cuda_kernels test_cuda_update; do
        own "$here/tests/$test" >"$test.txt" 2>&1 || { echo "$test: $(grep -m 1 -E 'FAILED|skipped|error' "$test.txt")"; failed=1; }
        say "- \`$test\`: $(grep -cE '^\[ +OK' "$test.txt") passed, $(grep -c '^\[  FAILED  \] [a-z]*_' "$test.txt") failed, $(grep -c '^\[  SKIPPED \] [a-z]*_' "$test.txt") lines of skipped tests"
    done
    return $failed
}

# Whole networks against the reference; some cases of the test.
against_reference() # CASES
{
    local status=0
    HEADRACE_PARITY=$1 own "$here/tests/test_cuda_parity" >parity.txt 2>&1 || status=1
    grep -E '(step [0-9]|evaluation): loss' parity.txt | sed 's/^/    /' >>summary.md
    grep -q ': loss' parity.txt || { echo "no device was tested"; return 1; }
    [ $status -eq 0 ] || echo "off by more than allowed: $(grep -m 1 '^\[  FAILED' parity.txt)"
    return $status
}

part_parity()
{
    say "Each step from the same weights as the reference backend in double (\`$PARITY\`):"
    against_reference "$PARITY"
}

# One device is joined with itself, by the same kernels and sums as several.
part_sync_bn()
{
    local run rates shape=(--synthetic --synthetic-images 1000000 -a "$ARCH" -b "$BATCH" --image-size "$SIZE" --dtype "$DTYPE" -p 5 --steps "$JOINED_STEPS")
    say "With \`--sync-bn\`, each step from the same weights as the reference backend in double (\`$JOINED\`):"
    against_reference "$JOINED" || return 1
    export HEADRACE_CUDA_JOIN=1
    train apart "${shape[@]}" || return 1
    train joined "${shape[@]}" --sync-bn || return 1
    rates=$(for run in apart joined; do logged $run images_per_second | median_later; done | tr '\n' ' ')
    say
    awk -v what="$ARCH, $SIZE pixels, $DTYPE, batch $BATCH" '{ printf "%s: %.1f images/s without, %.1f with --sync-bn: %.3f x\n", what, $1, $2, $2 / $1 }' <<<"$rates" >>summary.md
    grep -m 1 ', NCCL ' joined.txt | sed 's/^/    /' >>summary.md || { echo "--sync-bn did not open NCCL"; return 1; }
}

part_speed()
{
    local status=0 python=$PYTHON
    if [ -z "$python" ] || ! "$python" -c 'import torch' 2>/dev/null; then
        say "No PyTorch was found (PYTHON=$PYTHON), so there is no comparison."
        python=
    fi
    "${PYTHON:-python3}" "$here/gpu_check_speed.py" --headrace "$here/tests/bench_backend" --libraries "$(own_libraries)" \
        --peer-script "$here/gpu_check_peer.py" ${python:+--python "$python"} --forms "$FORMS" --arch "$ARCH" --dtype "$DTYPE" --size "$SIZE" --batches "$BATCHES" \
        --turns "$TURNS" --turn-seconds "$TURN_SECONDS" --seconds $((LIMIT - 5)) --table table.md --figures figures.json --log stderr.txt || status=1
    say "$ARCH, $SIZE pixels, $DTYPE, synthetic data, medians of $TURNS turns:"
    say
    cat table.md >>summary.md
    return $status
}

part_records()
{
    local run rates
    own "$here/bin/headrace" unpack "$here/records/train.idx" images -q || return 1
    # The same few images many times: as many bytes to read and decode as so many different ones.
    "${PYTHON:-python3}" - "$COPIES" <<'END' || return 1
import os
import sys

for name in os.listdir("images"):
    os.makedirs("many/" + name)
    for file in os.listdir("images/" + name):
        for i in range(int(sys.argv[1])):
            os.link(f"images/{name}/{file}", f"many/{name}/{i}-{file}")
END
    own "$here/bin/headrace" pack many -o many.idx -q || return 1
    say "$(own "$here/bin/headrace" info many.idx | sed -n 's/^images *//p') records"
    train synthetic --synthetic --synthetic-images 1000000 -a "$ARCH" -b "$BATCH" --image-size "$SIZE" --dtype "$DTYPE" -p 5 --steps "$RECORD_STEPS" || return 1
    train real --train many.idx -a "$ARCH" -b "$BATCH" --image-size "$SIZE" --dtype "$DTYPE" -p 5 --steps "$RECORD_STEPS" -j 4 || return 1
    rates=$(for run in synthetic real; do logged $run images_per_second | median_later; done | tr '\n' ' ')
    say "$ARCH, $SIZE pixels, $DTYPE, batch $BATCH, \`headrace train\`, median of $RECORD_STEPS steps without the first fifth:"
    say
    awk '{ printf "synthetic %.1f images/s; from dct records with four loader threads %.1f images/s: %.3f x\n", $1, $2, $2 / $1 }' <<<"$rates" >>summary.md
    grep '^loader' real.txt | sed 's/^/    /' >>summary.md
}

part_curve()
{
    local dtype pids=() failed=0
    local shape=(--train "$here/records/train.idx" --val "$here/records/val.idx" -a "$CURVE_ARCH" -b "$CURVE_BATCH" --image-size "$CURVE_SIZE" --lr 0.02 --epochs 1000 -p 1 --steps "$CURVE_STEPS" -j 2)
    for dtype in $CURVE_DTYPES; do
        train "$dtype" "${shape[@]}" --dtype "$dtype" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed=1
    done
    for dtype in $CURVE_DTYPES; do
        logged "$dtype" loss >"$dtype.losses" 2>/dev/null
        [ -s "$dtype.losses" ] || failed=1
    done
    say "Losses of $CURVE_ARCH on the real mini set, one in ten steps ($CURVE_SIZE pixels, batch $CURVE_BATCH):"
    say
    say '```'
    say "$CURVE_DTYPES"
    for dtype in $CURVE_DTYPES; do echo "$dtype.losses"; done | xargs paste | awk 'NR % 10 == 1' >>summary.md
    say '```'
    for dtype in $CURVE_DTYPES; do
        # The mean of the last fifth is below that of the first, and all are numbers.
        awk '{ v[NR] = $1; if ($1 != $1 + 0) bad = 1 } END { n = int(NR / 5) + 1; for (i = 0; i < n; i++) { a += v[1 + i]; b += v[NR - i] } exit bad || !(NR < 10 || b < a) }' "$dtype.losses" ||
            { echo "the loss of $dtype does not fall"; failed=1; }
    done
    return $failed
}

part_same_bits()
{
    local run shape=(--train "$here/records/train.idx" --val "$here/records/val.idx" -a "$CURVE_ARCH" -b "$CURVE_BATCH" --image-size "$CURVE_SIZE" --dtype "$DTYPE" --epochs 1000 --steps 5 -j 2 --deterministic)
    for run in first second; do
        train $run "${shape[@]}" || return 1
    done
    cmp first/checkpoint.safetensors second/checkpoint.safetensors || { echo "two --deterministic runs differ"; return 1; }
    say "Two runs of five steps with \`--deterministic\` ended in the same weights, bit for bit."
}

part_profile()
{
    local shape=(train --synthetic --synthetic-images 100000 -a "$ARCH" -b "$BATCH" --image-size "$SIZE" --dtype "$DTYPE" --steps 12 --device cuda --gpus 1)
    if command -v nsys >/dev/null; then
        own nsys profile -o steps --cuda-graph-trace=node "$here/bin/headrace" "${shape[@]}" --out run >nsys.txt 2>&1 || { tail -n 1 nsys.txt; return 1; }
        nsys stats --report cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_api_sum steps.nsys-rep >kernels.txt 2>&1
        say '```'
        head -n 30 kernels.txt | cut -c 1-180 >>summary.md
        say '```'
    elif command -v ncu >/dev/null; then
        own ncu --graph-profiling node --section SpeedOfLight --launch-skip 200 --launch-count 80 --csv "$here/bin/headrace" "${shape[@]}" --out run >ncu.csv 2>&1 || { tail -n 1 ncu.csv; return 1; }
        say "80 kernels of a step are in \`profile/ncu.csv\`."
    else
        echo "neither nsys nor ncu is here"
        return 77
    fi
}

part_sanitizer()
{
    local tool status=0
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is not here"; return 77; }
    for tool in memcheck racecheck; do
        own timeout $((LIMIT / 2 - 1)) compute-sanitizer --tool $tool --error-exitcode 9 "$here/tests/test_cuda_update" >$tool.txt 2>&1 || { echo "$tool: $(tail -n 1 $tool.txt)"; status=1; }
        say "- $tool: $(grep -m 1 'SUMMARY' $tool.txt)"
    done
    return $status
}

# --- One after the other --------------------------------------------------------------------------------------------

if [ "${1:-}" = --part ]; then
    LIMIT=$3
    "part_$2"
    exit
fi

defaults
results=gpu_check_results
for word in "$@"; do
    if [[ $word =~ ^([A-Z_]+)= && -v ${BASH_REMATCH[1]} ]]; then
        declare "$word"
    elif [[ $word == [!-]* && $word != *=* ]]; then
        results=$word
    else
        echo "gpu_check: '$word' is neither a folder nor one of the values that $0 names" >&2
        exit 2
    fi
done
export BUDGET ARCH SIZE DTYPE BATCHES BATCH COPIES RECORD_STEPS TURNS TURN_SECONDS FORMS PYTHON PARITY JOINED JOINED_STEPS
export CURVE_ARCH CURVE_SIZE CURVE_BATCH CURVE_STEPS CURVE_DTYPES
mkdir -p "$results" || exit
results=$(cd "$results" && pwd)
FOLDERS=$(library_folders)
unset HEADRACE_MODULES # of this folder
export FOLDERS XDG_CACHE_HOME=$results/cache
failed=() rows=()

for entry in "${parts[@]}"; do
    name=${entry%:*} limit=${entry#*:} left=$((BUDGET - SECONDS)) started=$SECONDS
    [[ $PARTS == all || " $PARTS " == *" $name "* ]] || continue
    [ "$limit" -le "$left" ] || limit=$left
    rm -rf "${results:?}/$name"
    mkdir -p "$results/$name"
    echo "== $name (at most $limit s)"
    if [ "$limit" -lt 5 ]; then
        status=125
        echo "not begun: no time was left" >"$results/$name/said.txt"
    else
        (cd "$results/$name" && exec timeout --kill-after=3 "$limit" "$here/gpu_check.sh" --part "$name" "$limit" >said.txt 2>&1 </dev/null)
        status=$?
    fi
    case $status in
    0) word=ok ;;
    77) word=skipped ;;
    124 | 137) word="stopped after $limit s" ;;
    *) word=failed ;;
    esac
    [ "$word" = ok ] || [ "$word" = skipped ] || failed+=("$name")
    said=
    [ "$word" = ok ] || said=$(tail -n 3 "$results/$name/said.txt" | tr '\n|' '; ' | cut -c 1-300)
    rows+=("| $name | $word | $((SECONDS - started)) s | $said |")
    printf '%s\n' "${rows[-1]}"
done

{
    printf '# headrace on a GPU\n\n| part | result | took | said |\n|---|---|---|---|\n'
    printf '%s\n' "${rows[@]}"
    for entry in "${parts[@]}"; do
        [ ! -s "$results/${entry%:*}/summary.md" ] || { printf '\n## %s\n\n' "${entry%:*}" && cat "$results/${entry%:*}/summary.md"; }
    done
    printf '\n%s\n' "${failed[*]:+Failed: ${failed[*]}.}"
} >"$results/summary.md"
rm -rf "$results/cache" "$results"/records/{images,many,many*.shard} "$results"/*/*/*.safetensors "$results"/*/*/*.state
echo "gpu_check: $results/summary.md, after $SECONDS s${failed[*]:+; failed: ${failed[*]}}"
[ ${#failed[@]} -eq 0 ]
