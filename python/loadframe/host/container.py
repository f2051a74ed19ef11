"""Containers: runtimes with their command lines and limits, and this machine as a host that runs nodes in them.

Charliecloud and Apptainer execute the command as a descendant of ours. With Podman and Docker, an engine creates the
container, and our process is a client that forwards signals.

The image is a folder with a root file system for Charliecloud, an image file for Apptainer, or a name for Podman and
Docker. Containers use the machine's network, so addresses and ports are the same as on the host `local`.
"""

import contextlib
import resource
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.base.procfs import is_running
from loadframe.host import cgroups
from loadframe.host.base import Command
from loadframe.host.limits import PERIOD, Limiter, Limits
from loadframe.host.local import LocalHost
from loadframe.host.local_process import LocalProcess

#: Limit of open files that Elasticsearch and OpenSearch require.
_FILES = 65536
#: Seconds to wait for the container's process.
_WITHIN = 20.0
#: Environment of the runtime's own process.
_OWN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "USER": "root"}


@dataclass(frozen=True)
class Runtime:
    """Container runtime. With `engine`, another process creates the container."""

    name: str
    programs: tuple[str, ...]  #: the first one in PATH is used
    trial: tuple[str, ...]  #: arguments of a test run; a complete command if it starts with unshare
    engine: bool = False

    @property
    def program(self) -> str | None:
        """Path of the first of `programs` that is in PATH, or None if none is installed."""
        return next((path for path in map(shutil.which, self.programs) if path), None)

    def obstacle(self) -> str | None:
        """Run a test command, for 20 s at most; return the reason why the runtime fails, or None if it works."""
        if self.program is None:
            return f"{' or '.join(self.programs)} is not installed"
        command = self.trial if self.trial[0] == "unshare" else (self.program, *self.trial)
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if result.returncode == 0:
            return None
        return ((result.stderr or result.stdout).strip().splitlines() or ["the test run failed"])[-1]

    def wrapped(self, command: Command, image: str, limits: Limits) -> Command:
        """Return the command that runs this one in a container of the image, with its folder and software mounted.

        `limits` are used only for a runtime with `engine`; see `_by_client`. The program must be installed. Side
        effect: for Charliecloud, creates missing mount points in the folder `image`; BadInput if that fails.
        """
        assert self.program
        if self.engine:
            return self._by_client(command, image, limits)
        binds = [str(path) for path in (command.folder, *command.software)]
        if self.name == "charliecloud":
            _mount_points(Path(image), binds)
            argv = [*(f"--bind={path}:{path}" for path in binds), f"--cd={command.folder}", image, "--"]
        else:
            argv = ["exec", "--no-home", *(f"--bind={path}" for path in binds), f"--pwd={command.folder}", image]
        return replace(command, argv=(self.program, *argv, *command.argv), environment={**_OWN, **command.environment})

    def _by_client(self, command: Command, image: str, limits: Limits) -> Command:
        """Return the engine's command that runs `command` in a container with the memory limit and cores of `limits`.

        CPU quota and disk limits are not set. The folder is mounted writable, software read-only. The returned command
        runs as the current user, the container as the user of `command`. Its `undo` removes the container.
        """
        assert self.program
        argv = ["run", "--rm", f"--name={command.name}", "--network=host", f"--workdir={command.folder}"]
        argv += [f"--volume={command.folder}:{command.folder}"]
        argv += [f"--volume={path}:{path}:ro" for path in command.software]
        argv += [f"--env={name}={value}" for name, value in command.environment.items()]
        argv += [f"--ulimit=nofile={_files()}:{_files()}", f"--entrypoint={command.argv[0]}"]
        if command.user is not None:
            argv.append(f"--user={command.user}:{command.user}")
        if limits.memory is not None:
            argv += [f"--memory={limits.memory}", f"--memory-swap={limits.memory}"]
        if limits.cores is not None:
            argv.append(f"--cpuset-cpus={','.join(map(str, limits.cores))}")
        # Podman also runs a plain folder.
        argv += ["--rootfs", image] if self.name == "podman" and Path(image).is_dir() else [image]
        return replace(
            command,
            argv=(self.program, *argv, *command.argv[1:]),
            environment=_OWN,
            user=None,
            undo=((self.program, "rm", "--force", command.name),),
        )

    def server(self, name: str, started: int) -> int:
        """Return the id of the process in the container `name`, waiting up to 20 s for it.

        `started` is the id of the runtime's process. It is returned at once for Charliecloud, and for other runtimes
        if it ends or no other process appears in time.
        """
        end = time.monotonic() + _WITHIN
        while self.name != "charliecloud" and time.monotonic() < end:
            # On a busy machine, an engine can take long to answer.
            with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
                if not is_running(started):
                    break
                inner = self._inspected(name) if self.engine else _innermost(started)
                if inner:
                    return inner
            time.sleep(0.05)
        return started

    def _inspected(self, name: str) -> int:
        """Return the process id of a container, from the engine; 0 if it does not run, ValueError if it does not exist.

        subprocess.TimeoutExpired if the engine does not answer within 20 s.
        """
        assert self.program
        command = (self.program, "inspect", "--format={{.State.Pid}}", name)
        return int(subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout)


