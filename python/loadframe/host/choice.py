"""The hosts that there are, by the names that people choose them by."""

import difflib

from loadframe.errors import BadInput
from loadframe.host.base import Host
from loadframe.host.container import ContainerHost
from loadframe.host.local import LocalHost
from loadframe.host.netns import NetnsHost

HOSTS: dict[str, type[LocalHost]] = {host.name: host for host in (LocalHost, NetnsHost, ContainerHost)}


def find(name: str, image: str | None = None, runtime: str | None = None) -> Host:
    """Return the host of that name; BadInput, with the nearest one, when there is none.

    The image and the runtime are for containers.
    """
    if name not in HOSTS:
        near = difflib.get_close_matches(name, HOSTS, n=1)
        raise BadInput(
            f"there is no host {name!r} for nodes",
            remedy=f"did you mean {near[0]}?" if near else f"take one of {', '.join(HOSTS)}",
        )
    if name == ContainerHost.name:
        return ContainerHost(image, runtime)
    if image is not None or runtime is not None:
        raise BadInput(
            "an image and a container runtime are for nodes in containers",
            remedy="say --host container, or leave --image and --container-runtime out",
        )
    return HOSTS[name]()
