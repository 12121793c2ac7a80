"""Compares the speed of training on the GPU with PyTorch's, for scripts/gpu_check.sh.

Each contestant is a process that plans its network once and then waits. All of them get ready at the same time, since
that takes up to a minute of compilation; then they take turns of some steps each, so that whatever else the machine
does hits all alike, and medians over the turns are compared. Writes a table as Markdown and all figures as JSON.
"""
import argparse
import json
import os
import queue
import statistics
import subprocess
import sys
import threading
import time


class Contestant:
    """A process that says it is ready and then answers numbers of steps with seconds."""

    def __init__(self, name, batch, command, environment, log):
        self.name, self.batch = name, batch
        self.ready = None  # its first line
        self.failure = None
        self.rates = []
        self.lines = queue.Queue()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)

    def answer(self, deadline):
        """The next line; None when it ended or took too long, and then it is out of the contest."""
        try:
            line = self.lines.get(timeout=max(deadline - time.monotonic(), 0.01))
        except queue.Empty:
            self.failure = "was not ready in time"
            return None
        if line is None:
            self.failure = f"ended with status {self.process.wait()}"
        return line

    def seconds(self, steps, deadline):
        try:
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer tells
        line = self.answer(deadline)
        return float(line.split()[0]) if line else None

    def take_turn(self, turn_seconds, deadline):
        """A step to see how many fill the turn, the first time; then the turn."""
        if not self.rates:
            took = self.seconds(3, deadline)
            if took is None:
                return
            self.steps = max(1, round(3 * turn_seconds / max(took, 1e-6)))
        took = self.seconds(self.steps, deadline)
        if took:
            self.rates.append(self.batch * self.steps / took)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def contestants_open(options, log):
    contestants = []
    libraries = {**os.environ, "LD_LIBRARY_PATH": options.libraries}
    for batch in options.batches:
        shape = [str(batch), "train", str(options.size)]
        commands = {"headrace": [options.headrace, "cuda", options.arch, options.dtype, *shape]}
        for form in options.forms if options.python else []:
            commands[f"PyTorch {form}"] = [
                options.python, options.peer_script, options.arch, options.dtype, str(batch), str(options.size), form
            ]
        for name, command in commands.items():
            environment = libraries if name == "headrace" else None
            contestants.append(Contestant(name, batch, command, environment, log))
    return contestants


def rates_write(options, contestants):
    """The table; with a column that says how many times as fast headrace is."""
    ours = {c.batch: statistics.median(c.rates) for c in contestants if c.name == "headrace" and c.rates}
    with open(options.table, "w", encoding="utf-8") as table:
        print("| batch | what | images/s | headrace is | says |\n|---|---|---|---|---|", file=table)
        for c in contestants:
            rate = statistics.median(c.rates) if c.rates else 0
            ratio = f"{ours[c.batch] / rate:.2f} x" if rate and c.batch in ours and c.name != "headrace" else ""
            shown = f"{rate:.1f}" if rate else f"none: {c.failure}"
            print(f"| {c.batch} | {c.name} | {shown} | {ratio} | {c.ready or ''} |", file=table)
    figures = [
        {"batch": c.batch, "name": c.name, "ready": c.ready, "rates": c.rates, "failure": c.failure} for c in contestants
    ]
    with open(options.figures, "w", encoding="utf-8") as out:
        json.dump(figures, out, indent=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headrace", required=True, help="tests/bench_backend, built")
    parser.add_argument("--libraries", required=True, help="LD_LIBRARY_PATH of it")
    parser.add_argument("--python", help="one with PyTorch")
    parser.add_argument("--peer-script", required=True)
    parser.add_argument("--forms", type=str.split, default=["compile"], help="of PyTorch: eager, compile")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split()], required=True)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--turn-seconds", type=float, default=1.5)
    parser.add_argument("--seconds", type=float, required=True, help="for everything")
    parser.add_argument("--table", required=True)
    parser.add_argument("--figures", required=True)
    parser.add_argument("--log", required=True)
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    with open(options.log, "wb") as log:
        contestants = contestants_open(options, log)
        ready_end = end - len(contestants) * (options.turns + 1) * options.turn_seconds
        for c in contestants:
            c.ready = c.answer(ready_end)
        for _ in range(options.turns):
            for c in contestants:
                if not c.failure:
                    c.take_turn(options.turn_seconds, end)
        for c in contestants:
            c.close()
    rates_write(options, contestants)
    failed = [f"{c.name}, batch {c.batch}, {c.failure}" for c in contestants if c.failure]
    for text in failed:
        print(text)
    sys.exit(1 if failed else 0)


main()
