"""headrace.Index against the files that it was made of."""

import gc
import multiprocessing
import pickle
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import headrace
import support


def raw_of(index: headrace.Index, number: int) -> bytes:
    return index.raw(number)


class IndexTest(unittest.TestCase):
    def files(self):
        """Path of each file in the order (class, name)."""
        return sorted(support.drawn().glob("*/*"), key=lambda path: (path.parent.name, path.name))

    def test_records_are_the_files(self):
        files = self.files()
        for form, root in support.roots().items():
            with self.subTest(form), headrace.Index(root) as index:
                self.assertEqual(len(index), len(files))
                self.assertEqual(index.classes, support.CLASSES)
                self.assertEqual(index.class_words, ["", "", ""])
                self.assertEqual(index.labels.tolist(), [support.CLASSES.index(path.parent.name) for path in files])
                self.assertEqual([index.name(i) for i in range(len(index))], [path.name for path in files])
                for i, path in enumerate(files):
                    self.assertEqual(index.raw(i), path.read_bytes())
                    self.assertEqual(index.find(index.labels[i], path.name), i)
                    np.testing.assert_array_equal(index.pixels(i), np.asarray(support.pillow(path.read_bytes())))
                self.assertEqual(index.raw(-1), files[-1].read_bytes())

    def test_columns_are_views(self):
        index = headrace.Index(support.packed("jpeg"))
        records = index.records
        self.assertEqual([column.dtype.str for column in records],
                         ["<i4", "<u8", "<u4", "<u4", "<u2", "|u1", "<u4", "|u1"])
        self.assertEqual(records.sizes.shape, (len(index), 2))
        self.assertEqual(records.lengths.tolist(), [path.stat().st_size for path in self.files()])
        width, height = records.sizes[0]
        self.assertEqual(index.pixels(0).shape, (height, width, 3))
        for column, again in zip(records, index.records):
            self.assertEqual(column.__array_interface__["data"], again.__array_interface__["data"])
            self.assertFalse(column.flags.writeable)
            self.assertFalse(column.flags.owndata)
        self.assertEqual(records.labels.__array_interface__["data"], index.labels.__array_interface__["data"])
        # The records stand where the columns say.
        with open(index.shards[records.shards[5]], "rb") as shard:
            shard.seek(int(records.offsets[5]))
            self.assertEqual(shard.read(int(records.lengths[5])), index.raw(5))

    def test_arrays_outlive_the_index(self):
        index = headrace.Index(support.packed("jpeg"))
        labels, expected = index.labels, index.labels.tolist()
        index.close()
        del index
        gc.collect()
        self.assertEqual(labels.tolist(), expected)

    def test_provenance(self):
        self.assertEqual(headrace.Index(support.packed("dct")).provenance["source"], "class-folders")

    def test_failures_say_what_and_where(self):
        index = headrace.Index(support.packed("dct"))
        with self.assertRaisesRegex(FileNotFoundError, "absent.idx"):
            headrace.Index(support.folder() / "absent.idx")
        with self.assertRaisesRegex(headrace.CorruptError, "is not an index"):
            headrace.Index(self.files()[0])
        with self.assertRaisesRegex(FileNotFoundError, "no record 'absent.JPEG' in class 1"):
            index.find(1, "absent.JPEG")
        for number in (len(index), -len(index) - 1, 1 << 70):
            with self.assertRaises(IndexError):
                index.raw(number)
            with self.assertRaises(IndexError):
                index.name(number)
        with self.assertRaises(TypeError):
            index.raw(1.0)
        index.close()
        index.close()
        self.assertEqual(len(index), len(self.files()))
        with self.assertRaisesRegex(ValueError, "was closed"):
            index.raw(0)
        for call in (lambda: index.labels, lambda: index[0], index.__enter__, lambda: pickle.dumps(index)):
            with self.assertRaisesRegex(ValueError, "was closed"):
                call()
        self.assertRegex(repr(index), r"^<Index of '.*dct\.idx': closed>$")

    def test_it_is_a_sequence(self):
        index, files = headrace.Index(support.packed("dct")), self.files()
        self.assertEqual([record.name for record in index], [path.name for path in files])
        record = index[-1]
        self.assertEqual((record.number, record.label, record.class_name, record.name), (35, 2, "cat", files[-1].name))
        self.assertEqual(record.raw(), files[-1].read_bytes())
        self.assertEqual(record.pixels().shape, (*record.size[::-1], 3))
        self.assertEqual(index[3:9:2], [index[3], index[5], index[7]])
        self.assertEqual(list(reversed(index))[0], record)
        self.assertIn(headrace.Index(support.packed("dct"))[4], index)
        self.assertNotIn(headrace.Index(support.packed("jpeg"))[4], index)
        for place in (36, -37):
            with self.assertRaises(IndexError):
                index[place]
        with self.assertRaises(TypeError):
            index[1.0]
        self.assertRegex(repr(index), r"^<Index of '.*dct\.idx': 36 records in 3 classes>$")
        self.assertRegex(repr(record), rf"^<Record 35: cat/{files[-1].name}, label 2, \d+ x \d+>$")
        self.assertTrue(repr(index.records).startswith("<columns of 36 records: labels, offsets"))

    def test_a_damaged_file_is_named(self):
        index = headrace.Index(support.drawn())
        path = self.files()[7]
        with support.changed(path, b"\xff\xd8\xff" + bytes(path.stat().st_size - 3)):
            with self.assertRaisesRegex(headrace.HeadraceError, path.name):
                index.pixels(7)
        with support.changed(path, b"short"):
            with self.assertRaisesRegex(headrace.CorruptError, path.name):
                index.raw(7)
        self.assertEqual(index.raw(7), path.read_bytes())

    def test_pickles_by_path(self):
        for form, root in support.roots().items():
            with self.subTest(form):
                index = headrace.Index(root)
                data = pickle.dumps(index)
                self.assertLess(len(data), 1000)
                again = pickle.loads(data)
                self.assertEqual((again.classes, len(again)), (index.classes, len(index)))
                self.assertEqual(again.raw(3), index.raw(3))

    def test_another_set_under_the_same_path_is_noticed(self):
        root = support.folder() / "growing"
        (root / "ant").mkdir(parents=True)
        (root / "ant" / "a.JPEG").write_bytes(self.files()[0].read_bytes())
        data = pickle.dumps(headrace.Index(root))
        (root / "ant" / "b.JPEG").write_bytes(self.files()[0].read_bytes())
        with self.assertRaisesRegex(headrace.HeadraceError, "has 2 records, but had 1"):
            pickle.loads(data)

    def test_threads_share_it(self):
        for form, root in support.roots().items():
            with self.subTest(form):
                index = headrace.Index(root)
                files = self.files()
                with ThreadPoolExecutor(8) as pool:
                    numbers = list(range(len(files))) * 6
                    self.assertEqual(list(pool.map(index.raw, numbers)), [files[i].read_bytes() for i in numbers])
                    expected = [index.pixels(i) for i in range(len(files))]
                    for i, pixels in zip(numbers, pool.map(index.pixels, numbers)):
                        np.testing.assert_array_equal(pixels, expected[i])

    def test_closed_by_another_thread(self):
        """Whoever is in a call of it meanwhile goes on to its end."""
        def use(index):
            with self.assertRaisesRegex(ValueError, "was closed"):
                while True:
                    index.labels.sum(), index.classes, repr(index[3]), index.find(0, index.name(0)), index.provenance

        with ThreadPoolExecutor(4) as pool:
            for _ in range(40):
                index = headrace.Index(support.packed("dct"))
                using = [pool.submit(use, index) for _ in range(4)]
                time.sleep(0.002)
                index.close()
                for each in using:
                    each.result()

    def test_processes_share_it(self):
        files = self.files()
        for form, root in support.roots().items():
            index = headrace.Index(root)
            index.raw(0)  # files are open before the fork
            for method in ("fork", "spawn"):
                with self.subTest(form, method=method), multiprocessing.get_context(method).Pool(2) as pool:
                    got = pool.starmap(raw_of, [(index, i) for i in range(len(files))])
                    self.assertEqual(got, [path.read_bytes() for path in files])


if __name__ == "__main__":
    unittest.main()
