"""This machine as a host: processes on loopback, each below a guard of its own (see guard.py)."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from loadframe.errors import BadInput, LoadframeError
from loadframe.host import guard, limits
from loadframe.host.base import Command
from loadframe.host.limits import Group, Limiter, Limits, NoGroup

#: The user and group that servers run as when loadframe is root and they refuse that. Nobody's account: it lies in the
#: range that distributions and systemd leave unassigned, so no other service can interfere.
SERVER_USER = 60960

#: Below the range that Linux takes for outgoing connections, so that none of those can take a port before its node.
_PORTS = range(20000, 32000)

#: Seconds between asking a node to stop and killing it. A guard that needs this long and more is killed itself.
_GRACE = 10.0


class LocalHost:
    """Runs processes on this machine."""

    name = "local"
    address = "127.0.0.1"

    @cached_property
    def _limiter(self) -> tuple[Limiter | None, str | None]:
        return limits.choose()

    def limited_by(self, asked: Limits) -> tuple[str, str | None]:
        """Return how limits are enforced here, trying it out once; `none` without a reason when none were asked."""
        if not asked:
            return "none", None
        limiter, reason = self._limiter
        return (limiter.name if limiter else "none"), reason

    def free_ports(self, count: int, first: int | None = None) -> list[int]:
        """Return ports that can be bound now."""
        if first is None:
            # Not the workload's seed: two loadframes at once must not try the same ports.
            candidates = Random().sample(_PORTS, len(_PORTS))
            free = _take(candidates, count, self.address)
            if len(free) < count:
                raise LoadframeError(f"there are no {count} free ports on this machine")
            return free
        wanted = list(range(first, first + count))
        for port in wanted:
            if not 1024 <= port <= 65535:
                raise BadInput(f"port {port} is no port for a node", remedy="take one from 1024 to 65535")
            if not _bindable(self.address, port):
                raise BadInput(
                    f"port {port} is in use",
                    where=self.address,
                    remedy=f"stop what listens there (`ss -ltnp sport = :{port}` names it), or take another --port",
                )
        return wanted

    def server_user(self) -> int | None:
        """Return the user for servers that refuse root; BadInput in a container that has no user but root."""
        if os.geteuid() != 0:
            return None
        if not _user_exists(SERVER_USER):
            raise BadInput(
                "we are root, the store refuses to run as root, and this container maps no other user",
                remedy="run loadframe as an ordinary user",
            )
        return SERVER_USER

    def start(self, command: Command, asked: Limits) -> "LocalProcess":
        """Start a command under a guard; LoadframeError when it cannot be executed."""
        limiter, _ = self._limiter if asked else (None, None)
        group = limiter.group(command.name, asked) if limiter else NoGroup()
        if group.prefix:
            command = _prefixed(command, group.prefix)
        with command.log.open("ab") as log:
            watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        order = {
            "argv": command.argv,
            "environment": dict(command.environment),
            "folder": str(command.folder),
            "log": str(command.log),
            "user": command.user,
            "groups": sorted({str(folder) for folder in group.folders.values()}),
            "scratch": [str(folder) for folder in command.scratch],
            "grace": _GRACE,
        }
        assert watcher.stdin and watcher.stdout
        watcher.stdin.write(json.dumps(order).encode() + b"\n")
        watcher.stdin.flush()
        answer = json.loads(watcher.stdout.readline() or b'{"error": "the guard did not start"}')
        if "error" in answer:
            watcher.stdin.close()
            watcher.wait()
            raise LoadframeError(f"{command.argv[0]} cannot be run: {answer['error']}", where=command.name)
        return LocalProcess(command.name, answer["pid"], group, asked, watcher=watcher)

    def find(self, record: Mapping[str, Any]) -> "LocalProcess | None":
        """Return the process if its guard is there; the guard leaves soon after its node."""
        watcher = Identity(record["guard"], record["guard_started"])
        if not watcher.alive():
            return None
        folders = {controller: Path(folder) for controller, folder in record["control_groups"].items()}
        asked = Limits(cpus=record["cpus"], memory=record["memory"])
        limiter = next((each for each in limits.limiters() if each.name == record["limited_by"]), None)
        group = limiter.existing(record["name"], asked, folders) if limiter else NoGroup()
        return LocalProcess(record["name"], record["pid"], group, asked, kept=watcher)


@dataclass(frozen=True)
class Identity:
    """A process as the kernel tells it from a later one with the same number: by the time it started."""

    pid: int
    started: int  #: clock ticks since boot

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """Return the identity of a process that runs now; ProcessLookupError when there is none."""
        started = _started(pid)
        if started is None:
            raise ProcessLookupError(pid)
        return cls(pid, started)

    def alive(self) -> bool:
        """Whether that very process runs; one that only waits to be collected does not."""
        return _started(self.pid) == self.started


class LocalProcess:
    """A node's process, reached through its guard: as our child, or by its identity when it was kept."""

    def __init__(
        self,
        name: str,
        pid: int,
        group: Group,
        asked: Limits,
        *,
        watcher: subprocess.Popen[bytes] | None = None,
        kept: Identity | None = None,
    ) -> None:
        """Give either our own child as `watcher`, or the guard of a process that another loadframe started."""
        self.name = name
        self.pid = pid
        self._group = group
        self._asked = asked
        self._watcher = watcher
        self._guard = kept or Identity.of(watcher.pid if watcher else pid)
        self._identity = Identity(pid, _started(pid) or -1)
        self._status: int | None = None

    @property
    def control_groups(self) -> Mapping[str, Path]:
        """Return controller -> folder."""
        return self._group.located(self.pid)

    def alive(self) -> bool:
        """Whether the node's process runs."""
        return self._identity.alive()

    def exit_status(self) -> int | None:
        """Return the status that the guard has told us."""
        if self._status is None and self._watcher and not self.alive():
            assert self._watcher.stdout
            line = b"" if self._watcher.stdout.closed else self._watcher.stdout.readline()
            self._status = json.loads(line)["exit"] if line else None
        return self._status

    def throttle(self, on: bool) -> None:
        """Apply or lift the CPU quota."""
        if self._asked.cpus is None:
            return
        try:
            self._group.throttle(self._asked.cpus if on else None)
        except (OSError, subprocess.SubprocessError) as error:
            # A node that has died took its control group along; that is the cluster's to notice.
            if self.alive():
                raise LoadframeError(f"the CPU quota of process {self.pid} cannot be changed: {error}") from error

    def keep(self) -> None:
        """Tell the guard to go on when the lifeline ends, and let go."""
        if self._watcher:
            assert self._watcher.stdin and self._watcher.stdout
            self._watcher.stdin.write(b"keep\n")
            self._watcher.stdin.close()
            self._watcher.stdout.close()
            self._watcher = None

    def record(self) -> dict[str, Any]:
        """Return the identity of the guard and what it needs to be told apart and undone."""
        return {
            "name": self.name,
            "pid": self.pid,
            "guard": self._guard.pid,
            "guard_started": self._guard.started,
            "control_groups": {name: str(folder) for name, folder in self.control_groups.items()},
            "cpus": self._asked.cpus,
            "memory": self._asked.memory,
            "limited_by": self._group.limiter,
        }

    def stop(self) -> None:
        """Let the guard stop the node and clean up; the guard itself is killed if it takes too long."""
        self.request_stop()
        if self._watcher:
            try:
                self._watcher.wait(2 * _GRACE)
            except subprocess.TimeoutExpired:
                self._watcher.kill()
                self._watcher.wait()
            self.exit_status()
            assert self._watcher.stdout
            self._watcher.stdout.close()
            return
        end = time.monotonic() + 2 * _GRACE
        while self._guard.alive() and time.monotonic() < end:
            time.sleep(0.02)
        if self._guard.alive():
            os.kill(self._guard.pid, signal.SIGKILL)

    def request_stop(self) -> None:
        """Ask for the stop without waiting, so that several nodes stop at the same time."""
        if self._watcher:
            assert self._watcher.stdin
            self._watcher.stdin.close()
        elif self._guard.alive():
            os.kill(self._guard.pid, signal.SIGTERM)


def _started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot (proc(5)); None if there is none or it is a zombie."""
    try:
        # The command's name may hold spaces and parentheses; the fields count from behind its last one.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _bindable(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _take(candidates: list[int], count: int, address: str) -> list[int]:
    free: list[int] = []
    for port in candidates:
        if len(free) == count:
            break
        if _bindable(address, port):
            free.append(port)
    return free


def _user_exists(user: int) -> bool:
    """Whether the number is mapped in our user namespace (see user_namespaces(7))."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except FileNotFoundError:
        return True
    ranges = [[int(field) for field in line.split()] for line in lines]
    return any(first <= user < first + length for first, _, length in ranges)


def _prefixed(command: Command, prefix: tuple[str, ...]) -> Command:
    # systemd-run finds the user's systemd by these two.
    session = {name: os.environ[name] for name in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS") if name in os.environ}
    program = shutil.which(prefix[0]) or prefix[0]
    return replace(
        command,
        argv=(program, *prefix[1:], *command.argv),
        environment={**command.environment, **session},
    )
