"""Loader: the library's batches, as arrays or tensors over its own memory."""

import atexit
import contextlib
import os
import threading
import weakref
import zlib
from collections.abc import Mapping
from ctypes import byref, c_float, c_uint32, c_void_p, sizeof
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Sequence, Tuple, Union

import numpy as np

from headrace import _arguments as arguments
from headrace import _library
from headrace.cache import Cache, Size
from headrace.index import Index, Memory, Path, Reading

if TYPE_CHECKING:
    from typing_extensions import Unpack

_TYPES = {"u8": ("|u1", 1), "f32": ("<f4", 4), "f16": ("<f2", 2), "bf16": ("<u2", 2)}
_WORDS = {"mode": ("train", "eval"), "order": ("shuffle", "window", "sequential"),
          "pixels": ("pillow", "pillow13", "fast"), "dtype": tuple(_TYPES), "layout": ("nhwc", "nchw"),
          "on_error": ("fail", "skip")}
MOST_BATCH, MOST_SIDE, MOST_THREADS = 1 << 24, 4096, 1024  # binding/loader.c's
_BATCH, _WAITING = 0, 1  # enum binding_next
_WAIT_MS = 50  # how long a Ctrl-C may have to wait

# Loaders with threads, which end before the interpreter does.
_running: "weakref.WeakSet[_Handle]" = weakref.WeakSet()


def _stop_all() -> None:
    for handle in list(_running):
        handle.stop()


atexit.register(_stop_all)


class _Handle(_library.OwnHandle):
    """A loader of the library. What holds a batch holds this, and this holds the index."""

    def __init__(self, index: _library.Handle, cache: _library.Handle, options: _library.LoaderOptions,
                 label_map: Optional[np.ndarray], pin: bool) -> None:
        super().__init__(_library.loader_close, index, cache)
        self._label_map = label_map
        options.cache = cache.pointer
        self._pinned: Optional[Dict[int, Any]] = {} if pin else None
        self._stop = _library.loader_stop
        self.release = _library.batch_release
        _library.loader_open(index.pointer, byref(options), byref(self.pointer))
        _running.add(self)

    def stop(self) -> None:
        """Ends the threads; batches that somebody holds stay."""
        if self.pointer and self.process == os.getpid():
            self._stop(self.pointer)
        _running.discard(self)

    def pin(self, address: int, length: int) -> None:
        """Locks the memory of a slot for the GPU, once."""
        if self._pinned is None or address in self._pinned:
            return
        from torch.cuda import cudart

        runtime = cudart()
        if int(runtime.cudaHostRegister(address, length, 0)) == 0:
            self._pinned[address] = runtime

    # In a forked child the threads are not there to be joined: its copy of the memory goes with the process.
    def _end(self) -> None:
        if self.process == os.getpid():
            for address, runtime in (self._pinned or {}).items():
                runtime.cudaHostUnregister(address)
        super()._end()


class _Slot:
    """A batch that somebody holds; it goes back to the loader with the last array over it."""

    def __init__(self, handle: _Handle, batch: int) -> None:
        self._handle = handle
        self._batch = c_void_p(batch)
        handle.hold()

    def __del__(self) -> None:
        if self._handle.process == os.getpid():
            self._handle.release(self._batch)
        self._handle.drop()


class Batch(Tuple[Any, Any]):
    """(images, labels), which it unpacks to, and where they come from.

    The arrays lie in a slot of the loader, which is filled anew once none of them, nor a view or tensor over them,
    is left.
    """

    epoch: int
    step: int
    valid: int  # images with a label; the others are places of bad records, or behind the end
    records: np.ndarray  # numbers of records in the index, (count); the largest uint64 behind the end

    def __repr__(self) -> str:
        images = self[0]
        return (f"<Batch {self.step} of epoch {self.epoch}: images {tuple(images.shape)} {images.dtype}, {self.valid} "
                "with a label>")


def _cache_beside(index: Index, *, cache: Optional[Path] = None, cache_size: Size = None, **others: Any) -> Cache:
    """That of a loader whose index is given: the only word of Reading that it may have for itself."""
    if others:
        raise TypeError(f"a Loader of an Index has no {', '.join(others)}: expected {'it' if len(others) == 1 else 'them'} "
                        "where the Index is opened")
    return index._cache if cache is None and cache_size is None else Cache(cache, cache_size)


