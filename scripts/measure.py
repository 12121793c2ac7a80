#!/usr/bin/env python3
"""Runs a command and writes its seconds and its peak memory in MB to a file, as one line.

Usage: scripts/measure.py FILE COMMAND...      Ends with the command's exit status.
"""

import os
import sys
import time

report, command = sys.argv[1], sys.argv[2:]
started = time.monotonic()
child = os.spawnvp(os.P_NOWAIT, command[0], command)
_, status, usage = os.wait4(child, 0)
with open(report, "w", encoding="utf-8") as out:
    print(f"{time.monotonic() - started:.2f} {usage.ru_maxrss / 1024:.0f}", file=out)
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
