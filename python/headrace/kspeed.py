"""KSpeed's names and call shapes, as Alibaba's guide for ResNet-50 uses them.

    import headrace.utils.data.kspeeddataset as KSpeedDataset

takes the place of kspeed's module. A root is what `Index` opens: an index, a folder of class folders, or a URL.
`iplist` is a list of servers that have the same shards: "HOST,HOST:PORT" for a root that is a URL, or URLs for any root,
or a sequence of them. Hosts alone do not say where the shards of a local root are; those are read where they stand.
"""

from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Union

from headrace import _arguments as arguments
from headrace.image_folder import ImageFolder
from headrace.index import Path, Reading, is_url

if TYPE_CHECKING:
    from typing_extensions import Unpack

Servers = Union[str, Sequence[str], None]


class KSpeedImageFolder(ImageFolder):
    """torchvision's ImageFolder from an index: items are (PIL image in RGB, label).

    The second argument has no meaning here and is None, as in the guide. `workers` is not needed: whoever iterates
    brings their own. `reading` are Index's other keywords: `token`, `ca_file`, `cache`, `cache_size`.
    """

    def __init__(self, root: Path, placement: None = None, workers: int = 0, iplist: Servers = None,
                 user: Optional[str] = None, password: Optional[str] = None,
                 transform: Optional[Callable[[Any], Any]] = None,
                 target_transform: Optional[Callable[[int], Any]] = None, **reading: "Unpack[Reading]") -> None:
        if placement is not None:
            raise ValueError(f"the second argument is {placement!r}, expected None")
        root = arguments.path("root", root)
        servers = arguments.servers("iplist", iplist) or ""
        origins = servers if is_url(servers) or is_url(root) else None
        super().__init__(root, transform, target_transform, origins=origins or None, user=user, password=password,
                         **reading)


class KSpeedFolder(KSpeedImageFolder):
    """Files by their paths ROOT/WNID/FILE."""

    def getBIN(self, path: Path) -> bytes:
        """The original file's bytes; ROOT/WNID/FILE or WNID/FILE."""
        return self.index.raw(self.number(path))

    def __contains__(self, path: Path) -> bool:
        try:
            self.number(path)
        except FileNotFoundError:
            return False
        return True
