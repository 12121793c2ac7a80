"""libheadrace.so by ctypes: what binding/binding.h declares, and nothing beyond it.

Calls that can fail raise HeadraceError or the built-in exception that fits. ctypes lets other Python threads run
while a call is under way.
"""

import _thread
import ctypes
import os
import pathlib
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_float, c_int, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, List, Optional, Tuple

# BINDING_VERSION of binding/binding.h.
BINDING_VERSION = 5


class HeadraceError(RuntimeError):
    """What the library refuses or cannot do; the text says what, where, and what to do."""


class CorruptError(HeadraceError):
    """Bytes that do not hold what their format promises."""


class Stopped(HeadraceError):
    """A call gave up, as `follow` asked it to, or what it used was stopped meanwhile."""


# By enum status_code of base/status.h; others are HeadraceError.
_EXCEPTIONS = {2: ValueError, 4: CorruptError, 5: FileNotFoundError, 6: OSError, 7: OSError, 8: MemoryError, 10: Stopped}


class IndexDescription(Structure):
    """struct binding_index"""

    _fields_ = [("count", c_uint64), ("classes", c_uint32), ("shards", c_uint32), ("path", c_char_p),
                ("provenance", c_char_p)]


class Image(Structure):
    """struct binding_image"""

    _fields_ = [("pixels", c_void_p), ("stride_bytes", c_uint64), ("width", c_uint32), ("height", c_uint32)]


Rectangle = c_uint32 * 4


class Crop(Structure):
    """struct binding_crop"""

    _fields_ = [("box", Rectangle), ("out_width", c_uint32), ("out_height", c_uint32), ("window", Rectangle),
                ("flip", c_uint32)]


class LoaderOptions(Structure):
    """struct binding_loader_options"""

    _fields_ = [
        ("size_bytes", c_uint64), ("seed", c_uint64), ("window", c_uint64), ("memory_bytes", c_uint64),
        ("mode", c_char_p), ("order", c_char_p), ("pixels", c_char_p), ("dtype", c_char_p), ("layout", c_char_p),
        ("on_error", c_char_p), ("label_map", c_void_p), ("cache", c_void_p),
        ("scale_min", c_double), ("scale_max", c_double), ("ratio_min", c_double), ("ratio_max", c_double),
        ("flip_probability", c_double), ("mean", c_float * 3), ("std", c_float * 3),
        ("global_batch", c_uint32), ("rank", c_uint32), ("world_size", c_uint32), ("image_size", c_uint32),
        ("val_resize", c_uint32), ("val_crop", c_uint32), ("threads", c_uint32), ("slots", c_uint32),
        ("background", c_uint32), ("drop_last", c_uint32),
    ]


class Batch(Structure):
    """struct binding_batch"""

    _fields_ = [("batch", c_void_p), ("epoch", c_uint64), ("step", c_uint64), ("images", c_void_p),
                ("labels", c_void_p), ("records", c_void_p), ("record_stride_bytes", c_uint64), ("count", c_uint32),
                ("valid", c_uint32)]


class Statistics(Structure):
    """struct binding_statistics"""

    _fields_ = [("images", c_uint64), ("bytes", c_uint64), ("bad_records", c_uint64), ("memory_bytes", c_uint64),
                ("seconds", c_double), ("read_seconds", c_double), ("decode_seconds", c_double),
                ("wait_seconds", c_double), ("threads", c_uint32)]


def _find() -> pathlib.Path:
    """The library inside the package; in a checkout that of its build folder; HEADRACE_LIBRARY before both."""
    named = os.environ.get("HEADRACE_LIBRARY")
    if named:
        return pathlib.Path(named)
    here = pathlib.Path(__file__).resolve().parent
    for path in (here / "libheadrace.so", here.parents[1] / "build" / "libheadrace.so"):
        if path.exists():
            return path
    raise ImportError(f"libheadrace.so is neither in {here} nor in {here.parents[1] / 'build'}; install the package "
                      "with: pip install ./python")


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"{path} cannot be loaded: {error}") from error
    try:
        library.binding_version.restype = c_uint32
        library.binding_release.restype = c_char_p
        version = library.binding_version()
    except AttributeError:
        version = None
    if version != BINDING_VERSION:
        raise ImportError(f"{path} has interface version {version}, this package needs {BINDING_VERSION}: install "
                          "both from one checkout, with: pip install ./python")
    return library


_library = _load()
_library.binding_message.restype = c_char_p
release: str = _library.binding_release().decode()


def _check(code: int, _function: Any, _arguments: Tuple) -> int:
    if code:
        raise _EXCEPTIONS.get(code, HeadraceError)(_library.binding_message().decode(errors="replace"))
    return code


def _call(name: str, *argtypes: Any) -> Callable[..., int]:
    """A call that can fail."""
    function = _library["binding_" + name]
    function.argtypes, function.restype, function.errcheck = argtypes, c_int, _check
    return function


class _Call:
    """A call of the library in a thread of its own, which gives up when it is told to."""

    def __init__(self, call: Callable[..., int], arguments: Tuple) -> None:
        self._call, self._arguments = call, arguments
        self._unwanted = c_uint8(0)
        self._ended = threading.Event()
        self._failure: Optional[BaseException] = None

    def _run(self) -> None:
        follow(byref(self._unwanted))
        try:
            self._call(*self._arguments)
        except BaseException as failure:
            self._failure = failure
        finally:
            self._ended.set()

    def wait(self) -> int:
        _thread.start_new_thread(self._run, ())
        try:
            self._ended.wait()
        finally:  # a signal's exception too
            self._unwanted.value = 1
            self._ended.wait()
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # its traceback knows this frame
        return 0


