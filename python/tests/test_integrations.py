"""INTEGRATIONS.md: the lines it shows run, where the trainers have them, with what stands around them there."""

import argparse
import os
import pathlib
import re
import textwrap
import unittest
from types import SimpleNamespace

import headrace
import support


def shown(section: str) -> str:
    """The indented lines of a section, without the dots that stand for others."""
    text = (support.ROOT / "python" / "INTEGRATIONS.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(section)}.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line for line in found.group(1).splitlines() if line.startswith("    ") and line.strip() != "…"]
    return "\n".join(line[4:] for line in lines)


class IntegrationsTest(unittest.TestCase):
    def data(self) -> pathlib.Path:
        """A folder with train.idx and val.idx."""
        root = support.folder() / "integrations"
        root.mkdir(exist_ok=True)
        for part in ("train", "val"):
            support.run(support.PROGRAM, "pack", support.drawn(), "-o", root / f"{part}.idx", "--quiet")
        return root

    def check(self, dataset, transform):
        self.assertEqual((len(dataset), dataset.classes, dataset.transform), (36, support.CLASSES, transform))
        self.assertEqual(dataset[5][1], dataset.targets[5])

    def test_torchvision(self):
        """Each call goes on with its preset, and ends, as in train.py."""
        data = self.data()
        lines = shown("torchvision's references/classification/train.py").splitlines()
        added = [line[1:] for line in lines if line.startswith("+")]
        code = textwrap.dedent("\n".join(line + ("\n            preset,\n        )" if "dir" in line else "") for line in added))
        names = {"traindir": str(data / "train"), "valdir": str(data / "val"), "preset": str}
        exec(lines[0] + "\n" + code, names)
        for name in ("dataset", "dataset_test"):
            self.check(names[name], str)
        self.assertEqual([line[1:].strip() for line in lines if line.startswith("-")],
                         ["dataset = torchvision.datasets.ImageFolder(", "traindir,",
                          "dataset_test = torchvision.datasets.ImageFolder(", "valdir,"])

    def test_timm(self):
        """create_loader sets the transform."""
        names = {"os": os, "args": SimpleNamespace(data_dir=str(self.data()))}
        exec(shown("timm's train.py"), names)
        for name in ("dataset_train", "dataset_eval"):
            names[name].transform = str
            self.check(names[name], str)

    def test_deep_learning_examples(self):
        support.need_torch()
        import headrace.torch

        section = shown("NVIDIA DeepLearningExamples (PyTorch/Classification/ConvNets)")
        imports, option, branch = re.fullmatch(r"(import .*?\n.*?)\n( +default=.*?)\n(elif .*)", section, re.DOTALL).groups()
        parser = argparse.ArgumentParser()
        eval(f'parser.add_argument("--data-backend", {option.strip()})', {"parser": parser, "headrace": headrace})
        self.assertEqual(parser.parse_args([]).data_backend, "headrace")
        for code in (imports, "import headrace.torch\nif False:\n    pass\n" + branch):
            names = {"args": parser.parse_args(["--data-backend", "headrace"])}
            exec(code, names)
            for get_loader, of_training in ((names["get_train_loader"], {"augmentation": None, "start_epoch": 0}),
                                            (names["get_val_loader"], {})):
                loader, length = get_loader(str(self.data()), 32, 9, 3, False, interpolation="bilinear", workers=1,
                                            _worker_init_fn=None, memory_format=headrace.torch.torch.contiguous_format,
                                            prefetch_factor=2, **of_training)
                self.assertEqual([tuple(images.shape) for images, _ in loader], [(9, 3, 32, 32)] * length)
        self.assertEqual(length, 4)


if __name__ == "__main__":
    unittest.main()
