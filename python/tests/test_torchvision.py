"""headrace.ImageFolder beside torchvision's, over the real mini set and the drawn one."""

import unittest

import headrace
import support

torch, torchvision = support.need_torch()
from torchvision import transforms  # noqa: E402 (not before it is known to be there)

try:
    from torchvision.transforms import v2
except ImportError:  # before torchvision 0.15
    v2 = None

NORMALIZED = [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
TRAIN = transforms.Compose([transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), *NORMALIZED])
EVAL = transforms.Compose([transforms.Resize(80), transforms.CenterCrop(64), *NORMALIZED])
CHAINS = {
    "train": TRAIN,
    "eval": EVAL,
    "tensor": transforms.PILToTensor(),
    "jitter": transforms.Compose([transforms.RandomResizedCrop(64), transforms.ColorJitter(0.4, 0.4, 0.4), *NORMALIZED]),
    "bicubic": transforms.Compose([transforms.RandomResizedCrop(64, interpolation=3), *NORMALIZED]),
    "padded": transforms.Compose([transforms.Resize(40), transforms.RandomCrop(36, padding=4), *NORMALIZED]),
    "augment": transforms.Compose([transforms.Resize(60), transforms.RandAugment(), *NORMALIZED]),
}
if v2 is not None:
    CHAINS["v2"] = v2.Compose([v2.RandomResizedCrop(64, antialias=True), v2.RandomHorizontalFlip(), v2.PILToTensor()])


class TorchvisionTest(unittest.TestCase):
    def each_form(self, root, forms):
        """torchvision's folder and ours of each form, which say the same."""
        theirs = torchvision.datasets.ImageFolder(str(root))
        for form in forms:
            ours = headrace.ImageFolder(form)
            self.assertEqual(ours.classes, theirs.classes)
            self.assertEqual(ours.class_to_idx, theirs.class_to_idx)
            self.assertEqual(ours.targets.tolist(), theirs.targets)
            self.assertEqual([path[len(ours.root):] for path, _ in ours.samples],
                             [path[len(theirs.root):] for path, _ in theirs.samples])
            yield theirs, ours

    def forms_of(self, part):
        return [support.real() / part, support.real_packed(part, "dct"), support.real_packed(part, "jpeg")]

    def test_sets_and_pixels(self):
        sets = [(support.drawn(), support.roots().values())]
        sets += [(support.real() / part, self.forms_of(part)) for part in ("train", "val")]
        for root, forms in sets:
            for theirs, ours in self.each_form(root, forms):
                for i in range(0, len(theirs), max(1, len(theirs) // 150)):
                    (image, label), (expected, expected_label) = ours[i], theirs[i]
                    self.assertEqual((label, image.size), (expected_label, expected.size))
                    self.assertEqual(image.tobytes(), expected.tobytes(), theirs.samples[i])

    def test_transforms(self):
        for theirs, ours in self.each_form(support.drawn(), support.roots().values()):
            for name, chain in CHAINS.items():
                theirs.transform = ours.transform = chain
                for i in range(len(theirs)):
                    torch.manual_seed(i)
                    expected = theirs[i]
                    torch.manual_seed(i)
                    got = ours[i]
                    self.assertTrue(torch.equal(got[0], expected[0]), (name, theirs.samples[i]))
                    self.assertEqual(got[1], expected[1])

    def test_data_loader(self):
        """Drawn images are of every kind: 4:4:4, 4:2:2, 4:2:0, gray, CMYK, PNG. A spawned worker takes seconds to import
        torch, so that one root has all ways, the others two."""
        ways = [("fork", 4), ("spawn", 1)]
        more = {support.real_packed("train", "dct"): [("fork", 1), ("spawn", 4)]}
        sets = [(support.real() / "train", self.forms_of("train"), 25), (support.drawn(), support.roots().values(), 1)]
        for root, forms, apart in sets:
            expected = None
            for theirs, ours in self.each_form(root, forms):
                theirs.transform, ours.transform = EVAL, EVAL
                subset = range(0, len(ours), apart)
                if expected is None:
                    expected = list(torch.utils.data.DataLoader(torch.utils.data.Subset(theirs, subset), 8))
                for method, workers in ways + more.get(ours.root, []):
                    with self.subTest(root=ours.root, method=method, workers=workers):
                        self.check_batches(ours, subset, method, workers, expected)

    def check_batches(self, ours, subset, method, workers, expected):
        loader = torch.utils.data.DataLoader(torch.utils.data.Subset(ours, subset), 8, num_workers=workers,
                                             multiprocessing_context=method)
        batches = list(loader)
        self.assertEqual(len(batches), len(expected))
        for (images, labels), (their_images, their_labels) in zip(batches, expected):
            self.assertTrue(torch.equal(images, their_images))
            self.assertTrue(torch.equal(labels, their_labels))

    def test_both_refuse_and_join(self):
        bare = support.folder() / "nothing"
        partly = support.folder() / "half"
        bare.mkdir()
        (partly / "bee").mkdir(parents=True)
        (partly / "ant").symlink_to(support.drawn() / "ant")
        for kind in (torchvision.datasets.ImageFolder, headrace.ImageFolder):
            with self.subTest(kind.__module__):
                with self.assertRaisesRegex(FileNotFoundError, "nothing"):
                    kind(str(bare))
                with self.assertRaisesRegex(FileNotFoundError, "for the classes bee[.:]"):
                    kind(str(partly))
                folder = kind(str(support.drawn()))
                self.assertEqual((folder + folder)[len(folder)][1], folder[0][1])
                self.assertEqual(torch.utils.data.Subset(folder, [5, -1])[1][1], folder[-1][1])


if __name__ == "__main__":
    unittest.main()