_NOW = c_uint8(1)


def _waiting(name: str, *argtypes: Any) -> Callable[..., int]:
    """A call that can fail, and may wait for a server or another process, which Ctrl-C ends.

    Signals are the main thread's, and Python sees them between two calls only. So the main thread calls in a way that
    gives up where it would wait, and leaves the waiting to another thread.
    """
    call = _call(name, *argtypes)

    def run(*arguments: Any) -> int:
        if threading.get_ident() != threading.main_thread().ident:
            return call(*arguments)
        try:
            follow(byref(_NOW))
            return call(*arguments)
        except Stopped:
            pass
        finally:
            follow(None)
        return _Call(call, arguments).wait()

    return run


def _plain(name: str, restype: Optional[Any], *argtypes: Any) -> Callable[..., Any]:
    """A call that cannot fail."""
    function = _library["binding_" + name]
    function.argtypes, function.restype = argtypes, restype
    return function


follow = _plain("follow", None, POINTER(c_uint8))
access_open = _call("access_open", c_char_p, c_char_p, c_char_p, c_char_p, c_char_p, POINTER(c_void_p))
access_close = _plain("access_close", None, c_void_p)
cache_open = _call("cache_open", c_char_p, c_char_p, POINTER(c_void_p))
cache_close = _plain("cache_close", None, c_void_p)
cache_reader_open = _waiting("cache_reader_open", c_void_p, c_void_p, POINTER(c_void_p))
cache_reader_close = _plain("cache_reader_close", None, c_void_p)
index_open = _waiting("index_open", c_char_p, c_void_p, POINTER(c_void_p))
index_close = _plain("index_close", None, c_void_p)
index_describe = _plain("index_describe", None, c_void_p, POINTER(IndexDescription))
index_column = _call("index_column", c_void_p, c_uint32, POINTER(c_void_p))
index_class = _plain("index_class", None, c_void_p, c_uint32, POINTER(c_char_p), POINTER(c_char_p))
index_shard = _plain("index_shard", c_char_p, c_void_p, c_uint32)
index_name = _call("index_name", c_void_p, c_uint64, POINTER(c_char_p))
index_find = _call("index_find", c_void_p, c_uint32, c_char_p, POINTER(c_uint64))

reader_open = _call("reader_open", c_void_p, c_void_p, c_char_p, POINTER(c_void_p))
reader_close = _plain("reader_close", None, c_void_p)
reader_original = _waiting("reader_original", c_void_p, c_uint64, POINTER(c_void_p), POINTER(c_uint64))
reader_original_into = _waiting("reader_original_into", c_void_p, c_uint64, c_void_p, c_uint64)
reader_size = _waiting("reader_size", c_void_p, c_uint64, POINTER(c_uint32), POINTER(c_uint32))
reader_image = _waiting("reader_image", c_void_p, c_uint64, POINTER(Rectangle), POINTER(Image))
reader_crop = _waiting("reader_crop", c_void_p, c_uint64, POINTER(Crop), c_void_p)

loader_options_init = _call("loader_options_init", POINTER(LoaderOptions))
loader_open = _waiting("loader_open", c_void_p, POINTER(LoaderOptions), POINTER(c_void_p))
loader_stop = _plain("loader_stop", None, c_void_p)
loader_close = _plain("loader_close", None, c_void_p)
loader_steps = _plain("loader_steps", c_uint64, c_void_p)
loader_start = _waiting("loader_start", c_void_p, c_uint64, c_uint64)
loader_next = _call("loader_next", c_void_p, c_uint32, POINTER(Batch), POINTER(c_uint32))
batch_release = _plain("batch_release", None, c_void_p)
loader_statistics = _plain("loader_statistics", None, c_void_p, POINTER(Statistics))


class Handle:
    """An open handle of the library: closed when nothing refers to it any more, and before the handles that it holds.

    The garbage collector ends the objects of a cycle in the order of their age, which is the wrong one: what is held
    waits for its holders. list's append and pop need no lock.
    """

    def __init__(self, close: Callable[..., Any], *held: "Handle") -> None:
        self.pointer = c_void_p()
        self._close = close  # still there when the interpreter ends
        self._held = held
        self._holders: List[None] = []
        for handle in held:
            handle.hold()

    def hold(self) -> None:
        self._holders.append(None)

    def drop(self) -> None:
        """Ends a hold, or is the end itself."""
        try:
            self._holders.pop()
        except IndexError:
            if self.pointer:
                self._end()
            for handle in self._held:
                handle.drop()

    def _end(self) -> None:
        self._close(self.pointer)

    def __del__(self) -> None:
        self.drop()


class OwnHandle(Handle):
    """One that only the process which opened it may use and close: a forked child leaves its copy alone."""

    def __init__(self, close: Callable[..., Any], *held: Handle) -> None:
        super().__init__(close, *held)
        self.process = os.getpid()

    def _end(self) -> None:
        if self.process == os.getpid():
            super()._end()
