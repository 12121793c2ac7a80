"""Packs libheadrace.so of the checkout, which make builds where it is missing or old, into the package.

HEADRACE_LIBRARY names another one to take. The version is the Makefile's.
"""

import os
import pathlib
import re
import shutil
import subprocess

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70
    from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent
MADE = "../build/python"  # nothing is left in the sources


def version() -> str:
    found = re.search(r"^VERSION := (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise SystemExit("the Makefile beside python/ names no VERSION: install from a checkout")
    return found.group(1)


def library() -> pathlib.Path:
    named = os.environ.get("HEADRACE_LIBRARY")
    if named:
        return pathlib.Path(named)
    jobs = len(os.sched_getaffinity(0))
    subprocess.run(["make", "-C", ROOT, f"-j{jobs}", "build/libheadrace.so"], check=True)
    return ROOT / "build" / "libheadrace.so"


class BuildWithLibrary(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # which finds the library in the checkout's build folder
            shutil.copy2(library(), pathlib.Path(self.build_lib) / "headrace" / "libheadrace.so")


class LinuxWheel(bdist_wheel):
    """For any Python 3, since ctypes loads the library, and for one kind of processor."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self) -> bool:
        return True


pathlib.Path(__file__).resolve().parent.joinpath(MADE).mkdir(parents=True, exist_ok=True)
setup(
    version=version(),
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": LinuxWheel},
    options={"build": {"build_base": MADE}, "egg_info": {"egg_base": MADE}},
)
