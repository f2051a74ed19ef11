"""This machine as a host: processes on loopback, each below its own supervisor (see supervisor.py)."""

import contextlib
import json
import os
import pkgutil
import platform
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from random import Random
from typing import Any, ParamSpec, TypeVar

from loadframe.base import nofollow
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import FIRST_PORT, LAST_PORT
from loadframe.host import copying, limits, supervisor
from loadframe.host.base import Command
from loadframe.host.files import SERVER_USER, is_mapped, server_owner
from loadframe.host.identity import Facts, facts
from loadframe.host.limits import DiskLimits, Limiter, Limits, NoGroup
from loadframe.host.local_process import GRACE, Identity, LocalProcess

#: Account for servers that look up the name of their user.
_ACCOUNT = "nobody"
#: Timeout in seconds for the test of a user namespace.
_BORROWING = 20.0

#: Below Linux's range for outgoing connections, so that no connection takes the port of a node.
PORTS = range(20000, 32000)


def ports_from(first: int, count: int) -> list[int]:
    """Return `count` ports from `first` on, ascending; BadInput if one is outside 1024 to 65535.

    They need not be free.
    """
    last = first + count - 1
    if first >= FIRST_PORT and last <= LAST_PORT:
        return list(range(first, last + 1))
    if FIRST_PORT <= first <= LAST_PORT:
        what = f"{count} ports from {first} on reach {last}, but the last port is {LAST_PORT}"
        raise BadInput(what, remedy=f"give a --port of at most {LAST_PORT - count + 1}")
    raise BadInput(f"the port of a node must be {FIRST_PORT} to {LAST_PORT}; got {first}", remedy="give another --port")


#: Program that runs the supervisor from memory.
_READ = "import os; exec(compile(os.fdopen({descriptor}).read(), 'supervisor.py', 'exec'))"

_P = ParamSpec("_P")
_T = TypeVar("_T")


