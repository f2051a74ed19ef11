"""This machine as a host: processes on loopback, each below a guard of its own (see guard.py)."""

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
from loadframe.base.ranges import FIRST_PORT, LAST_PORT
from loadframe.host import limits, supervisor
from loadframe.host.base import Command
from loadframe.host.files import SERVER_USER, is_mapped, server_owner
from loadframe.host.identity import Facts, facts
from loadframe.host.limits import DiskLimits, Limiter, Limits, NoGroup
from loadframe.host.local_process import GRACE, Identity, LocalProcess

#: The account whose name servers borrow that look up the name of their user.
_ACCOUNT = "nobody"
#: Seconds that a program may take to borrow a name.
_BORROWING = 20.0

#: Below the range that Linux takes for outgoing connections, so that none of those can take a port before its node.
PORTS = range(20000, 32000)


#: How a guard is run whose sources are in memory.
_READ = "import os; exec(compile(os.fdopen({descriptor}).read(), 'guard.py', 'exec'))"

_P = ParamSpec("_P")
_T = TypeVar("_T")


class LocalHost:
    """Runs processes on this machine, which is its only one."""

    name = "local"
    here = True
    hostname = platform.node()
    address = "127.0.0.1"
    own_addresses = False

    @property
    def machines(self) -> Sequence["LocalHost"]:
        """This one."""
        return (self,)

    def machine(self, hostname: str) -> "LocalHost":
        """Return this one, which may have had another name when something was written down."""
        return self

    def place(self, taken: Sequence[str]) -> "LocalHost":
        """Return this one, however many nodes there are."""
        return self

    def call(self, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call it."""
        return function(*args, **kwargs)

    def call_within(self, patience: float, function: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call it: there is no silence here."""
        return function(*args, **kwargs)

    @cached_property
    def facts(self) -> Facts:
        """Look at it."""
        return facts()

    def trouble(self) -> str | None:
        """Return None: we are here."""
        return None

    def folder(self, cluster: Path) -> Path:
        """Return that very folder."""
        return cluster

    @cached_property
    def _limiter(self) -> tuple[Limiter | None, str | None]:
        return limits.choose()

    def limited_by(self, asked: Limits, folder: Path) -> tuple[str, str | None]:
        """Return how limits are enforced here, trying it out once; `none` without a reason when none were asked."""
        if not asked:
            return "none", None
        limiter, reason = self._limiter
        if limiter and asked.disk and (obstacle := limiter.disk_obstacle(folder)):
            reason = f"the disk: {obstacle}"
        return (limiter.name if limiter else "none"), reason

    def require(self) -> None:
        """Every machine has what it takes."""

    def address_of(self, number: int, beside: Collection[str] = ()) -> str:
        """Return 127.0.0.1 for node 0 and count on: Linux has all of 127.0.0.0/8 on its loopback interface."""
        return f"127.0.{(number + 1) // 256}.{(number + 1) % 256}"

    def free_ports(self, count: int, first: int | None = None, addresses: Sequence[str] = ()) -> list[int]:
        """Return ports that can be bound now at all of these addresses."""
        addresses = addresses or (self.address,)
        if first is None:
            # Not the workload's seed: two loadframes at once must not try the same ports.
            candidates = Random().sample(PORTS, len(PORTS))
            free = _take(candidates, count, addresses)
            if len(free) < count:
                raise BadInput(
                    f"there are no {count} free ports from {PORTS.start} to {PORTS.stop - 1}",
                    where=", ".join(addresses),
                    remedy="stop what listens there (`ss -ltn` shows it), or give --port outside of that range",
                )
            return free
        wanted = list(range(first, first + count))
        for port in wanted:
            if not FIRST_PORT <= port <= LAST_PORT:
                raise BadInput(
                    f"port {port} is not a valid port for a node", remedy=f"take one from {FIRST_PORT} to {LAST_PORT}"
                )
            for address in addresses:
                if not _bindable(address, port):
                    raise BadInput(
                        f"port {port} is in use",
                        where=address,
                        remedy=f"stop what listens there (`ss -ltnp sport = :{port}` names it), or take another --port",
                    )
        return wanted

    def server_user(self, named: bool = False) -> int | None:
        """Return the user for servers that refuse root; BadInput in a container that has no user but root.

        One that is `named` can get a name among the system's users: in a user namespace, or else as `nobody`, whose
        other processes can read the server's password and memory.
        """
        if os.geteuid() != 0:
            return None
        user = SERVER_USER if not named or _can_borrow_a_name() else _account()
        if user is None or not is_mapped("uid_map", user):
            raise BadInput(
                "we are root, the store refuses to run as root, and this container maps no other user",
                remedy="run loadframe as an ordinary user",
            )
        return user

    def start(self, command: Command, asked: Limits) -> "LocalProcess":
        """Start a command under a guard; LoadframeError when it cannot be executed."""
        limiter, _ = self._limiter if asked else (None, None)
        if limiter and asked.disk and limiter.disk_obstacle(command.folder):
            # Whoever asked has been told; see limited_by.
            asked = replace(asked, disk=DiskLimits())
        if limiter and command.shares and not limiter.shares:
            raise BadInput(
                f"processes are to share the limits of a node, and {limiter.name} gives each limits of its own",
                where=command.name,
                remedy="run loadframe where it may make control groups (as root, host: local), or give no limits",
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
            "shared": [str(folder) for folder in command.shared],
            "undo": command.undo,
            "stop_signal": int(command.stop_signal),
            "grace": GRACE,
            "network": network,
        }
        watcher, answer = self._guarded(order, command.log)
        assert watcher.stdin and watcher.stdout
        if "error" in answer:
            watcher.stdin.close()
            watcher.wait()
            watcher.stdout.close()
            raise LoadframeError(f"{command.argv[0]} cannot be run: {answer['error']}", where=command.name)
        link = network["link"] if network else None
        return LocalProcess(
            command.name,
            self._server(command.name, answer["pid"]),
            group,
            asked,
            command.folder,
            watcher=watcher,
            link=link,
        )

    def _network(self, command: Command) -> dict[str, str] | None:
        """Return what the guard is to know of the network that the command gets; None for the machine's own."""
        return None

    def _server(self, name: str, pid: int) -> int:
        """Return the id of the process that serves, `pid` being the one that was started."""
        return pid

    def _limiters(self) -> tuple[Limiter, ...]:
        """Return the ways in which processes may have been limited here."""
        return limits.limiters()

    def _guarded(self, order: dict[str, Any], path: Path) -> tuple["subprocess.Popen[bytes]", dict[str, Any]]:
        """Start a guard with its order and the path of the log, and return it with its first answer."""
        with nofollow.appending(path.parent, path.name) as log, _program() as (program, needed):
            watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
                pass_fds=needed,
            )
        assert watcher.stdin and watcher.stdout
        watcher.stdin.write(json.dumps(order).encode() + b"\n")
        watcher.stdin.flush()
        return watcher, json.loads(watcher.stdout.readline() or b'{"error": "the guard did not start"}')

    def find(self, record: Mapping[str, Any]) -> "LocalProcess | None":
        """Return the process if its guard is there; the guard leaves soon after its node."""
        watcher = Identity(record["guard"], record["guard_started"])
        if not watcher.alive():
            return None
        folders = {controller: Path(folder) for controller, folder in record["control_groups"].items()}
        folder = Path(record.get("folder") or "/")
        asked = Limits(cpus=record["cpus"], memory=record["memory"], disk=DiskLimits(**record.get("disk") or {}))
        limiter = next((known for known in self._limiters() if known.name == record["limited_by"]), None)
        group = limiter.existing(record["name"], asked, folders, folder) if limiter else NoGroup()
        return LocalProcess(record["name"], record["pid"], group, asked, folder, kept=watcher, link=record.get("link"))


