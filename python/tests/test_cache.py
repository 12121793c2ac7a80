"""The node's cache under each class that reads records: the same bytes and pixels, and fewer requests."""

import gc
import json
import multiprocessing
import os
import pathlib
import pickle
import unittest
from types import SimpleNamespace

import numpy as np

import headrace
import headrace.utils.data.kspeeddataset as KSpeedDataset
import support
from headrace.dali import Source


def raw_of(index: headrace.Index, number: int) -> bytes:
    return index.raw(number)


def image_of(folder: headrace.ImageFolder, number: int) -> bytes:
    return folder[number][0].tobytes()


class CacheTest(unittest.TestCase):
    def setUp(self):
        self.local = headrace.Index(support.packed("jpeg"))
        self.log = support.folder() / f"{self.id()}.log"
        self.url = support.serve(self, "--log", str(self.log)) + "/plain/jpeg.idx"
        self.folder = support.folder() / f"{self.id()}.cache"

    def index(self, **options) -> headrace.Index:
        return headrace.Index(self.url, cache=self.folder, cache_size="4M", **options)

    def requests(self) -> int:
        """Records that the server was asked for so far."""
        return sum(".shard " in line for line in self.log.read_text().splitlines())

    def same(self, index):
        self.assertEqual([index.raw(i) for i in range(len(index))],
                         [self.local.raw(i) for i in range(len(self.local))])

    def test_records_come_once(self):
        index = self.index()
        self.same(index)
        count = self.requests()
        self.assertGreaterEqual(count, len(index))
        self.same(index)
        np.testing.assert_array_equal(index.pixels(3), self.local.pixels(3))
        index.close()
        again = headrace.Index(self.url, cache=str(self.folder))
        self.same(again)
        self.assertEqual(self.requests(), count)
        self.assertLessEqual(sum(path.stat().st_size for path in self.folder.iterdir()), 4_000_000)

    def test_processes_share_it(self):
        index = self.index()
        index.raw(0)  # the cache is open before the fork
        count = None
        for method in ("fork", "spawn"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(2) as pool:
                got = pool.starmap(raw_of, [(index, i) for i in range(len(index))])
                self.assertEqual(got, [self.local.raw(i) for i in range(len(index))])
                count = count or self.requests()
                self.assertEqual(self.requests(), count)
        self.same(index)
        self.assertEqual(self.requests(), count)

    def test_a_child_leaves_its_parents_alone(self):
        index = self.index()
        index.raw(0)
        loader = headrace.Loader(index, 5, image_size=24, threads=2)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with headrace.Loader(index, 5, image_size=24, threads=2) as own:
                    own_images = [images.copy() for images, _ in own]
                del loader, own, index
                gc.collect()
                status = 0 if len(own_images) == 8 else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len([batch.step for batch in loader]), 8)
        self.same(index)
        loader.close()

    def test_image_folder(self):
        local = headrace.ImageFolder(support.packed("jpeg"))
        expected = [image_of(local, i) for i in range(len(local))]
        folder = headrace.ImageFolder(self.url, cache=self.folder, cache_size=4 << 20)
        self.assertLess(len(pickle.dumps(folder)), 1000)
        self.assertEqual([image_of(folder, i) for i in range(len(folder))], expected)
        count = self.requests()
        for method in ("fork", "spawn"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(2) as pool:
                got = pool.starmap(image_of, [(folder, i) for i in range(len(folder))])
                self.assertEqual(got, expected)
        kspeed = KSpeedDataset.KSpeedFolder(self.url, None, 4, "", cache=self.folder)
        self.assertEqual(kspeed.getBIN(kspeed.samples[5][0]), self.local.raw(5))
        self.assertEqual(self.requests(), count)

    def test_source_of_dali(self):
        source = Source(self.url, 4, cache=self.folder, cache_size="4M")
        self.assertLess(len(pickle.dumps(source)), 1000)
        for place in range(36):
            sample = SimpleNamespace(epoch_idx=0, iteration=place // 4, idx_in_epoch=place)
            file, label = pickle.loads(pickle.dumps(source))(sample)
            number = source.number(0, place)
            self.assertEqual((file.tobytes(), label.tolist()), (self.local.raw(number), [self.local.labels[number]]))
        count = self.requests()
        self.same(source.index)
        self.assertEqual(self.requests(), count)

    def test_pipelines_of_dali(self):
        """Workers of a pipeline, forked and spawned, find what others left there."""
        support.need_dali()
        count = None
        for method in ("fork", "spawn"):
            with self.subTest(method):
                source = Source(self.url, 4, cache=self.folder, cache_size="4M")
                pipeline = support.pipeline(source, method)
                for epoch in range(2):
                    for step in range(len(source)):
                        for place, (file, label) in enumerate(zip(*pipeline.run())):
                            number = source.number(epoch, 4 * step + place)
                            self.assertEqual(np.array(file).tobytes(), self.local.raw(number))
                            self.assertEqual(np.array(label).tolist(), [self.local.labels[number]])
                    with self.assertRaises(StopIteration):
                        pipeline.run()
                    pipeline.reset()
                del pipeline
                count = count or self.requests()
                self.assertEqual(self.requests(), count)
        self.same(self.index())
        self.assertEqual(self.requests(), count)

    def test_loader(self):
        options = {"batch_size": 5, "image_size": 24, "threads": 2}
        with headrace.Loader(support.packed("jpeg"), **options) as plain:
            expected = [images.copy() for _ in range(3) for images, _ in plain]
        given = {"cache": self.folder, "cache_size": "4M"}
        for index, own in ((self.url, given), (self.index(), {})):
            with headrace.Loader(index, **options, **own) as loader:
                self.assertLess(len(pickle.dumps(loader)), 1400)
                for images, (got, _) in zip(expected, (batch for _ in range(3) for batch in loader)):
                    np.testing.assert_array_equal(got, images)
                count = self.requests()
                again = pickle.loads(pickle.dumps(loader))
                again.set_epoch(0)
                np.testing.assert_array_equal(next(iter(again))[0], expected[0])
                again.close()
        self.assertEqual(self.requests(), count)

    def test_a_loader_and_an_index_share_it(self):
        """An index that was looked at leaves the loader's records where they are."""
        index = self.index()
        index.raw(35)
        with headrace.Loader(index, 5, image_size=24, threads=2) as loader:
            for _ in range(2):
                for _ in loader:
                    pass
            self.assertEqual(self.requests(), 36)
        self.same(index)
        self.assertEqual(self.requests(), 36)

    def test_jpeg_files_become_dct(self):
        """Whoever asks for a record that fetch has made dct of gets its file and its pixels."""
        report = json.loads(support.run(support.PROGRAM, "fetch", self.url, "--cache", self.folder, "--cache-size", "4M",
                                        "--quiet", "--json"))
        self.assertGreater(report["converted"], 0)
        count = self.requests()
        index = headrace.Index(self.url, cache=self.folder)
        self.same(index)
        for i in range(len(index)):
            np.testing.assert_array_equal(index.pixels(i), self.local.pixels(i))
        self.assertEqual(self.requests(), count)

    def check_loader_of_trainer(self, get, *options):
        """The same batches through the cache, which has them all when they are asked for again."""
        torch, _ = support.need_torch()
        kept = []
        for root, given in ((support.folder(), {}), (os.path.dirname(self.url),
                                                     {"cache": self.folder, "cache_size": "4M"})):
            torch.manual_seed(5)
            loader, length = get(root, 24, 4, 3, False, *options, workers=2, **given)
            kept.append([(images.cpu().clone(), labels.cpu()) for images, labels in loader])
            self.assertEqual(len(kept[-1]), length)
        for (images, labels), (expected, expected_labels) in zip(*kept):
            self.assertTrue(torch.equal(images, expected) and torch.equal(labels, expected_labels))
        count = self.requests()
        list(get(os.path.dirname(self.url), 24, 4, 3, False, *options, workers=2, cache=self.folder)[0])
        self.assertEqual(self.requests(), count)

    def indexes_of_trainer(self):
        for part in ("train", "val"):
            support.run(support.PROGRAM, "select", support.packed("jpeg"), "-o", support.folder() / f"{part}.idx")

    def test_loaders_of_trainers(self):
        support.need_torch()
        from headrace.torch import get_train_loader, get_val_loader

        self.indexes_of_trainer()
        for get in (get_train_loader, get_val_loader):
            for interpolation in ("bilinear", "bicubic"):
                with self.subTest(get.__name__, interpolation=interpolation):
                    self.check_loader_of_trainer(get, interpolation)

    def test_loaders_of_trainers_by_dali(self):
        support.need_torch()
        support.need_dali()
        from headrace.torch import backend

        self.indexes_of_trainer()
        for get in backend("dali-headrace"):
            with self.subTest(get.__name__):
                self.check_loader_of_trainer(get)

    def test_the_environment(self):
        os.environ.update(HEADRACE_CACHE=str(self.folder), HEADRACE_CACHE_SIZE="4M")
        self.addCleanup(os.environ.pop, "HEADRACE_CACHE")
        self.addCleanup(os.environ.pop, "HEADRACE_CACHE_SIZE")
        self.same(headrace.Index(self.url))
        count = self.requests()
        self.same(headrace.Index(self.url))
        with headrace.Loader(self.url, 5, image_size=24, threads=2) as loader:
            self.assertEqual(sum(batch.valid for batch in loader), 40)
        self.assertEqual(self.requests(), count)
        headrace.Index(self.url, cache="").raw(0)
        self.assertEqual(self.requests(), count + 1)
        os.environ["HEADRACE_CACHE_SIZE"] = "plenty"
        with self.assertRaisesRegex(ValueError, "HEADRACE_CACHE_SIZE is 'plenty'"):
            headrace.Index(self.url)

    def test_failures_say_what_and_where(self):
        with self.assertRaisesRegex(ValueError, "holds no cache whose size could be kept"):
            headrace.Index(self.url, cache=self.folder)
        with self.assertRaisesRegex(ValueError, "cache_size is 'plenty'"):
            headrace.Index(self.url, cache=self.folder, cache_size="plenty")
        with self.assertRaisesRegex(ValueError, "cache_size goes with cache"):
            headrace.Index(self.url, cache_size="4M")
        index = self.index()
        with self.assertRaisesRegex(ValueError, "is in use by others with a size of"):
            headrace.Loader(self.url, 5, cache=self.folder, cache_size="5M")
        index.close()

    def test_many_epochs_leave_nothing(self):
        """Over a server, with a cache in memory or in a folder, neither of which holds the set."""
        url = f"{self.url.rsplit('/', 1)[0]}/{pathlib.Path(support.many()).name}"

        def run(epochs, **options):
            with headrace.Loader(url, 20, image_size=24, threads=2, **options) as loader:
                for epoch in range(epochs):
                    if epoch == 20:
                        before, resident = support.held(), support.resident_bytes()
                    for batch in loader:
                        if epoch % 3 == 0 and batch.step == 5:
                            break
                if epochs > 20:
                    support.check_held(self, before, 32)  # connections that are kept
                    self.assertLess(support.resident_bytes() - resident, 4 << 20)

        for options in ({"memory": 4_400_000}, {"cache": self.folder, "cache_size": "1100k"}):
            with self.subTest(options):
                run(2, **options)
                gc.collect()
                before, requests = support.held(), self.requests()
                run(80, **options)
                support.check_held(self, before)
                self.assertGreater(self.requests(), requests + 800)

    def test_garbage_ends_in_its_order(self):
        """What is collected in a cycle is closed after its users, however old it is."""
        before = support.held()
        for _ in range(20):
            folder = headrace.ImageFolder(self.url, cache=self.folder, cache_size="4M")
            loader = headrace.Loader(folder.index, 5, image_size=24, threads=2)
            folder.loader_of_it = loader
            folder.kept = next(iter(loader))[0]
            image_of(folder, 1)
            del folder, loader
            gc.collect()
        support.check_held(self, before)


if __name__ == "__main__":
    unittest.main()
