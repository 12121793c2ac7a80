"""headrace: images from an index, for whoever keeps their trainer.

`Index` is an index's records, `ImageFolder` stands in for torchvision's, `Loader` gives whole batches. NumPy is needed; Pillow and torch only by
what gives out their types.
"""

from headrace._library import CorruptError, HeadraceError, release as __version__
from headrace.image_folder import ImageFolder
from headrace.index import Index, Record, Records
from headrace.loader import Batch, Loader

__all__ = ["Batch", "CorruptError", "HeadraceError", "ImageFolder", "Index", "Loader", "Record", "Records",
           "__version__"]