class LocalHost:
    """Runs processes on this machine, its only machine."""

    name = "local"
    here = True
    hostname = platform.node()
    address = "127.0.0.1"
    own_addresses = False

    @property
    def machines(self) -> Sequence["LocalHost"]:
        """This machine."""
        return (self,)

    def machine(self, hostname: str) -> "LocalHost":
        """Return this machine under any name: it may have been renamed since a record was written."""
        return self

    def place(self, taken: Sequence[str]) -> "LocalHost":
        """Return this machine, which takes any number of nodes."""
        return self

    def call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call the function in this process, and return its result."""
        return function(*args, **kwargs)

    def call_within(self, patience: float, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call the function in this process, and return its result. `patience` applies only to remote machines."""
        return function(*args, **kwargs)

    @cached_property
    def facts(self) -> Facts:
        """Facts of this machine."""
        return facts()

    def trouble(self) -> str | None:
        """Return None: the state of this machine is always known."""
        return None

    def folder(self, cluster: Path) -> Path:
        """Return `cluster`: the folder of a cluster also holds the folders of its nodes on this machine."""
        return cluster

    @cached_property
    def _limiter(self) -> tuple[Limiter | None, str | None]:
        """The limiter of this machine, tested once, or None and the reasons."""
        return limits.choose()

    def limited_by(self, asked: Limits, folder: Path) -> tuple[str, str | None]:
        """Return the limiter of this machine, tested once, and the reason if limits cannot be enforced, else None.

        Returns `none` without a reason if no limits were requested (`asked`). `folder` selects the disk.
        """
        if not asked:
            return "none", None
        limiter, reason = self._limiter
        if limiter and asked.disk and (obstacle := limiter.disk_obstacle(folder)):
            reason = f"the disk: {obstacle}"
        return (limiter.name if limiter else "none"), reason

    def require(self) -> None:
        """Do nothing: every machine can run local processes."""

    def address_of(self, number: int, beside: Collection[str] = ()) -> str:
        """Return 127.0.0.1 for node 0, 127.0.0.2 for node 1 and so on; Linux's loopback has all of 127.0.0.0/8."""
        return f"127.0.{(number + 1) // 256}.{(number + 1) % 256}"

    def free_ports(self, count: int, first: int | None = None, addresses: Sequence[str] = ()) -> list[int]:
        """Return `count` ports that are free now at all of these addresses, by default 127.0.0.1; reserve nothing.

        They are random from 20000 to 31999, or the ports from `first` on. BadInput if too few are free, or if one of
        the ports from `first` on is not.
        """
        addresses = addresses or (self.address,)
        if first is None:
            # Not seeded by the workload: two concurrent loadframe processes must not try the same ports.
            candidates = Random().sample(PORTS, len(PORTS))
            free = _take(candidates, count, addresses)
            if len(free) < count:
                raise BadInput(
                    f"fewer than {count} ports from {PORTS.start} to {PORTS.stop - 1} are free",
                    where=", ".join(addresses),
                    remedy="stop programs that listen there (see `ss -ltn`), or give a --port outside this range",
                )
            return free
        wanted = ports_from(first, count)
        for port in wanted:
            for address in addresses:
                if not _bindable(address, port):
                    raise BadInput(
                        f"port {port} is in use",
                        where=address,
                        remedy=f"stop its program (`ss -ltnp sport = :{port}` names it), or give another --port",
                    )
        return wanted

    def server_user(self, named: bool = False) -> int | None:
        """Return the user for servers that refuse to run as root, or None if this process is not root.

        With `named`, the user has a name in the system's user database. If user namespaces are forbidden, that is
        `nobody`, whose other processes can read the server's password and memory. BadInput if the
        user does not exist or is not mapped in this user namespace.
        """
        if os.geteuid() != 0:
            return None
        user = SERVER_USER if not named or _can_borrow_a_name() else _account()
        if user is None or not is_mapped("uid_map", user):
            raise BadInput(
                "the store refuses to run as root, and this container maps no other user",
                remedy="run loadframe as an ordinary user",
            )
        return user

    def start(self, command: Command, asked: Limits) -> "LocalProcess":
        """Start a command under a supervisor with the limits `asked`, and return its process.

        The memory limit applies at once, CPU quota and disk limits after `throttle(True)`. Disk limits that the machine
        cannot enforce are dropped; `limited_by` reports that. LoadframeError if the command cannot be executed,
        BadInput if its limits must be shared and the limiter does not support that.
        """
        limiter, _ = self._limiter if asked else (None, None)
        if limiter and asked.disk and limiter.disk_obstacle(command.folder):
            asked = replace(asked, disk=DiskLimits())
        if limiter and command.shares and not limiter.shares:
            raise BadInput(
                f"the processes of a node must share its limits, which {limiter.name} does not support",
                where=command.name,
                remedy="run loadframe where it may create control groups (as root, host: local), or omit the limits",
            )
        group = limiter.group(command.name, asked, command.folder, command.shares) if limiter else NoGroup()
        if group.prefix:
            command = _prefixed(command, group.prefix)
        network = self._network(command)
        owner = server_owner(command.user)
        order = {
            "argv": command.argv,
            "environment": dict(command.environment),
            "folder": str(command.folder),
            "user": command.user,
            "group": owner.group if owner else None,
            "cores": asked.cores,
            "groups": sorted({str(folder) for folder in group.entered.values()}),
            "above": sorted({str(folder) for folder in group.folders.values()}) if command.shares else [],
            "scratch": [str(folder) for folder in command.scratch],
            "mark": [copying.MARK, command.mark] if command.mark else None,
            "shared": [str(folder) for folder in command.shared],
            "undo": command.undo,
            "stop_signal": int(command.stop_signal),
            "grace": GRACE,
            "network": network,
        }
        supervisor_process, answer = self._start_supervisor(order, command.log)
        assert supervisor_process.stdin and supervisor_process.stdout
        if "error" in answer:
            supervisor_process.stdin.close()
            supervisor_process.wait()
            supervisor_process.stdout.close()
            raise LoadframeError(f"could not run {command.argv[0]}: {answer['error']}", where=command.name)
        link = network["link"] if network else None
        return LocalProcess(
            command.name,
            self._server(command.name, answer["pid"]),
            group,
            asked,
            command.folder,
            child=supervisor_process,
            link=link,
        )

    def _network(self, command: Command) -> dict[str, str] | None:
        """Return None: the command uses the machine's network. Other hosts return instructions for the supervisor."""
        return None

    def _server(self, name: str, pid: int) -> int:
        """Return the id of the serving process of command `name`: here `pid`, the process that was started."""
        return pid

    def _limiters(self) -> tuple[Limiter, ...]:
        """Return the limiters that earlier processes on this machine may have used."""
        return limits.limiters()

    def _start_supervisor(self, order: dict[str, Any], path: Path) -> tuple["subprocess.Popen[bytes]", dict[str, Any]]:
        """Start a supervisor with its order and the path of the log; return it and its first answer.

        The answer is `{"pid": n}` or `{"error": text}`.
        """
        with nofollow.appending(path.parent, path.name) as log, _supervisor_program() as (program, needed):
            supervisor_process = subprocess.Popen(
                [sys.executable, "-I", "-S", *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
                pass_fds=needed,
            )
        assert supervisor_process.stdin and supervisor_process.stdout
        supervisor_process.stdin.write(json.dumps(order).encode() + b"\n")
        supervisor_process.stdin.flush()
        return supervisor_process, json.loads(
            supervisor_process.stdout.readline() or b'{"error": "the supervisor did not start"}'
        )

    def find(self, record: Mapping[str, Any]) -> "LocalProcess | None":
        """Return the process of a `LocalProcess.record`, with the limits recorded there; None if it has ended.

        That is judged by its supervisor, which exits soon after the process.
        """
        identity = Identity(record["guard"], record["guard_started"])
        if not identity.alive():
            return None
        folders = {controller: Path(folder) for controller, folder in record["control_groups"].items()}
        folder = Path(record.get("folder") or "/")
        cores = record.get("cores")
        asked = Limits(
            cpus=record["cpus"],
            memory=record["memory"],
            cores=None if cores is None else tuple(cores),
            disk=DiskLimits(**record.get("disk") or {}),
        )
        limiter = next((known for known in self._limiters() if known.name == record["limited_by"]), None)
        group = limiter.existing(record["name"], asked, folders, folder) if limiter else NoGroup()
        return LocalProcess(record["name"], record["pid"], group, asked, folder, kept=identity, link=record.get("link"))


@contextlib.contextmanager
def _supervisor_program() -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """Yield the interpreter's arguments for the supervisor, and the file descriptors to pass to it.

    An agent has its sources in memory, so its supervisors read theirs from a memory file.
    """
    if Path(supervisor.__file__).exists():
        yield (supervisor.__file__,), ()
        return
    source = pkgutil.get_data(supervisor.__name__.rpartition(".")[0], "supervisor.py") or b""
    descriptor = os.memfd_create("loadframe-supervisor")
    try:
        while source:
            source = source[os.write(descriptor, source) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield ("-c", _READ.format(descriptor=descriptor)), (descriptor,)
    finally:
        os.close(descriptor)


def _bindable(address: str, port: int) -> bool:
    """Return whether a process can bind the TCP port at the address now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _take(candidates: list[int], count: int, addresses: Sequence[str]) -> list[int]:
    """Return the first `count` ports that are free at all addresses, or fewer if they run out."""
    free: list[int] = []
    for port in candidates:
        if len(free) == count:
            break
        if all(_bindable(address, port) for address in addresses):
            free.append(port)
    return free


@cache
def _can_borrow_a_name() -> bool:
    """Whether SERVER_USER can appear as `nobody` in a user namespace; many containers forbid user namespaces."""
    if not is_mapped("uid_map", SERVER_USER) or not is_mapped("gid_map", SERVER_USER):
        return False
    try:
        tried = subprocess.run(
            ["unshare", "--user", f"--map-user={_ACCOUNT}", "id", "-un"],
            user=SERVER_USER,
            group=SERVER_USER,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            timeout=_BORROWING,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.stdout.strip() == _ACCOUNT.encode()


def _account() -> int | None:
    """Return the id of the user `nobody`, or None if the system has no such user."""
    try:
        return pwd.getpwnam(_ACCOUNT).pw_uid
    except KeyError:
        return None


def _prefixed(command: Command, prefix: tuple[str, ...]) -> Command:
    """Return the command with a prefix (program and options) before its arguments.

    Adds the variables with which systemd-run finds the user's systemd instance.
    """
    # systemd-run needs these two variables to find the user's systemd instance.
    session = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS") if name in os.environ}
    program = shutil.which(prefix[0]) or prefix[0]
    return replace(
        command,
        argv=(program, *prefix[1:], *command.argv),
        environment={**command.environment, **session},
    )
