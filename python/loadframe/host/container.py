"""This machine as a host that runs each node in a container, with its folder and software mounted.

The image is a folder with a root file system for Charliecloud, an image file for Apptainer, or a name for Podman and
Docker. Containers use the machine's network, so addresses and ports are the same as on the host `local`.
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
    """Runs each process in a container of one image, with the named runtime or the first that works."""

    name = "container"

    def __init__(self, image: str | None = None, runtime: str | None = None) -> None:
        """Store the arguments; `require` checks them."""
        self._image = image
        self._asked = runtime

    @cached_property
    def runtime(self) -> Runtime:
        """Container runtime; BadInput if none works."""
        return runtimes.choose(self._asked)

    def require(self) -> None:
        """Raise BadInput without a working runtime or an image."""
        if self._image is None:
            raise BadInput(
                "nodes in containers require an image",
                remedy="give --image a root file system folder, an image file or a name, depending on the runtime",
            )
        plain = not self.runtime.engine
        if plain and not Path(self._image).exists():
            raise BadInput(
                "the image does not exist",
                where=self._image,
                remedy=f"give --image the path of a folder or file: {self.runtime.name} does not accept names",
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
