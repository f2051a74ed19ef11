"""The kinds of host that one machine can be, by the names that people choose them by."""

import difflib

from loadframe.base.errors import BadInput
from loadframe.host.container import ContainerHost
from loadframe.host.local import LocalHost
from loadframe.host.netns import NetnsHost

HOSTS: dict[str, type[LocalHost]] = {host.name: host for host in (LocalHost, NetnsHost, ContainerHost)}
#: Hosts of several machines; see `choice`.
SEVERAL = ("ssh", "slurm", "mpi")
#: Those of them whose nodes cannot outlive the command that started them.
ENDING = ("slurm", "mpi")


def find(name: str, image: str | None = None, runtime: str | None = None) -> LocalHost:
    """Return this machine as the host of that name; BadInput, with the nearest one, when there is none.

    The image and the runtime are for containers.
    """
    if name not in HOSTS:
        known = (*HOSTS, *SEVERAL)
        near = difflib.get_close_matches(name, known, n=1)
        raise BadInput(
            f"there is no host {name!r} for nodes",
            remedy=f"did you mean {near[0]}?" if near else f"take one of {', '.join(known)}",
        )
    if name == ContainerHost.name:
        return ContainerHost(image, runtime)
    if image is not None or runtime is not None:
        raise BadInput(
            "an image and a container runtime are for nodes in containers",
            remedy="say --host container, or leave --image and --container-runtime out",
        )
    return HOSTS[name]()
