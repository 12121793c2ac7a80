"""Compares the speed of training and evaluation with PyTorch's, for scripts/bench_train.sh.

Every contestant is a process that plans its network once and then waits. They take turns, a few steps each, so that whatever
else the machine does hits all alike; medians over the turns are compared.
"""
import argparse
import statistics
import subprocess
import sys
import time

# Network, dtype, batch, mode; the ratio to eager PyTorch and to the best form of it that must be reached.
CASES = [
    ("resnet50", "bf16", 32, "train", 1.75, 1.55),
    ("resnet50", "bf16", 32, "eval", 2.5, 1.0),
    ("resnet18", "bf16", 64, "train", 1.65, 1.45),
    ("resnet18", "bf16", 64, "eval", 2.2, 1.1),
    ("resnet50", "f32", 32, "train", 1.35, 1.15),
    ("resnet50", "f32", 32, "eval", 1.2, 1.0),
]


class Contestant:
    def __init__(self, name, command):
        self.name = name
        self.rates = []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self):
        """The last line of what it says: libraries may say more before."""
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")
        return line.strip()

    def seconds(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        while True:
            try:
                return float(self.answer().split()[0])
            except (ValueError, IndexError):
                continue

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def contestants_open(options, arch, dtype, batch, mode):
    arguments = [arch, dtype, str(batch), mode]
    commands = {"headrace": [options.headrace, "cpu", *arguments]}
    for form, python in (("eager", options.torch), ("compile", options.torch), ("ipex", options.ipex)):
        if python and form in options.peers:
            commands[form] = [python, options.peer_script, form, *arguments]
    return [Contestant(name, command) for name, command in commands.items()]


def turn_steps(contestant, options):
    """Warms a contestant up; as many steps as fill a turn."""
    took = contestant.seconds(1)
    return max(1, round(options.turn_seconds / took))


def case_run(options, case):
    arch, dtype, batch, mode, eager_wanted, best_wanted = case
    contestants = contestants_open(options, arch, dtype, batch, mode)
    steps = [turn_steps(c, options) for c in contestants]
    for _ in range(options.turns):
        for contestant, count in zip(contestants, steps):
            time.sleep(0.3)  # until the threads of the one before have stopped spinning
            contestant.rates.append(batch * count / contestant.seconds(count))
    for contestant in contestants:
        contestant.close()
    rates = {c.name: statistics.median(c.rates) for c in contestants}
    ours = rates.pop("headrace")
    best = max(rates, key=rates.get)
    print(f"{arch} {dtype} batch {batch} {mode}: headrace {ours:.1f} img/s; "
          + ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items()))
    print(f"    {ours / rates['eager']:.2f} x eager (wanted {eager_wanted}), "
          f"{ours / rates[best]:.2f} x the best, {best} (wanted {best_wanted})", flush=True)
    return ours / rates["eager"] >= eager_wanted and ours / rates[best] >= best_wanted


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headrace", required=True, help="tests/bench_backend, built")
    parser.add_argument("--peer-script", required=True)
    parser.add_argument("--torch", required=True, help="python with PyTorch")
    parser.add_argument("--ipex", help="python with PyTorch and Intel's extension")
    parser.add_argument("--peers", default="eager,compile,ipex", type=lambda text: text.split(","))
    parser.add_argument("--only", default="", help="run the cases whose description holds this")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--turn-seconds", type=float, default=3)
    options = parser.parse_args()
    if "eager" not in options.peers:
        parser.error("--peers must hold eager")
    reached = [case_run(options, case) for case in CASES if options.only in " ".join(map(str, case[:4]))]
    sys.exit(0 if all(reached) else 3)


main()
