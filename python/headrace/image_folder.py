"""ImageFolder: torchvision's, from an index."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Tuple

import numpy as np

from headrace import _arguments as arguments
from headrace.index import Index, Path, Reading

if TYPE_CHECKING:
    from typing_extensions import Unpack


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


class _Fixed:
    """An attribute that follows from the index: what is written to torchvision's would be ignored here."""

    def __init__(self, made: Callable[["ImageFolder"], Any]) -> None:
        self._made = made

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, folder: Optional["ImageFolder"], _owner: type) -> Any:
        return self if folder is None else self._made(folder)

    def __set__(self, folder: "ImageFolder", _value: Any) -> None:
        raise AttributeError(f"{self._name} are those of '{folder.root}' and are not changed here: choose images with "
                             "torch.utils.data.Subset or headrace select, and labels with target_transform")


def _refuse_hooks(kind: type, loader: Any, is_valid_file: Any) -> None:
    """Refuses what torchvision's ImageFolder calls and this one would not."""
    if loader is not None:
        arguments.refuse(TypeError, "loader", loader, "None: images are decoded by the library, with the pixels of "
                         "torchvision's default_loader; what else is to be done with them is a transform")
    if is_valid_file is not None:
        arguments.refuse(TypeError, "is_valid_file", is_valid_file, "None: choose images when the index is made (headrace "
                         "select), or with torch.utils.data.Subset")
    for name in ("find_classes", "make_dataset"):
        if hasattr(kind, name):
            raise TypeError(f"{kind.__name__} has a method {name}, which is not called here: classes and images are those "
                            "of the index")


class ImageFolder:
    """Stands in for torchvision.datasets.ImageFolder: items are (PIL image in RGB, label).

    `root` is an index, a packed shard, or a folder of class folders; the first two may be URLs. `reading` are Index's
    keywords: `origins`, `user`, `password`, `token`, `ca_file`, `cache`, `cache_size`. Paths in
    `samples` are ROOT/CLASS/NAME, whatever the root is, and `loader` takes them. `targets` is an array over the index,
    and `samples` and `imgs` are made as they are asked for, so that a worker costs no more memory for more images. It
    may be shared by threads and by forked processes, and pickles as its path and transforms.

    A folder's own index is made when it is first asked for: as ROOT.idx beside it, else in ~/.cache/headrace, else it
    lives as long as it is open. As in torchvision, a class folder without images is an error unless `allow_empty`; an
    index has whatever classes it was made with. Images are .jpeg, .jpg and .png files in the class folders themselves.
    `loader` and `is_valid_file` have torchvision's places and have to be None, since the library decodes what an index
    lists.
    """

    samples = _Fixed(lambda folder: folder._samples)
    imgs = _Fixed(lambda folder: folder._samples)
    targets = _Fixed(lambda folder: folder._targets)

    def __init__(self, root: Path, transform: Optional[Callable[[Any], Any]] = None,
                 target_transform: Optional[Callable[[int], Any]] = None, loader: None = None,
                 is_valid_file: None = None, allow_empty: bool = False, **reading: "Unpack[Reading]") -> None:
        root = os.path.expanduser(arguments.path("root", root))
        _refuse_hooks(type(self), loader, is_valid_file)
        allow_empty = arguments.flag("allow_empty", allow_empty)
        self.index = Index(root, **reading)
        self.root = self.index.path
        self.transform = arguments.function("transform", transform)
        self.target_transform = arguments.function("target_transform", target_transform)
        self._prepare()
        if not allow_empty and os.path.isdir(self.root):
            self._refuse_empty_classes()

    def _prepare(self) -> None:
        self.classes = self.index.classes
        self.class_to_idx: Dict[str, int] = {name: label for label, name in enumerate(self.classes)}
        self._targets: np.ndarray = self.index.labels
        self._samples = Samples(self)
        self._images: Optional[Any] = None  # made with the first item, when Pillow is needed

    def _refuse_empty_classes(self) -> None:
        counts = np.bincount(self.targets, minlength=len(self.classes))
        empty = [self.classes[label] for label in np.flatnonzero(counts == 0)]
        if not empty:
            return
        listed = ", ".join(empty[:10]) + (f" and {len(empty) - 10} more" if len(empty) > 10 else "")
        deep = [name for name in empty[:10] if next(os.walk(os.path.join(self.root, name)))[1]]
        within = f", not in folders of it as in '{deep[0]}'" if deep else ""
        raise FileNotFoundError(f"'{self.root}' has no images for the classes {listed}: expected .jpeg, .jpg or .png files "
                                f"in ROOT/CLASS{within}; allow_empty=True takes classes without images")

    def __getstate__(self) -> Dict[str, Any]:
        made = ("classes", "class_to_idx", "_targets", "_samples", "_images")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()

    def __len__(self) -> int:
        return len(self.index)

    def __add__(self, other: Any) -> Any:
        """The items of both, as torch's data sets are joined."""
        from torch.utils.data import ConcatDataset

        return ConcatDataset([self, other])

    def _image(self, number: int) -> Any:
        """A record's image, which is decoded when its pixels are asked for."""
        if self._images is None:
            from headrace.record_image import RecordImages

            self._images = RecordImages(self.index)
        return self._images.open(number)

    def __getitem__(self, number: int) -> Tuple[Any, Any]:
        number = self.index._number(number)
        image, label = self._image(number), int(self._targets[number])
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
