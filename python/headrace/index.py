"""The index: a small mapped file that says where each record of a data set stands."""

import collections.abc
import ctypes
import json
import operator
import os
from ctypes import byref, c_char_p, c_uint32, c_uint64, c_void_p
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, TypedDict, Union

import numpy as np

from headrace import _arguments as arguments
from headrace import _library
from headrace.cache import Cache, Records as CachedRecords, Size

Path = Union[str, "os.PathLike[str]"]
Box = Tuple[int, int, int, int]  # x, y, width, height

# Columns by the numbers of their sections in index/FORMAT.md, with what one record has of each.
_COLUMNS = {
    "labels": (4, "<i4", ()),
    "offsets": (5, "<u8", ()),
    "lengths": (6, "<u4", ()),
    "shards": (7, "<u4", ()),
    "sizes": (8, "<u2", (2,)),
    "encodings": (9, "|u1", ()),
    "crcs": (10, "<u4", ()),
    "flags": (11, "|u1", ()),
}


class Records(NamedTuple):
    """The columns of an index: read-only arrays over the mapped file, with a number for each record.

    `sizes` is (count, 2): width and height in pixels, 0, 0 where they are not known. `encodings`, `crcs` and `flags`
    are as index/FORMAT.md says.
    """

    labels: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray
    shards: np.ndarray
    sizes: np.ndarray
    encodings: np.ndarray
    crcs: np.ndarray
    flags: np.ndarray

    def __repr__(self) -> str:
        return f"<columns of {len(self.labels)} records: {', '.join(self._fields)}>"


class Record:
    """One record of an index; what it says is looked up when it is asked for."""

    __slots__ = ("_index", "number")

    def __init__(self, index: "Index", number: int) -> None:
        self._index, self.number = index, number

    @property
    def label(self) -> int:
        return int(self._index.labels[self.number])

    @property
    def class_name(self) -> str:
        """A WNID, or another folder name."""
        return self._index._class_entry(self.label)[0]

    @property
    def name(self) -> str:
        """The file name."""
        return self._index.name(self.number)

    @property
    def size(self) -> Tuple[int, int]:
        """Width and height in pixels, 0, 0 where they are not known."""
        width, height = self._index._column("sizes")[self.number]
        return int(width), int(height)

    def raw(self) -> bytes:
        """The original file, bit for bit."""
        return self._index.raw(self.number)

    def pixels(self) -> np.ndarray:
        """8-bit RGB, (height, width, 3)."""
        return self._index.pixels(self.number)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return self.number == other.number and self._index.path == other._index.path

    def __hash__(self) -> int:
        return hash((self._index.path, self.number))

    def __repr__(self) -> str:
        width, height = self.size
        size = f", {width} x {height}" if width else ""
        return f"<Record {self.number}: {self.class_name}/{self.name}, label {self.label}{size}>"


class Memory:
    """Memory of the library as an array's base: it keeps `owner` for as long as an array looks at it."""

    def __init__(self, owner: Any, address: int, shape: Tuple[int, ...], typestr: str, writable: bool = False,
                 strides: Any = None) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": typestr, "data": (address, not writable),
                                    "strides": strides}


