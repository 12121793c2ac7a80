#!/usr/bin/env python3
"""Loader speed side by side: headrace, torchvision and DALI on the same JPEGs, one core.

Each prepares RandomResizedCrop 224 + flip to normalised f32 from the thousand real images of
HEADRACE_DATA (or the class folders given), in random order. The three take turns; the table shows
medians and ratios. The peers live in virtual environments under build/peers (HEADRACE_PEERS), made
on the first run from PyPI.

    scripts/bench_loader.py [--images CLASS_FOLDERS] [--rounds 5] [--core 0]
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = pathlib.Path(os.environ.get("HEADRACE_PEERS", ROOT / "build/peers"))
PACKAGES = {
    "torch": ["torch", "torchvision", "pillow==11.3.0", "numpy", "safetensors"],
    "dali": ["nvidia-dali-cuda120==2.4.0", "numpy"],
}

TORCHVISION = """
import sys, time, torch, torchvision
from torchvision import transforms as T
torch.set_num_threads(1)
data = torchvision.datasets.ImageFolder(sys.argv[1], T.Compose([
    T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
    T.Normalize([.485, .456, .406], [.229, .224, .225])]))
loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, num_workers=1,
                                     persistent_workers=True)
for repeat in range(2):
    start, images = time.perf_counter(), 0
    for batch, labels in loader:
        images += len(batch)
    rate = images / (time.perf_counter() - start)
print(rate)
"""

DALI = """
import sys, time
from nvidia.dali import pipeline_def, fn, types
@pipeline_def(batch_size=64, num_threads=1, device_id=None, seed=1)
def pipe(root):
    files, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image_random_crop(files, device="cpu", random_area=[.08, 1.],
                                           random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
    images = fn.resize(images, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", mirror=fn.random.coin_flip(),
        mean=[.485 * 255, .456 * 255, .406 * 255], std=[.229 * 255, .224 * 255, .225 * 255]), labels
p = pipe(sys.argv[1])
p.build()
count = p.epoch_size("reader")
for repeat in range(2):
    start, images = time.perf_counter(), 0
    while images < count:
        images += len(p.run()[0])
    rate = images / (time.perf_counter() - start)
print(rate)
"""


def peer_python(name):
    """The Python of a peer's virtual environment, made when it is missing."""
    folder = PEERS / name
    python = folder / "bin/python"
    if not python.exists():
        print(f"making {folder}: {' '.join(PACKAGES[name])}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES[name]], check=True)
    return str(python)


def run_pinned(core, command):
    """The output of a command that may use one core only."""
    done = subprocess.run(["taskset", "-c", str(core), *command], check=True, text=True,
                          stdout=subprocess.PIPE)
    return done.stdout


def images_prepare(work):
    """Extracts the thousand real images into class folders once."""
    data = pathlib.Path(os.environ.get("HEADRACE_DATA", ROOT / "../shared/data"))
    archive = data / "ILSVRC2012_img_train.tar"
    folder = work / "train"
    if not folder.exists():
        subprocess.run([ROOT / "build/headrace", "extract", archive, folder], check=True)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=pathlib.Path, help="class folders; default: the real mini set")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=0)
    options = parser.parse_args()

    work = ROOT / "build/bench_loader"
    work.mkdir(parents=True, exist_ok=True)
    images = options.images or images_prepare(work)
    index = work / "train.idx"
    subprocess.run([ROOT / "build/headrace", "pack", images, "-o", index, "--encoding", "jpeg"],
                   check=True, stdout=subprocess.DEVNULL)

    def headrace_rate():
        text = run_pinned(options.core, [str(ROOT / "build/headrace"), "bench", str(index), "-j", "1",
                                         "--layout", "nchw", "--epochs", "3", "--json"])
        return json.loads(text.splitlines()[-1])["images_per_second"]

    def peer_rate(name, program):
        return float(run_pinned(options.core, [peer_python(name), "-c", program, str(images)]))

    loaders = {
        "headrace": headrace_rate,
        "torchvision": lambda: peer_rate("torch", TORCHVISION),
        "DALI CPU": lambda: peer_rate("dali", DALI),
    }
    rates = {name: [] for name in loaders}
    for turn in range(options.rounds):
        for name, measure in loaders.items():
            rates[name].append(measure())
            print(f"round {turn + 1}: {name} {rates[name][-1]:.0f} images/s", file=sys.stderr)

    ours = statistics.median(rates["headrace"])
    print("| loader, one core, f32 NCHW | images/s | headrace is |\n|---|---|---|")
    for name, values in rates.items():
        median = statistics.median(values)
        ratio = "" if name == "headrace" else f"{ours / median:.2f} x"
        print(f"| {name} | {median:.0f} | {ratio} |")


if __name__ == "__main__":
    main()
