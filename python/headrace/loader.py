"""Loader: the library's batches, as arrays or tensors over its own memory."""

import atexit
import os
import threading
import weakref
from ctypes import byref, c_float, c_uint32, c_void_p, sizeof
from functools import partial
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Tuple, Union

import numpy as np

from headrace import _library
from headrace.cache import Cache, Size
from headrace.index import Index, Memory, Path

_TYPES = {"u8": ("|u1", 1), "f32": ("<f4", 4), "f16": ("<f2", 2), "bf16": ("<u2", 2)}
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
                  Index); None: the index's
    """

    def __init__(self, index: Union[Index, Path], batch_size: int = 256, *, mode: str = "train", rank: int = 0,
                 world_size: int = 1, image_size: int = 224, val_resize: int = 256, val_crop: int = 224,
                 scale: Tuple[float, float] = (0.08, 1.0), ratio: Tuple[float, float] = (3 / 4, 4 / 3),
                 flip: float = 0.5, dtype: str = "f32", layout: str = "nhwc", pixels: str = "pillow",
                 mean: Sequence[float] = (0.485, 0.456, 0.406), std: Sequence[float] = (0.229, 0.224, 0.225),
                 order: str = "shuffle", window: int = 0, seed: int = 0, output: str = "numpy", threads: int = 0,
                 slots: int = 0, memory: int = 0, background: bool = False, drop_last: bool = False,
                 on_error: str = "fail", label_map: Optional[Sequence[int]] = None,
                 pin_memory: Optional[bool] = None, cache: Optional[Path] = None, cache_size: Size = None) -> None:
        if output not in ("numpy", "torch"):
            raise ValueError(f"output is {output!r}, expected 'numpy' or 'torch'")
        self._index: Optional[Index] = None
        self._open_index: Optional[Callable[[], Index]] = None  # None: it was given
        self._cache = Cache(cache, cache_size)
        if not isinstance(index, Index):
            self._open_index = partial(Index, index, cache=cache, cache_size=cache_size)
        else:
            self._index = index
            if cache is None and cache_size is None:
                self._cache = index._cache
        self.batch_size, self.rank, self.world_size = batch_size, rank, world_size
        self._options: Dict[str, Any] = {
            "seed": seed, "window": window, "memory_bytes": memory, "mode": mode, "order": order, "pixels": pixels,
            "dtype": dtype, "layout": layout, "on_error": on_error, "scale_min": scale[0], "scale_max": scale[1],
            "ratio_min": ratio[0], "ratio_max": ratio[1], "flip_probability": flip, "mean": tuple(mean),
            "std": tuple(std), "global_batch": batch_size * world_size, "rank": rank, "world_size": world_size,
            "image_size": image_size, "val_resize": val_resize, "val_crop": val_crop, "threads": threads,
            "slots": slots, "background": background, "drop_last": drop_last,
        }
        self._label_map = None if label_map is None else np.ascontiguousarray(label_map, np.int32)
        self._torch, self._pin = output == "torch", pin_memory
        self._epoch, self._step = 0, 0  # where the next iteration begins
        self._begun = False  # whether an iteration has taken batches of this epoch
        self._iterations = 0  # that began; the last one has this number
        self._handle: Optional[_Handle] = None
        self._open()

    # --- Opening and closing ---

    @property
    def index(self) -> Index:
        """The index. One that the loader opened itself it lets go of with `close`, and opens again when it is asked for."""
        if self._index is None:
            assert self._open_index is not None
            self._index = self._open_index()
        return self._index

    def _open(self) -> _Handle:
        """The loader of this process: a forked child, to which no threads came along, makes its own."""
        if self._handle is None or self._handle.process != os.getpid():
            if self._label_map is not None and self._label_map.shape != (len(self.index.classes),):
                raise ValueError(f"label_map has shape {self._label_map.shape}, expected one label for each of the "
                                 f"{len(self.index.classes)} classes of '{self.index.path}'")
            self._lock = threading.Lock()
            self._iterations += 1
            self._handle = _Handle(self.index._handle, self._cache.open(), self._library_options(), self._label_map,
                                   self._pins())
            self._steps: int = _library.loader_steps(self._handle.pointer)
        return self._handle

    def _library_options(self) -> _library.LoaderOptions:
        options = _library.LoaderOptions(size_bytes=sizeof(_library.LoaderOptions))
        _library.loader_options_init(byref(options))
        for name, value in self._options.items():
            if isinstance(value, str):
                value = value.encode()
            elif isinstance(value, tuple):
                value = (c_float * 3)(*value)
            elif not isinstance(value, float) and not 0 <= value < 1 << (64 if name in _WIDE else 32):
                raise ValueError(f"{name} is {value}, which is out of range")
            setattr(options, name, value)
        if self._label_map is not None:
            options.label_map = self._label_map.ctypes.data
        return options

    def _pins(self) -> bool:
        if self._pin is not None or not self._torch:
            return bool(self._pin)
        import torch

        return torch.cuda.is_available()

    def close(self) -> None:
        """Ends the threads, and lets go of an index that the loader opened itself. Batches that are held stay valid, and
        keep their index open; the next iteration opens the loader again."""
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
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __getstate__(self) -> Dict[str, Any]:
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
        self._epoch, self._step, self._begun = epoch, 0, False

    def __iter__(self) -> Iterator[Batch]:
        handle = self._open()
        if self._begun:
            self._epoch, self._step, self._begun = self._epoch + 1, 0, False
        with self._lock:
            self._iterations += 1
            _library.loader_start(handle.pointer, self._epoch, self._step)
            self._begun = True
            return _Epoch(self, handle)

    def _take(self, batch: _library.Batch) -> Batch:
        """What the library's batch looks like from here."""
        handle = self._open()
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
        """What makes the order of an epoch."""
        names = ("seed", "global_batch", "mode", "order", "window", "drop_last")
        return {"images": len(self.index), **{name: self._options[name] for name in names}}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """The next iteration goes on where state_dict was taken, with the batches that would have followed."""
        for name, value in self._identity().items():
            if state[name] != value:
                raise ValueError(f"the state is of a loader with {name} {state[name]!r}, this one has {value!r}")
        if not 0 <= state["step"] <= len(self):
            raise ValueError(f"the state is at step {state['step']} of an epoch of {len(self)}")
        self._epoch, self._step, self._begun = state["epoch"], state["step"], False

    def statistics(self) -> Dict[str, float]:
        """What the loader did since the iteration began: images, bytes, bad_records, seconds, wait_seconds, and
        read_seconds and decode_seconds summed over its threads."""
        statistics = _library.Statistics()
        _library.loader_statistics(self._open().pointer, byref(statistics))
        return {name: getattr(statistics, name) for name, _ in statistics._fields_}

    def __repr__(self) -> str:
        return f"Loader({self.index.path!r}, batch_size={self.batch_size}, mode={self._options['mode']!r})"


_WIDE = ("seed", "window", "memory_bytes")


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
            if loader._iterations != self._number or handle.process != os.getpid():
                raise RuntimeError("this iteration ended when its Loader was closed, iterated anew, or forked")
            while True:
                # In slices, between which Python looks at signals.
                _library.loader_next(handle.pointer, _WAIT_MS, byref(self._batch), byref(self._next))
                if self._next.value != _WAITING:
                    break
            if self._next.value != _BATCH:
                self._loader = self._handle = None
                raise StopIteration
            batch = loader._take(self._batch)
            loader._step += 1
            return batch
