"""headrace.torch: every backend of the trainer's loaders, on the CPU where there is no GPU."""

import json
import pathlib
import subprocess
import sys
import unittest
from functools import lru_cache

import numpy as np

import support

torch, torchvision = support.need_torch()
import headrace.torch  # noqa: E402 (not before it is known to be there)
from torchvision import transforms  # noqa: E402

NORMALIZE = transforms.Compose([transforms.ToTensor(), transforms.Normalize(headrace.torch.MEAN, headrace.torch.STD)])
SIZE = 64


@lru_cache(maxsize=None)
def data() -> pathlib.Path:
    """A folder as the trainer wants it: of the drawn images train/ and val/, and an index of val."""
    root = support.folder() / "trainer"
    root.mkdir()
    for part in ("train", "val"):
        (root / part).symlink_to(support.drawn())
    support.run(support.PROGRAM, "pack", root / "val", "-o", root / "val.idx", "--quiet")
    return root


def batches_of(backend: str, train: bool, **options):
    """The loader and its length, called as DeepLearningExamples' main.py does."""
    get_loader = headrace.torch.backend(backend)[0 if train else 1]
    of_training = {"augmentation": None, "start_epoch": 0} if train else {}
    options = {"interpolation": "bilinear", "workers": 1, "_worker_init_fn": None, "prefetch_factor": 2,
               "memory_format": torch.contiguous_format, **of_training, **options}
    return get_loader(str(data()), SIZE, 10, 5, options.pop("one_hot", False), **options)


def have_dali() -> bool:
    try:
        support.need_dali()
    except unittest.SkipTest:
        return False
    return True


