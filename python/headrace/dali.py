"""DALI fed from an index: Source for fn.external_source, and loaders as NVIDIA's DeepLearningExamples calls them.

Source needs NumPy alone. The loaders need DALI and torch, and work on the CPU where there is no GPU.
"""

import importlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Optional, Tuple

import numpy as np

from headrace import _arguments as arguments
from headrace.index import Buffers, Index, Path, Reading

if TYPE_CHECKING:
    from typing_extensions import Unpack

_ENCODING_JPEG = 0  # index/FORMAT.md's number of files that are stored as they are
INTERPOLATIONS = {"bilinear": "INTERP_LINEAR", "bicubic": "INTERP_CUBIC", "triangular": "INTERP_TRIANGULAR"}


class Source:
    """One sample at a time, for fn.external_source(source=Source(…), num_outputs=2, batch=False, parallel=True,
    dtype=[types.UINT8, types.INT32]): an image's file, uint8 (bytes), and its label, int32 (1).

    To train, each epoch is a new permutation of all records, np.random.default_rng(seed + epoch), and shard `shard_id`
    of `num_shards` takes its slice of it in whole batches; what is left over waits for another epoch. Without `shuffle`,
    to evaluate, the shards take each record once, in the index's order: all have as many batches, and repeat their last
    record where they have no more; valid() says how many of a batch count.

    It pickles as its path and numbers, so that DALI's workers may be forked or spawned. `reading` are Index's keywords.
    """

    def __init__(self, path: Path, batch_size: int, shard_id: int = 0, num_shards: int = 1, seed: int = 42,
                 shuffle: bool = True, first_epoch: int = 0, **reading: "Unpack[Reading]") -> None:
        self.batch_size = batch_size = arguments.integer("batch_size", batch_size, 1, arguments.MOST_U32)
        num_shards = arguments.integer("num_shards", num_shards, 1, arguments.MOST_U32)
        shard_id = arguments.integer("shard_id", shard_id, 0, num_shards - 1)
        self.seed = arguments.integer("seed", seed, 0, arguments.MOST_U64)
        self.shuffle = shuffle = arguments.flag("shuffle", shuffle)
        self.first_epoch = arguments.integer("first_epoch", first_epoch, 0, arguments.MOST_U32)
        self.index = Index(path, **reading)
        count = len(self.index)
        if shuffle:
            self.shard_size = count // num_shards
            self.shard_offset = self.shard_size * shard_id
            self.full_iters = self.shard_size // batch_size
        else:
            self.shard_offset = count * shard_id // num_shards
            self.shard_size = count * (shard_id + 1) // num_shards - self.shard_offset
            self.full_iters = -(-count // (num_shards * batch_size))
        if self.shard_size == 0 or self.full_iters == 0:
            raise ValueError(f"'{path}' has {count} records, too few for {num_shards} shards with batches of {batch_size}")
        self._forget()

    def _forget(self) -> None:
        """What each process makes for itself."""
        self._labels: Optional[np.ndarray] = None
        self._lengths: np.ndarray  # with the labels
        self._encodings: np.ndarray
        self._order: Optional[np.ndarray] = None
        self._epoch: Optional[int] = None
        self._buffers = Buffers()

    def __getstate__(self) -> Dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self.full_iters

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} of {self.index.path!r}: batch_size={self.batch_size}, shuffle={self.shuffle}, "
                f"{self.shard_size} of {len(self.index)} records, {self.full_iters} batches>")

    def valid(self, step: int) -> int:
        """How many samples of a batch are no repetition."""
        return min(self.batch_size, max(0, self.shard_size - step * self.batch_size))

    def number(self, epoch: int, place: int) -> int:
        """The record at a place of this shard's epoch."""
        epoch = arguments.integer("epoch", epoch, 0, arguments.MOST_U32)
        place = arguments.integer("place", place, 0, self.full_iters * self.batch_size - 1)
        place = self.shard_offset + min(place, self.shard_size - 1)
        if not self.shuffle:
            return place
        if self._order is None or self._epoch != epoch:
            self._order = np.random.default_rng(self.seed + self.first_epoch + epoch).permutation(len(self.index))
            self._epoch = epoch
        return int(self._order[place])

    def __call__(self, sample_info: Any) -> Tuple[np.ndarray, np.ndarray]:
        if sample_info.iteration >= self.full_iters:
            raise StopIteration
        if self._labels is None:
            records = self.index.records
            self._labels, self._lengths, self._encodings = records.labels, records.lengths, records.encodings
        number = self.number(sample_info.epoch_idx, sample_info.idx_in_epoch)
        label = self._labels[number : number + 1]
        if self._encodings[number] != _ENCODING_JPEG:
            return self.index.original(number, self._buffers.copy), label
        file, address = self._buffers.take(length := int(self._lengths[number]))
        self.index._original_into(number, address, length)
        return file, label