@dataclass(frozen=True)
class EngineGroup:
    """Limits of a container that an engine created."""

    limiter: str
    program: str
    container: str
    folders: Mapping[str, Path] = field(default_factory=dict)
    entered: Mapping[str, Path] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()

    def located(self, pid: int) -> Mapping[str, Path]:
        """Return `cpu` and `memory` -> version 2 group of the process; empty with cgroup v1 or after its end."""
        with contextlib.suppress(OSError):
            if folder := cgroups.folder_of(pid):
                return {"cpu": folder, "memory": folder}
        return {}

    def throttle(self, limits: Limits) -> None:
        """Set the CPU quota of the container through the engine; lift it if `limits.cpus` is None.

        Memory and disk limits are ignored. subprocess.SubprocessError if the command fails or takes more than 20 s.
        """
        period = round(PERIOD * 1e6)
        quota = -1 if limits.cpus is None else round(limits.cpus * period)
        command = (self.program, "update", f"--cpu-period={period}", f"--cpu-quota={quota}", self.container)
        subprocess.run(command, check=True, capture_output=True, timeout=20)

    def strays(self, pids: Collection[int]) -> dict[int, str]:
        """Return an empty mapping, because the engine chooses the group."""
        return {}

    def in_force(self, pid: int) -> cgroups.InForce | None:
        """Return the container's CPU and memory limits as the kernel has them; None with cgroup v1 or after its end."""
        folder = cgroups.folder_of(pid)
        # Podman's default runtime, crun, runs the process in a group below the limited one.
        limited = folder.parent if folder and folder.name == "container" else folder
        if limited is None or not (limited / "cpu.max").exists():
            return None
        return cgroups.V2().read({"cpu": limited, "memory": limited}, None)


@dataclass(frozen=True)
class EngineLimiter:
    """Limits that the container engine enforces."""

    runtime: Runtime

    @property
    def name(self) -> str:
        """Name of the runtime."""
        return self.runtime.name

    def obstacle(self) -> str | None:
        """Return None: engines that run containers can limit them."""
        return None

    @property
    def shares(self) -> bool:
        """False: each container has its own limits."""
        return False

    def disk_obstacle(self, folder: Path) -> str | None:
        """Return why disks cannot be limited: engines cannot change disk limits of a running container."""
        return f"{self.name} cannot change the disk limits of a running container"

    def group(self, name: str, limits: Limits, folder: Path, shared: str = "") -> EngineGroup:
        """Return the limits of the container `name`, without creating anything; other arguments are ignored.

        The memory limit is an option of the container's command.
        """
        return EngineGroup(self.name, self.runtime.program or self.name, name)

    def existing(self, name: str, limits: Limits, folders: Mapping[str, Path], folder: Path) -> EngineGroup:
        """Return the limits of the container of that name, without checking it; other arguments are ignored."""
        return self.group(name, limits, folder)


#: Runtimes without a daemon first. Charliecloud's kernel requirements are tested with unshare.
RUNTIMES = (
    Runtime("charliecloud", ("ch-run",), ("unshare", "--user", "--mount", "true")),
    Runtime("apptainer", ("apptainer", "singularity"), ("version",)),
    Runtime("podman", ("podman",), ("info",), engine=True),
    Runtime("docker", ("docker",), ("info",), engine=True),
)


