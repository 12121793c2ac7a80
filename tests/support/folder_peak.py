#!/usr/bin/env python3
"""The most bytes that a folder's files had while commands ran at the same time: python3 folder_peak.py FOLDER COMMAND…

Each COMMAND is a line for the shell. Prints that number, and fails where a command does.
"""

import os
import subprocess
import sys


def folder_bytes(folder):
    """By the files' sizes or, where that is more, by the blocks that they have whole."""
    total = 0
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            status = os.stat(os.path.join(folder, name))
        except FileNotFoundError:
            continue
        total += max(status.st_size, status.st_blocks * 512 // status.st_blksize * status.st_blksize)
    return total


def main():
    folder, commands = sys.argv[1], sys.argv[2:]
    running = [subprocess.Popen(command, shell=True, stdout=subprocess.DEVNULL) for command in commands]
    peak = samples = 0
    while any([process.poll() is None for process in running]):
        peak = max(peak, folder_bytes(folder))
        samples += 1
    print(max(peak, folder_bytes(folder)))
    print(f"{samples} samples", file=sys.stderr)
    return any(process.wait() for process in running)


if __name__ == "__main__":
    sys.exit(main())