class BackendTest(unittest.TestCase):
    def test_arguments_are_looked_at_first(self):
        """Before anything is opened; by every backend that has them."""
        nowhere = support.folder() / "nowhere"
        wrong = [({"interpolation": "cubic"}, ValueError, "interpolation is 'cubic', expected bilinear"),
                 ({"interpolation": None}, TypeError, "interpolation is None"),
                 ({"memory_format": "channels_last"}, TypeError, "memory_format is 'channels_last', expected torch"),
                 ({"memory_format": torch.preserve_format}, ValueError, "memory_format is torch.preserve_format"),
                 ({"workers": -1}, ValueError, "workers is -1"), ({"workers": 1.5}, TypeError, "workers is 1.5")]
        placed = [((SIZE, 10, 0, False), ValueError, "num_classes is 0"), ((SIZE, 10, "5", False), TypeError, "num_classes"),
                  ((SIZE, 0, 5, False), ValueError, "batch_size is 0"), ((0, 10, 5, False), ValueError, "image_size is 0"),
                  ((SIZE, 10, 5, 1), TypeError, "one_hot is 1, expected True or False")]
        of_training = [({"augmentation": "auto"}, ValueError, "augmentation is 'auto', expected None, autoaugment or"),
                       ({"augmentation": 5}, TypeError, "augmentation is 5, expected")]
        for backend in self.backends("synthetic"):
            for number, get_loader in enumerate(headrace.torch.backend(backend)):
                more = of_training if number == 0 and "dali" not in backend else []
                for options, kind, pattern in wrong + more:
                    with self.subTest(backend, **options), self.assertRaisesRegex(kind, f"^{pattern}"):
                        get_loader(nowhere, SIZE, 10, 5, False, **options)
                for given, kind, pattern in placed:
                    with self.subTest(backend, given=given), self.assertRaisesRegex(kind, f"^{pattern}"):
                        get_loader(nowhere, *given)
                with self.subTest(backend), self.assertRaisesRegex(TypeError, "'prefetch'|^prefetch are of an index"):
                    get_loader(data(), SIZE, 10, 5, False, prefetch=2)
        for options in ({"pixels": "fast"}, {"seed": 3}):
            with self.assertRaisesRegex(ValueError, f"^{next(iter(options))} is .*, expected it left out: with this"):
                headrace.torch.get_train_loader(data(), SIZE, 10, 5, False, interpolation="bicubic", **options)

    def backends(self, *left_out: str):
        for backend in headrace.torch.BACKENDS:
            if backend in left_out or "dali" in backend and not have_dali():
                continue
            with self.subTest(backend):
                yield backend

    def check(self, images, targets, count):
        self.assertEqual((images.shape, images.dtype), ((count, 3, SIZE, SIZE), torch.float32))
        self.assertEqual((targets.shape, targets.dtype), ((count,), torch.int64))
        self.assertEqual(images.device, headrace.torch.device_of_batches())
        self.assertEqual(targets.device, images.device)

    def test_training(self):
        for backend in self.backends("synthetic"):
            loader, length = batches_of(backend, True)
            self.assertEqual(length, 3)
            for _ in range(2):
                batches = [(images.clone(), targets) for images, targets in loader]
                self.assertEqual(len(batches), length)
                for images, targets in batches:
                    self.check(images, targets, 10)
                    self.assertTrue(-2.2 < float(images.min()) < float(images.max()) < 2.7)
                    self.assertTrue(0 <= int(targets.min()) <= int(targets.max()) < 3)

    def test_evaluation(self):
        """All show the same images in the same order: torchvision's."""
        folder = torchvision.datasets.ImageFolder(str(support.drawn()), transforms.Compose(
            [transforms.Resize(SIZE + 32), transforms.CenterCrop(SIZE), NORMALIZE]))
        expected = torch.stack([image for image, _ in folder])
        for backend in self.backends("synthetic"):
            loader, length = batches_of(backend, False)
            self.assertEqual(length, 4)
            for _ in range(2):
                batches = [(images.cpu().clone(), targets.cpu()) for images, targets in loader]
                self.assertEqual(len(batches), length)
                images, targets = (torch.cat(parts) for parts in zip(*batches))
                self.assertEqual(len(images), 36)
                self.assertEqual(targets.tolist(), folder.targets)
                if "dali" in backend:  # which decodes and resizes in its own way
                    self.assertLess(float((images - expected).abs().mean()), 0.2)
                else:
                    self.assertTrue(torch.allclose(images, expected, rtol=0, atol=1e-6))

    def test_one_hot_and_channels_last(self):
        for backend in self.backends():
            loader, _ = batches_of(backend, True, one_hot=True, memory_format=torch.channels_last)
            images, targets = next(iter(loader))
            self.assertEqual((images.shape, targets.shape), ((10, 3, SIZE, SIZE), (10, 5)))
            self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
            self.assertEqual((targets.dtype, targets.sum(1).tolist()), (torch.float32, [1.0] * 10))

    def test_synthetic_has_no_end(self):
        loader, length = batches_of("synthetic", True)
        self.assertEqual(length, -1)
        for _, (images, targets) in zip(range(5), loader):
            self.check(images, targets, 10)

    def test_augmentation(self):
        flips = transforms.Lambda(lambda image: image.rotate(180))
        for backend in ("pytorch", "headrace"):
            for augmentation, interpolation in (("autoaugment", "bilinear"), (flips, "bilinear"), (None, "bicubic")):
                with self.subTest(backend=backend, augmentation=augmentation, interpolation=interpolation):
                    torch.manual_seed(3)
                    loader, length = batches_of(backend, True, augmentation=augmentation, interpolation=interpolation,
                                                workers=0)
                    batches = list(loader)
                    self.assertEqual(len(batches), length)
                    self.check(*batches[0], 10)
                    if backend == "pytorch":
                        expected = batches
                        continue
                    torch.manual_seed(3)
                    theirs, _ = batches_of("pytorch", True, augmentation=augmentation, interpolation=interpolation,
                                           workers=0)
                    for (images, targets), (their_images, their_targets) in zip(batches, theirs):
                        self.assertTrue(torch.equal(images, their_images))
                        self.assertTrue(torch.equal(targets, their_targets))
        with self.assertRaisesRegex(ValueError, "expected None, autoaugment or a transform"):
            batches_of("headrace", True, augmentation="none")

    def test_epochs_and_seeds(self):
        def labels(seed, epoch):
            torch.manual_seed(seed)
            loader, _ = batches_of("headrace", True, start_epoch=epoch)
            return [torch.cat([targets for _, targets in loader]).tolist() for _ in range(2)]

        first = labels(1, 0)
        self.assertNotEqual(first[0], first[1])
        self.assertEqual(labels(1, 1)[0], first[1])
        self.assertEqual(labels(1, 0), first)
        self.assertNotEqual(labels(2, 0), first)

    def test_an_epoch_left_early_ends(self):
        loader, length = batches_of("headrace", True)
        before = support.held()
        for _ in range(3):
            for _ in loader:
                break
        self.assertEqual(len(list(loader)), length)
        support.check_held(self, before)

    def test_refuses(self):
        with self.assertRaisesRegex(ValueError, "expected one of pytorch, synthetic, headrace, dali-headrace, dali"):
            headrace.torch.backend("syntetic")
        with self.assertRaisesRegex(ValueError, "has 3 classes, more than the 2 of the network"):
            headrace.torch.get_val_loader(data(), SIZE, 10, 2, False)


