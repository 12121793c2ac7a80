"""INTEGRATIONS.md: the lines it shows run, where the trainers have them, with what stands around them there."""

import argparse
import inspect
import os
import pathlib
import random
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

    def torchvisions(self, preset, data: pathlib.Path):
        """(dataset, dataset_test) of the lines for train.py, where each call goes on with its preset, and ends."""
        lines = shown("torchvision's references/classification/train.py").splitlines()
        added = [line[1:] for line in lines if line.startswith("+")]
        code = textwrap.dedent("\n".join(line + ("\n            preset,\n        )" if "dir" in line else "") for line in added))
        names = {"traindir": str(data / "train"), "valdir": str(data / "val"), "preset": preset}
        exec(lines[0] + "\n" + code, names)
        self.assertEqual([line[1:].strip() for line in lines if line.startswith("-")],
                         ["dataset = torchvision.datasets.ImageFolder(", "traindir,",
                          "dataset_test = torchvision.datasets.ImageFolder(", "valdir,"])
        return names["dataset"], names["dataset_test"]

    def test_torchvision(self):
        for dataset in self.torchvisions(str, self.data()):
            self.check(dataset, str)

    def test_torchvisions_loaders(self):
        """Beside its own folder, with what a preset, a sampler and --cache-dataset do there."""
        torch, torchvision = support.need_torch()
        from torchvision import transforms

        preset = transforms.Compose([
            transforms.RandomResizedCrop(48), transforms.RandomHorizontalFlip(), transforms.TrivialAugmentWide(),
            transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), transforms.RandomErasing(0.1)])

        def batches(dataset):
            torch.manual_seed(7)
            return list(torch.utils.data.DataLoader(dataset, 9, sampler=torch.utils.data.RandomSampler(dataset), num_workers=2))

        data = self.data()
        expected = batches(torchvision.datasets.ImageFolder(str(support.drawn()), preset))
        dataset, _ = self.torchvisions(preset, data)
        torch.save((dataset, str(data / "train")), data / "cached.pt")
        self.assertLess((data / "cached.pt").stat().st_size, 10_000)
        newer = {"weights_only": False} if "weights_only" in inspect.signature(torch.load).parameters else {}
        for each in (dataset, torch.load(data / "cached.pt", **newer)[0]):
            self.same(batches(each), expected)

    def same(self, batches, expected):
        self.assertEqual(len(batches), len(expected))
        for (images, labels), (their_images, their_labels) in zip(batches, expected):
            self.assertTrue((images == their_images).all() and (labels == their_labels).all())

    def timms(self):
        names = {"os": os, "args": SimpleNamespace(data_dir=str(self.data()))}
        exec(shown("timm's train.py"), names)
        return names["dataset_train"], names["dataset_eval"]

    def test_timm(self):
        """create_loader sets the transform."""
        for dataset in self.timms():
            dataset.transform = str
            self.check(dataset, str)

    def test_timms_loaders(self):
        """Beside torchvision's folder, as bytes that timm's own prefetcher finishes, and finished by workers."""
        torch, torchvision = support.need_torch()
        data, = support.need("timm.data")

        def batches(dataset, **options):
            torch.manual_seed(7)
            random.seed(7)  # of what the prefetcher erases
            loader = data.create_loader(dataset, (3, 48, 48), 9, num_workers=2, device=torch.device("cpu"),
                                        persistent_workers=False, **options)
            return [(images.clone(), labels) for images, labels in loader]

        for training, dataset in zip(({"is_training": True, "auto_augment": "rand-m9-mstd0.5-inc1", "re_prob": 0.25}, {}),
                                     self.timms()):
            for prefetcher in (True, False):
                with self.subTest(training=bool(training), prefetcher=prefetcher):
                    options = {"use_prefetcher": prefetcher, **training}
                    expected = batches(torchvision.datasets.ImageFolder(str(support.drawn())), **options)
                    self.same(batches(dataset, **options), expected)

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
