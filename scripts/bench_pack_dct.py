#!/usr/bin/env python3
"""What packing into `dct` costs a core, each image's round trip verified, beside FFCV's writer, which shrinks to 500
pixels and encodes anew. Both read the same class folders from page cache, one worker on one core, and take turns; medians
are compared, of the time that passes (on an otherwise idle machine) and of processor time, without the start of Python.
FFCV's virtual environment is the one of bench_loader.py; where it is missing, only headrace is measured.

    scripts/bench_pack_dct.py [--images CLASS_FOLDERS] [--rounds 3] [--core 0]
"""

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADRACE = ROOT / "build/headrace"
WRITER = ROOT / "scripts/peers/ffcv_write.py"
PEERS = pathlib.Path(os.environ.get("HEADRACE_PEERS", ROOT / "build/peers"))
DATA = pathlib.Path(os.environ.get("HEADRACE_DATA", ROOT / "../shared/data"))
MODES = ["jpg", "proportion"]
AT_LEAST, AIM = 5, 8


def run(core, *command):
    words = ["taskset", "-c", str(core), *map(str, command)]
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def headrace_seconds(core, images, work, encoding):
    """Seconds that passed, and processor seconds."""
    index = work / f"{encoding}.idx"
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run(core, HEADRACE, "pack", images, "-o", index, "--encoding", encoding, "--force", "--quiet", "-j", 1)
    passed, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ffcv_seconds(core, images, work, mode):
    output = run(core, PEERS / "ffcv/bin/python", WRITER, images, work / f"{mode}.beton", mode, 1)
    (work / f"{mode}.beton").unlink()
    _, passed, _, processor = output.split()
    return float(passed), float(processor)


def contestants():
    found = {"pack --encoding dct": lambda *given: headrace_seconds(*given, "dct"),
             "pack --encoding jpeg": lambda *given: headrace_seconds(*given, "jpeg")}
    if (PEERS / "ffcv/bin/python").exists():
        for mode in MODES:
            found[f"FFCV {mode}"] = lambda *given, mode=mode: ffcv_seconds(*given, mode)
    return found


def measure(options, images, work):
    found = contestants()
    seconds = {name: [] for name in found}
    for _ in range(options.rounds):
        for name, take_turn in found.items():
            seconds[name].append(take_turn(options.core, images, work))
    return {name: [statistics.median(kind) for kind in zip(*values)] for name, values in seconds.items()}


def images_of(options, work):
    if options.images:
        return options.images
    subprocess.run([HEADRACE, "extract", DATA / "ILSVRC2012_img_train.tar", work / "images", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    return work / "images"


def report(medians, count):
    ours = medians["pack --encoding dct"]
    print("| | ms an image, one core | of processor time | `dct` is faster | by processor time |")
    print("|---|---|---|---|---|")
    for name, seconds in medians.items():
        costs = " | ".join(f"{1000 * value / count:.2f}" for value in seconds)
        ratios = [f"{theirs / own:.1f} x" for theirs, own in zip(seconds, ours)]
        goal = f" (at least {AT_LEAST}, aim {AIM})" if name.startswith("FFCV") else ""
        print(f"| {name} | {costs} | {ratios[0]}{goal} | {ratios[1]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        work = pathlib.Path(name)
        images = images_of(options, work)
        count = sum(1 for path in images.glob("*/*") if path.is_file())
        report(measure(options, images, work), count)


if __name__ == "__main__":
    main()
