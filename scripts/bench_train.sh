#!/usr/bin/env bash
# Compares training and evaluation on the CPU with PyTorch: eager, torch.compile and Intel's extension. Prints medians
# and ratios, and exits with 3 where a wanted ratio was missed.
# Usage: scripts/bench_train.sh [--only "resnet50 bf16"] [--turns N] [--turn-seconds S] [--peers eager,compile,ipex]
# The peers are installed into virtual environments under HEADRACE_PEERS (default build/peers): 12 GB.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=${HEADRACE_PEERS:-build/peers}

# An environment that can import MODULE; made with the packages after it otherwise.
ensure_venv() # NAME MODULE PACKAGE...
{
    local python=$peers/$1/bin/python
    "$python" -c "import $2" 2>/dev/null && return
    echo "bench_train: installing ${*:3} into $peers/$1" >&2
    python3 -m venv "$peers/$1"
    "$python" -m pip install --quiet "${@:3}"
}

scripts/setup.sh
make -j"$(nproc)" --no-print-directory all build/tests/bench_backend
mkdir -p "$peers"
ensure_venv torch torchvision 'torch>=2.14' torchvision
ensure_venv ipex intel_extension_for_pytorch torch==2.8.0 torchvision==0.23.0 intel-extension-for-pytorch==2.8.0

export HEADRACE_MODULES=${HEADRACE_MODULES:-$PWD/build}
python3 scripts/bench_train.py --headrace build/tests/bench_backend --peer-script scripts/bench_train_peer.py \
    --torch "$peers/torch/bin/python" --ipex "$peers/ipex/bin/python" "$@"
