"""The node's cache: a folder that keeps records of shards that are far away, for all processes of a machine."""

import os
import weakref
from ctypes import byref
from typing import Any, Optional, Tuple, Union

from headrace import _arguments as arguments
from headrace import _library

Size = Union[int, str, None]

_VARIABLES = ("HEADRACE_CACHE", "HEADRACE_CACHE_SIZE")


class _Handle(_library.OwnHandle):
    """An open cache of the library."""

    def __init__(self, folder: Optional[str], size: Optional[str]) -> None:
        super().__init__(_library.cache_close)
        encoded = None if folder is None else os.fsencode(folder), None if size is None else size.encode()
        _library.cache_open(*encoded, byref(self.pointer))


# Of this process, by what was given: data sets of one folder share it.
_open: "weakref.WeakValueDictionary[Tuple[Any, ...], _Handle]" = weakref.WeakValueDictionary()


class Cache:
    """What was said of a cache: its folder, and the most bytes that it takes ("200G" or a number; None: what it has
    already). Where nothing is said, the environment's (HEADRACE_CACHE, HEADRACE_CACHE_SIZE); a folder of "" is none.

    Each process opens it for itself.
    """

    def __init__(self, folder: "Union[str, os.PathLike[str], None]", size: Size) -> None:
        given = None if folder is None else arguments.path("cache", folder)
        self._folder = os.path.abspath(given) if given else given
        self._size = size if size is None else arguments.size("cache_size", size)

    def open(self) -> _Handle:
        """The cache of this process; its pointer is NULL where there is none."""
        said = os.getpid(), self._folder, self._size, *(os.environ.get(name) for name in _VARIABLES)
        handle = _open.get(said)
        if handle is None:
            handle = _open[said] = _Handle(self._folder, self._size)
        return handle

    def __reduce__(self) -> Any:
        return Cache, (self._folder, self._size)


class Records(_library.OwnHandle):
    """Records of an index through an open cache, in any order; its pointer is NULL where the cache's is."""

    def __init__(self, index: _library.Handle, cache: _Handle) -> None:
        super().__init__(_library.cache_reader_close, index, cache)
        if cache.pointer:
            _library.cache_reader_open(index.pointer, cache.pointer, byref(self.pointer))
