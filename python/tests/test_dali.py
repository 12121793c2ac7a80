"""headrace.dali.Source: what it promises by itself, and DALI on the CPU fed by it over the real mini set."""

import os
import pickle
import unittest
from collections import Counter, namedtuple
from functools import lru_cache

import numpy as np

import headrace
import headrace.utils.data.kspeeddataset as KSpeedDataset
import support
from headrace.dali import Source

SampleInfo = namedtuple("SampleInfo", "idx_in_epoch idx_in_batch iteration epoch_idx")


def epoch(source: Source, number: int):
    """The batches of samples that DALI would ask for."""
    for step in range(len(source)):
        places = range(step * source.batch_size, (step + 1) * source.batch_size)
        yield [source(SampleInfo(place, place - places[0], step, number)) for place in places]


class SourceTest(unittest.TestCase):
    def test_samples(self):
        index = headrace.Index(support.packed("dct"))
        source = Source(support.packed("dct"), 5, seed=7)
        self.assertEqual(len(source), 7)
        for number in (0, 1):
            order = np.random.default_rng(7 + number).permutation(len(index))
            samples = [sample for batch in epoch(source, number) for sample in batch]
            for record, (content, label) in zip(order, samples):
                self.assertEqual((content.dtype, label.dtype, label.shape), (np.uint8, np.int32, (1,)))
                self.assertEqual((content.tobytes(), int(label[0])), (index.raw(record), index.labels[record]))
        with self.assertRaises(StopIteration):
            source(SampleInfo(35, 0, 7, 1))

    def test_memory_is_used_again_when_nobody_looks_at_it(self):
        source = Source(support.packed("jpeg"), 36)
        kept, _ = source(SampleInfo(0, 0, 0, 0))
        expected = kept.tobytes()
        part = kept[8:16]
        place = kept.ctypes.data
        del kept
        others = [source(SampleInfo(step, step, 0, 0))[0] for step in range(1, 36)]
        self.assertNotIn(place, [other.ctypes.data for other in others])
        self.assertEqual(part.tobytes(), expected[8:16])
        del part
        again = [source(SampleInfo(0, 0, 0, 0))[0].ctypes.data for _ in range(10)]
        self.assertEqual(set(again), {place})

    def test_a_resumed_run_goes_on_with_its_epoch(self):
        source, resumed = (Source(support.packed("jpeg"), 36, first_epoch=first) for first in (0, 3))
        for (content, _), (expected, _) in zip(next(epoch(resumed, 0)), next(epoch(source, 3))):
            self.assertTrue(np.array_equal(content, expected))

    def test_shards_take_turns_in_one_order(self):
        shards = [Source(support.packed("jpeg"), 4, shard, 3) for shard in range(3)]
        order = np.random.default_rng(42).permutation(36)
        taken = [shard.number(0, place) for shard in shards for place in range(12)]
        self.assertEqual(taken, order.tolist())
        self.assertEqual([len(shard) for shard in shards], [3, 3, 3])
        # 36 = 5 x 7 + 1
        uneven = [Source(support.packed("jpeg"), 7, shard, 5) for shard in range(5)]
        self.assertEqual(Counter(shard.number(2, place) for shard in uneven for place in range(7)).most_common(1)[0][1], 1)

    def test_evaluation_sees_each_record_once(self):
        for shards, size in ((1, 5), (2, 5), (5, 7), (7, 1), (36, 4), (1, 100)):
            with self.subTest(shards=shards, size=size):
                sources = [Source(support.packed("jpeg"), size, shard, shards, shuffle=False) for shard in range(shards)]
                self.assertEqual(len({len(source) for source in sources}), 1)
                seen = [source.number(0, step * size + place) for source in sources for step in range(len(source))
                        for place in range(source.valid(step))]
                self.assertEqual(seen, list(range(36)))
                for source in sources:
                    self.assertEqual([len(batch) for batch in epoch(source, 0)], [size] * len(source))

    def test_pickles_small(self):
        source = Source(support.packed("dct"), 5)
        expected = source(SampleInfo(3, 3, 0, 0))
        pickled = pickle.dumps(source)
        self.assertLess(len(pickled), 1024)
        content, label = pickle.loads(pickled)(SampleInfo(3, 3, 0, 0))
        self.assertEqual((content.tobytes(), label), (expected[0].tobytes(), expected[1]))

    def test_refuses(self):
        for arguments in ((5, 1, 1), (0,), (5, -1, 2), (37,), (1, 0, 37)):
            with self.assertRaises(ValueError):
                Source(support.packed("jpeg"), *arguments)
        with self.assertRaises(ValueError):
            Source(support.packed("jpeg"), 1, 0, 37, shuffle=False)


