"""Loaders as the trainer of NVIDIA's DeepLearningExamples calls them, (loader, len(loader)), and whose batches are
(input, target) on the GPU, or on the CPU where there is none. INTEGRATIONS.md shows the lines.

    get_train_loader, get_val_loader = headrace.torch.backend(args.data_backend)
"""

import itertools
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.distributed
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from headrace import _arguments as arguments
from headrace.image_folder import ImageFolder
from headrace.index import Index, Path, Reading, is_url
from headrace.loader import MOST_BATCH, MOST_SIDE, MOST_THREADS, Loader

if TYPE_CHECKING:
    from typing_extensions import Unpack

BACKENDS = ("pytorch", "synthetic", "headrace", "dali-headrace", "dali")
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
# torchvision's, of images by Pillow.
INTERPOLATIONS = ("bilinear", "bicubic", "nearest", "box", "hamming", "lanczos")

Tensors = Tuple[torch.Tensor, torch.Tensor]


def part_path(data_path: Path, train: bool, folder: bool = False) -> str:
    """DATA/train.idx (or val.idx), else the folder DATA/train; of a URL always the index, for `folder` always the
    folder."""
    part = "train" if train else "val"
    data = os.fspath(data_path)
    index = os.path.join(data, f"{part}.idx")
    if not folder and (is_url(data) or os.path.exists(index)):
        return index
    return os.path.join(data, part)


def check_arguments(image_size: int, batch_size: int, num_classes: int, one_hot: bool, workers: int,
                    memory_format: torch.memory_format, interpolation: str,
                    interpolations: Sequence[str] = INTERPOLATIONS) -> None:
    """What all loaders here are called with."""
    arguments.integer("image_size", image_size, 1, MOST_SIDE)
    arguments.integer("batch_size", batch_size, 1, MOST_BATCH)
    arguments.integer("num_classes", num_classes, 1, 2**31 - 1)
    arguments.flag("one_hot", one_hot)
    arguments.integer("workers", workers, 0, MOST_THREADS)
    arguments.word("interpolation", interpolation, interpolations)
    expected = "torch.contiguous_format or torch.channels_last"
    if not isinstance(memory_format, torch.memory_format):
        arguments.refuse(TypeError, "memory_format", memory_format, expected)
    if memory_format not in (torch.contiguous_format, torch.channels_last):
        arguments.refuse(ValueError, "memory_format", memory_format, expected)


def check_augmentation(augmentation: Any) -> None:
    """None, "autoaugment", or a transform."""
    expected = "None, autoaugment or a transform of PIL images"
    if isinstance(augmentation, str) and augmentation != "autoaugment":
        arguments.refuse(ValueError, "augmentation", augmentation, expected)
    if augmentation is not None and not isinstance(augmentation, str) and not callable(augmentation):
        arguments.refuse(TypeError, "augmentation", augmentation, expected)


def _check_of_folder(**given: Any) -> None:
    """Refuses options of the library's batches where torchvision's transforms make them."""
    for name, value in given.items():
        if value is not None:
            arguments.refuse(ValueError, name, value, "it left out: with this interpolation or augmentation torchvision's "
                             "transforms make the batches, from Pillow's pixels and with torch.manual_seed")


def rank_and_world() -> Tuple[int, int]:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def device_of_batches() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def targets_finish(labels: torch.Tensor, num_classes: int, one_hot: bool) -> torch.Tensor:
    """int64 (N), or f32 (N, num_classes) with a 1 in each row."""
    labels = labels.long()
    if not one_hot:
        return labels
    return torch.zeros(len(labels), num_classes, device=labels.device).scatter_(1, labels.unsqueeze(1), 1.0)


def _seed_of_all() -> int:
    """What torch.manual_seed() set on rank 0: all ranks must agree on the order of an epoch."""
    seed = torch.tensor([torch.initial_seed() % 2**63])
    if rank_and_world()[1] > 1:
        seed = seed.to(device_of_batches() if torch.distributed.get_backend() == "nccl" else "cpu")
        torch.distributed.broadcast(seed, 0)
    return int(seed.item())


