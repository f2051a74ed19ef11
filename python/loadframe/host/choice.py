"""All hosts, by name."""

import atexit
import threading
from collections.abc import Sequence

from loadframe.base.errors import BadInput
from loadframe.host import kinds, slurm
from loadframe.host.agent import HostKind
from loadframe.host.base import Host
from loadframe.host.machines import MachinesHost, MpiHost
from loadframe.host.placement import Placement
from loadframe.host.slurm import SlurmHost
from loadframe.host.ssh import SshHost, ssh

_SEVERAL: dict[str, type[SshHost] | type[SlurmHost] | type[MpiHost]] = {
    "ssh": SshHost,
    "slurm": SlurmHost,
    "mpi": MpiHost,
}
#: Open hosts of several machines by their arguments, for reuse in this process. They are closed at exit.
_OPEN: dict[object, MachinesHost] = {}
_OPENING = threading.Lock()


def find(
    name: str,
    image: str | None = None,
    runtime: str | None = None,
    machines: Sequence[str] = (),
    placement: Placement | None = None,
    scratch: str | None = None,
) -> Host:
    """Return the host of that name; BadInput if the name is unknown or an argument does not apply to it.

    `image` and `runtime` are for containers; `machines`, `placement` and `scratch` for hosts of several machines. Equal
    arguments return the same host of several machines until one of its connections ends.
    """
    placement = placement or Placement()
    if name not in kinds.SEVERAL:
        if machines or scratch or placement != Placement():
            raise BadInput(
                "machines, placement and scratch folders require a host of several machines",
                remedy="add --host ssh, slurm or mpi (host: ssh in an experiment), or omit them",
            )
        return kinds.find(name, image, runtime)
    arguments = (name, image, runtime, tuple(machines), placement, scratch, slurm.job(), tuple(ssh()))
    with _OPENING:
        host = _OPEN.get(arguments)
        if host is None or host.lost:
            if not _OPEN:
                atexit.register(_close)
            kind = HostKind(image, runtime) if image is not None or runtime is not None else None
            host = _OPEN[arguments] = _SEVERAL[name](machines, placement, scratch, kind)
        return host


def _close() -> None:
    for host in _OPEN.values():
        host.close()
