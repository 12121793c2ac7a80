#!/usr/bin/env python3
"""The Python package beside what it stands in for, on one core and the thousand real images of HEADRACE_DATA.

All are started first; then they take turns, and medians are compared:

- headrace.Loader and `headrace bench`, whose loader it is;
- headrace.ImageFolder and torchvision's, both in torch's DataLoader under the same transforms;
- DALI fed by headrace.dali.Source, and by DALI's own reader of files, also on two cores with one decoding thread, from the
  page cache and with the pages dropped before each pass, as on a set that is larger than the memory;
- of these, what the KSpeed guide compares: the plain loader, the loader on an index, DALI on an index.

A turn is short and medians bear little noise: nothing else should run meanwhile. scripts/bench_turns.py says where the
peers live; the package is imported from python/, with build/libheadrace.so.

    scripts/bench_python.py [--images CLASS_FOLDERS] [--rounds 5] [--core 0] [--only NAMES]
"""

import argparse
import contextlib
import pathlib
import statistics

from bench_turns import Ours, Peer, images_prepare, indexes_write, peers_open, table_print, turns_take, work_folder

ROWS = [
    ("headrace.Loader dct f32", "headrace bench dct f32", 0.95, None),
    ("headrace.Loader dct u8", "headrace bench dct u8", 0.95, None),
    ("headrace.ImageFolder jpeg f32", "torchvision f32", 1.5, None),
    ("headrace.ImageFolder dct f32", "torchvision f32", 2, None),
    ("headrace.ImageFolder jpeg u8", "torchvision u8", 1.5, None),
    ("headrace.ImageFolder dct u8", "torchvision u8", 2, None),
    ("DALI on headrace jpeg f32", "DALI f32", 1, None),
    ("DALI on headrace dct f32", "DALI f32", None, None),
]
# The guide's comparison.
GUIDE_ROWS = [
    ("headrace.Loader dct f32", "torchvision f32", None, None),
    ("headrace.Loader dct f32", "DALI on headrace jpeg f32", None, None),
    ("DALI on headrace jpeg f32", "torchvision f32", None, None),
]


def peers_choose(images, work, cores):
    """What makes the peers, by the names in ROWS: script and environment, data, type."""
    dct, jpeg = work / "dct.idx", work / "jpeg.idx"
    table = [
        ("torchvision f32", "torch", "torchvision_loader.py", images, "f32"),
        ("headrace.ImageFolder jpeg f32", "torch", "torchvision_loader.py", jpeg, "f32"),
        ("headrace.ImageFolder dct f32", "torch", "torchvision_loader.py", dct, "f32"),
        ("torchvision u8", "torch", "torchvision_loader.py", images, "u8"),
        ("headrace.ImageFolder jpeg u8", "torch", "torchvision_loader.py", jpeg, "u8"),
        ("headrace.ImageFolder dct u8", "torch", "torchvision_loader.py", dct, "u8"),
        ("headrace.Loader dct f32", "torch", "headrace_loader.py", dct, "f32"),
        ("headrace.Loader dct u8", "torch", "headrace_loader.py", dct, "u8"),
        ("DALI f32", "dali", "dali_loader.py", images, "f32"),
        ("DALI on headrace jpeg f32", "dali", "dali_loader.py", jpeg, "f32"),
        ("DALI on headrace dct f32", "dali", "dali_loader.py", dct, "f32"),
    ]
    return {name: lambda peer=peer: Peer(*peer, cores) for name, *peer in table}

# With the second core of --two-cores.
DALI_FORMS = {"warm": False, "cold": True}


def dali_compare(images, work, cores, rounds):
    """One decoding thread and one worker on two cores: images a second, and an image's processor time."""
    data = {"DALI": images, "DALI on headrace jpeg": work / "jpeg.idx"}
    peers = {f"{name} {form}": lambda path=path, cold=cold: Peer("dali", "dali_loader.py", path, "f32", cores, threads=1,
                                                                 cold=cold)
             for form, cold in DALI_FORMS.items() for name, path in data.items()}
    with contextlib.ExitStack() as stack:
        opened = peers_open(peers, stack)
        medians = turns_take(opened, rounds)
    rows = [(f"DALI on headrace jpeg {form}", f"DALI {form}", 1, None) for form in DALI_FORMS]
    table_print("two cores, one decoding thread", rows, medians)
    for name, peer in opened.items():
        print(f"{name}: {statistics.median(peer.processor_us):.0f} us of processor time an image")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=pathlib.Path, help="class folders; default: the thousand real ones")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", default="0")
    parser.add_argument("--two-cores", default="0,1", help="for DALI with a core for the worker; empty: leave that out")
    parser.add_argument("--only", default="", help="run those whose name holds this")
    options = parser.parse_args()
    cores = [options.core]

    work = work_folder("bench_python")
    images = options.images or images_prepare(work)
    indexes_write(images, work)
    ours = {f"headrace bench dct {dtype}": Ours(work / "dct.idx", cores, "pillow", dtype) for dtype in ["f32", "u8"]}
    peers = peers_choose(images, work, cores)
    ours, peers = ({name: made for name, made in table.items() if options.only in name} for table in (ours, peers))
    with contextlib.ExitStack() as stack:
        contestants = {**ours, **peers_open(peers, stack)}
        medians = turns_take(contestants, options.rounds)
    table_print("one core", ROWS, medians)
    table_print("the guide's comparison, one core", GUIDE_ROWS, medians)
    for name, peer in contestants.items():
        if isinstance(peer, Peer):
            print(f"{name}: {statistics.median(peer.processor_us):.0f} us of processor time an image")
    if options.two_cores and options.only in "DALI":
        dali_compare(images, work, options.two_cores.split(","), options.rounds)


if __name__ == "__main__":
    main()
