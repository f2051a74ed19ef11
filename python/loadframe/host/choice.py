"""All hosts, by name."""

import atexit
import difflib
import threading
from collections.abc import Sequence

from loadframe.base.errors import BadInput
from loadframe.host import slurm
from loadframe.host.agent import HostKind
from loadframe.host.base import Host
from loadframe.host.container import ContainerHost
from loadframe.host.local import LocalHost
from loadframe.host.machines import MachinesHost, MpiHost
from loadframe.host.netns import NetnsHost
from loadframe.host.placement import Placement
from loadframe.host.slurm import SlurmHost
from loadframe.host.ssh import SshHost, ssh

#: Hosts of one machine.
HOSTS: dict[str, type[LocalHost]] = {host.name: host for host in (LocalHost, NetnsHost, ContainerHost)}
#: Hosts of several machines.
SEVERAL: dict[str, type[SshHost] | type[SlurmHost] | type[MpiHost]] = {
    "ssh": SshHost,
    "slurm": SlurmHost,
    "mpi": MpiHost,
}
#: Hosts whose nodes end with the command that started them.
ENDING = ("slurm", "mpi")
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

    `image` and `runtime` select containers: of the host `container`, or on the machines of `ssh`, `slurm` and `mpi`.
    `machines`, `placement` and `scratch`, the data folder there, are only for these three. Their hosts are closed at
    exit; until then, equal arguments return the same host, unless one of its connections has ended.
    """
    placement = placement or Placement()
    if name not in SEVERAL:
        if machines or scratch or placement != Placement():
            raise BadInput(
                "machines, placement and scratch folders require a host of several machines",
                remedy="add --host ssh, slurm or mpi (host: ssh in an experiment), or omit them",
            )
        return _of_one_machine(name, image, runtime)
    arguments = (name, image, runtime, tuple(machines), placement, scratch, slurm.job(), tuple(ssh()))
    with _OPENING:
        host = _OPEN.get(arguments)
        if host is None or host.lost:
            if not _OPEN:
                atexit.register(_close)
            kind = HostKind(image, runtime) if image is not None or runtime is not None else None
            host = _OPEN[arguments] = SEVERAL[name](machines, placement, scratch, kind)
        return host


def _of_one_machine(name: str, image: str | None, runtime: str | None) -> LocalHost:
    """Return this machine as a new host `local`, `netns` or `container`; BadInput, with a suggestion, for other names.

    BadInput also if `image` or `runtime` is given for a host other than `container`.
    """
    if name not in HOSTS:
        known = (*HOSTS, *SEVERAL)
        near = difflib.get_close_matches(name, known, n=1)
        raise BadInput(
            f"unknown host {name!r} for nodes",
            remedy=f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}",
        )
    if name == ContainerHost.name:
        return ContainerHost(image, runtime)
    if image is not None or runtime is not None:
        raise BadInput(
            "--image and --container-runtime require nodes in containers",
            remedy="add --host container, or omit --image and --container-runtime",
        )
    return HOSTS[name]()


def _close() -> None:
    """Close all open hosts of several machines: their agents end, and all nodes that were not kept stop."""
    for host in _OPEN.values():
        host.close()
