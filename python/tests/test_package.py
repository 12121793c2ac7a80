"""What is installed: one version, a library that fits, a wheel that holds both."""

import ctypes
import ctypes.util
import os
import pathlib
import re
import subprocess
import sys
import unittest
import zipfile

import headrace
import support
from headrace import _library


def python(code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Another interpreter; what it says when it ends badly is on stderr."""
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class PackageTest(unittest.TestCase):
    def test_version_is_the_makefiles(self):
        makefile = (support.ROOT / "Makefile").read_text()
        self.assertEqual(headrace.__version__, re.search(r"^VERSION := (.*)$", makefile, re.MULTILINE).group(1))

    def test_another_library_is_refused(self):
        done = python("import headrace", HEADRACE_LIBRARY=ctypes.util.find_library("m") or "libm.so.6")
        self.assertIn("ImportError", done.stderr)
        self.assertIn(f"interface version None, this package needs {_library.BINDING_VERSION}", done.stderr)
        done = python("import headrace", HEADRACE_LIBRARY="/absent/libheadrace.so")
        self.assertIn("/absent/libheadrace.so cannot be loaded", done.stderr)

    def test_only_numpy_is_needed(self):
        hidden = "import sys; sys.modules.update(dict.fromkeys(['PIL', 'torch', 'torchvision'])); import headrace; "
        done = python(hidden + f"index = headrace.Index({support.packed('dct')!r}); index.raw(0); index.pixels(0); "
                      f"print(len(headrace.ImageFolder({support.packed('dct')!r}).samples))")
        self.assertEqual((done.stderr, done.stdout), ("", "36\n"))
        done = python(hidden + f"headrace.ImageFolder({support.packed('dct')!r})[0]")
        self.assertIn("PIL", done.stderr.splitlines()[-1])

    def test_dalis_loaders_say_what_they_need(self):
        """Source needs neither."""
        for module in ("torch", "nvidia.dali"):
            there = "" if module == "torch" else "sys.modules['torch'] = sys; "
            done = python(f"import sys; {there}sys.modules[{module!r}] = None; import headrace.dali; "
                          f"headrace.dali.Source({support.packed('jpeg')!r}, 4); print('source', flush=True); "
                          "headrace.dali.get_dali_headrace_train_loader()")
            self.assertEqual(done.stdout, "source\n")
            self.assertRegex(done.stderr.splitlines()[-1], f"^ImportError: the loaders of headrace.dali need {module}: pip "
                                                           "install [a-z]")

    def test_structs_are_as_large_as_the_librarys(self):
        """Compiles binding.h and compares the offset of each field."""
        structs = {"binding_index": _library.IndexDescription, "binding_image": _library.Image,
                   "binding_crop": _library.Crop, "binding_loader_options": _library.LoaderOptions,
                   "binding_batch": _library.Batch, "binding_statistics": _library.Statistics}
        lines, expected = [], []
        for name, struct in structs.items():
            for field, *_ in struct._fields_:
                lines.append(f'printf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));')
                expected.append(f"{name}.{field} {getattr(struct, field).offset}")
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            expected.append(f"{name} {ctypes.sizeof(struct)}")
        source = support.folder() / "structs.c"
        source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include \"binding/binding.h\"\n"
                          "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
        support.run(os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-I", support.ROOT, source, "-o",
                    source.with_suffix(""))
        self.assertEqual(support.run(source.with_suffix("")).splitlines(), expected)

    def test_wheel(self):
        command = "from setuptools import Distribution; Distribution().get_command_class('bdist_wheel'); import pip"
        if python(command).returncode:
            support.missing(f"{sys.executable} has no pip, setuptools and wheel")
        made = support.folder() / "wheel"
        support.run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", made,
                    support.ROOT / "python")
        wheel, = made.glob("*.whl")
        self.assertRegex(wheel.name, rf"^headrace-{re.escape(headrace.__version__)}-py3-none-linux_\w+\.whl$")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(made / "installed")
        environment = {name: value for name, value in os.environ.items() if name != "HEADRACE_LIBRARY"}
        code = ("import headrace, headrace._library; print(headrace.__version__, headrace._library._find()); "
                f"print(len(headrace.Index({support.packed('dct')!r})))")
        done = subprocess.run([sys.executable, "-c", code], env={**environment, "PYTHONPATH": str(made / "installed")},
                              cwd=made, text=True, stdout=subprocess.PIPE)
        library = pathlib.Path(os.path.realpath(made)) / "installed" / "headrace" / "libheadrace.so"
        self.assertEqual(done.stdout.split(), [headrace.__version__, str(library), "36"])
        self.assertEqual(list((support.ROOT / "python").glob("*.egg-info")), [])


if __name__ == "__main__":
    unittest.main()