# A rank of several: it prints the labels of an epoch's batches, to train and to evaluate, and how often each record came.
RANK = """
import json, sys, torch, headrace.torch
root, meeting, rank, backend = sys.argv[1:]
torch.distributed.init_process_group("gloo", init_method="file://" + meeting, rank=int(rank), world_size=3)
torch.manual_seed(100 + int(rank))
train, evaluate = headrace.torch.backend(backend)
loader, _ = train(root, 32, 4, 3, False, workers=1)
trained = [images.sum(dim=(1, 2, 3)).tolist() for images, _ in loader]
loader, _ = evaluate(root, 32, 8, 3, False, workers=1)
print(json.dumps([trained, [labels.tolist() for _, labels in loader]]))
"""


class RanksTest(unittest.TestCase):
    def ranks(self, backend):
        meeting = str(support.folder() / f"meeting-{backend}")
        ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(data()), meeting, str(rank), backend],
                                  stdout=subprocess.PIPE, text=True) for rank in range(3)]
        printed = [rank.communicate()[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0, 0])
        return zip(*(json.loads(text) for text in printed))

    def test_shares(self):
        for backend in ("headrace", *(["dali-headrace"] if have_dali() else [])):
            with self.subTest(backend):
                trained, evaluated = self.ranks(backend)
                self.assertEqual([[len(batch) for batch in rank] for rank in trained], [[4, 4, 4]] * 3)
                if backend == "headrace":  # one order and each image once, though each rank has a seed of its own
                    self.assertEqual(len({value for rank in trained for batch in rank for value in batch}), 36)
                self.assertEqual(len({len(rank) for rank in evaluated}), 1)
                labels = [label for rank in evaluated for batch in rank for label in batch]
                self.assertEqual(sorted(labels), [0] * 12 + [1] * 12 + [2] * 12)


def arrays(items):
    """A batch of the trainer: bytes, which it normalises later."""
    return np.stack([np.asarray(image) for image, _ in items]), [label for _, label in items]


class GuideTest(unittest.TestCase):
    """The guide's PyTorch loaders as printed, the import changed, beside torchvision's over the real mini set."""

    def test_datasets(self):
        mode = transforms.InterpolationMode.BILINEAR
        names = {"workers": 2, "kspeed_iplist": "127.0.0.1", "transforms": transforms, "image_size": 224, "crop_padding": 32,
                 "interpolation": mode, "transforms_list": [transforms.RandomResizedCrop(224, interpolation=mode),
                                                            transforms.RandomHorizontalFlip()]}
        lines = support.guide("import kspeed.", "• Substitua") + support.guide("train_dataset =", "• Implemente")
        self.assertIn("import headrace.utils.data.kspeeddataset as KSpeedDataset", lines)
        roots = {part: [support.real() / part, *(support.real_packed(part, form) for form in ("dct", "jpeg"))]
                 for part in ("train", "val")}
        expected = {}
        for train, val in zip(*roots.values()):
            names.update(traindir=train, valdir=val)
            exec(lines, names)
            for part, root in roots.items():
                ours = names[f"{part}_dataset"]
                if part not in expected:
                    theirs = torchvision.datasets.ImageFolder(str(root[0]), ours.transform)
                    expected[part] = len(theirs), self.batches(theirs, part == "train")
                with self.subTest(part, root=ours.root):
                    self.assertEqual(len(ours), expected[part][0])
                    for (images, labels), (their_images, their_labels) in zip(self.batches(ours, part == "train"),
                                                                              expected[part][1]):
                        np.testing.assert_array_equal(images, their_images)
                        self.assertEqual(labels, their_labels)

    def batches(self, dataset, shuffle):
        """Forty images of all classes, by two workers."""
        torch.manual_seed(11)
        subset = torch.utils.data.Subset(dataset, range(0, len(dataset), len(dataset) // 40))
        return list(torch.utils.data.DataLoader(subset, 8, shuffle, num_workers=2, collate_fn=arrays))


if __name__ == "__main__":
    unittest.main()
