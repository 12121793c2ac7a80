"""What the peers of scripts/bench_turns.py share: a peer opens its data, then waits for its turns.

Each line on stdin asks for one turn; the answer is a line with images a second and the processor time of one image in
microseconds, that of worker processes included. A turn is one pass over the images that
does not count, since the kernel may have taken pages from a process that waited, and as many more as take a second and a
half. The first batches of a pass do not count either where the peer makes them ahead. With --cold the data's pages leave
the page cache before each pass.
"""
import argparse
import glob
import os
import pathlib
import sys
import time

BATCH = 64
UNCOUNTED_BATCHES = 4
LEAST_SECONDS = 1.5


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=["f32", "u8"], default="f32")
    parser.add_argument("--cold", action="store_true")
    return parser.parse_args()


def files_of(data):
    """Those of class folders, or of an index: its shards stand beside it."""
    path = pathlib.Path(data)
    if path.is_dir():
        return [file for file in path.rglob("*") if file.is_file()]
    return [path, *map(pathlib.Path, glob.glob(f"{glob.escape(str(path.with_suffix('')))}*.shard"))]


def pages_drop(files):
    for file in files:
        fd = os.open(file, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def processor_seconds():
    """Of all threads of this process group."""
    total_ns = 0
    for stat in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(stat, encoding="ascii", errors="replace") as file:
                group = int(file.read().rpartition(")")[2].split()[2])
            if group == os.getpgrp():
                for task in glob.glob(f"{os.path.dirname(stat)}/task/*/schedstat"):
                    with open(task, encoding="ascii") as file:
                        total_ns += int(file.read().split()[0])
        except OSError:  # ended meanwhile
            pass
    return total_ns / 1e9


def turn(start_pass, uncounted, cold_files):
    """Images a second, and an image's processor time in seconds; start_pass() gives an iterator over the numbers of images
    of its batches."""
    sum(start_pass())
    images, seconds, processor = 0, 0.0, 0.0
    while seconds < LEAST_SECONDS:
        pages_drop(cold_files)
        batches = iter(start_pass())
        for _ in range(uncounted):
            next(batches)
        start, processor_start = time.perf_counter(), processor_seconds()
        images += sum(batches)
        seconds += time.perf_counter() - start
        processor += processor_seconds() - processor_start
    return images / seconds, processor / images


def serve(start_pass, uncounted=UNCOUNTED_BATCHES, cold_files=()):
    turn(start_pass, uncounted, cold_files)  # compiles, starts workers, fills the page cache
    print("ready", flush=True)
    for _ in sys.stdin:
        rate, processor = turn(start_pass, uncounted, cold_files)
        print(f"rate {rate:.2f} {1e6 * processor:.1f}", flush=True)
