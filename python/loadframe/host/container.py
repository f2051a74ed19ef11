"""This machine as a host where each node runs in a container, with its folder and its software bound into it.

The image gives the system around the node: a folder with a root file system for Charliecloud, an image file for
Apptainer, a name for Podman and Docker. The network is the machine's own, so addresses and ports are as on `local`.
"""

from functools import cached_property
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.host import runtimes
from loadframe.host.base import Command
from loadframe.host.limits import Limiter, Limits
from loadframe.host.local import LocalHost
from loadframe.host.local_process import LocalProcess
from loadframe.host.runtimes import EngineLimiter, Runtime


class ContainerHost(LocalHost):
    """Runs each process in a container of one image, by the runtime of that name or the first that works."""

    name = "container"

    def __init__(self, image: str | None = None, runtime: str | None = None) -> None:
        """Nothing is looked for until it is needed."""
        self._image = image
        self._asked = runtime

    @cached_property
    def runtime(self) -> Runtime:
        """What runs the containers; BadInput when nothing does."""
        return runtimes.choose(self._asked)

    def require(self) -> None:
        """BadInput without a runtime that works, and without an image."""
        if self._image is None:
            raise BadInput(
                "a node in a container wants an image",
                remedy="give --image: a folder with a root file system, an image file, or a name, as the runtime wants",
            )
        plain = not self.runtime.engine
        if plain and not Path(self._image).exists():
            raise BadInput(
                "there is no such image",
                where=self._image,
                remedy=f"give --image a path: {self.runtime.name} takes the folder or file of an image here",
            )

    @cached_property
    def _limiter(self) -> tuple[Limiter | None, str | None]:
        return (EngineLimiter(self.runtime), None) if self.runtime.engine else super()._limiter

    def _limiters(self) -> tuple[Limiter, ...]:
        engines = (EngineLimiter(runtime) for runtime in runtimes.RUNTIMES if runtime.engine)
        return (*super()._limiters(), *engines)

    def start(self, command: Command, asked: Limits) -> LocalProcess:
        """Start a command in a container."""
        assert self._image
        image = str(Path(self._image).absolute()) if Path(self._image).exists() else self._image
        return super().start(self.runtime.wrapped(command, image, asked), asked)

    def _server(self, name: str, pid: int) -> int:
        return self.runtime.server(name, pid)
