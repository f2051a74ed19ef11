"""What the tiers of an application are told of each other, and how a process waits until it is told.

All processes start at once. An instance waits for a file with the addresses of the stores, the load balancer for one
with those of the instances: a shell does, and then becomes the program.
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

#: Below a process's folder: what it waits for.
TOLD = "config/told"
#: Below the load balancer's folder: all of it, for whoever adds an instance later.
TIERS = "config/tiers.json"
#: Seconds that one tier may take to answer, and between two looks.
_READY_WITHIN = 180.0
_POLL = 0.1


@dataclass(frozen=True)
class Tiers:
    """Where the tiers of an application are, and what all its instances know."""

    stores: Mapping[str, str]  #: kind -> host:port for clients
    balancer: str  #: host:port for clients
    commands: str  #: host:port where the balancer takes commands
    environment: Mapping[str, str]  #: of the instances

    @property
    def exports(self) -> str:
        """The variables that an instance finds in its environment, as a shell reads them."""
        stores = {f"STORE_{kind.upper()}": address for kind, address in self.stores.items()}
        variables = {**self.environment, **stores, "STORES": " ".join(self.stores)}
        return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())

    def keep(self, balancer: Member) -> None:
        """Write it down beside the balancer."""
        assert balancer.folder
        balancer.call(put, balancer.folder, TIERS, json.dumps(asdict(self)))

    @classmethod
    def kept(cls, balancer: Path) -> Self:
        """Read what was written down in the balancer's folder."""
        try:
            return cls(**json.loads(nofollow.read_text(balancer, TIERS) or ""))
        except (OSError, ValueError, TypeError) as error:
            raise BadInput(
                f"it is not known what instances of this application are told: {error}",
                where=str(balancer / TIERS),
                remedy="start the cluster again",
            ) from error


def waiting(folder: Path, command: Sequence[str], *, inside: str = ".", sourced: bool = False) -> tuple[str, ...]:
    """Return a command line that becomes `command` when the process is told, in the folder `inside` of its own.

    With `sourced` what it is told are variables of its environment.
    """
    told = shlex.quote(str(folder / TOLD))
    variables = f". {told}; " if sourced else ""
    script = f"while [ ! -s {told} ]; do sleep 0.05; done; {variables}cd {shlex.quote(str(folder / inside))}; "
    return ("/bin/sh", "-c", f"{script}exec {shlex.join(command)}")


def tell(member: Member, text: str) -> None:
    """Give a process that waits what it waits for."""
    assert member.folder
    member.call(put, member.folder, TOLD, text)


def put(folder: Path, name: str, text: str) -> None:
    """Replace a file in one step, readable for everybody who may enter the folder."""
    nofollow.write_text(folder, name, text, 0o644)


def until(true: Callable[[], bool], watch: Watch, what: str, where: Sequence[Member], remedy: str) -> None:
    """Wait until something holds, which counts as not yet where it fails; StoreFailed when that takes too long."""
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