class _Buffer:
    """Memory whose address is asked for once: NumPy takes longer to tell it than to make an array."""

    def __init__(self, length: int) -> None:
        self.size = -(-length // Buffers.STEP) * Buffers.STEP
        self._memory = np.empty(self.size, np.uint8)
        self.address = self._memory.ctypes.data


class _Lease:
    """A buffer of Buffers while arrays look at it."""

    def __init__(self, idle: List[_Buffer], length: int) -> None:
        self._idle = idle
        try:
            self._buffer = idle.pop()
        except IndexError:
            self._buffer = _Buffer(length)
        if self._buffer.size < length:
            self._buffer = _Buffer(length)
        self.address = self._buffer.address

    def __del__(self) -> None:
        if len(self._idle) < Buffers.KEPT and self._buffer.size <= Buffers.MOST_BYTES:
            self._idle.append(self._buffer)


class Buffers:
    """Memory for files that is used again when no array looks at it any more: new memory for each of a batch's files
    takes longer than reading them. Threads may share it, since list's append and pop need no lock."""

    KEPT = 1024
    STEP = 1 << 16
    MOST_BYTES = 1 << 20

    def __init__(self) -> None:
        self._idle: List[_Buffer] = []

    def take(self, length: int) -> Tuple[np.ndarray, int]:
        """An array, uint8 (length), that holds whatever was there, and its address."""
        lease = _Lease(self._idle, length)
        return np.asarray(Memory(lease, lease.address, (length,), "|u1")), lease.address

    def copy(self, address: int, length: int) -> np.ndarray:
        """An array, uint8 (length), of bytes that stand somewhere else."""
        made, place = self.take(length)
        ctypes.memmove(place, address, length)
        return made


class Reading(TypedDict, total=False):
    """How records are reached and where they are kept: Index's keywords, which whatever opens one takes, too."""

    origins: Union[str, Sequence[str], None]
    user: Optional[str]
    password: Optional[str]
    token: Optional[str]
    ca_file: Optional[Path]
    cache: Optional[Path]
    cache_size: Size


class Access(_library.Handle):
    """What indexes and shards behind URLs are reached with; where nothing is said, the environment's."""

    def __init__(self, origins: Union[str, Sequence[str], None], user: Optional[str], password: Optional[str],
                 token: Optional[str], ca_file: Optional[Path]) -> None:
        super().__init__(_library.access_close)
        certificates = None if ca_file is None else os.path.abspath(arguments.path("ca_file", ca_file))
        self._given = (arguments.servers("origins", origins), arguments.text("user", user),
                       arguments.text("password", password), arguments.text("token", token), certificates)
        encoded = (None if text is None else os.fsencode(text) for text in self._given)
        _library.access_open(*encoded, byref(self.pointer))

    def __reduce__(self) -> Any:
        return Access, self._given


class _Handle(_library.Handle):
    """An open index of the library."""

    def __init__(self, path: str, access: Access) -> None:
        super().__init__(_library.index_close, access)
        _library.index_open(os.fsencode(path), access.pointer, byref(self.pointer))
        self.description = _library.IndexDescription()
        _library.index_describe(self.pointer, byref(self.description))


class Reader(_library.Handle):
    """Scratch of the library to read and decode one record at a time, by one thread."""

    def __init__(self, handle: _Handle, records: CachedRecords, pixels: str) -> None:
        super().__init__(_library.reader_close, handle, records)
        self.records = records
        _library.reader_open(handle.pointer, records.pointer, pixels.encode(), byref(self.pointer))
        self.image = _library.Image()

    def original(self, number: int, copy: Callable[[int, int], Any]) -> Any:
        """What copy(address, length) makes of a record's original file, which is borrowed until the next call."""
        address, length = c_void_p(), c_uint64()
        _library.reader_original(self.pointer, number, byref(address), byref(length))
        return copy(address.value or 0, length.value)

    def size(self, number: int) -> Tuple[int, int]:
        width, height = c_uint32(), c_uint32()
        _library.reader_size(self.pointer, number, byref(width), byref(height))
        return width.value, height.value

    def rows(self, number: int, box: Optional[Box] = None) -> Tuple["ctypes.Array[Any]", int]:
        """RGB rows of a part of an image, borrowed until the next call, and the bytes from one to the next."""
        image = self.image
        region = byref(_library.Rectangle(*box)) if box else None
        _library.reader_image(self.pointer, number, region, byref(image))
        length = image.stride_bytes * (image.height - 1) + 3 * image.width
        return (ctypes.c_ubyte * length).from_address(image.pixels), image.stride_bytes

    def crop(self, number: int, crop: _library.Crop) -> np.ndarray:
        """A part of an image, resized: (height, width, 3)."""
        pixels = np.empty((crop.window[3], crop.window[2], 3), np.uint8)
        _library.reader_crop(self.pointer, number, byref(crop), pixels.ctypes.data)
        return pixels


class ReaderPool:
    """Readers for whichever threads come: each takes one that no other uses, and gives it back if nothing failed.

    list's append and pop need no lock, so a fork at any moment does no harm. What reads through a cache is begun with
    the first record, and anew in a forked child: an index that nobody reads from this way wants nothing of the cache.
    """

    KEPT = 8

    def __init__(self, handle: _Handle, cache: Cache, pixels: str) -> None:
        self._handle = handle
        self._cache = cache
        self._pixels = pixels
        self._records: Optional[CachedRecords] = None
        self._idle: List[Reader] = []

    def take(self) -> Reader:
        records = self._records
        if records is None or (records.pointer and records.process != os.getpid()):
            records = self._records = CachedRecords(self._handle, self._cache.open())
            self._idle = []
        try:
            return self._idle.pop()
        except IndexError:
            return Reader(self._handle, records, self._pixels)

    def give(self, reader: Reader) -> None:
        if len(self._idle) < self.KEPT and reader.records is self._records:
            self._idle.append(reader)


# What an index has until it is closed; with the access goes the thread that serves it.
_OPENED = ("_access", "_handle", "_opened", "_readers")


def is_url(path: str) -> bool:
    """Whether a root, or one of a list of servers, is a URL."""
    return "://" in path


class Index(collections.abc.Sequence):
    """An index, a packed shard, or a folder of class folders, whose index is made when it is first asked for. It is a
    sequence of Record; `labels` and `records` have the columns of all.

    An index and its shards may stand behind URLs (http, https, s3): `origins` are servers that have the same shards,
    `user` and `password`, or a bearer `token`, are for them, and `ca_file` has the certificates that sign theirs, instead
    of the system's. Without them the environment says (HEADRACE_ORIGINS, HEADRACE_USER, HEADRACE_PASSWORD,
    HEADRACE_TOKEN, HEADRACE_CA_FILE). Threads may share it, and so may forked processes. It pickles as its path and these.

    Records are kept in the folder `cache`, which never takes more than `cache_size` ("200G" or a number of bytes), and
    read from there the next time, by whichever process of this machine; without them the environment says
    (HEADRACE_CACHE, HEADRACE_CACHE_SIZE), and `cache=""` is none. Such a folder belongs on a local disk.
    """

    def __init__(self, path: Path, *, origins: Union[str, Sequence[str], None] = None, user: Optional[str] = None,
                 password: Optional[str] = None, token: Optional[str] = None, ca_file: Optional[Path] = None,
                 cache: Optional[Path] = None, cache_size: Size = None) -> None:
        self.path = arguments.path("path", path)
        self._access = Access(origins, user, password, token, ca_file)
        self._cache = Cache(cache, cache_size)
        self._open()

    def _open(self) -> None:
        self._handle = _Handle(self.path, self._access)
        self._count: int = self._handle.description.count
        self._opened = self._cache.open()
        self._readers = ReaderPool(self._handle, self._cache, "pillow")

    def __getstate__(self) -> Dict[str, Any]:
        path = self.path if is_url(self.path) else os.path.abspath(self.path)
        return {"path": path, "count": len(self), "access": self._access, "cache": self._cache}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.path, self._access, self._cache = state["path"], state["access"], state["cache"]
        self._open()
        if self._count != state["count"]:
            raise _library.HeadraceError(f"'{self.path}' has {self._count} records, but had {state['count']} in the "
                                         "process that sent it here: it was changed meanwhile")

    def __enter__(self) -> "Index":
        self._handle  # not one that was closed
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the index, as soon as no array or loader uses it any more."""
        for name in _OPENED:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        if name in _OPENED:
            raise ValueError(f"'{self.path}' was closed")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        handle = self.__dict__.get("_handle")
        what = "closed" if handle is None else f"{self._count} records in {handle.description.classes} classes"
        return f"<{type(self).__name__} of {self.path!r}: {what}>"

    def __getitem__(self, place: Any) -> Any:
        self._handle  # not of one that was closed
        if isinstance(place, slice):
            return [Record(self, number) for number in range(*place.indices(self._count))]
        return Record(self, self._number(place))

    def __iter__(self) -> Iterator[Record]:
        return (self[number] for number in range(self._count))

    def __contains__(self, record: object) -> bool:
        return isinstance(record, Record) and record.number < self._count and self[record.number] == record

    def _number(self, number: int) -> int:
        """A record's number, counted from the end where it is negative."""
        try:
            place = operator.index(number)
        except TypeError:
            arguments.refuse(TypeError, "number", number, f"the number of a record of '{self.path}'")
        if not -self._count <= place < self._count:
            raise IndexError(f"record {place} of '{self.path}', which has {self._count}")
        return place % self._count

    # --- What it says ---

    # Each call has the handle in a variable of its own: another thread may close the index meanwhile.

    def _column(self, name: str) -> np.ndarray:
        section, typestr, shape = _COLUMNS[name]
        handle, address = self._handle, c_void_p()
        _library.index_column(handle.pointer, section, byref(address))
        return np.asarray(Memory(handle, address.value or 0, (self._count, *shape), typestr))

    @property
    def records(self) -> Records:
        """All columns, without a copy."""
        return Records(*(self._column(name) for name in Records._fields))

    @property
    def labels(self) -> np.ndarray:
        """The label of each record, int32, without a copy."""
        return self._column("labels")

    @property
    def classes(self) -> List[str]:
        """The classes by label: WNIDs, or other folder names."""
        return [self._class_entry(label)[0] for label in range(self._handle.description.classes)]

    @property
    def class_words(self) -> List[str]:
        """What each class shows ("tench, Tinca tinca"); "" where nobody knows."""
        return [self._class_entry(label)[1] for label in range(self._handle.description.classes)]

    def _class_entry(self, label: int) -> Tuple[str, str]:
        handle, wnid, words = self._handle, c_char_p(), c_char_p()
        _library.index_class(handle.pointer, label, byref(wnid), byref(words))
        return os.fsdecode(wnid.value or b""), (words.value or b"").decode(errors="replace")

    @property
    def shards(self) -> List[str]:
        """The files, or folders, that `records.shards` counts."""
        handle = self._handle
        return [os.fsdecode(_library.index_shard(handle.pointer, shard)) for shard in range(handle.description.shards)]

    @property
    def provenance(self) -> Dict[str, Any]:
        """Where the data came from."""
        handle = self._handle
        return json.loads(handle.description.provenance)

    def name(self, number: int) -> str:
        """The file name of a record."""
        handle, name = self._handle, c_char_p()
        _library.index_name(handle.pointer, self._number(number), byref(name))
        return os.fsdecode(name.value or b"")

    def find(self, label: int, name: str) -> int:
        """The number of the record of a class with this file name; FileNotFoundError where there is none."""
        handle, number = self._handle, c_uint64()
        label = arguments.integer("label", label, 0, handle.description.classes - 1)
        _library.index_find(handle.pointer, label, os.fsencode(arguments.path("name", name)), byref(number))
        return number.value

    # --- What the records hold ---

    def raw(self, number: int) -> bytes:
        """The original file of a record, bit for bit, however it is stored."""
        return self.original(number, ctypes.string_at)

    def original(self, number: int, copy: Callable[[int, int], Any]) -> Any:
        """What copy(address, length) makes of a record's original file, whose memory is then used again."""
        number = self._number(number)
        reader = self._readers.take()
        original = reader.original(number, copy)
        self._readers.give(reader)
        return original

    def _original_into(self, number: int, address: int, length: int) -> None:
        """Writes a record's original file, of this length, to an address."""
        reader = self._readers.take()
        _library.reader_original_into(reader.pointer, number, address, length)
        self._readers.give(reader)

    def pixels(self, number: int) -> np.ndarray:
        """A record's image as 8-bit RGB, (height, width, 3): the pixels of Pillow's convert("RGB")."""
        number = self._number(number)
        reader = self._readers.take()
        rows, stride = reader.rows(number)
        shape = reader.image.height, reader.image.width, 3
        pixels = np.ndarray(shape, np.uint8, rows, strides=(stride, 3, 1)).copy()
        self._readers.give(reader)
        return pixels
