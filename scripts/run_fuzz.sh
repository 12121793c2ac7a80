#!/usr/bin/env bash
# Runs each fuzz target for a while on its seeds (tests/fuzz/seeds/NAME, where there are any).
# Usage: scripts/run_fuzz.sh SECONDS TARGET...    (make fuzz FUZZ_SECONDS=N calls it)
set -euo pipefail

seconds=$1
shift
failed=0
for target in "$@"; do
    name=${target##*/fuzz_}
    corpus=$target.corpus
    mkdir -p "$corpus"
    seeds=tests/fuzz/seeds/$name
    [ -d "$seeds" ] || seeds=
    echo "fuzzing $name for $seconds s"
    # shellcheck disable=SC2086 # no seeds: no argument
    if ! "$target" -max_total_time="$seconds" -rss_limit_mb=3000 -timeout=20 -verbosity=0 \
        -print_final_stats=1 -artifact_prefix="$target." "$corpus" $seeds; then
        echo "fuzz target $name failed; the input is beside $target" >&2
        failed=$((failed + 1))
    fi
done
echo "$(($# - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