def _copied_ahead(batches: Iterable[Tensors], device: torch.device) -> Iterator[Tensors]:
    """The batches on the GPU; one is copied there while the one before is in use."""
    stream = torch.cuda.Stream(device)
    ahead: Optional[Tuple[Tensors, Tensors, torch.cuda.Event]] = None

    def arrived(_host: Tensors, copies: Tensors, copied: torch.cuda.Event) -> Tensors:
        copied.synchronize()  # only now the host's memory may be used anew
        for copy in copies:
            copy.record_stream(torch.cuda.current_stream(device))
        return copies

    for images, labels in batches:
        with torch.cuda.stream(stream):
            copies = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
            copied = stream.record_event()
        if ahead is not None:
            yield arrived(*ahead)
        ahead = (images, labels), copies, copied
    if ahead is not None:
        yield arrived(*ahead)


class Batches:
    """(input, target) of each batch: f32 (N, 3, H, W) normalised, and int64 (N) or one-hot f32 (N, classes). Each pass
    is the next epoch.

    `start(epoch)` gives an epoch's batches in the host's memory: images u8 or finished f32, (N, 3, H, W), and labels.
    """

    def __init__(self, start: Callable[[int], Iterable[Tensors]], length: int, epoch: int, num_classes: int,
                 one_hot: bool) -> None:
        self._start = start
        self._length = length
        self.epoch = epoch
        self._num_classes = num_classes
        self._one_hot = one_hot
        self._device = device_of_batches()
        self._mean, self._std = (255 * torch.tensor(values, device=self._device).view(1, 3, 1, 1) for values in (MEAN, STD))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Tensors]:
        batches = self._start(self.epoch)
        self.epoch += 1
        if self._device.type == "cuda":
            batches = _copied_ahead(batches, self._device)
        for images, labels in batches:
            if images.dtype == torch.uint8:
                images = images.float().sub_(self._mean).div_(self._std)
            yield images, targets_finish(labels, self._num_classes, self._one_hot)


# --- Images that torchvision's transforms make ---


def _collate(memory_format: torch.memory_format, items: List[Tuple[Any, int]]) -> Tensors:
    images = torch.from_numpy(np.stack([np.asarray(image) for image, _ in items])).permute(0, 3, 1, 2)
    return images.contiguous(memory_format=memory_format), torch.tensor([label for _, label in items])


def _folder_batches(dataset: Any, train: bool, batch_size: int, num_classes: int, one_hot: bool, start_epoch: int,
                    workers: int, worker_init_fn: Any, prefetch_factor: int, memory_format: torch.memory_format) -> Batches:
    """Batches of a dataset of (PIL image, label) by torch's DataLoader."""
    distributed = rank_and_world()[1] > 1
    sampler = DistributedSampler(dataset, shuffle=train) if distributed else None
    of_workers = {"persistent_workers": True, "prefetch_factor": prefetch_factor} if workers else {}
    loader = DataLoader(dataset, batch_size, sampler=sampler, shuffle=train and sampler is None, num_workers=workers,
                        worker_init_fn=worker_init_fn, pin_memory=torch.cuda.is_available(),
                        collate_fn=partial(_collate, memory_format), drop_last=train, **of_workers)

    def start(epoch: int) -> Iterable[Tensors]:
        if sampler is not None:
            sampler.set_epoch(epoch)
        return loader

    return Batches(start, len(loader), start_epoch, num_classes, one_hot)


def _train_transform(image_size: int, interpolation: str, augmentation: Any) -> Any:
    from torchvision import transforms

    chain = [transforms.RandomResizedCrop(image_size, interpolation=transforms.InterpolationMode(interpolation)),
             transforms.RandomHorizontalFlip()]
    if augmentation == "autoaugment":
        chain.append(transforms.AutoAugment(transforms.AutoAugmentPolicy.IMAGENET))
    elif augmentation is not None:
        chain.append(augmentation)
    return transforms.Compose(chain)


def _val_transform(image_size: int, crop_padding: int, interpolation: str) -> Any:
    from torchvision import transforms

    mode = transforms.InterpolationMode(interpolation)
    return transforms.Compose([transforms.Resize(image_size + crop_padding, interpolation=mode),
                               transforms.CenterCrop(image_size)])


# --- Whole batches from an index ---


def _check_classes(classes: int, path: str, num_classes: int) -> None:
    if classes > num_classes:
        raise ValueError(f"'{path}' has {classes} classes, more than the {num_classes} of the network: expected a data set "
                         "with as many, or num_classes=" + str(classes))


