"""Start order of an application's tiers: processes wait for a file with the addresses that they need.

All processes start at once. A shell waits for the file, then executes the program. Instances wait for the addresses of
the stores, the load balancer for the addresses of the instances.
"""

import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from loadframe.base import nofollow
from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.base import Balancing, Member, Watch

#: File that a process waits for, in its folder.
TOLD = "config/told"
#: File with all tiers in the load balancer's folder, for instances added later.
TIERS = "config/tiers.json"
#: Time limit for a tier to answer, and poll interval, s.
_READY_WITHIN = 180.0
_POLL = 0.1


@dataclass(frozen=True)
class Tiers:
    """Addresses of an application's tiers, and the environment of its instances."""

    stores: Mapping[str, str]  #: kind -> host:port for clients
    balancer: str  #: host:port for clients
    commands: str  #: host:port for the balancer's commands
    environment: Mapping[str, str]  #: of the instances

    @property
    def exports(self) -> str:
        """Shell commands that export the variables of an instance's environment."""
        stores = {f"STORE_{kind.upper()}": address for kind, address in self.stores.items()}
        variables = {**self.environment, **stores, "STORES": " ".join(self.stores)}
        return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())

    def keep(self, balancer: Member) -> None:
        """Store the tiers in the balancer's folder."""
        assert balancer.folder
        balancer.call(replace_file, balancer.folder, TIERS, json.dumps(asdict(self)))

    @classmethod
    def kept(cls, balancer: Path) -> Self:
        """Read the tiers that `keep` stored in the balancer's folder; BadInput if missing or malformed."""
        try:
            return cls(**json.loads(nofollow.read_text(balancer, TIERS) or ""))
        except (OSError, ValueError, TypeError) as error:
            raise BadInput(
                f"cannot read the addresses of this application's tiers: {error}",
                where=str(balancer / TIERS),
                remedy="start the cluster again",
            ) from error


def waiting(folder: Path, command: Sequence[str], *, inside: str = ".", sourced: bool = False) -> tuple[str, ...]:
    """Return a shell command line that waits for the file, then runs `command` in its subfolder `inside`.

    With `sourced`, the file's content is variables for the environment.
    """
    told = shlex.quote(str(folder / TOLD))
    variables = f". {told}; " if sourced else ""
    script = f"while [ ! -s {told} ]; do sleep 0.05; done; {variables}cd {shlex.quote(str(folder / inside))}; "
    return ("/bin/sh", "-c", f"{script}exec {shlex.join(command)}")


def tell(member: Member, text: str) -> None:
    """Write the file that a process waits for, which starts it."""
    assert member.folder
    member.call(replace_file, member.folder, TOLD, text)


def replace_file(folder: Path, name: str, text: str) -> None:
    """Replace a file atomically, with read permission for everybody."""
    nofollow.write_text(folder, name, text, 0o644)


def until(true: Callable[[], bool], watch: Watch, what: str, where: Sequence[Member], remedy: str) -> None:
    """Wait until `true` holds; a LoadframeError counts as not yet. StoreFailed after the time limit."""
    deadline = time.monotonic() + _READY_WITHIN
    while not _holds(true):
        watch(Balancing(1, "tiers", what))
        if time.monotonic() > deadline:
            raise StoreFailed(
                f"{what}: this took longer than {_READY_WITHIN:.0f} s",
                where=", ".join(f"{member.name} at {member.address}" for member in where),
                remedy=remedy,
            )
        time.sleep(_POLL)


def _holds(true: Callable[[], bool]) -> bool:
    try:
        return true()
    except LoadframeError:
        return False