@lru_cache(maxsize=None)
def printed_call():
    """How the guide's source reads a sample."""
    names = {"os": os, "np": np}
    exec(support.guide("def __call__", "• Pipeline do Dali"), names)
    return names["__call__"]


class KSpeedCallable:
    """The guide's own source; around its __call__ is what that needs."""

    def __init__(self, root, batch_size):
        self.root, self.batch_size, self.dataset = root, batch_size, None
        folder = self.folder()
        self.files = [os.path.join(*path.split(os.sep)[-2:]) for path, _ in folder.samples]
        self.labels = folder.targets.tolist()
        self.shard_offset, self.full_iters = 0, len(self.files) // batch_size
        self.perm, self.last_seen_epoch = None, None

    def folder(self):
        return KSpeedDataset.KSpeedFolder(self.root, None, 4, "127.0.0.1", "admin", "admin")

    def load(self):
        self.dataset = self.folder()

    def __call__(self, sample_info):
        return printed_call()(self, sample_info)


def read_as_printed(source):
    """The guide's lines that make a source the pipeline's."""
    dali = support.need_dali()
    names = {"kspeed": True, "fn": dali.fn, "types": dali.types, "kscallable": source}
    exec(support.guide("if kspeed:", "Adição de opções"), names)
    return names["images"], names["labels"]


class PipelineTest(unittest.TestCase):
    """The guide's external source, its import changed: no GPU, real images."""

    def files(self):
        return sorted((support.real() / "train").glob("*/*"))

    def test_bytes(self):
        files = self.files()
        classes = sorted({path.parent.name for path in files})
        roots = {encoding: support.real_packed("train", encoding) for encoding in ("jpeg", "dct")}
        for method, source, read in (("fork", Source(roots["jpeg"], 64), support.read_external),
                                     ("spawn", Source(roots["dct"], 64), support.read_external),
                                     ("fork", KSpeedCallable(roots["dct"], 64), read_as_printed),
                                     ("spawn", KSpeedCallable(roots["jpeg"], 64), read_as_printed)):
            with self.subTest(source=type(source).__name__, method=method):
                pipeline = support.pipeline(source, method, read)
                for number in (0, 1):
                    order = iter(np.random.default_rng(42 + number).permutation(len(files)))
                    for _ in range(len(files) // 64):
                        images, labels = pipeline.run()
                        for content, label, record in zip(images, labels, order):
                            self.assertEqual(np.array(content).tobytes(), files[record].read_bytes(), files[record])
                            self.assertEqual(classes[int(np.array(label)[0])], files[record].parent.name)
                    with self.assertRaises(StopIteration):
                        pipeline.run()
                    pipeline.reset()

    def test_pixels_are_those_of_dalis_own_reader(self):
        dali = support.need_dali()
        pipeline = support.pipeline(Source(support.real_packed("train", "dct"), 32, shuffle=False), "fork", decode=True)
        theirs = dali.Pipeline(32, num_threads=1, device_id=None)
        with theirs:
            files, labels = dali.fn.readers.file(file_root=str(support.real() / "train"))
            theirs.set_outputs(dali.fn.decoders.image(files, device="cpu"), labels)
        theirs.build()
        for _ in range(4):
            for ours, expected in zip(pipeline.run(), theirs.run()):
                for one, other in zip(ours, expected):
                    self.assertTrue(np.array_equal(np.array(one), np.array(other)))


if __name__ == "__main__":
    unittest.main()
