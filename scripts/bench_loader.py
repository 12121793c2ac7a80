#!/usr/bin/env python3
"""Loader speed side by side: headrace, torchvision, DALI, FFCV and webdataset on the same images.

Each prepares RandomResizedCrop 224 + flip of the thousand real images of HEADRACE_DATA (or of the class folders given)
in random order. All are started first; then they take turns, on one core and on two, and medians are compared. FFCV reads
its own re-encoded files and gives bytes, so headrace gives bytes beside it. The peers live in virtual environments under
build/peers (HEADRACE_PEERS), made on the first run from PyPI; FFCV also needs the Debian packages libopencv-dev,
libturbojpeg0-dev, pkg-config and python3-dev.

    scripts/bench_loader.py [--images CLASS_FOLDERS] [--rounds 5] [--cores 0,1] [--without ffcv,webdataset]
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tarfile

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
FFCV_MODES = ["jpg", "proportion", "raw"]

# What is compared: ours, the peer, the ratio to reach and the one to aim at.
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

    def __init__(self, name, cores, work):
        encoding, pixels, dtype, environment = OURS[name]
        self.rates = []
        self.environment = {**os.environ, **environment}
        layout = "nchw" if dtype == "f32" else "nhwc"
        self.command = ["taskset", "-c", ",".join(cores), HEADRACE, "bench", work / f"{encoding}.idx", "-j", len(cores),
                        "--dtype", dtype, "--layout", layout, "--pixels", pixels, "--epochs", "6", "--json"]

    def turn(self):
        """The median of all passes but the first."""
        done = run(self.command, stdout=subprocess.PIPE, env=self.environment)
        passes = [json.loads(line)["images_per_second"] for line in done.stdout.splitlines()]
        return statistics.median(passes[1:])


class Peer:
    """A process that waits for its turns (scripts/peers/contest.py).

    Between them it is stopped, with its workers: some peers go on to prepare batches that nobody asked for.
    """

    def __init__(self, environment, script, data, dtype, cores):
        self.rates = []
        self.name = script
        self.process = subprocess.Popen(
            ["taskset", "-c", ",".join(cores), peer_python(environment), SCRIPTS / script, data, "--dtype", dtype,
             "--threads", str(len(cores))], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True)

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
        rate = float(self.answer("rate"))
        self.signal(signal.SIGSTOP)
        return rate

    def close(self):
        self.signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def peers_open(options, cores, images, work, stack):
    """The peers by the names in ROWS, closed by the stack."""
    peers = {
        "torchvision f32": lambda: Peer("torch", "torchvision_loader.py", images, "f32", cores),
        "DALI f32": lambda: Peer("dali", "dali_loader.py", images, "f32", cores),
        "webdataset f32": lambda: Peer("webdataset", "webdataset_loader.py", work / f"shards-{len(cores)}", "f32", cores),
    }
    for mode in FFCV_MODES:
        peers[f"FFCV {mode}"] = lambda mode=mode: Peer("ffcv", "ffcv_loader.py", work / f"{mode}.beton", "u8", cores)
    opened = {}
    for name, make in peers.items():
        if name.split()[0].lower() not in options.without:
            print(f"starting {name}", file=sys.stderr)
            opened[name] = make()
            stack.callback(opened[name].close)
            opened[name].ready()  # one after the other, so that none is disturbed while it starts
    return opened


def images_prepare(work):
    """Extracts the thousand real images into class folders once."""
    data = pathlib.Path(os.environ.get("HEADRACE_DATA", ROOT / "../shared/data"))
    folder = work / "train"
    if not folder.exists():
        run([HEADRACE, "extract", data / "ILSVRC2012_img_train.tar", folder], stdout=subprocess.DEVNULL)
    return folder


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
    for encoding in ["dct", "jpeg"]:
        run([HEADRACE, "pack", images, "-o", work / f"{encoding}.idx", "--encoding", encoding, "--force"],
            stdout=subprocess.DEVNULL)
    if "webdataset" not in options.without:
        for count in core_counts:
            shards_write(images, work / f"shards-{count}", count)
    for mode in FFCV_MODES if "ffcv" not in options.without else []:
        file = work / f"{mode}.beton"
        if not file.exists():
            partial = file.with_suffix(".partial")
            run([peer_python("ffcv"), SCRIPTS / "ffcv_write.py", images, partial, mode], stdout=subprocess.DEVNULL)
            partial.rename(file)


def turns_take(contestants, rounds):
    """Medians by name, after so many turns of each."""
    for turn in range(rounds):
        for name, contestant in contestants.items():
            contestant.rates.append(contestant.turn())
            print(f"round {turn + 1}: {name} {contestant.rates[-1]:.0f}", file=sys.stderr)
    return {name: statistics.median(contestant.rates) for name, contestant in contestants.items()}


def contest_run(options, cores, images, work):
    """Medians of all who take turns on these cores."""
    contestants = {name: Ours(name, cores, work) for name in OURS}
    with contextlib.ExitStack() as stack:
        contestants.update(peers_open(options, cores, images, work, stack))
        return turns_take(contestants, options.rounds)


def scaling_print(options, core_sets, work):
    """How much faster all cores are than one: these take turns, too."""
    contestants = {(name, len(cores)): Ours(name, cores, work) for name, _, _ in SCALING for cores in core_sets}
    medians = turns_take(contestants, 2 * options.rounds)
    count = len(core_sets[1])
    for name, least, aim in SCALING:
        print(f"{name}: {count} cores make {medians[name, count] / medians[name, 1]:.2f} x one core (at least {least} x, "
              f"aim {aim} x)")


def wanted(value):
    return "" if value is None else f"{value} x"


def table_print(title, medians):
    print(f"| {title} | images/s | peer | images/s | ratio | at least | aim |\n|---|---|---|---|---|---|---|")
    for ours, peer, least, aim in ROWS:
        if peer in medians:
            print(f"| {ours} | {medians[ours]:.0f} | {peer} | {medians[peer]:.0f} | {medians[ours] / medians[peer]:.2f} x "
                  f"| {wanted(least)} | {wanted(aim)} |")
    print()


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

    work = ROOT / "build/bench_loader"
    work.mkdir(parents=True, exist_ok=True)
    images = options.images or images_prepare(work)
    data_prepare(options, images, work, [len(core_set) for core_set in core_sets])
    medians = [contest_run(options, core_set, images, work) for core_set in core_sets]

    for core_set, rates in zip(core_sets, medians):
        table_print("one core" if len(core_set) == 1 else f"{len(core_set)} cores", rates)
    if len(core_sets) == 2:
        scaling_print(options, core_sets, work)
    for dtype in ["u8", "f32"]:
        print(f"memory, 16 workers, batch 256, {dtype}: {memory_measure(work, dtype) / 1e6:.0f} MB resident "
              f"(below {MEMORY_CEILING_BYTES / 1e6:.0f})")


if __name__ == "__main__":
    main()
