"""What scripts/bench_loader.py and scripts/bench_python.py share: contestants that take turns on the same images.

The peers live in virtual environments under build/peers (HEADRACE_PEERS), made on the first run from PyPI.
"""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADRACE = ROOT / "build/headrace"
SCRIPTS = ROOT / "scripts/peers"
PEERS = pathlib.Path(os.environ.get("HEADRACE_PEERS", ROOT / "build/peers"))
TORCH = ["torch", "torchvision", "pillow==11.3.0", "numpy", "safetensors"]
# What is installed into each virtual environment, by one call of pip each.
PACKAGES = {
    "torch": [TORCH],
    "dali": [["nvidia-dali-cuda120==2.4.0", "numpy"]],
    "webdataset": [TORCH, ["webdataset"]],
    "ffcv": [["-U", "pip", "setuptools", "wheel"],
             [*TORCH, "numba", "opencv-python-headless", "terminaltables", "fastargs", "matplotlib", "assertpy", "tqdm",
              "psutil", "pandas"],
             ["--no-build-isolation", "--no-deps", "ffcv==1.0.2"]],
}


def run(command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def peer_python(name):
    """The Python of a peer's virtual environment, made when it is missing."""
    folder = PEERS / name
    python = folder / "bin/python"
    if not python.exists():
        run([sys.executable, "-m", "venv", folder])
        for packages in PACKAGES[name]:
            print(f"{folder}: {' '.join(packages)}", file=sys.stderr)
            run([python, "-m", "pip", "install", "-q", *packages])
    return python


class Ours:
    """headrace bench, run anew for each turn."""

    def __init__(self, index, cores, pixels, dtype, **environment):
        self.rates = []
        self.environment = {**os.environ, **environment}
        layout = "nchw" if dtype == "f32" else "nhwc"
        self.command = ["taskset", "-c", ",".join(cores), HEADRACE, "bench", index, "-j", len(cores), "--dtype", dtype,
                        "--layout", layout, "--pixels", pixels, "--epochs", "6", "--json"]

    def turn(self):
        """The median of all passes but the first."""
        done = run(self.command, stdout=subprocess.PIPE, env=self.environment)
        passes = [json.loads(line)["images_per_second"] for line in done.stdout.splitlines()]
        return statistics.median(passes[1:])


class Peer:
    """A process that waits for its turns (scripts/peers/contest.py), and may import headrace.

    Between them it is stopped, with its workers: some peers go on to prepare batches that nobody asked for.
    """

    def __init__(self, environment, script, data, dtype, cores, *, threads=None, cold=False):
        self.rates, self.processor_us = [], []
        self.name = script
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(cores), peer_python(environment), SCRIPTS / script, data, "--dtype", dtype,
             "--threads", str(threads or len(cores)), *(["--cold"] if cold else [])],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, start_new_session=True)

    def answer(self, word):
        """What follows `word` in the next line that begins with it; libraries may say more before."""
        for line in self.process.stdout:
            if line.startswith(word):
                return line[len(word):].strip()
        raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")

    def signal(self, number):
        os.killpg(self.process.pid, number)

    def ready(self):
        self.answer("ready")
        self.signal(signal.SIGSTOP)

    def turn(self):
        self.signal(signal.SIGCONT)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        rate, processor_us = map(float, self.answer("rate").split())
        self.processor_us.append(processor_us)
        self.signal(signal.SIGSTOP)
        return rate

    def close(self):
        self.signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def peers_open(peers, stack):
    """Starts what makes each peer, {name: function}, one after the other, so that none is disturbed while it starts; the
    stack closes them."""
    opened = {}
    for name, make in peers.items():
        print(f"starting {name}", file=sys.stderr)
        opened[name] = make()
        stack.callback(opened[name].close)
        opened[name].ready()
    return opened


def work_folder(name):
    work = ROOT / "build" / name
    work.mkdir(parents=True, exist_ok=True)
    return work


def images_prepare(work):
    """Extracts the thousand real images into class folders once."""
    data = pathlib.Path(os.environ.get("HEADRACE_DATA", ROOT / "../shared/data"))
    folder = work / "train"
    if not folder.exists():
        run([HEADRACE, "extract", data / "ILSVRC2012_img_train.tar", folder], stdout=subprocess.DEVNULL)
    return folder


def indexes_write(images, work):
    """WORK/dct.idx and WORK/jpeg.idx with their shards."""
    for encoding in ["dct", "jpeg"]:
        run([HEADRACE, "pack", images, "-o", work / f"{encoding}.idx", "--encoding", encoding, "--force"],
            stdout=subprocess.DEVNULL)


def turns_take(contestants, rounds):
    """Medians by name, after so many turns of each."""
    for turn in range(rounds):
        for name, contestant in contestants.items():
            contestant.rates.append(contestant.turn())
            print(f"round {turn + 1}: {name} {contestant.rates[-1]:.0f}", file=sys.stderr)
    return {name: statistics.median(contestant.rates) for name, contestant in contestants.items()}


def wanted(value):
    return "" if value is None else f"{value} x"


def table_print(title, rows, medians):
    """`rows`: ours, the peer, the ratio to reach and the one to aim at; those without medians are left out."""
    print(f"| {title} | images/s | peer | images/s | ratio | at least | aim |\n|---|---|---|---|---|---|---|")
    for ours, peer, least, aim in rows:
        if ours in medians and peer in medians:
            print(f"| {ours} | {medians[ours]:.0f} | {peer} | {medians[peer]:.0f} | {medians[ours] / medians[peer]:.2f} x "
                  f"| {wanted(least)} | {wanted(aim)} |")
    print()