class Loader:
    """Batches of an index, decoded, cropped and normalised ahead by threads of the library.

    An iteration is an epoch; each one is the next, unless `set_epoch` says which. What a batch holds depends on the
    index, the seed, the epoch, the step and the options alone. `batch_size` is that of this rank, as a DataLoader's
    is; the batches of all ranks together are those of one rank with `world_size` times the size.

    mode          "train": shuffled, random crops and flips, a short last batch goes on at the order's start.
                  "eval": in the index's order, centre crops, each image once; the last batch is filled up with label -1
    image_size    of training crops; val_resize, val_crop: of evaluation
    dtype         "f32", "f16", "bf16": normalised with mean and std; "u8": bytes. NumPy has no bf16 and gets its bits
    layout        how images lie in memory, "nhwc" or "nchw". Arrays have that shape; tensors are always (N, 3, H, W), of
                  "nhwc" in the channels_last format
    pixels        "pillow", "pillow13" or "fast"
    order, window "shuffle", "window" (long reads, for disks) or "sequential"
    output        "numpy" or "torch"
    threads       0: all cores
    slots         batches made ahead, 0: 3; four times as many can be held by the caller
    memory        ceiling in bytes of batches and scratch; 0: as usual
    on_error      "fail", or "skip": a bad record's place is black and has label -1
    label_map     for each class of the index the label to give out
    pin_memory    None: where output is "torch" and CUDA is there
    cache, cache_size   a folder that keeps records, ahead of time and by when they are needed next, and its size (see
                  Index); an index that is given has its own where nothing is said
    origins, user, password, token, ca_file   as Index has them, for a path
    """

    def __init__(self, index: Union[Index, Path], batch_size: int = 256, *, mode: str = "train", rank: int = 0,
                 world_size: int = 1, image_size: int = 224, val_resize: int = 256, val_crop: int = 224,
                 scale: Tuple[float, float] = (0.08, 1.0), ratio: Tuple[float, float] = (3 / 4, 4 / 3),
                 flip: float = 0.5, dtype: str = "f32", layout: str = "nhwc", pixels: str = "pillow",
                 mean: Sequence[float] = (0.485, 0.456, 0.406), std: Sequence[float] = (0.229, 0.224, 0.225),
                 order: str = "shuffle", window: int = 0, seed: int = 0, output: str = "numpy", threads: int = 0,
                 slots: int = 0, memory: int = 0, background: bool = False, drop_last: bool = False,
                 on_error: str = "fail", label_map: Optional[Sequence[int]] = None,
                 pin_memory: Optional[bool] = None, **reading: "Unpack[Reading]") -> None:
        words = {"mode": mode, "order": order, "pixels": pixels, "dtype": dtype, "layout": layout, "on_error": on_error}
        batch_size = arguments.integer("batch_size", batch_size, 1, MOST_BATCH)
        world_size = arguments.integer("world_size", world_size, 1, MOST_BATCH)
        rank = arguments.integer("rank", rank, 0, world_size - 1)
        scale, ratio = arguments.numbers("scale", scale, 2), arguments.numbers("ratio", ratio, 2)
        self._torch = arguments.word("output", output, ("numpy", "torch")) == "torch"
        self._pin = None if pin_memory is None else arguments.flag("pin_memory", pin_memory)
        self._closed = False
        self._index: Optional[Index] = None
        self._open_index: Optional[Callable[[], Index]] = None  # None: it was given
        if isinstance(index, Index):
            self._index, self._cache = index, _cache_beside(index, **reading)
        else:
            self._open_index = partial(Index, arguments.path("index", index), **reading)
            self._cache = self.index._cache
        self.batch_size, self.rank, self.world_size = batch_size, rank, world_size
        self._options: Dict[str, Any] = {
            **{name: arguments.word(name, value, _WORDS[name]) for name, value in words.items()},
            "seed": arguments.integer("seed", seed, 0, arguments.MOST_U64),
            "window": arguments.integer("window", window, 0, arguments.MOST_U64),
            "memory_bytes": arguments.integer("memory", memory, 0, arguments.MOST_U64),
            "scale_min": scale[0], "scale_max": scale[1], "ratio_min": ratio[0], "ratio_max": ratio[1],
            "flip_probability": arguments.number("flip", flip), "mean": arguments.numbers("mean", mean, 3),
            "std": arguments.numbers("std", std, 3),
            "global_batch": arguments.integer("batch_size × world_size", batch_size * world_size, 1, MOST_BATCH),
            "rank": rank, "world_size": world_size,
            "image_size": arguments.integer("image_size", image_size, 1, MOST_SIDE),
            "val_resize": arguments.integer("val_resize", val_resize, 1, MOST_SIDE),
            "val_crop": arguments.integer("val_crop", val_crop, 1, MOST_SIDE),
            "threads": arguments.integer("threads", threads, 0, MOST_THREADS),
            "slots": arguments.integer("slots", slots, 0, MOST_THREADS),
            "background": arguments.flag("background", background),
            "drop_last": arguments.flag("drop_last", drop_last),
        }
        self._label_map: Optional[np.ndarray] = None
        if label_map is not None:
            self._label_map = arguments.labels("label_map", label_map, len(self.index.classes), self.index.path)
        self._set: Optional[int] = None  # a checksum, once a state was asked for
        self._epoch, self._step = 0, 0  # where the next iteration begins
        self._begun = False  # whether an iteration has taken batches of this epoch
        self._iterations = 0  # that began; the last one has this number
        self._handle: Optional[_Handle] = None
        self._open()

    # --- Opening and closing ---

    @property
    def index(self) -> Index:
        """The index. One that the loader opened itself is closed with it."""
        if self._index is None:
            self._refuse_closed()
            assert self._open_index is not None
            self._index = self._open_index()
        return self._index

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ValueError(f"this Loader of '{self._path}' was closed")

    @contextlib.contextmanager
    def _unless_closed(self) -> Iterator[None]:
        """Of what the library was asked for: another thread may have closed this loader meanwhile."""
        try:
            yield
        except _library.Stopped:
            self._refuse_closed()
            raise

    def _open(self) -> _Handle:
        """The loader of this process: a forked child, to which no threads came along, makes its own."""
        self._refuse_closed()
        handle = self._handle
        if handle is None or handle.process != os.getpid():
            self._lock = threading.Lock()
            self._iterations += 1
            self._path, self._images = self.index.path, len(self.index)
            handle = self._handle = _Handle(self.index._handle, self._cache.open(), self._library_options(),
                                            self._label_map, self._pins())
            self._steps: int = _library.loader_steps(handle.pointer)
        return handle

    def _library_options(self) -> _library.LoaderOptions:
        options = _library.LoaderOptions(size_bytes=sizeof(_library.LoaderOptions))
        _library.loader_options_init(byref(options))
        for name, value in self._options.items():
            if isinstance(value, str):
                value = value.encode()
            elif isinstance(value, tuple):
                value = (c_float * 3)(*value)
            setattr(options, name, value)
        if self._label_map is not None:
            options.label_map = self._label_map.ctypes.data
        return options

    def _pins(self) -> bool:
        if self._pin is False or not (self._pin or self._torch):
            return False
        import torch

        if self._pin and not torch.cuda.is_available():
            arguments.refuse(ValueError, "pin_memory", True, "None or False, since torch finds no CUDA device here")
        return torch.cuda.is_available()

    def close(self) -> None:
        """Ends the threads and all iterations, and closes an index that the loader opened itself. Batches that are held
        stay valid, and keep their index open."""
        self._closed = True
        handle, self._handle = self._handle, None
        self._iterations += 1
        if handle is not None:
            handle.stop()
        if self._open_index is not None:
            self._index = None

    def __del__(self) -> None:
        handle = self.__dict__.get("_handle")
        if handle is not None:
            handle.stop()

    def __enter__(self) -> "Loader":
        self._refuse_closed()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> Dict[str, Any]:
        self._refuse_closed()
        left = ("_handle", "_lock", "_steps")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._handle = None
        self._open()

    # --- Epochs ---

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._steps

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch, from its beginning."""
        self._epoch = arguments.integer("epoch", epoch, 0, arguments.MOST_U32)
        self._step, self._begun = 0, False

    def __iter__(self) -> Iterator[Batch]:
        handle = self._open()
        if self._begun:
            self._epoch, self._step, self._begun = self._epoch + 1, 0, False
        with self._lock:
            self._iterations += 1
            with self._unless_closed():
                _library.loader_start(handle.pointer, self._epoch, self._step)
            self._begun = True
            return _Epoch(self, handle)

    def _take(self, handle: _Handle, batch: _library.Batch) -> Batch:
        """What the library's batch looks like from here."""
        options = self._options
        slot = _Slot(handle, batch.batch)
        side = options["image_size" if options["mode"] == "train" else "val_crop"]
        shape = (side, side, 3) if options["layout"] == "nhwc" else (3, side, side)
        typestr, size = _TYPES[options["dtype"]]
        count = batch.count
        handle.pin(batch.images, count * side * side * 3 * size)
        images: Any = np.asarray(Memory(slot, batch.images, (count, *shape), typestr, writable=True))
        labels: Any = np.asarray(Memory(slot, batch.labels, (count,), "<i4", writable=True))
        records = np.asarray(Memory(slot, batch.records, (count,), "<u8", strides=(batch.record_stride_bytes,)))
        if self._torch:
            images, labels = self._tensors(images, labels)
        made = Batch((images, labels))
        made.epoch, made.step, made.valid, made.records = batch.epoch, batch.step, batch.valid, records
        return made

    def _tensors(self, images: np.ndarray, labels: np.ndarray) -> Tuple[Any, Any]:
        import torch

        tensor = torch.from_numpy(images.view(np.int16) if self._options["dtype"] == "bf16" else images)
        if self._options["dtype"] == "bf16":
            tensor = tensor.view(torch.bfloat16)
        if self._options["layout"] == "nhwc":
            tensor = tensor.permute(0, 3, 1, 2)
        return tensor, torch.from_numpy(labels)

    # --- Resuming ---

    def state_dict(self) -> Dict[str, int]:
        """Where the iteration is: behind the batch that was given out last."""
        epoch, step = self._epoch, self._step
        if step == len(self):
            epoch, step = epoch + 1, 0
        return {"epoch": epoch, "step": step, **self._identity()}

    def _identity(self) -> Dict[str, Any]:
        """What makes the order of an epoch: the labels stand for the set, which is the same in any encoding."""
        if self._set is None:
            classes = zlib.crc32("\0".join(self.index.classes).encode(errors="surrogateescape"))
            self._set = zlib.crc32(self.index.labels, classes)
        names = ("seed", "global_batch", "mode", "order", "window", "drop_last")
        return {"images": self._images, "set": self._set, **{name: self._options[name] for name in names}}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration goes on where state_dict was taken, with the batches that would have followed."""
        expected = self._identity()
        if not isinstance(state, Mapping):
            arguments.refuse(TypeError, "state", state, "what state_dict gave")
        missing = [name for name in ("epoch", "step", *expected) if name not in state]
        if missing:
            raise ValueError(f"the state has no {', '.join(missing)}: expected what state_dict gave")
        other = [f"{name} {state[name]!r} where this one has {value!r}" for name, value in expected.items()
                 if state[name] != value]
        if other:
            raise ValueError(f"the state is of another Loader: it has {', '.join(other)}")
        epoch = arguments.integer("the state's epoch", state["epoch"], 0, arguments.MOST_U32)
        step = arguments.integer("the state's step", state["step"], 0, len(self))
        self._epoch, self._step, self._begun = epoch, step, False

    def statistics(self) -> Dict[str, float]:
        """What the loader did since the iteration began: images, bytes, bad_records, seconds, wait_seconds, and
        read_seconds and decode_seconds summed over its threads."""
        handle, statistics = self._open(), _library.Statistics()
        _library.loader_statistics(handle.pointer, byref(statistics))
        return {name: getattr(statistics, name) for name, _ in statistics._fields_}

    def __repr__(self) -> str:
        options = "".join(f", {name}={self._options[name]!r}" for name in ("mode", "rank", "world_size", "dtype"))
        closed = ", closed" if self._closed else f", {self._steps} batches"
        return f"<{type(self).__name__} of {self._path!r}: batch_size={self.batch_size}{options}{closed}>"


class _Epoch:
    """An iteration; a later one of the same loader ends it."""

    def __init__(self, loader: Loader, handle: _Handle) -> None:
        self._loader: Optional[Loader] = loader
        self._handle: Optional[_Handle] = handle
        self._lock, self._number = loader._lock, loader._iterations
        self._batch = _library.Batch()
        self._next = c_uint32(_WAITING)

    def __iter__(self) -> "_Epoch":
        return self

    def __len__(self) -> int:
        return len(self._loader) if self._loader is not None else 0

    def __next__(self) -> Batch:
        with self._lock:
            loader, handle = self._loader, self._handle
            if loader is None or handle is None:
                raise StopIteration
            loader._refuse_closed()
            if loader._iterations != self._number or handle.process != os.getpid():
                raise RuntimeError("this iteration ended when its Loader was iterated anew, or forked")
            while True:
                # In slices, between which Python looks at signals.
                with loader._unless_closed():
                    _library.loader_next(handle.pointer, _WAIT_MS, byref(self._batch), byref(self._next))
                if self._next.value != _WAITING:
                    break
            if self._next.value != _BATCH:
                self._loader = self._handle = None
                raise StopIteration
            batch = loader._take(handle, self._batch)
            loader._step += 1
            return batch
