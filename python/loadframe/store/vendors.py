"""Vendors' downloads of stores: archives for this machine, besides the package registries."""

import platform
import re
from dataclasses import dataclass

from loadframe.base.errors import BadInput

_MACHINES = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Offer:
    """A vendor's tar archive that holds an installation in one folder, with its checksum in a separate file."""

    store: str
    version: str
    address: str  #: URL of the vendor's folder of archives
    name: str
    checksum: str  #: `sha256` or `sha512`: the algorithm, and the suffix of the checksum's file


def number(kind: str, version: str) -> tuple[int, ...]:
    """Return the numbers of a version; BadInput for an incomplete version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise BadInput(
            f"{kind} {version} is not a complete version, which the vendor's downloads need",
            remedy="write all three numbers of the version, or give an installation with --home",
        )
    return tuple(int(part) for part in version.split("."))


def machine(kind: str) -> str:
    """Return this machine's architecture as vendors name it; BadInput if they do not support it."""
    architecture = platform.machine()
    if architecture not in _MACHINES:
        raise BadInput(
            f"the vendor's downloads of {kind} are for {' and '.join(_MACHINES)}, and this machine is {architecture}",
            remedy="give an installation with --home",
        )
    return architecture
