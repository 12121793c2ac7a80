"""headrace.ImageFolder against Pillow and the files themselves; test_torchvision.py compares it with torchvision's."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

import headrace
import support


def shrink(image: Image.Image) -> np.ndarray:
    return np.array(image.crop((3, 5, 33, 37)).resize((20, 16), Image.BILINEAR))


class Halves:
    """A transform that needs no torch."""

    def __call__(self, image: Image.Image) -> np.ndarray:
        return shrink(image)


def seven(label: int) -> int:
    return label + 7


def item_of(folder: headrace.ImageFolder, number: int):
    return folder[number]


def length_of(root: str) -> int:
    return len(headrace.ImageFolder(root))


def private_bytes() -> int:
    """Memory that this process shares with no other."""
    for line in open("/proc/self/smaps_rollup", encoding="ascii"):
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc tells no private memory")


def look_at_all(folder: headrace.ImageFolder, grown) -> None:
    """Tells what a worker needs for itself to see all samples."""
    before = private_bytes()
    assert sum(label for _, label in folder.samples) == sum(folder.targets)
    grown.put(private_bytes() - before)


class ImageFolderTest(unittest.TestCase):
    def expected(self):
        """(path, label) of each image in class folders."""
        return [(str(path), label) for label, name in enumerate(support.CLASSES)
                for path in sorted((support.drawn() / name).iterdir())]

    def test_items_are_pillows(self):
        for form, root in support.roots().items():
            folder = headrace.ImageFolder(root)
            self.assertEqual(len(folder), len(self.expected()))
            for i, (path, label) in enumerate(self.expected()):
                with self.subTest(form, path=path):
                    image, got = folder[i]
                    expected = support.pillow(open(path, "rb").read())
                    self.assertIsInstance(image, Image.Image)
                    self.assertEqual((image.mode, image.size, got), ("RGB", expected.size, label))
                    self.assertIs(type(got), int)
                    self.assertEqual(image.tobytes(), expected.tobytes())
                    self.assertTrue(image == expected and expected == image)

    def test_attributes(self):
        for form, root in support.roots().items():
            with self.subTest(form):
                folder = headrace.ImageFolder(root)
                self.assertEqual(folder.classes, support.CLASSES)
                self.assertEqual(folder.class_to_idx, {"ant": 0, "bee": 1, "cat": 2})
                expected = [(path.replace(str(support.drawn()), root, 1), label) for path, label in self.expected()]
                self.assertEqual(list(folder.samples), expected)
                self.assertEqual(folder.samples, expected)
                self.assertNotEqual(folder.samples, expected[1:])
                self.assertEqual(folder.samples[2:9:3], expected[2:9:3])
                self.assertEqual(folder.samples[-1], expected[-1])
                self.assertIs(folder.imgs, folder.samples)
                self.assertEqual(folder.targets.tolist(), [label for _, label in expected])
                path, label = expected[4]
                self.assertEqual(folder.loader(path), folder[4][0])
                self.assertEqual(folder.number(os.path.join(*path.split("/")[-2:])), 4)
                self.assertIn("Number of datapoints: 36", repr(folder))
        with self.assertRaisesRegex(FileNotFoundError, "expected ROOT/CLASS/NAME"):
            folder.loader("elsewhere/dog/1.JPEG")
        with self.assertRaises(IndexError):
            folder[len(folder)]
        self.assertEqual(folder[-1][1], 2)

    def test_transforms(self):
        folder = headrace.ImageFolder(support.packed("dct"), shrink, target_transform=seven)
        image, label = folder[0]
        self.assertEqual((image.shape, label), ((16, 20, 3), 7))

    def test_what_is_noted_is_what_pillow_computes(self):
        boxes = [(0, 0, 40, 40), (3, 5, 33, 37), (1.4, 2.6, 20.5, 39.5), (-4, 2, 50, 30), (10, 8, 11, 9)]
        chains = [lambda image, box=box: image.crop(box) for box in boxes]
        chains += [lambda image, box=box: image.crop(box).resize((24, 17), Image.BILINEAR) for box in boxes]
        chains += [
            lambda image: image.resize((300, 200), Image.BILINEAR),
            lambda image: image.resize((30, 20), Image.BILINEAR).crop((3, 4, 25, 19)).crop((1, 1, 9, 8)),
            lambda image: image.resize((30, 20), Image.BILINEAR).transpose(Image.FLIP_LEFT_RIGHT),
            lambda image: image.resize((30, 20), Image.BILINEAR).transpose(Image.FLIP_LEFT_RIGHT).crop((0, 0, 9, 9)),
            lambda image: image.resize((30, 20), Image.BILINEAR).transpose(Image.FLIP_TOP_BOTTOM),
            lambda image: image.resize((30, 20), Image.BILINEAR).resize((9, 9), Image.BILINEAR),
            lambda image: image.resize(image.size, Image.BILINEAR),
            lambda image: image.resize((30, 20), Image.BICUBIC),
            lambda image: image.resize((30, 20)),
            lambda image: image.resize((30, 20), Image.BILINEAR, box=(1.5, 2, 30, 31)),
            lambda image: image.resize((10, 8), Image.BILINEAR, reducing_gap=2.0),
            lambda image: image.transpose(Image.FLIP_LEFT_RIGHT).resize((30, 20), Image.BILINEAR),
            lambda image: image.rotate(30).convert("L"),
            lambda image: ImageEnhance.Color(image.crop((2, 3, 30, 31))).enhance(0.5),
            lambda image: ImageOps.autocontrast(image.resize((30, 20), Image.BILINEAR)),
            lambda image: image.copy(),
            lambda image: Image.blend(image, image.rotate(180), 0.3),
            lambda image: pickle.loads(pickle.dumps(image.crop((1, 2, 30, 40)))),
            lambda image: image.getchannel("G"),
        ]
        opened = []
        for form, root in support.roots().items():
            folder = headrace.ImageFolder(root, transform=opened.append)
            for i, (path, _) in enumerate(self.expected()):
                for number, chain in enumerate(chains):
                    with self.subTest(form, path=path, chain=number):
                        folder[i]
                        expected = chain(support.pillow(open(path, "rb").read()))
                        got = chain(opened.pop())
                        self.assertEqual((got.mode, got.size), (expected.mode, expected.size))
                        np.testing.assert_array_equal(np.array(got), np.array(expected))
                        self.assertEqual(got.tobytes(), expected.tobytes())

    def test_pixels_can_be_changed_and_read_again(self):
        opened = []
        headrace.ImageFolder(support.packed("dct"), transform=opened.append)[0]
        image = opened[0].resize((30, 20), Image.BILINEAR)
        before = np.asarray(image)
        kept = before.copy()
        image.putpixel((4, 5), (1, 2, 3))
        self.assertEqual(image.getpixel((4, 5)), (1, 2, 3))
        self.assertEqual(np.asarray(image)[5, 4].tolist(), [1, 2, 3])
        np.testing.assert_array_equal(before, kept)
        image = opened[0]
        image.thumbnail((16, 16), Image.BILINEAR, reducing_gap=None)
        self.assertEqual(len(image.tobytes()), 3 * image.width * image.height)

    def test_a_bad_image_fails_in_its_own_item(self):
        folder = headrace.ImageFolder(support.drawn(), transform=lambda image: image.crop((0, 0, 8, 8)))
        number = 4
        path = self.expected()[number][0]
        content = open(path, "rb").read()
        with support.changed(support.drawn() / path, content[: len(content) // 2] + bytes(len(content) // 2)):
            for plain in (folder, headrace.ImageFolder(support.drawn())):
                with self.assertRaisesRegex(headrace.HeadraceError, os.path.basename(path)):
                    for _ in range(2):
                        plain[number]
        self.assertEqual(folder[number][0].size, (8, 8))

    def test_pickles_small(self):
        for form, root in support.roots().items():
            with self.subTest(form):
                folder = headrace.ImageFolder(root, Halves(), seven)
                folder[0]
                data = pickle.dumps(folder)
                self.assertLess(len(data), 1000)
                again = pickle.loads(data)
                self.assertEqual(again.classes, folder.classes)
                np.testing.assert_array_equal(again[5][0], folder[5][0])
                self.assertEqual(again[5][1], folder[5][1])

    def test_workers_share_its_memory(self):
        """As a list, samples of this many images would take each worker 5 MB; sharing them, no more for four than for one."""
        root = support.folder() / "linked"
        image = self.expected()[0][0]
        for name in support.CLASSES:
            (root / name).mkdir(parents=True)
            for number in range(8000):
                os.link(image, root / name / f"{number:06}.JPEG")
        folder = headrace.ImageFolder(root)
        self.assertEqual(len(folder), 24000)
        self.assertLess(len(pickle.dumps(folder)), 1000)
        for method in ("fork", "spawn"):
            for workers in (1, 4):
                with self.subTest(method, workers=workers):
                    context = multiprocessing.get_context(method)
                    grown = context.SimpleQueue()
                    running = [context.Process(target=look_at_all, args=(folder, grown)) for _ in range(workers)]
                    for worker in running:
                        worker.start()
                    for worker in running:
                        worker.join()
                        self.assertEqual(worker.exitcode, 0)
                    self.assertLess(max(grown.get() for _ in running), 1 << 20)

    def test_processes(self):
        for form, root in support.roots().items():
            folder = headrace.ImageFolder(root, Halves())
            expected = [folder[i] for i in range(len(folder))]
            for method in ("fork", "spawn"):
                with self.subTest(form, method=method), multiprocessing.get_context(method).Pool(2) as pool:
                    for got, item in zip(pool.starmap(item_of, [(folder, i) for i in range(len(folder))]), expected):
                        np.testing.assert_array_equal(got[0], item[0])
                        self.assertEqual(got[1], item[1])

    def made(self, name: str, *files: str) -> str:
        """Class folders of one's own, with an image at each of these places; a name with a slash at its end is a folder."""
        root = support.folder() / name
        for file in files:
            path = root / file
            (path if file.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
            if not file.endswith("/"):
                path.write_bytes(open(self.expected()[0][0], "rb").read())
        return str(root)

    def test_empty_classes_are_refused_as_by_torchvision(self):
        root = self.made("partly", "ant/1.jpg", "bee/", "cat/deep/1.jpg")
        with self.assertRaisesRegex(FileNotFoundError, "no images for the classes bee, cat: expected .*in 'cat'.*allow_empty"):
            headrace.ImageFolder(root)
        folder = headrace.ImageFolder(root, allow_empty=True)
        self.assertEqual((folder.classes, folder.targets.tolist()), (["ant", "bee", "cat"], [0]))
        self.assertEqual(len(pickle.loads(pickle.dumps(folder))), 1)
        support.run(support.PROGRAM, "pack", root, "-o", root + "-packed.idx", "--quiet")
        self.assertEqual(headrace.ImageFolder(root + "-packed.idx").classes, folder.classes)

    def test_wrong_folders_are_told(self):
        above = self.made("above", "train/ant/1.jpg", "val/ant/1.jpg")
        for root, pattern in [(above, f"did you mean {above}/train\\?"), (above + "/train/ant", "but no class folders"),
                              (self.made("deep", "ant/images/1.jpg"), "folders such as images, expected"),
                              (self.made("bare", "./"), "no class folders"), (above + "/nowhere", "nowhere")]:
            with self.subTest(root), self.assertRaisesRegex(FileNotFoundError, pattern):
                headrace.ImageFolder(root)
            self.assertFalse(os.path.exists(root + ".idx"))
        with mock.patch.dict(os.environ, HOME=above):
            self.assertEqual(length_of("~/train"), 1)

    def test_torchvisions_other_arguments(self):
        root = support.packed("dct")
        for name in ("loader", "is_valid_file"):
            with self.assertRaisesRegex(TypeError, f"^{name} is .*, expected None: "):
                headrace.ImageFolder(root, **{name: seven})
        with self.assertRaisesRegex(TypeError, "^allow_empty is 1, expected True or False"):
            headrace.ImageFolder(root, None, None, None, None, 1)
        with self.assertRaisesRegex(TypeError, "Chosen has a method find_classes, which is not called here"):
            type("Chosen", (headrace.ImageFolder,), {"find_classes": seven})(root)
        folder = headrace.ImageFolder(root)
        for name in ("samples", "imgs", "targets"):
            with self.assertRaisesRegex(AttributeError, f"^{name} are those of .*torch.utils.data.Subset"):
                setattr(folder, name, [])

    def test_its_index_needs_no_room_beside_it(self):
        """A folder that cannot be written to, then a full disk."""
        root = self.made("tight", "ant/1.jpg", "bee/1.jpg")
        os.mkdir(root + ".idx")
        self.assertEqual(length_of(root), 2)
        cache = support.folder() / "cache" / "headrace"
        self.assertTrue(any(path.name.startswith("tight-") for path in cache.iterdir()))
        program = "import headrace, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); " \
                  "headrace.ImageFolder(sys.argv[1])"
        os.rmdir(root + ".idx")
        full = subprocess.run([sys.executable, "-c", program, root], stderr=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "XDG_CACHE_HOME": root})
        self.assertRegex(full.stderr, "OSError: .*\\.idx")
        self.assertEqual(sorted(os.listdir(root)), ["ant", "bee", "headrace"])
        self.assertFalse(os.path.exists(root + ".idx"))

    def test_many_processes_index_it_at_once(self):
        root = self.made("sought", *(f"{name}/{number}.jpg" for name in support.CLASSES for number in range(40)))
        for _ in range(3):
            with multiprocessing.get_context("fork").Pool(6) as pool:
                self.assertEqual(pool.map(length_of, [root] * 24, chunksize=1), [120] * 24)
            for made in (root + ".idx", *(support.folder() / "cache" / "headrace").glob("sought-*")):
                os.remove(made)
        self.assertEqual([name for name in os.listdir(support.folder()) if name.startswith("sought")], ["sought"])


if __name__ == "__main__":
    unittest.main()