class Batches:
    """(input, target) of each batch of a pipeline, on the pipeline's device; each pass is an epoch.

    A pass that is left early is continued by the next one, since DALI begins an epoch only after the end of the one
    before.
    """

    def __init__(self, iterator: Any, source: Optional[Source], num_classes: int, one_hot: bool, nhwc: bool) -> None:
        self._iterator = iterator
        self._source = source
        self._num_classes = num_classes
        self._one_hot = one_hot
        self._nhwc = nhwc

    def __iter__(self) -> Iterator[Tuple[Any, Any]]:
        from headrace.torch import targets_finish

        for step, (outputs,) in enumerate(self._iterator):
            images, labels = outputs["data"], outputs["label"].reshape(-1)
            if self._source is not None:
                # Ranks whose share is used up repeat a record, since others wait for their result.
                count = max(1, self._source.valid(step))
                images, labels = images[:count], labels[:count]
            if self._nhwc:
                images = images.permute(0, 3, 1, 2)
            yield images, targets_finish(labels.to(images.device), self._num_classes, self._one_hot)


def _images(files: Any, train: bool, image_size: int, resize: int, interpolation: str, device: Optional[str]) -> Any:
    """Decoded and resized; `device` ("mixed" or "cpu") is the decoder's."""
    from nvidia.dali import fn, types

    interpolation = getattr(types, INTERPOLATIONS[interpolation])
    if train:
        images = fn.decoders.image_random_crop(files, device=device, random_area=[0.08, 1.0],
                                               random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
        return fn.resize(images, size=[image_size, image_size], interp_type=interpolation, antialias=True)
    images = fn.decoders.image(files, device=device)
    return fn.resize(images, resize_shorter=resize, interp_type=interpolation, antialias=True)


def _pipeline(read: Callable[[], Tuple[Any, Any]], train: bool, image_size: int, resize: int, interpolation: str,
              nhwc: bool, dali_cpu: bool, gpu: Optional[int], options: Dict[str, Any]) -> Any:
    """read()'s files as normalised f32 images, with their labels; built. `gpu` None: all on the CPU."""
    from nvidia.dali import Pipeline, fn, types

    from headrace.torch import MEAN, STD

    pipeline = Pipeline(device_id=gpu, seed=12 + (gpu or 0), **options)
    with pipeline:
        files, labels = read()
        images = _images(files, train, image_size, resize, interpolation, "cpu" if dali_cpu or gpu is None else "mixed")
        images = fn.crop_mirror_normalize(
            images if gpu is None else images.gpu(), dtype=types.FLOAT, output_layout="HWC" if nhwc else "CHW",
            crop=(image_size, image_size), mirror=fn.random.coin_flip() if train else 0,
            mean=[255 * mean for mean in MEAN], std=[255 * std for std in STD])
        pipeline.set_outputs(images, labels)
    pipeline.build()
    return pipeline


def _need_torch_and_dali() -> None:
    for module, package in (("torch", "torch"), ("nvidia.dali", "nvidia-dali-cuda120 (or -cuda130)")):
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ImportError(f"the loaders of headrace.dali need {module}: pip install {package}; headrace.dali.Source "
                              f"alone needs neither torch nor DALI ({error})", name=module) from error


def _loader(train: bool, dali_cpu: bool, headrace: bool, data_path: Path, image_size: int, batch_size: int,
            num_classes: int, one_hot: bool, interpolation: str, crop_padding: int, start_epoch: int, workers: int,
            memory_format: Any, reading: Reading) -> Tuple[Batches, int]:
    """What the four functions below give out."""
    import torch
    from nvidia.dali import fn, types
    from nvidia.dali.plugin.base_iterator import LastBatchPolicy
    from nvidia.dali.plugin.pytorch import DALIGenericIterator

    from headrace.torch import check_arguments, part_path, rank_and_world

    check_arguments(image_size, batch_size, num_classes, one_hot, workers, memory_format, interpolation,
                    tuple(INTERPOLATIONS))
    arguments.integer("crop_padding", crop_padding, 0, arguments.MOST_U32)
    if not headrace and reading:
        raise TypeError(f"{', '.join(reading)} are of an index, and DALI's own reader reads class folders")
    rank, world = rank_and_world()
    gpu = torch.cuda.current_device() if torch.cuda.is_available() else None
    options = {"batch_size": batch_size, "num_threads": max(1, workers)}
    reader, source = {}, None
    if headrace:
        source = Source(part_path(data_path, train), batch_size, rank, world, shuffle=train, first_epoch=start_epoch,
                        **reading)
        # A process that uses a GPU cannot be forked.
        options.update(py_num_workers=max(1, workers // 2), py_start_method="fork" if gpu is None else "spawn")

        def read() -> Tuple[Any, Any]:
            return fn.external_source(source=source, num_outputs=2, batch=False, parallel=True,
                                      dtype=[types.UINT8, types.INT32])
    else:
        reader = {"reader_name": "Reader", "last_batch_policy": LastBatchPolicy.DROP if train else LastBatchPolicy.PARTIAL}

        def read() -> Tuple[Any, Any]:
            return fn.readers.file(file_root=part_path(data_path, train, folder=True), shard_id=rank, num_shards=world,
                                   random_shuffle=train, pad_last_batch=True, name="Reader")

    nhwc = memory_format == torch.channels_last
    pipeline = _pipeline(read, train, image_size, image_size + crop_padding, interpolation, nhwc, dali_cpu, gpu, options)
    iterator = DALIGenericIterator([pipeline], ["data", "label"], auto_reset=True, **reader)
    batches = Batches(iterator, source, num_classes, one_hot, nhwc)
    if source is not None:
        return batches, len(source)
    share = -(-pipeline.epoch_size("Reader") // world)
    return batches, share // batch_size if train else -(-share // batch_size)


def get_dali_headrace_train_loader(dali_cpu: bool = False, headrace: bool = True) -> Callable[..., Tuple[Batches, int]]:
    """The function that DeepLearningExamples' main.py calls for a training loader and its length: DALI decodes, on the
    CPU with `dali_cpu`. Files come from an index, or from DALI's own reader of folders without `headrace`. DALI prefetches
    by itself, so that `prefetch_factor` means nothing. ImportError where torch or DALI is missing."""
    _need_torch_and_dali()
    import torch

    def get_train_loader(data_path: Path, image_size: int, batch_size: int, num_classes: int, one_hot: bool,
                         interpolation: str = "bilinear", augmentation: Optional[str] = None, start_epoch: int = 0,
                         workers: int = 5, _worker_init_fn: Any = None,
                         memory_format: Any = torch.contiguous_format, prefetch_factor: Any = None,
                         **reading: "Unpack[Reading]") -> Tuple[Batches, int]:
        if augmentation is not None:
            raise NotImplementedError(f"augmentation '{augmentation}' is not done by DALI: use the backend headrace")
        return _loader(True, dali_cpu, headrace, data_path, image_size, batch_size, num_classes, one_hot, interpolation,
                       0, start_epoch, workers, memory_format, reading)

    return get_train_loader


def get_dali_headrace_val_loader(dali_cpu: bool = False, headrace: bool = True) -> Callable[..., Tuple[Batches, int]]:
    """The same to evaluate: each image once, in the index's order."""
    _need_torch_and_dali()
    import torch

    def get_val_loader(data_path: Path, image_size: int, batch_size: int, num_classes: int, one_hot: bool,
                       interpolation: str = "bilinear", crop_padding: int = 32, workers: int = 5,
                       _worker_init_fn: Any = None, memory_format: Any = torch.contiguous_format,
                       prefetch_factor: Any = None, **reading: "Unpack[Reading]") -> Tuple[Batches, int]:
        return _loader(False, dali_cpu, headrace, data_path, image_size, batch_size, num_classes, one_hot,
                       interpolation, crop_padding, 0, workers, memory_format, reading)

    return get_val_loader
