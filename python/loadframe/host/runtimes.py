"""The container runtimes that a node can be run by: how each is called, and how a container ends and is limited.

Two kinds: Charliecloud and Apptainer put themselves in front of a command, whose process is then ours like any other.
Podman and Docker have the container made elsewhere; what we start is a client, which passes signals on.
"""

import contextlib
import resource
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.host import cgroups
from loadframe.host.base import Command
from loadframe.host.limits import PERIOD, Limits

#: Open files that Elasticsearch and OpenSearch ask for.
_FILES = 65536
#: Seconds that a container may take to have a process.
_WITHIN = 20.0
#: What runtimes want to be told themselves, beside what the node is told.
_OWN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "USER": "root"}


@dataclass(frozen=True)
class Runtime:
    """One runtime. Those with an `engine` have the container made elsewhere."""

    name: str
    programs: tuple[str, ...]  #: the first that is found is taken
    trial: tuple[str, ...]  #: arguments to try it with, or a command if the first of them is one by its full name
    engine: bool = False

    @property
    def program(self) -> str | None:
        """Where it is."""
        return next((path for path in map(shutil.which, self.programs) if path), None)

    def obstacle(self) -> str | None:
        """Return why it cannot be used here, or None."""
        if self.program is None:
            return f"there is no {' and no '.join(self.programs)}"
        command = self.trial if self.trial[0] == "unshare" else (self.program, *self.trial)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode == 0:
            return None
        return ((done.stderr or done.stdout).strip().splitlines() or ["it fails"])[-1]

    def wrapped(self, command: Command, image: str, limits: Limits) -> Command:
        """Return the command that runs this one in a container of that image, with its folder and software bound."""
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
        # Podman runs a plain folder as an image, too.
        argv += ["--rootfs", image] if self.name == "podman" and Path(image).is_dir() else [image]
        return replace(
            command,
            argv=(self.program, *argv, *command.argv[1:]),
            environment=_OWN,
            user=None,
            undo=((self.program, "rm", "--force", command.name),),
        )

    def server(self, name: str, started: int) -> int:
        """Return the id of the process that runs in the container; `started` is the one that we started."""
        end = time.monotonic() + _WITHIN
        while self.name != "charliecloud" and time.monotonic() < end:
            with contextlib.suppress(OSError, ValueError):
                if not _alive(started):
                    break
                inner = self._inspected(name) if self.engine else _innermost(started)
                if inner:
                    return inner
            time.sleep(0.05)
        return started

    def _inspected(self, name: str) -> int:
        assert self.program
        asked = (self.program, "inspect", "--format={{.State.Pid}}", name)
        return int(subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False).stdout)


@dataclass(frozen=True)
class EngineGroup:
    """The limits of a container that an engine made."""

    limiter: str
    program: str
    container: str
    folders: Mapping[str, Path] = field(default_factory=dict)
    entered: Mapping[str, Path] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()

    def located(self, pid: int) -> Mapping[str, Path]:
        """Return where the engine put the process, where there is one hierarchy for all controllers."""
        with contextlib.suppress(OSError):
            if folder := cgroups.folder_of(pid):
                return {"cpu": folder, "memory": folder}
        return {}

    def throttle(self, limits: Limits) -> None:
        """Have the engine change the quota; -1 lifts it."""
        period = round(PERIOD * 1e6)
        quota = -1 if limits.cpus is None else round(limits.cpus * period)
        command = (self.program, "update", f"--cpu-period={period}", f"--cpu-quota={quota}", self.container)
        subprocess.run(command, check=True, capture_output=True, timeout=20)


@dataclass(frozen=True)
class EngineLimiter:
    """Limits by the engine that makes the container."""

    runtime: Runtime

    @property
    def name(self) -> str:
        """The runtime's."""
        return self.runtime.name

    def obstacle(self) -> str | None:
        """None: an engine that runs containers limits them."""
        return None

    @property
    def shares(self) -> bool:
        """A container has limits of its own."""
        return False

    def disk_obstacle(self, folder: Path) -> str | None:
        """An engine sets the limits of disks when it makes a container, and does not change them afterwards."""
        return f"{self.name} cannot change the limits of a disk while the container runs"

    def group(self, name: str, limits: Limits, folder: Path, shared: str = "") -> EngineGroup:
        """Name the container; its memory is limited as it is made."""
        return EngineGroup(self.name, self.runtime.program or self.name, name)

    def existing(self, name: str, limits: Limits, folders: Mapping[str, Path], folder: Path) -> EngineGroup:
        """Return the container of that name."""
        return self.group(name, limits, folder)


#: Those that need no daemon first. What Charliecloud needs of the kernel is tried without it.
RUNTIMES = (
    Runtime("charliecloud", ("ch-run",), ("unshare", "--user", "--mount", "true")),
    Runtime("apptainer", ("apptainer", "singularity"), ("version",)),
    Runtime("podman", ("podman",), ("info",), engine=True),
    Runtime("docker", ("docker",), ("info",), engine=True),
)


def choose(name: str | None) -> Runtime:
    """Return the runtime of that name, or the first that works; BadInput when it does not, or none does."""
    known = {runtime.name: runtime for runtime in RUNTIMES}
    if name is not None and name not in known:
        raise BadInput(f"there is no container runtime {name!r}", remedy=f"take one of {', '.join(known)}")
    reasons = []
    for runtime in [known[name]] if name else RUNTIMES:
        obstacle = runtime.obstacle()
        if obstacle is None:
            return runtime
        reasons.append(f"{runtime.name}: {obstacle}")
    raise BadInput(
        f"no container can be run here ({'; '.join(reasons)})",
        remedy="install one of them (Debian has charliecloud-runtime and podman), or leave --host container out",
    )


def _files() -> int:
    """Return how many files a node may open: as many as stores ask for, if we may allow that."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)


def _mount_points(image: Path, binds: Sequence[str]) -> None:
    """Make the folders that the image lacks to bind at: the runtime makes none in an image that stays as it is."""
    if not image.is_dir():
        return
    for path in binds:
        try:
            (image / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"the image has no folder {path} to bind at, and none can be made: {error.strerror}",
                where=str(image),
                remedy="make it, empty, or make the image writable for yourself",
            ) from error


def _innermost(started: int) -> int | None:
    """Return the last process of the chain that a runtime makes, once it is not part of the runtime any more."""
    process = started
    while children := _children(process):
        process = children[0]
    parts_of_runtimes = ("apptainer", "singularity", "starter", "appinit", "sinit")
    name = Path(f"/proc/{process}/comm").read_text().strip().lower()
    return None if name.startswith(parts_of_runtimes) else process


def _alive(process: int) -> bool:
    """Whether a process runs (proc(5)): it is there, and does not only wait to be collected."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def _children(process: int) -> list[int]:
    """Return the processes that this one has started, by any of its threads."""
    lists = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")]
    return sorted(int(number) for text in lists for number in text.split())
