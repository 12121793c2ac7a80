"""What the peers of scripts/bench_turns.py share: a peer opens its data, then waits for its turns.

Each line on stdin asks for one turn; the answer is a line with images a second. A turn is one pass over the images that
does not count, since the kernel may have taken pages from a process that waited, and as many more as take a second and a
half. The first batches of a pass do not count either where the peer makes them ahead.
"""
import argparse
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
    return parser.parse_args()


def turn(start_pass, uncounted):
    """Images a second; start_pass() gives an iterator over the numbers of images of its batches."""
    sum(start_pass())
    images, seconds = 0, 0.0
    while seconds < LEAST_SECONDS:
        batches = iter(start_pass())
        for _ in range(uncounted):
            next(batches)
        start = time.perf_counter()
        images += sum(batches)
        seconds += time.perf_counter() - start
    return images / seconds


def serve(start_pass, uncounted=UNCOUNTED_BATCHES):
    turn(start_pass, uncounted)  # compiles, starts workers, fills the page cache
    print("ready", flush=True)
    for _ in sys.stdin:
        print(f"rate {turn(start_pass, uncounted):.2f}", flush=True)
