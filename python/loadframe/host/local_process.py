"""A node's process on this machine: signalled and stopped through its guard, and told apart from later ones."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadframe.base.errors import LoadframeError
from loadframe.host.limits import Group, Limits
from loadframe.host.link import Link

#: Seconds between asking a node to stop and killing it.
GRACE = 10.0
#: Seconds that a guard is waited for while it cleans up behind a node that has ended; it goes on afterwards.
_CLEANING = 120.0


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
        folder: Path,
        *,
        watcher: subprocess.Popen[bytes] | None = None,
        kept: Identity | None = None,
        link: str | None = None,
    ) -> None:
        """Give either our own child as `watcher`, or the guard of a process that another loadframe started.

        `folder` is the one that the node writes into. `link` is the name of its link's end outside, if it has a network
        of its own.
        """
        self.name = name
        self.pid = pid
        self._group = group
        self._asked = asked
        self._folder = folder
        self._watcher = watcher
        self._guard = kept or Identity.of(watcher.pid if watcher else pid)
        self._identity = Identity(pid, _started(pid) or -1)
        self._status: int | None = None
        self.link = Link(link, pid) if link else None

    @property
    def ours(self) -> bool:
        """Whether it ends with this process, and was neither kept nor started by another."""
        return self._watcher is not None

    @property
    def inside(self) -> tuple[str, ...]:
        """Enter its network."""
        return self.link.inside if self.link else ()

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
        """Apply or lift the CPU quota and the limits of the disk."""
        if self._asked == self._asked.lifted:
            return
        try:
            self._group.throttle(self._asked if on else self._asked.lifted)
        except (OSError, subprocess.SubprocessError) as error:
            # A node that has died took its control group along; that is the cluster's to notice.
            if self.alive():
                raise LoadframeError(f"the limits of process {self.pid} cannot be changed: {error}") from error

    def kill(self) -> None:
        """SIGKILL, which the guard sees like any other end; return when it has ended."""
        self._signal(signal.SIGKILL)
        self._await(lambda: not self.alive())

    def pause(self) -> None:
        """SIGSTOP; return when it has come to a stop."""
        self._signal(signal.SIGSTOP)
        self._await(lambda: self.paused() or not self.alive())

    @staticmethod
    def _await(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + GRACE
        while not condition() and time.monotonic() < end:
            time.sleep(0.001)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def paused(self) -> bool:
        """Whether a signal has stopped it (state T of proc(5))."""
        fields = _stat(self.pid)
        return fields is not None and fields[0] == "T" and self.alive()

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process, and then all below it, which some stores have do the work."""
        if self.alive():
            below = _below(self.pid)
            for identity in (self._identity, *below):
                _send(identity, number)

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
            "disk": asdict(self._asked.disk),
            "folder": str(self._folder),
            "limited_by": self._group.limiter,
            "link": self.link.name if self.link else None,
        }

    def stop(self) -> None:
        """Let the guard stop the node and clean up, and wait for it.

        A guard is never killed: it would leave scratch folders and control groups. One that does not even kill its node
        gets that done for it, and one that cleans up for minutes is left to it.
        """
        self.request_stop()
        if not self._guard_ends(2 * GRACE):
            self._signal(signal.SIGKILL)
            self._guard_ends(_CLEANING)
        if self._watcher:
            self.exit_status()
            assert self._watcher.stdout
            self._watcher.stdout.close()

    def _guard_ends(self, within: float) -> bool:
        """Wait for the guard's end; False when it still runs after `within` s."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            if self._watcher.poll() is not None if self._watcher else not self._guard.alive():
                return True
            time.sleep(0.005)
        return False

    def request_stop(self) -> None:
        """Ask for the stop without waiting, so that several nodes stop at the same time."""
        if self._watcher:
            assert self._watcher.stdin
            self._watcher.stdin.close()
        elif self._guard.alive():
            os.kill(self._guard.pid, signal.SIGTERM)


def _below(pid: int) -> list[Identity]:
    """Return the processes that descend from one, parents first."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    descendants = list(children.get(pid, ()))
    for descendant in descendants:
        descendants += children.get(descendant, ())
    identities = []
    for descendant in descendants:
        with contextlib.suppress(ProcessLookupError):
            identities.append(Identity.of(descendant))
    return identities


def _send(identity: Identity, number: signal.Signals) -> None:
    """Signal a process, and none that got its number later; nothing is done to one that is gone."""
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if identity.alive():
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on (proc(5)); None if there is no such process."""
    try:
        # The command's name may hold spaces and parentheses; the fields count from behind its last one.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if there is none or it is a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[0] in ("Z", "X") else int(fields[19])
