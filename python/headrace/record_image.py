"""Pillow's image over a record: cropping, resizing and flipping are noted, and computed by the library at once.

A loader that crops a part of a JPEG and shrinks it decodes that part alone. Pixels are those that Pillow would give,
bit for bit; whatever else is asked for decodes the image first and is Pillow's own.
"""

from typing import Any, Optional, Tuple

import numpy as np
from PIL import Image, __version__ as pillow_version

from headrace import _library
from headrace.index import Box, Index, ReaderPool


class RecordImage(Image.Image):
    """A part of a record's image: `box` of it, resized to `out` unless that is None, of which `window`, mirrored or
    not."""

    _pool: Optional[ReaderPool] = None  # None: an ordinary image
    _number: int
    _box: Box
    _out: Optional[Tuple[int, int]] = None
    _window: Optional[Box] = None  # set with `out`
    _flip = False
    _pixels: Optional[np.ndarray] = None  # what was computed, until Pillow's own memory takes its place
    _im: Any = None

    def __init__(self, pool: ReaderPool, number: int, box: Box) -> None:
        super().__init__()
        self._pool, self._number, self._box = pool, number, box
        self._set_size(box[2], box[3])

    def _set_size(self, width: int, height: int) -> None:
        self._size = width, height
        if hasattr(Image.Image, "mode"):  # a property from Pillow 10 on
            self._mode = "RGB"
        else:
            self.mode = "RGB"

    def _part(self, box: Box, out: Optional[Tuple[int, int]] = None, window: Optional[Box] = None,
              flip: bool = False) -> "RecordImage":
        """Another part of the same record."""
        assert self._pool is not None
        part = RecordImage(self._pool, self._number, box)
        part._out, part._window, part._flip = out, window, flip
        if window:
            part._set_size(window[2], window[3])
        return part

    # --- What is noted ---

    def crop(self, box: Any = None) -> Image.Image:
        if self._pool is None or self._flip or box is None:
            return super().crop(box)
        left, top, right, bottom = (int(round(edge)) for edge in box)
        if not (0 <= left < right <= self.width and 0 <= top < bottom <= self.height):
            return super().crop(box)
        x, y = (self._window or self._box)[:2]
        part = x + left, y + top, right - left, bottom - top
        if self._out is None:
            return self._part(part)
        return self._part(self._box, self._out, part)

    def resize(self, size: Any, resample: Any = None, box: Any = None, reducing_gap: Any = None) -> Image.Image:
        width, height = (int(side) for side in size)
        if (self._pool is None or self._out is not None or resample != Image.BILINEAR or box is not None
                or reducing_gap is not None or (width, height) == self.size or not 0 < width < 65536
                or not 0 < height < 65536):
            return super().resize(size, resample, box, reducing_gap)
        return self._part(self._box, (width, height), (0, 0, width, height))

    def transpose(self, method: Any) -> Image.Image:
        if self._pool is None or self._window is None or method != Image.FLIP_LEFT_RIGHT:
            return super().transpose(method)
        return self._part(self._box, self._out, self._window, not self._flip)

    # --- What computes ---

    def _compute(self) -> np.ndarray:
        """The resized part as an array."""
        if self._pixels is None:
            assert self._pool is not None and self._out is not None and self._window is not None
            crop = _library.Crop(self._box, *self._out, self._window, self._flip)
            reader = self._pool.take()
            self._pixels = reader.crop(self._number, crop)
            self._pool.give(reader)
        return self._pixels

    def _decode(self) -> None:
        """Becomes an ordinary image."""
        pool = self._pool
        if pool is None:
            return
        if self._out is not None:
            image = Image.frombytes("RGB", self.size, self._compute())
        else:
            reader = pool.take()
            rows, stride = reader.rows(self._number, self._box)
            image = Image.frombytes("RGB", self.size, rows, "raw", "RGB", stride)
            pool.give(reader)
        self._pool, self._pixels, self._im = None, None, image.im

    @property
    def im(self) -> Any:
        self._decode()
        return self._im

    @im.setter
    def im(self, im: Any) -> None:
        if im is not None:
            self._pool = self._pixels = None
        self._im = im

    def load(self) -> Any:
        self._decode()
        return super().load()

    @property
    def __array_interface__(self) -> Any:
        if self._pool is None or self._out is None:
            return super().__array_interface__
        pixels = self._compute()
        return {"version": 3, "shape": pixels.shape, "typestr": "|u1", "data": memoryview(pixels).toreadonly()}

    # Pillow compares images of one class only.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Image.Image):
            return NotImplemented
        return self.mode == other.mode and self.size == other.size and self.tobytes() == other.tobytes()

    __hash__ = Image.Image.__hash__


class RecordImages:
    """The images of an index, resized as the Pillow that is installed resizes."""

    kind = RecordImage

    def __init__(self, index: Index) -> None:
        passes = "pillow13" if int(pillow_version.split(".")[0]) >= 13 else "pillow"
        self._pool = ReaderPool(index._handle, index._cache, passes)

    def open(self, number: int) -> RecordImage:
        reader = self._pool.take()
        width, height = reader.size(number)
        self._pool.give(reader)
        return RecordImage(self._pool, number, (0, 0, width, height))