@contextlib.contextmanager
def _program() -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """Give the interpreter's arguments for the guard, and the descriptors to be passed on.

    An agent has its sources in memory: its guards read theirs from there, and keep nothing open.
    """
    if Path(supervisor.__file__).exists():
        yield (supervisor.__file__,), ()
        return
    source = pkgutil.get_data(supervisor.__name__.rpartition(".")[0], "guard.py") or b""
    descriptor = os.memfd_create("loadframe-guard")
    try:
        while source:
            source = source[os.write(descriptor, source) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield ("-c", _READ.format(descriptor=descriptor)), (descriptor,)
    finally:
        os.close(descriptor)


def _bindable(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _take(candidates: list[int], count: int, addresses: Sequence[str]) -> list[int]:
    free: list[int] = []
    for port in candidates:
        if len(free) == count:
            break
        if all(_bindable(address, port) for address in addresses):
            free.append(port)
    return free


@cache
def _can_borrow_a_name() -> bool:
    """Whether the servers' user can get an account's name in a user namespace; many containers forbid these."""
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
    """Return the user of the system that owns nothing; None where there is none."""
    try:
        return pwd.getpwnam(_ACCOUNT).pw_uid
    except KeyError:
        return None


def _prefixed(command: Command, prefix: tuple[str, ...]) -> Command:
    # systemd-run finds the user's systemd by these two.
    session = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS") if name in os.environ}
    program = shutil.which(prefix[0]) or prefix[0]
    return replace(
        command,
        argv=(program, *prefix[1:], *command.argv),
        environment={**command.environment, **session},
    )
