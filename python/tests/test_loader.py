"""headrace.Loader: no copies, exact resumption, and nothing left behind."""

import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

import numpy as np

import headrace
import support


def make(**options) -> headrace.Loader:
    options = {"batch_size": 5, "image_size": 24, "val_resize": 28, "val_crop": 24, "threads": 2, "seed": 3, **options}
    return headrace.Loader(support.packed("dct"), **options)


def copy(batch):
    return batch.epoch, batch.step, batch.valid, batch[0].copy(), batch[1].copy(), batch.records.copy()


def address(array) -> int:
    return array.__array_interface__["data"][0]


class LoaderTest(unittest.TestCase):
    def same(self, got, expected):
        self.assertEqual(got[:3], expected[:3])
        for a, b in zip(got[3:], expected[3:]):
            np.testing.assert_array_equal(a, b)

    def test_an_epoch(self):
        with make() as loader:
            self.assertEqual(len(loader), 8)  # 36 images by 5
            labels = loader.index.labels
            batches = [copy(batch) for batch in loader]
        self.assertEqual([batch[1] for batch in batches], list(range(8)))
        seen = np.concatenate([batch[5] for batch in batches])
        self.assertEqual(set(seen.tolist()), set(range(36)))
        for _, _, valid, images, batch_labels, records in batches:
            self.assertEqual((images.shape, images.dtype, valid), ((5, 24, 24, 3), np.float32, 5))
            np.testing.assert_array_equal(batch_labels, labels[records])

    def test_evaluation(self):
        with make(mode="eval", dtype="u8", layout="nchw", label_map=[7, 8, 9]) as loader:
            batches = [copy(batch) for batch in loader]
            labels = loader.index.labels
        self.assertEqual(batches[0][3].shape, (5, 3, 24, 24))
        self.assertEqual([batch[2] for batch in batches], [5] * 7 + [1])
        self.assertEqual(batches[-1][4].tolist(), [labels[35] + 7, -1, -1, -1, -1])

    def test_ranks_share_the_batches_of_one(self):
        whole = [copy(batch) for batch in make(batch_size=6)]
        parts = [[copy(batch) for batch in make(batch_size=2, rank=rank, world_size=3)] for rank in range(3)]
        for step, batch in enumerate(whole):
            np.testing.assert_array_equal(batch[3], np.concatenate([part[step][3] for part in parts]))
            np.testing.assert_array_equal(batch[5], np.concatenate([part[step][5] for part in parts]))

    def test_epochs_follow_and_can_be_set(self):
        loader = make()
        first, second = [copy(b) for b in loader], [copy(b) for b in loader]
        self.assertEqual((first[0][0], second[0][0]), (0, 1))
        self.assertFalse(np.array_equal(first[0][5], second[0][5]))
        loader.set_epoch(0)
        for got, expected in zip(loader, first):
            self.same(copy(got), expected)

    def test_resuming(self):
        expected = [copy(batch) for _ in range(1) for batch in make()]
        for step in (0, 3, 7):
            loader = make()
            for batch in loader:
                if batch.step == step:
                    break
            state = pickle.loads(pickle.dumps(loader.state_dict()))
            again = make(threads=1)
            again.load_state_dict(state)
            rest = [copy(batch) for batch in again]
            if step == 7:
                self.assertEqual((rest[0][0], rest[0][1], len(rest)), (1, 0, 8))
                continue
            self.assertEqual(len(rest), 7 - step)
            for got, wanted in zip(rest, expected[step + 1:]):
                self.same(got, wanted)
            self.assertEqual(next(iter(again)).epoch, 1)
        with self.assertRaisesRegex(ValueError, "it has seed 3 where this one has 4, global_batch 5 where .* 12$"):
            make(seed=4, batch_size=6, world_size=2).load_state_dict(state)
        other = headrace.Index(support.packed("dct"))
        with mock.patch.object(headrace.Index, "labels", other.labels[::-1].copy()):
            with self.assertRaisesRegex(ValueError, "it has set [0-9]+ where"):
                make().load_state_dict(state)
        again = headrace.Loader(support.packed("jpeg"), 5, seed=3)  # the same set
        again.load_state_dict(state)

    def test_a_server_that_never_answers(self):
        """Leaving and Ctrl-C end reads that are under way, so that none is tried again."""
        support.packed("dct")
        log = support.folder() / "silent.log"
        url = support.serve(self, "--log", str(log)) + "/silent/dct.idx"

        def interrupt(*_):
            raise KeyboardInterrupt

        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        before = support.held()
        for way in ("close", "del", "with"):
            with self.subTest(way), headrace.Loader(url, 5, image_size=24, threads=2) as loader:
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                with self.assertRaises(KeyboardInterrupt):
                    next(iter(loader))
                if way == "close":
                    loader.close()
                elif way == "del":
                    del loader
                    gc.collect()
            support.check_held(self, before)
        asked = [line for line in log.read_text().splitlines() if ".shard" in line]
        self.assertTrue(asked)
        self.assertLessEqual(max(asked.count(line) for line in asked), 3)

    def test_closed_indexes_have_no_thread(self):
        """That of the network ends with a loader that opened its index, else with the index; a batch keeps it."""
        support.packed("dct")
        url = support.serve(self) + "/plain/dct.idx"
        before = support.held()
        loader = headrace.Loader(url, 5, image_size=24, threads=2)
        first = copy(next(iter(loader)))
        loader.close()
        support.check_held(self, before)
        loader = headrace.Loader(url, 5, image_size=24, threads=2)
        self.same(copy(next(iter(loader))), first)
        index = loader.index
        loader.close()
        self.assertEqual(index.labels.shape, (36,))
        index.close()
        support.check_held(self, before)
        with self.assertRaisesRegex(ValueError, "was closed"):
            index.raw(0)
        with headrace.Loader(url, 5, image_size=24, threads=2) as loader:
            batch = next(iter(loader))
        self.assertGreater(support.threads(), before[0])
        del batch
        support.check_held(self, before)

    def test_kept_batches_keep_their_slots(self):
        loader = make()
        iterator = iter(loader)
        kept = next(iterator)
        view, expected = kept[0][2:, ::2], copy(kept)
        place, records = address(kept[0]), kept.records
        self.assertFalse(kept[0].flags.owndata)
        del kept
        others = {address(batch[0]) for batch in iterator} | {address(batch[0]) for batch in loader}
        self.assertNotIn(place, others)
        np.testing.assert_array_equal(view, expected[3][2:, ::2])
        loader.close()
        del loader, iterator
        gc.collect()
        np.testing.assert_array_equal(view, expected[3][2:, ::2])
        np.testing.assert_array_equal(records, expected[5])

    def test_released_slots_are_filled_again(self):
        loader = make()
        places = {address(batch[0]) for _ in range(5) for batch in loader}
        self.assertLessEqual(len(places), 4)
        kept = []
        with self.assertRaisesRegex(MemoryError, "all 12 batches"):
            for _ in range(5):
                kept.extend(loader)
        self.assertEqual(len(kept), 12)
        kept.clear()
        self.assertEqual(len(list(map(copy, loader))), 8)

    def test_torch_sees_the_same_memory(self):
        torch, _ = support.need_torch()
        for layout in ("nhwc", "nchw"):
            arrays = next(iter(make(layout=layout)))
            tensors = next(iter(make(layout=layout, output="torch")))
            self.assertEqual(tuple(tensors[0].shape), (5, 3, 24, 24))
            self.assertTrue(tensors[0].is_contiguous(
                memory_format=torch.channels_last if layout == "nhwc" else torch.contiguous_format))
            expected = arrays[0] if layout == "nchw" else arrays[0].transpose(0, 3, 1, 2)
            np.testing.assert_array_equal(tensors[0].numpy(), expected)
            self.assertEqual(tensors[1].tolist(), arrays[1].tolist())
            self.assertEqual(torch.from_dlpack(arrays[0]).data_ptr(), address(arrays[0]))
            self.assertEqual(torch.from_numpy(arrays[1]).data_ptr(), address(arrays[1]))
        # Both lie in the slots of one loader.
        loader = make()
        places = {address(images) for _ in range(3) for images, _ in loader}
        loader._torch = True
        places |= {images.data_ptr() for _ in range(3) for images, _ in loader}
        self.assertLessEqual(len(places), 4)
        half = next(iter(make(dtype="bf16", output="torch")))
        bits = next(iter(make(dtype="bf16")))
        self.assertEqual(half[0].dtype, torch.bfloat16)
        np.testing.assert_array_equal(half[0].permute(0, 2, 3, 1).view(torch.int16).numpy(), bits[0].view(np.int16))
        # A tensor keeps the slot by itself.
        loader = make(output="torch")
        iterator = iter(loader)
        image, expected = (lambda batch: (batch[0][1], batch[0][1].clone()))(next(iterator))
        for _ in range(3):
            list(map(lambda batch: None, loader))
        self.assertTrue(torch.equal(image, expected))

    def test_memory_is_pinned_once(self):
        """By a stand-in for CUDA's runtime, which is told of each slot when it is first used, and when it is let go."""
        torch, _ = support.need_torch()
        runtime = mock.Mock(**{"cudaHostRegister.return_value": 0})
        with mock.patch("torch.cuda.cudart", return_value=runtime), mock.patch("torch.cuda.is_available", lambda: True):
            loader = make(output="torch", pin_memory=True)
            places = {images.data_ptr() for _ in range(5) for images, _ in loader}
            told = [call.args for call in runtime.cudaHostRegister.call_args_list]
            self.assertEqual(sorted(told), sorted((place, 5 * 24 * 24 * 3 * 4, 0) for place in places))
            runtime.cudaHostUnregister.assert_not_called()
            del loader
            gc.collect()
            self.assertEqual({call.args[0] for call in runtime.cudaHostUnregister.call_args_list}, places)

    def test_refusals(self):
        for options, pattern in [({"order": "random"}, "expected shuffle, window or sequential"),
                                 ({"batch_size": 0}, "batch_size is 0"), ({"rank": 1}, "rank is 1"),
                                 ({"seed": -1}, "seed is -1"), ({"label_map": [1]}, "label_map has shape"),
                                 ({"output": "jax"}, "output is 'jax'"), ({"flip": float("nan")}, "flip is nan")]:
            with self.assertRaisesRegex(ValueError, pattern):
                make(**options)

    def test_a_later_iteration_ends_an_earlier_one(self):
        loader = make()
        first = iter(loader)
        next(first)
        second = iter(loader)
        with self.assertRaisesRegex(RuntimeError, "iterated anew"):
            next(first)
        self.assertEqual(next(second).epoch, 1)

    def test_nothing_is_left(self):
        def leave_early():
            for _ in make():
                break

        def fail():
            try:
                for _ in make():
                    raise KeyError
            except KeyError:
                pass

        def keep_a_batch():
            loader = make()
            batch = next(iter(loader))
            del loader
            support.check_held(self, before, 1)  # the shard
            return batch[1].sum()

        for use in (leave_early, fail, keep_a_batch, lambda: list(map(copy, make())), make):
            use()  # what is made once
            before = support.held()
            for _ in range(3):
                use()
            support.check_held(self, before)

    def test_two_hundred_epochs_take_no_memory(self):
        loader = make()
        for _ in range(20):
            list(map(copy, loader))
        gc.collect()
        before = support.held()
        resident = support.resident_bytes()
        for epoch in range(200):
            for batch in loader:
                if epoch % 7 == 3 and batch.step == 4:
                    break
        support.check_held(self, before)
        self.assertLess(support.resident_bytes() - resident, 4 << 20)

    def test_pickles_and_forks(self):
        loader = make()
        iterator = iter(loader)
        expected = [copy(batch) for batch in make()]
        held = next(iterator)
        state = pickle.loads(pickle.dumps(loader))
        self.assertLess(len(pickle.dumps(loader)), 2000)
        self.same(copy(next(iter(state))), (1, 0, 5, *copy(next(iter(make_epoch(1))))[3:]))
        child = os.fork()
        if child == 0:  # makes its own threads; what came along stays readable
            status = 1
            try:
                self.same(copy(held), expected[0])
                loader.set_epoch(0)
                for got, wanted in zip(loader, expected):
                    self.same(copy(got), wanted)
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.same(copy(next(iterator)), expected[1])

    def test_ctrl_c_while_waiting(self):
        """For a record that never comes: a named pipe that nobody writes, in the place of a file."""
        root = support.folder() / "stuck"
        shutil.copytree(support.drawn(), root)
        headrace.Index(root).close()
        last = sorted((root / "cat").iterdir())[-1]
        last.unlink()
        os.mkfifo(last)
        code = f"""
import os, signal, threading, headrace
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run in the background
batches = iter(headrace.Loader({str(root) + '.idx'!r}, 36, image_size=16, threads=1, order="sequential"))
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    next(batches)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)  # the thread that waits for the pipe never ends
"""
        done = subprocess.run([sys.executable, "-c", code], text=True, timeout=60, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("interrupted\n", "", 0))

    def test_the_interpreter_ends_with_a_loader_at_work(self):
        code = f"""
import headrace
loader = headrace.Loader({support.packed('dct')!r}, 4, image_size=32, threads=3)
iterator = iter(loader)
batch = next(iterator)
"""
        done = subprocess.run([sys.executable, "-c", code], text=True, timeout=60, stderr=subprocess.PIPE)
        self.assertEqual((done.stderr, done.returncode), ("", 0))

    def test_close_wakes_who_waits(self):
        loader = make()
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        loader.close()
        loader.close()
        for call in (lambda: next(iterator), lambda: iter(loader), loader.statistics, loader.__enter__,
                     lambda: loader.index, lambda: pickle.dumps(loader)):
            with self.assertRaisesRegex(ValueError, r"dct\.idx' was closed"):
                call()
        self.assertEqual((len(loader), loader.state_dict()), (8, state))
        self.assertRegex(repr(loader), r"^<Loader of '.*dct\.idx': batch_size=5, .*, closed>$")

    def test_closed_by_another_thread(self):
        """At whichever moment: what was taken already stays readable, and goes back to the loader it came from."""
        for delay in range(20):
            loader = make(batch_size=2, threads=1)
            kept = []
            closer = threading.Timer(delay / 4000, loader.close)
            with self.assertRaisesRegex(ValueError, "was closed"):
                iterator = iter(loader)
                closer.start()
                while True:
                    for batch in iterator:
                        kept = [batch, copy(batch)]
                    iterator = iter(loader)
            closer.join()
            del iterator, loader
            gc.collect()
            if kept:
                np.testing.assert_array_equal(kept[0][0], kept[1][3])

    def test_closed_between_a_batch_and_its_arrays(self):
        loader = make()
        iterator = iter(loader)
        taken = loader._take

        def late(handle, batch):
            loader.close()
            return taken(handle, batch)

        with mock.patch.object(loader, "_take", late):
            batch = next(iterator)
        expected = batch[0].copy()
        del iterator, loader, taken, late
        gc.collect()
        make().close()
        np.testing.assert_array_equal(batch[0], expected)

    def test_shown(self):
        loader = make(rank=1, world_size=2)
        self.assertRegex(repr(loader), r"^<Loader of '.*dct\.idx': batch_size=5, mode='train', rank=1, world_size=2, "
                                       r"dtype='f32', 4 batches>$")
        self.assertEqual(repr(next(iter(loader))),
                         "<Batch 0 of epoch 0: images (5, 24, 24, 3) float32, 5 with a label>")


def make_epoch(epoch: int) -> headrace.Loader:
    loader = make()
    loader.set_epoch(epoch)
    return loader


if __name__ == "__main__":
    unittest.main()
