"""The hosts that there are, by the names that people choose them by."""

import atexit
import threading
from collections.abc import Sequence

from loadframe.base.errors import BadInput
from loadframe.host import kinds, slurm
from loadframe.host.agent import Kind
from loadframe.host.base import Host
from loadframe.host.machines import MachinesHost
from loadframe.host.mpi import MpiHost
from loadframe.host.placement import Placement
from loadframe.host.slurm import SlurmHost
from loadframe.host.ssh import SshHost, ssh

_SEVERAL: dict[str, type[SshHost] | type[SlurmHost] | type[MpiHost]] = {
    "ssh": SshHost,
    "slurm": SlurmHost,
    "mpi": MpiHost,
}
#: Hosts whose agents serve this process, by what they were asked for; they end with it.
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
    """Return the host of that name; BadInput when there is none, or when what is said besides is not for it.

    The image and the runtime are for containers, the rest is for hosts of several machines. Of these there is one in
    this process for whoever asks for the same, until a connection of it ends.
    """
    placement = placement or Placement()
    if name not in kinds.SEVERAL:
        if machines or scratch or placement != Placement():
            raise BadInput(
                "machines, their placement and scratch folders are for nodes on other machines",
                remedy="say --host ssh, slurm or mpi (host: ssh in an experiment), or leave them out",
            )
        return kinds.find(name, image, runtime)
    asked = (name, image, runtime, tuple(machines), placement, scratch, slurm.job(), tuple(ssh()))
    with _OPENING:
        host = _OPEN.get(asked)
        if host is None or host.lost:
            if not _OPEN:
                atexit.register(_close)
            kind = Kind(image, runtime) if image is not None or runtime is not None else None
            host = _OPEN[asked] = _SEVERAL[name](machines, placement, scratch, kind)
        return host


def _close() -> None:
    for host in _OPEN.values():
        host.close()
