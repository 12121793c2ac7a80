"""What the tests share: a temporary folder, drawn images of every kind, the program that packs them."""

import atexit
import contextlib
import gc
import importlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from functools import lru_cache
from typing import NoReturn

import numpy as np
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("HEADRACE_BIN", str(ROOT / "build" / "headrace"))
DATA = pathlib.Path(os.environ.get("HEADRACE_DATA", ROOT.parent / "shared" / "data"))
CLASSES = ["ant", "bee", "cat"]
# Name of a kind of file: how Pillow writes it.
KINDS = {
    "444.JPEG": ("RGB", {"format": "JPEG", "quality": 92, "subsampling": 0}),
    "422.JPEG": ("RGB", {"format": "JPEG", "quality": 88, "subsampling": 1}),
    "420.JPEG": ("RGB", {"format": "JPEG", "quality": 80, "subsampling": 2}),
    "progressive.JPEG": ("RGB", {"format": "JPEG", "quality": 85, "progressive": True}),
    "gray.JPEG": ("L", {"format": "JPEG", "quality": 90}),
    "cmyk.JPEG": ("CMYK", {"format": "JPEG", "quality": 90}),
    "png.JPEG": ("RGB", {"format": "PNG"}),
    "alpha.png": ("RGBA", {"format": "PNG"}),
    "palette.png": ("P", {"format": "PNG"}),
}


@lru_cache(maxsize=None)
def folder() -> pathlib.Path:
    """A temporary folder of this process."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="headrace-python-"))
    owner = os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(made))
    os.environ["XDG_CACHE_HOME"] = str(made / "cache")
    return made


def draw(number: int) -> Image.Image:
    """Soft colours with edges and some noise; every number has another size."""
    random = np.random.default_rng(number)
    width, height = (int(side) for side in random.integers(40, 150, 2))
    coarse = random.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    soft = np.asarray(Image.fromarray(coarse).resize((width, height), Image.BICUBIC)).astype(int)
    soft[height // 3 : height // 2, width // 4 :] //= 2
    noisy = soft + random.integers(-6, 7, soft.shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def run(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise AssertionError(f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


@lru_cache(maxsize=None)
def drawn() -> pathlib.Path:
    """Class folders with four images of each kind."""
    root = folder() / "drawn"
    for number, (kind, (mode, how)) in enumerate(list(KINDS.items()) * 4):
        image = draw(number).convert(mode)
        if mode == "RGBA":
            image.putalpha(Image.linear_gradient("L").resize(image.size))
        path = root / CLASSES[number % 3] / f"{number:02}_{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, **how)
    return root


@lru_cache(maxsize=None)
def many() -> str:
    """An index of 200 JPEG files, which are more than the smallest cache has room for."""
    root = folder() / "many"
    for number in range(200):
        path = root / CLASSES[number % 3] / f"{number:03}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(number).save(path, quality=92)
    run(PROGRAM, "pack", root, "-o", f"{root}.idx", "--encoding", "jpeg", "--quiet")
    return f"{root}.idx"


@lru_cache(maxsize=None)
def packed(encoding: str) -> str:
    """The same as an index with shards of this encoding."""
    path = str(folder() / f"{encoding}.idx")
    run(PROGRAM, "pack", drawn(), "-o", path, "--encoding", encoding, "--quiet")
    return path


def serve(test: unittest.TestCase, *options: str) -> str:
    """A server of the temporary folder, with faults, until the test ends: its URL."""
    script = ROOT / "tests" / "support" / "fault_server.py"
    server = subprocess.Popen([sys.executable, str(script), str(folder()), *options], text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    test.addCleanup(server.communicate)
    return f"http://127.0.0.1:{int(server.stdout.readline())}"


def roots():
    """Each form that the drawn set has."""
    return {"folder": str(drawn()), "dct": packed("dct"), "jpeg": packed("jpeg")}


def missing(what: str) -> NoReturn:
    """Skips the test, or fails it where HEADRACE_REQUIRE_DATA is 1."""
    if os.environ.get("HEADRACE_REQUIRE_DATA") == "1":
        raise AssertionError(f"{what}, and HEADRACE_REQUIRE_DATA is set")
    raise unittest.SkipTest(what)


def need_data(name: str) -> pathlib.Path:
    """A file of the data folder."""
    path = DATA / name
    if not path.exists():
        missing(f"{path} is missing")
    return path


@lru_cache(maxsize=None)
def real() -> pathlib.Path:
    """The prepared real mini set: train and val in class folders."""
    need_data("ILSVRC2012_img_train.tar")
    made = folder() / "real"
    run(PROGRAM, "prep", DATA, made, "--subset", "--quiet")
    return made


@lru_cache(maxsize=None)
def real_packed(part: str, encoding: str) -> str:
    path = str(folder() / f"{part}-{encoding}.idx")
    run(PROGRAM, "pack", real() / part, "-o", path, "--encoding", encoding, "--quiet")
    return path


def guide(first: str, behind: str) -> str:
    """The KSpeed guide's lines as printed, but for the import: from the one that begins with `first` up to `behind`."""
    text = need_data("../guides/alibaba_lingjun_kspeed_resnet50.txt").read_text(encoding="utf-8")
    begin = re.search(rf"^ *{re.escape(first)}", text, re.MULTILINE).start()
    lines = textwrap.dedent(text[begin : text.index(behind, begin)])
    return lines.replace("import kspeed.", "import headrace.")


def pillow(raw: bytes) -> Image.Image:
    """What torchvision's default loader makes of a file."""
    return Image.open(io.BytesIO(raw)).convert("RGB")


def need(*modules: str):
    """The modules; make test-peers chooses a Python that has them all."""
    try:
        return [importlib.import_module(module) for module in modules]
    except ImportError as error:
        missing(f"{error}: make test-peers, or PYTHON=… make check-python, chooses a Python that has it")


def need_torch():
    return need("torch", "torchvision")


def need_dali():
    return need("nvidia.dali", "nvidia.dali.fn", "nvidia.dali.types")[0]


def read_external(source):
    """The guide's operator over a source: (images, labels)."""
    dali = need_dali()
    return dali.fn.external_source(source=source, num_outputs=2, batch=False, parallel=True,
                                   dtype=[dali.types.UINT8, dali.types.INT32], device="cpu")


def pipeline(source, method: str, read=read_external, decode: bool = False):
    """A pipeline without a GPU that gives out what two workers read of a source, started by fork or spawn."""
    dali = need_dali()
    made = dali.Pipeline(source.batch_size, num_threads=1, device_id=None, py_num_workers=2, py_start_method=method)
    with made:
        images, labels = read(source)
        made.set_outputs(dali.fn.decoders.image(images, device="cpu") if decode else images, labels)
    made.build()
    return made


def resident_bytes() -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc tells no resident size")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def held():
    """(threads, descriptors) of this process. What is not ours has threads, too: NumPy's wheel those of its BLAS."""
    return threads(), descriptors()


def check_held(test: unittest.TestCase, before, more_descriptors: int = 0) -> None:
    """Nothing more than `before` is left, once those threads that end have ended: /proc shows one that was joined for
    a while, and nobody joins that of a call which Ctrl-C can end."""
    gc.collect()
    for _ in range(500):
        left = held()
        if left[0] <= before[0] and left[1] <= before[1] + more_descriptors:
            return
        time.sleep(0.02)
    test.fail(f"{left} threads and descriptors are left, {before} were there")


@contextlib.contextmanager
def changed(path: pathlib.Path, content: bytes):
    """A file with another content for a while."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)
