"""What the vendors of stores have for download beside the package registries: archives for machines like this one."""

import platform
import re
from dataclasses import dataclass

from loadframe.base.errors import BadInput

_MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Offer:
    """A tar archive that holds an installation in one folder. Its checksum stands beside it, in a file of its own."""

    store: str
    version: str
    address: str  #: the vendor's folder of such archives
    name: str
    checksum: str  #: `sha256` or `sha512`, which is also how the name of the file with the checksum ends


def number(kind: str, version: str) -> tuple[int, ...]:
    """Return the numbers of a version; BadInput for one that is not named in full."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise BadInput(
            f"{kind} {version} names no version in full, as the vendor's downloads want it",
            remedy="write all three numbers of the version, or give an installation with --home",
        )
    return tuple(int(part) for part in version.split("."))


def machine(kind: str) -> str:
    """Return how vendors call a machine like this one; BadInput for one that they have nothing for."""
    architecture = platform.machine()
    if architecture not in _MACHINES:
        raise BadInput(
            f"the vendor's downloads of {kind} are for {' and '.join(_MACHINES)}, and this machine is {architecture}",
            remedy="give an installation with --home",
        )
    return architecture
