"""Hosts of one machine, by name."""

import difflib

from loadframe.base.errors import BadInput
from loadframe.host.container import ContainerHost
from loadframe.host.local import LocalHost
from loadframe.host.netns import NetnsHost

HOSTS: dict[str, type[LocalHost]] = {host.name: host for host in (LocalHost, NetnsHost, ContainerHost)}
#: Names of the hosts of several machines; see `choice`.
SEVERAL = ("ssh", "slurm", "mpi")
#: Hosts whose nodes end with the command that started them.
ENDING = ("slurm", "mpi")


def find(name: str, image: str | None = None, runtime: str | None = None) -> LocalHost:
    """Return this machine as the host of that name; BadInput, with a suggestion, if the name is unknown.

    `image` and `runtime` are only for containers.
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
