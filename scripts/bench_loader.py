#!/usr/bin/env python3
"""Loader speed side by side: headrace, torchvision, DALI, FFCV and webdataset on the same images.

Each prepares RandomResizedCrop 224 + flip of the thousand real images of HEADRACE_DATA (or of the class folders given)
in random order. All are started first; then they take turns, on one core and on two, and medians are compared. FFCV reads
its own re-encoded files and gives bytes, so headrace gives bytes beside it, and needs the Debian packages libopencv-dev,
libturbojpeg0-dev, pkg-config and python3-dev. scripts/bench_turns.py says where the peers live.

    scripts/bench_loader.py [--images CLASS_FOLDERS] [--rounds 5] [--cores 0,1] [--without ffcv,webdataset]
"""

import argparse
import contextlib
import io
import os
import pathlib
import random
import subprocess
import tarfile

from bench_turns import (HEADRACE, SCRIPTS, Ours, Peer, images_prepare, indexes_write, peer_python, peers_open, run,
                         table_print, turns_take, work_folder)

FFCV_MODES = ["jpg", "proportion", "raw"]

# What is compared (bench_turns.table_print).
ROWS = [
    ("exact f32", "torchvision f32", 9, 12),
    ("exact f32", "DALI f32", 5.5, 7),
    ("exact f32", "webdataset f32", None, None),
    ("fast f32", "torchvision f32", 13, 17),
    ("fast f32", "DALI f32", 8, 10),
    ("fast u8", "FFCV jpg", 5, 6),
    ("fast u8", "FFCV proportion", 3.8, 4.5),
    ("fast u8", "FFCV raw", 2.1, 2.5),
    ("fast u8 AVX2", "FFCV jpg", 2.8, 4),
    ("exact u8", "FFCV jpg", None, None),
    ("jpeg f32", "torchvision f32", None, None),
    ("jpeg f32", "DALI f32", None, None),
]
# One core to two.
SCALING = [("fast f32", 1.85, 1.95), ("exact f32", 1.85, 1.95)]
MEMORY_CEILING_BYTES = 10**9

OURS = {
    "exact f32": ("dct", "pillow", "f32", {}),
    "fast f32": ("dct", "fast", "f32", {}),
    "exact u8": ("dct", "pillow", "u8", {}),
    "fast u8": ("dct", "fast", "u8", {}),
    "fast u8 AVX2": ("dct", "fast", "u8", {"HEADRACE_CPU": "avx2"}),
    "jpeg f32": ("jpeg", "pillow", "f32", {}),
}


def ours_make(name, cores, work):
    encoding, pixels, dtype, environment = OURS[name]
    return Ours(work / f"{encoding}.idx", cores, pixels, dtype, **environment)


def peers_choose(options, cores, images, work):
    """What makes the peers that are wanted, by the names in ROWS."""
    peers = {
        "torchvision f32": lambda: Peer("torch", "torchvision_loader.py", images, "f32", cores),
        "DALI f32": lambda: Peer("dali", "dali_loader.py", images, "f32", cores),
        "webdataset f32": lambda: Peer("webdataset", "webdataset_loader.py", work / f"shards-{len(cores)}", "f32", cores),
    }
    for mode in FFCV_MODES:
        peers[f"FFCV {mode}"] = lambda mode=mode: Peer("ffcv", "ffcv_loader.py", work / f"{mode}.beton", "u8", cores)
    return {name: make for name, make in peers.items() if name.split()[0].lower() not in options.without}


def member_add(tar, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def shards_write(images, folder, count):
    """webdataset's shards, one for each worker: two cannot share one."""
    folder.mkdir(exist_ok=True)
    classes = sorted(path.name for path in images.iterdir())
    files = sorted(images.glob("*/*"))
    random.Random(1).shuffle(files)
    for shard in range(count):
        with tarfile.open(folder / f"{shard}.tar", "w") as tar:
            for number, path in enumerate(files[shard::count]):
                member_add(tar, f"{number:08}.jpg", path.read_bytes())
                member_add(tar, f"{number:08}.cls", str(classes.index(path.parent.name)).encode())


def data_prepare(options, images, work, core_counts):
    indexes_write(images, work)
    if "webdataset" not in options.without:
        for count in core_counts:
            shards_write(images, work / f"shards-{count}", count)
    for mode in FFCV_MODES if "ffcv" not in options.without else []:
        file = work / f"{mode}.beton"
        if not file.exists():
            partial = file.with_suffix(".partial")
            run([peer_python("ffcv"), SCRIPTS / "ffcv_write.py", images, partial, mode], stdout=subprocess.DEVNULL)
            partial.rename(file)


def contest_run(options, cores, images, work):
    """Medians of all who take turns on these cores."""
    contestants = {name: ours_make(name, cores, work) for name in OURS}
    with contextlib.ExitStack() as stack:
        contestants.update(peers_open(peers_choose(options, cores, images, work), stack))
        return turns_take(contestants, options.rounds)


def scaling_print(options, core_sets, work):
    """How much faster all cores are than one: these take turns, too."""
    contestants = {(name, len(cores)): ours_make(name, cores, work) for name, _, _ in SCALING for cores in core_sets}
    medians = turns_take(contestants, 2 * options.rounds)
    count = len(core_sets[1])
    for name, least, aim in SCALING:
        print(f"{name}: {count} cores make {medians[name, count] / medians[name, 1]:.2f} x one core (at least {least} x, "
              f"aim {aim} x)")


def memory_measure(work, dtype):
    """Most bytes resident with 16 workers and batches of 256; the page cache is not among them."""
    process = subprocess.Popen([HEADRACE, "bench", work / "dct.idx", "-j", "16", "-b", "256", "--dtype", dtype, "--epochs", "1",
                                "--json"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError("headrace bench failed")
    return usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=pathlib.Path, help="class folders; default: the thousand real ones")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", default="0,1", help="the first is used alone, then all")
    parser.add_argument("--without", default="", help="peers to leave out: torchvision,dali,ffcv,webdataset")
    options = parser.parse_args()
    options.without = options.without.lower().split(",")
    cores = options.cores.split(",")
    core_sets = [cores[:1]] + ([cores] if len(cores) > 1 else [])

    work = work_folder("bench_loader")
    images = options.images or images_prepare(work)
    data_prepare(options, images, work, [len(core_set) for core_set in core_sets])
    medians = [contest_run(options, core_set, images, work) for core_set in core_sets]

    for core_set, rates in zip(core_sets, medians):
        table_print("one core" if len(core_set) == 1 else f"{len(core_set)} cores", ROWS, rates)
    if len(core_sets) == 2:
        scaling_print(options, core_sets, work)
    for dtype in ["u8", "f32"]:
        print(f"memory, 16 workers, batch 256, {dtype}: {memory_measure(work, dtype) / 1e6:.0f} MB resident "
              f"(below {MEMORY_CEILING_BYTES / 1e6:.0f})")


if __name__ == "__main__":
    main()