def _even_batch(count: int, batch_size: int, world: int) -> int:
    """The smallest batch that evaluates `count` images in as many steps: ranks whose results are averaged should have
    about as many images in the last step, too."""
    steps = -(-count // (batch_size * world))
    return -(-count // (steps * world))


def _evaluated(loader: Loader) -> Iterator[Tensors]:
    """A rank's images, each once; where it has none left and others do, its last one again, since they wait for it."""
    last: Optional[Tensors] = None
    for batch in loader:
        images, labels = batch
        if batch.valid:
            last = images[batch.valid - 1 : batch.valid], labels[batch.valid - 1 : batch.valid]
            yield images[: batch.valid], labels[: batch.valid]
        elif last is not None:
            yield last


def _index_batches(path: str, train: bool, batch_size: int, num_classes: int, one_hot: bool, start_epoch: int,
                   workers: int, prefetch_factor: int, memory_format: torch.memory_format, reading: Reading,
                   **options: Any) -> Batches:
    """Batches that the library makes: finished on the CPU, as bytes for a GPU, which normalises them."""
    rank, world = rank_and_world()
    index = Index(path, **reading)
    _check_classes(len(index.classes), path, num_classes)
    if not train:
        batch_size = _even_batch(len(index), batch_size, world)
        if len(index) <= (world - 1) * batch_size:
            raise ValueError(f"'{path}' has {len(index)} images, too few for {world} ranks")
    loader = Loader(index, batch_size, mode="train" if train else "eval", rank=rank, world_size=world, output="torch",
                    dtype="u8" if torch.cuda.is_available() else "f32", mean=MEAN, std=STD, drop_last=train,
                    layout="nhwc" if memory_format == torch.channels_last else "nchw", threads=max(1, workers),
                    slots=prefetch_factor + 1, **options)

    def start(epoch: int) -> Iterable[Tensors]:
        loader.set_epoch(epoch)
        return loader if train else _evaluated(loader)

    return Batches(start, len(loader), start_epoch, num_classes, one_hot)


# --- What the trainer calls ---


def get_train_loader(data_path: Path, image_size: int, batch_size: int, num_classes: int, one_hot: bool,
                     interpolation: str = "bilinear", augmentation: Any = None, start_epoch: int = 0, workers: int = 5,
                     _worker_init_fn: Any = None, prefetch_factor: int = 2,
                     memory_format: torch.memory_format = torch.contiguous_format, *, pixels: str = "pillow",
                     seed: Optional[int] = None, **reading: "Unpack[Reading]") -> Tuple[Batches, int]:
    """Random crops and flips of DATA/train.idx, or of the folder DATA/train; `batch_size` is that of this rank.

    The library's threads make the batches; with bicubic interpolation or an augmentation ("autoaugment" or a transform
    of PIL images), torchvision's transforms do, in worker processes. The order and the crops depend on `seed`, None: on
    what rank 0 gave to torch.manual_seed(). `reading` are Index's keywords.
    """
    check_arguments(image_size, batch_size, num_classes, one_hot, workers, memory_format, interpolation)
    check_augmentation(augmentation)
    path = part_path(data_path, True)
    if interpolation == "bilinear" and augmentation is None:
        batches = _index_batches(path, True, batch_size, num_classes, one_hot, start_epoch, workers, prefetch_factor,
                                 memory_format, reading, image_size=image_size, pixels=pixels,
                                 seed=_seed_of_all() if seed is None else seed)
    else:
        _check_of_folder(pixels=None if pixels == "pillow" else pixels, seed=seed)
        folder = ImageFolder(path, _train_transform(image_size, interpolation, augmentation), **reading)
        batches = _folder_batches(folder, True, batch_size, num_classes, one_hot, start_epoch, workers, _worker_init_fn,
                                  prefetch_factor, memory_format)
    return batches, len(batches)


def get_val_loader(data_path: Path, image_size: int, batch_size: int, num_classes: int, one_hot: bool,
                   interpolation: str = "bilinear", workers: int = 5, _worker_init_fn: Any = None,
                   crop_padding: int = 32, memory_format: torch.memory_format = torch.contiguous_format,
                   prefetch_factor: int = 2, *, pixels: str = "pillow",
                   **reading: "Unpack[Reading]") -> Tuple[Batches, int]:
    """Centre crops of DATA/val.idx, or of the folder DATA/val, in the index's order; over all ranks each image once.
    `reading` are Index's keywords."""
    check_arguments(image_size, batch_size, num_classes, one_hot, workers, memory_format, interpolation)
    arguments.integer("crop_padding", crop_padding, 0, MOST_SIDE)
    path = part_path(data_path, False)
    if interpolation == "bilinear":
        batches = _index_batches(path, False, batch_size, num_classes, one_hot, 0, workers, prefetch_factor,
                                 memory_format, reading, val_resize=image_size + crop_padding,
                                 val_crop=image_size, pixels=pixels)
    else:
        _check_of_folder(pixels=None if pixels == "pillow" else pixels)
        folder = ImageFolder(path, _val_transform(image_size, crop_padding, interpolation), **reading)
        batches = _folder_batches(folder, False, batch_size, num_classes, one_hot, 0, workers, _worker_init_fn,
                                  prefetch_factor, memory_format)
    return batches, len(batches)


def get_pytorch_train_loader(data_path: Path, image_size: int, batch_size: int, num_classes: int, one_hot: bool,
                             interpolation: str = "bilinear", augmentation: Any = None, start_epoch: int = 0,
                             workers: int = 5, _worker_init_fn: Any = None, prefetch_factor: int = 2,
                             memory_format: torch.memory_format = torch.contiguous_format) -> Tuple[Batches, int]:
    """The same from files by torchvision's ImageFolder: what the others are compared with."""
    check_arguments(image_size, batch_size, num_classes, one_hot, workers, memory_format, interpolation)
    check_augmentation(augmentation)
    from torchvision.datasets import ImageFolder as Files

    files = Files(part_path(data_path, True, folder=True), _train_transform(image_size, interpolation, augmentation))
    batches = _folder_batches(files, True, batch_size, num_classes, one_hot, start_epoch, workers, _worker_init_fn,
                              prefetch_factor, memory_format)
    return batches, len(batches)


def get_pytorch_val_loader(data_path: Path, image_size: int, batch_size: int, num_classes: int, one_hot: bool,
                           interpolation: str = "bilinear", workers: int = 5, _worker_init_fn: Any = None,
                           crop_padding: int = 32, memory_format: torch.memory_format = torch.contiguous_format,
                           prefetch_factor: int = 2) -> Tuple[Batches, int]:
    check_arguments(image_size, batch_size, num_classes, one_hot, workers, memory_format, interpolation)
    from torchvision.datasets import ImageFolder as Files

    files = Files(part_path(data_path, False, folder=True), _val_transform(image_size, crop_padding, interpolation))
    batches = _folder_batches(files, False, batch_size, num_classes, one_hot, 0, workers, _worker_init_fn,
                              prefetch_factor, memory_format)
    return batches, len(batches)


def get_synthetic_loader(data_path: Any, image_size: int, batch_size: int, num_classes: int, one_hot: bool,
                         interpolation: Any = None, augmentation: Any = None, start_epoch: int = 0, workers: Any = None,
                         _worker_init_fn: Any = None, memory_format: torch.memory_format = torch.contiguous_format,
                         **_: Any) -> Tuple[Iterable[Tensors], int]:
    """One batch of noise again and again, without end, and -1 for its length: what a trainer does without data."""
    device = device_of_batches()
    images = torch.randn(batch_size, 3, image_size, image_size, device=device).contiguous(memory_format=memory_format)
    targets = targets_finish(torch.randint(num_classes, (batch_size,), device=device), num_classes, one_hot)
    return itertools.repeat((images, targets)), -1


def backend(name: str) -> Tuple[Callable[..., Any], Callable[..., Any]]:
    """(get_train_loader, get_val_loader) by a name of BACKENDS; DALI decodes on the CPU, as in the guide."""
    if name in ("dali-headrace", "dali"):
        from headrace.dali import get_dali_headrace_train_loader, get_dali_headrace_val_loader

        ours = name == "dali-headrace"
        return (get_dali_headrace_train_loader(dali_cpu=True, headrace=ours),
                get_dali_headrace_val_loader(dali_cpu=True, headrace=ours))
    pairs = {"pytorch": (get_pytorch_train_loader, get_pytorch_val_loader),
             "synthetic": (get_synthetic_loader, get_synthetic_loader), "headrace": (get_train_loader, get_val_loader)}
    if name not in pairs:
        raise ValueError(f"there is no backend '{name}', expected one of {', '.join(BACKENDS)}")
    return pairs[name]
