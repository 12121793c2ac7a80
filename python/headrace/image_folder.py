"""ImageFolder: torchvision's, from an index."""

import os
from collections.abc import Sequence
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, Union

import numpy as np

from headrace import _arguments as arguments
from headrace.cache import Size
from headrace.index import Index, Path


class Samples(Sequence):
    """(path, label) of each record, made when it is asked for: a list of as many tuples would be copied into every
    worker."""

    def __init__(self, folder: "ImageFolder") -> None:
        self._folder = folder

    def __len__(self) -> int:
        return len(self._folder)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        folder = self._folder
        label = int(folder.targets[place])
        return os.path.join(folder.root, folder.classes[label], folder.index.name(place)), label

    def __iter__(self) -> Iterator[Tuple[str, int]]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} samples of {self._folder.root}>"


class ImageFolder:
    """Stands in for torchvision.datasets.ImageFolder: items are (PIL image in RGB, label).

    `root` is an index, a packed shard, or a folder of class folders; the first two may be URLs, for which `origins`,
    `user` and `password` are, and of all three `cache` and `cache_size` keep what was read (see Index). Paths in
    `samples` are ROOT/CLASS/NAME, whatever the root is, and `loader` takes them. `targets` is an array over the index,
    and `samples` and `imgs` are made as they are asked for, so that a worker costs no more memory for more images. It
    may be shared by threads and by forked processes, and pickles as its path and transforms.
    """

    def __init__(self, root: Path, transform: Optional[Callable[[Any], Any]] = None,
                 target_transform: Optional[Callable[[int], Any]] = None, *,
                 origins: Union[str, Sequence[str], None] = None, user: Optional[str] = None,
                 password: Optional[str] = None, cache: Optional[Path] = None, cache_size: Size = None) -> None:
        root = arguments.path("root", root)
        self.index = Index(root, origins=origins, user=user, password=password, cache=cache, cache_size=cache_size)
        self.root = self.index.path
        self.transform = arguments.function("transform", transform)
        self.target_transform = arguments.function("target_transform", target_transform)
        self._prepare()

    def _prepare(self) -> None:
        self.classes = self.index.classes
        self.class_to_idx: Dict[str, int] = {name: label for label, name in enumerate(self.classes)}
        self.targets: np.ndarray = self.index.labels
        self.samples = Samples(self)
        self.imgs = self.samples
        self._images: Optional[Any] = None  # made with the first item, when Pillow is needed

    def __getstate__(self) -> Dict[str, Any]:
        made = ("classes", "class_to_idx", "targets", "samples", "imgs", "_images")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __len__(self) -> int:
        return len(self.index)

    def _image(self, number: int) -> Any:
        """A record's image, which is decoded when its pixels are asked for."""
        if self._images is None:
            from headrace.record_image import RecordImages

            self._images = RecordImages(self.index)
        return self._images.open(number)

    def __getitem__(self, number: int) -> Tuple[Any, Any]:
        number = self.index._number(number)
        image, label = self._image(number), int(self.targets[number])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        # What is still to be decoded is decoded here, so that a bad record is named by its own item.
        if isinstance(image, self._images.kind):
            image.load()
        return image, label

    def number(self, path: Path) -> int:
        """The number of the record whose path in `samples` this is; CLASS/NAME will do."""
        path = arguments.path("path", path)
        folder, name = os.path.split(path)
        label = self.class_to_idx.get(os.path.basename(folder))
        if label is None:
            raise FileNotFoundError(f"'{path}' is not in '{self.root}': expected ROOT/CLASS/NAME with one of "
                                    f"its {len(self.classes)} classes")
        return self.index.find(label, name)

    def loader(self, path: Path) -> Any:
        """The image of a path in `samples`, in RGB."""
        image = self._image(self.number(path))
        image.load()
        return image

    def __repr__(self) -> str:
        lines = [f"Dataset {type(self).__name__}", f"    Number of datapoints: {len(self)}",
                 f"    Root location: {self.root}"]
        if self.transform is not None:
            lines.append(f"    Transform: {self.transform!r}")
        if self.target_transform is not None:
            lines.append(f"    Target transform: {self.target_transform!r}")
        return "\n".join(lines)