def choose(name: str | None) -> Runtime:
    """Return the named runtime, or by default the first of RUNTIMES that works.

    BadInput if the name is unknown, the named runtime does not work, or none works.
    """
    known = {runtime.name: runtime for runtime in RUNTIMES}
    if name is not None and name not in known:
        raise BadInput(f"unknown container runtime {name!r}", remedy=f"use one of {', '.join(known)}")
    reasons = []
    for runtime in [known[name]] if name else RUNTIMES:
        obstacle = runtime.obstacle()
        if obstacle is None:
            return runtime
        reasons.append(f"{runtime.name}: {obstacle}")
    raise BadInput(
        f"no container runtime works here ({'; '.join(reasons)})",
        remedy="install one of them (Debian has charliecloud-runtime and podman), or omit --host container",
    )


def _files() -> int:
    """Return the open-file limit for nodes: 65,536, or our hard limit if that is lower."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)


def _mount_points(image: Path, binds: Sequence[str]) -> None:
    """Create the folders `binds` (absolute paths) in an image folder, if missing; BadInput if that fails.

    Charliecloud does not create them in an image that stays unchanged. Do nothing if `image` is not a folder.
    """
    if not image.is_dir():
        return
    for path in binds:
        try:
            (image / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"the image lacks the mount point {path}, and it could not be created: {error.strerror}",
                where=str(image),
                remedy="create an empty folder at that path, or make the image writable",
            ) from error


def _innermost(started: int) -> int | None:
    """Return the last process of the chain of first children of `started`, a process id.

    None if that process is part of the runtime, by its name. OSError if it ended.
    """
    process = started
    while children := _children(process):
        process = children[0]
    parts_of_runtimes = ("apptainer", "singularity", "starter", "appinit", "sinit")
    name = Path(f"/proc/{process}/comm").read_text().strip().lower()
    return None if name.startswith(parts_of_runtimes) else process


def _children(process: int) -> list[int]:
    """Return the ids of the child processes of all threads of a process, sorted; empty if it has ended."""
    lists = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")]
    return sorted(int(number) for text in lists for number in text.split())


class ContainerHost(LocalHost):
    """Runs each process in a container of one image, with the named runtime or the first that works."""

    name = "container"

    def __init__(self, image: str | None = None, runtime: str | None = None) -> None:
        """Store the arguments; `require` checks them. `runtime` is a name, or None for the first that works.

        `image` is a folder, file or name, depending on the runtime.
        """
        self._image = image
        self._asked = runtime

    @cached_property
    def runtime(self) -> Runtime:
        """Container runtime, the named one or the first that works, tested once; BadInput if none works."""
        return choose(self._asked)

    def require(self) -> None:
        """Raise BadInput without a working runtime or an image.

        BadInput also if the image's path does not exist, unless an engine may know it by name.
        """
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
        """The engine as limiter, or this machine's limiter for runtimes without engine; the reason if there is none."""
        return (EngineLimiter(self.runtime), None) if self.runtime.engine else super()._limiter

    def _limiters(self) -> tuple[Limiter, ...]:
        """Return the limiters that earlier processes may have used: this machine's, then all engines."""
        engines = (EngineLimiter(runtime) for runtime in RUNTIMES if runtime.engine)
        return (*super()._limiters(), *engines)

    def start(self, command: Command, asked: Limits) -> LocalProcess:
        """Start a command in a container of the image under the limits `asked`, and return its process.

        An image is required. The memory limit applies at once, CPU quota and disk limits after `throttle(True)`.
        LoadframeError if the command cannot be executed, BadInput if a mount point cannot be created in the image.
        """
        assert self._image
        image = str(Path(self._image).absolute()) if Path(self._image).exists() else self._image
        return super().start(self.runtime.wrapped(command, image, asked), asked)

    def _server(self, name: str, pid: int) -> int:
        """Return the id of the process in the container; `pid` is the runtime's process. See `Runtime.server`."""
        return self.runtime.server(name, pid)
