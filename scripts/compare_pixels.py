#!/usr/bin/env python3
"""Does training on --pixels fast lose accuracy? The same network and seeds with either kind of pixels.

CIFAR-10's 7000 training and 1500 validation images (HEADRACE_DATA/cifar10.tar) are enlarged to 240 x 240 and encoded
as 4:2:0 JPEG, so that random resized crops shrink luma and chroma to the network's 32 x 32 as crops of ImageNet are
shrunk to 224, by 2.1 to 7.5 times: from 5 on, --pixels fast reduces luma's blocks. Each seed trains once with --pixels pillow and once with fast, from the same weights and on the same
crops; each model is evaluated with both. Prints means, standard deviations and the difference with its standard error.

    scripts/compare_pixels.py [--seeds 1 2 3 4 5] [--epochs 15] [--dtype bf16]

Needs `make` first. Pillow comes into a virtual environment of its own under build/peers (HEADRACE_PEERS).
"""

import argparse
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(os.environ.get("HEADRACE_DATA", ROOT / "../shared/data"))
PEERS = pathlib.Path(os.environ.get("HEADRACE_PEERS", ROOT / "build/peers"))
WORK = ROOT / "build/compare_pixels"
KINDS = ["pillow", "fast"]
SIDE, QUALITY = 240, 90


def pillow_start():
    """Goes on in a Python that has Pillow, which is installed where it is missing."""
    folder = PEERS / "pillow"
    python = folder / "bin/python"
    if pathlib.Path(sys.prefix) == folder:
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "pillow==11.3.0"], check=True)
    os.execv(python, [str(python), *sys.argv])


def headrace(*arguments):
    """Runs the program and returns what it printed."""
    done = subprocess.run([ROOT / "build/headrace", *map(str, arguments)], check=True, text=True, stdout=subprocess.PIPE)
    return done.stdout


def image_enlarge(bytes_in):
    from PIL import Image
    image = Image.open(io.BytesIO(bytes_in)).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=QUALITY, subsampling="4:2:0")
    return out.getvalue()


def prepare():
    """The enlarged images, in class folders, and their indexes, unless an earlier run made them."""
    if (WORK / "val.idx").exists():
        return
    images = WORK / "images"
    with tarfile.open(DATA / "cifar10.tar") as tar:
        for member in filter(tarfile.TarInfo.isfile, tar):
            path = images / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(image_enlarge(tar.extractfile(member).read()))
    for part in ("train", "val"):
        headrace("pack", images / part, "-o", WORK / f"{part}.idx", "--force")


def top1_of(kind, seed, options):
    """Trains, and returns the last checkpoint's top-1 in percent on either kind of pixels."""
    run = WORK / f"{kind}{seed}"
    subprocess.run(["rm", "-rf", run], check=True)
    headrace("train", "--train", WORK / "train.idx", "--val", WORK / "val.idx", "--recipe",
             ROOT / "train/recipes/cifar10.recipe", "--epochs", options.epochs, "--dtype", options.dtype, "--pixels", kind,
             "--seed", seed, "--threads", options.threads, "--workers", 1, "--out", run)
    results = [headrace("eval", run / "checkpoint.safetensors", WORK / "val.idx", "--pixels", evaluated, "--json",
                        "--threads", options.threads, "--jobs", 1, "--dtype", options.dtype) for evaluated in KINDS]
    return dict(zip(KINDS, [json.loads(result)["top1"] for result in results]))


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0


def difference_print(what, after, before):
    """The mean of the seeds' differences and its standard error."""
    differences = [a - b for a, b in zip(after, before)]
    print(f"{what}: {statistics.mean(differences):+.2f} points, standard error "
          f"{spread(differences) / len(differences) ** 0.5:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    pillow_start()
    prepare()
    tops = {(trained, evaluated): [] for trained in KINDS for evaluated in KINDS}
    for seed in options.seeds:
        for trained in KINDS:
            for evaluated, top1 in top1_of(trained, seed, options).items():
                tops[trained, evaluated].append(top1)
                print(f"seed {seed}, trained on {trained}, evaluated on {evaluated}: {top1:.2f} %", flush=True)
    for (trained, evaluated), values in tops.items():
        print(f"trained on {trained}, evaluated on {evaluated}: mean {statistics.mean(values):.2f} %, standard deviation "
              f"{spread(values):.2f}")
    difference_print("fast instead of pillow throughout", tops["fast", "fast"], tops["pillow", "pillow"])
    for trained in KINDS:
        difference_print(f"trained on {trained}, evaluated on fast instead of pillow", tops[trained, "fast"],
                         tops[trained, "pillow"])


if __name__ == "__main__":
    main()
