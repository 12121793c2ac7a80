"""What is wrong with an argument is told by the name that the caller knows, before the library sees it."""

import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np

import headrace
import support
from headrace import _arguments as arguments
from headrace.dali import Source
from headrace.kspeed import KSpeedFolder, KSpeedImageFolder


def loader(**options) -> headrace.Loader:
    return headrace.Loader(support.packed("dct"), **{"batch_size": 4, "image_size": 24, "threads": 1, **options})


def reopened(**options) -> headrace.Loader:
    """A loader that asks the library for these options with its next iteration."""
    opened = loader()
    opened._options.update(options)
    opened._handle = None
    return opened


class ArgumentsTest(unittest.TestCase):
    def refused(self, kind, pattern, call, *given, **named):
        with self.subTest(pattern=pattern, given=given, **named):
            with self.assertRaisesRegex(kind, pattern):
                call(*given, **named)

    def test_words(self):
        """Anything but a text was an address to the library. It has the same words, and refuses others itself."""
        for name in ("mode", "order", "pixels", "dtype", "layout", "on_error", "output"):
            for value in (5, None, b"f32", 1.5, ["f32"], True, object()):
                self.refused(TypeError, f"^{name} is .*, expected \\w+.* or \\w+$", loader, **{name: value})
            for value in ("", "F32", "f32\0x", "train "):
                self.refused(ValueError, f"^{name} is .*, expected \\w+.* or \\w+$", loader, **{name: value})
        for name, words in headrace.loader._WORDS.items():
            for word in words:
                loader(**{name: word}).close()
            opened = reopened(**{name: "strange"})
            listed = "|".join(words)
            with self.assertRaisesRegex(ValueError, f"^{name} is 'strange', expected (({listed})(, | or |$)){{{len(words)}}}$"):
                iter(opened)

    def test_whole_numbers(self):
        """The library has the same bounds."""
        bounds = {"batch_size": (1, 1 << 24), "world_size": (1, 1 << 24), "image_size": (1, 4096),
                  "val_resize": (1, 4096), "val_crop": (1, 4096), "threads": (0, 1024), "slots": (0, 1024),
                  "seed": (0, 2**64 - 1), "window": (0, 2**64 - 1), "memory": (0, 2**64 - 1), "rank": (0, 0)}
        of_library = {"batch_size": "global_batch", "memory": "memory_bytes"}
        for name, (least, most) in bounds.items():
            expected = f", expected a whole number from {least} to {most}$"
            for value in (least - 1, most + 1, 2**100):
                self.refused(ValueError, f"^{name} is {value}{expected}", loader, **{name: value})
            for value in (None, 1.0, "4", True, [4], float("nan")):
                self.refused(TypeError, f"^{name} is .*{expected}", loader, **{name: value})
            if most < 2**32 and name != "world_size":
                opened = reopened(**{of_library.get(name, name): most + 1})
                with self.subTest(name), self.assertRaises(ValueError):
                    iter(opened)
        self.refused(ValueError, "^batch_size × world_size is 1073741824", loader, batch_size=1 << 20, world_size=1 << 10)
        self.assertEqual(len(loader(batch_size=np.int32(4), seed=np.uint64(3), world_size=np.int64(2), rank=np.int8(1))), 5)

    def test_numbers(self):
        for name, count in (("scale", 2), ("ratio", 2), ("mean", 3), ("std", 3)):
            for value in ((), (1,), (1, 1, 1, 1), np.ones(5)):
                self.refused(ValueError, f"^{name} is .*, expected {count} numbers$", loader, **{name: value})
            for value in (None, 1, 0.5, "ab", "abc", ["1"] * count, [None] * count, [True] * count, np.float32(1)):
                self.refused(TypeError, f"^{name} is .*, expected {count} numbers$", loader, **{name: value})
            for value in (float("nan"), float("inf"), 1e30):
                self.refused(ValueError, f"{name} is .*, expected", loader, **{name: (value,) * count})
        for value in (None, "0.5", (0.5,), True):
            self.refused(TypeError, "^flip is .*, expected a number$", loader, flip=value)
        for value in (-1, 1.01, float("nan")):
            self.refused(ValueError, "^flip is .*, expected 0 to 1$", loader, flip=value)
        loader(scale=np.array([0.25, 1]), ratio=[1, 1], flip=0, mean=np.zeros(3), std=(1, np.float32(1), 1)).close()

    def test_flags_and_maps(self):
        for name in ("drop_last", "background", "pin_memory"):
            for value in (1, 0, "no", [True]) + (() if name == "pin_memory" else (None,)):
                self.refused(TypeError, f"^{name} is .*, expected True or False$", loader, **{name: value})
        loader(drop_last=np.bool_(True)).close()
        for value in ([0.0, 1.0, 2.0], "abc", [None] * 3, [True] * 3, [[0], [1, 2], [3]], [2**70] * 3, []):
            self.refused(TypeError, "^label_map is .*, expected whole numbers$", loader, label_map=value)
        for value in ([1], [[0, 1, 2]], range(4)):
            self.refused(ValueError, "^label_map has shape .*, expected one label for each of the 3 classes of", loader,
                         label_map=value)
        for value in (2**31, 2**40, -2**31 - 1):
            self.refused(ValueError, f"^a label of label_map is {value}, expected numbers up to 2147483647$", loader,
                         label_map=[0, value, 0])
        loader(label_map=np.array([2**31 - 1, 0, 7], np.uint64)).close()

    def test_epochs_and_states(self):
        opened = loader()
        for value in (-1, 2**32, 2**64):
            self.refused(ValueError, f"^epoch is {value}, expected a whole number from 0 to", opened.set_epoch, value)
        for value in (None, 1.5, "a"):
            self.refused(TypeError, "^epoch is .*, expected a whole number", opened.set_epoch, value)
        opened.set_epoch(2**32 - 1)
        self.assertEqual(next(iter(opened)).epoch, 2**32 - 1)
        state = opened.state_dict()
        for value in (None, [], "epoch"):
            self.refused(TypeError, "^state is .*, expected what state_dict gave$", opened.load_state_dict, value)
        self.refused(ValueError, "^the state has no epoch, step, images, .*: expected what state_dict gave$",
                     opened.load_state_dict, {})
        self.refused(ValueError, "^the state has no seed: expected", opened.load_state_dict,
                     {name: value for name, value in state.items() if name != "seed"})
        for change in ({"epoch": -1}, {"epoch": 2**64}, {"step": -1}, {"step": 10}):
            self.refused(ValueError, f"^the state's {next(iter(change))} is", opened.load_state_dict, {**state, **change})
        for change in ({"epoch": "a"}, {"step": 1.5}, {"step": None}):
            self.refused(TypeError, f"^the state's {next(iter(change))} is", opened.load_state_dict, {**state, **change})
        self.assertEqual(opened.state_dict(), state)

    def test_paths_and_texts(self):
        path = support.packed("dct")
        calls = {"path": headrace.Index, "index": headrace.Loader, "root": headrace.ImageFolder}
        for name, call in calls.items():
            for value in (None, 5, []):
                self.refused(TypeError, f"^{name} is .*, expected a path$", call, value)
            self.refused(ValueError, f"^{name} has a NUL character at {len(path)}", call, path + "\0x")
        self.assertEqual(headrace.Index(path.encode()).path, path)
        for name in ("user", "password", "token"):
            self.refused(TypeError, f"^{name} is of type int, expected a text$", headrace.Index, path, **{name: 771})
            self.refused(ValueError, f"^{name} has a NUL", headrace.Index, path, **{"user": "u", name: "a\0b"})
        self.refused(TypeError, "^ca_file is 5, expected a path$", headrace.Index, path, ca_file=5)
        for call in (headrace.Index, headrace.ImageFolder, headrace.Loader, lambda root, **more: Source(root, 4, **more),
                     KSpeedFolder):
            self.refused(FileNotFoundError, "no file '.*absent.pem', expected certificates", call, path,
                         ca_file="absent.pem")
            self.refused(TypeError, "unexpected keyword argument 'ca'", call, path, ca="absent.pem")
        self.refused(TypeError, "^a Loader of an Index has no user, token: expected them where the Index is opened$",
                     headrace.Loader, headrace.Index(path), user="a", token="b")
        for call, name in ((headrace.Index, "origins"), (KSpeedFolder, "iplist")):
            for value in (5, [5], ["a", None]):
                self.refused(TypeError, f"^{name} is .*, expected servers", call, path, **{name: value})
        for value in (1.5, True, [], b"4M"):
            self.refused(TypeError, "^cache_size is .*, expected a number of bytes, or a text", headrace.Index, path,
                         cache=support.folder(), cache_size=value)
        for value in (-1, 0, 2**64, "4 M", "1.5"):
            self.refused(ValueError, "^cache_size is ", headrace.Index, path, cache=support.folder(), cache_size=value)
        self.refused(TypeError, "^cache is 5, expected a path$", headrace.Index, path, cache=5)
        self.refused(TypeError, "^transform is 'flip', expected a function or None$", KSpeedImageFolder, path,
                     transform="flip")

    def test_records(self):
        index = headrace.Index(support.packed("dct"))
        folder = KSpeedFolder(support.packed("dct"))
        label, name = int(index.labels[0]), index.name(0)
        for value in (label + 2**32, label - 2**32, -1, 3):
            self.refused(ValueError, f"^label is {value}, expected a whole number from 0 to 2$", index.find, value, name)
        for value in ("a", None, 1.0):
            self.refused(TypeError, "^label is .*, expected a whole number", index.find, value, name)
        self.refused(ValueError, "^name has a NUL character", index.find, label, name + "\0x")
        for call in (index.raw, index.name, index.pixels, folder.__getitem__):
            for value in (1.0, "1", None, slice(0, 2)):
                self.refused(TypeError, "^number is .*, expected the number of a record of", call, value)
        for call in (folder.number, folder.loader, folder.getBIN, folder.__contains__):
            self.refused(TypeError, "^path is 5, expected a path$", call, 5)
            self.refused(ValueError, "^path has a NUL character", call, folder.samples[0][0] + "\0")

    def test_sources(self):
        path = support.packed("dct")
        for name, value in (("batch_size", 1.5), ("batch_size", "4"), ("shard_id", None), ("num_shards", 1.0),
                            ("seed", "a"), ("first_epoch", 0.5), ("shuffle", 1)):
            self.refused(TypeError, f"^{name} is {value!r}, expected", Source, **{"path": path, "batch_size": 4, name: value})
        for name, value in (("batch_size", 0), ("shard_id", -1), ("shard_id", 1), ("num_shards", 0), ("seed", -1),
                            ("first_epoch", -1)):
            self.refused(ValueError, f"^{name} is {value!r}, expected", Source, **{"path": path, "batch_size": 4, name: value})
        for shuffle in (True, False):
            source = Source(path, 5, shuffle=shuffle)
            for place, epoch in ((-1, 0), (5 * len(source), 0), (0, -1), (0, 2**32)):
                self.refused(ValueError, "^(place|epoch) is -?[0-9]+, expected a whole number from 0 to", source,
                             SimpleNamespace(idx_in_epoch=place, epoch_idx=epoch, iteration=0))

    def test_messages_of_the_library(self):
        """Have the arguments' names, not those of the command line's options."""
        path = support.packed("dct")
        for pattern, call in [
                ("give memory as much", lambda: loader(memory=1000)),
                ("give one: cache_size$", lambda: headrace.Index(path, cache=support.folder() / "no_cache")),
                ("give user, or HEADRACE_USER", lambda: headrace.Index(path, password="p")),
                ("expected 1e-06 to 1000000$", lambda: loader(std=(0, 1, 1)))]:
            self.refused(ValueError, pattern, call)

    def test_long_values_are_cut(self):
        with self.assertRaises(TypeError) as refused:
            arguments.number("flip", ["x" * 1000] * 1000)
        self.assertLess(len(str(refused.exception)), 2000)

    def test_what_fails_half_made_goes_quietly(self):
        with self.assertRaises(TypeError), mock.patch("sys.unraisablehook") as told:
            headrace.Index(support.packed("dct"), origins=5)
        told.assert_not_called()


if __name__ == "__main__":
    unittest.main()
