"""A node's process on this machine. Its supervisor signals and stops it; its start time guards against reused ids."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadframe.base.errors import LoadframeError
from loadframe.base.procfs import is_running, stat_fields
from loadframe.host.limits import Difference, Group, Limits
from loadframe.host.link import Link

#: Seconds between asking a node to stop and killing it.
GRACE = 10.0
#: Seconds to wait for the cleanup of a supervisor after its node has ended. The supervisor continues after that.
_CLEANING = 120.0


@dataclass(frozen=True)
class Identity:
    """Process id and start time, which together identify a process even if the id is reused."""

    pid: int
    started: int  #: clock ticks since boot

    @classmethod
    def of(cls, pid: int) -> "Identity":
        """Return the identity of a running process; OSError if it does not run."""
        return cls(pid, int(stat_fields(pid)[19]))

    def alive(self) -> bool:
        """Whether this process still runs. Zombies and later processes with the same id do not count."""
        try:
            return self == Identity.of(self.pid)
        except OSError:
            return False


class LocalProcess:
    """A node's process, controlled through its supervisor: our child, or found by its identity if it was kept."""

    def __init__(
        self,
        name: str,
        pid: int,
        group: Group,
        asked: Limits,
        folder: Path,
        *,
        child: subprocess.Popen[bytes] | None = None,
        kept: Identity | None = None,
        link: str | None = None,
    ) -> None:
        """Take the supervisor either as our child (`child`), or as the identity of an earlier one (`kept`).

        `name` is the name of the command, `pid` the id of the node's process, `group` its limits in force, `asked` the
        requested ones, and `folder` its data folder. `link` is the name of the outer end of its link, if it has its own
        network.
        """
        self.name = name
        self.pid = pid
        self._group = group
        self._asked = asked
        self._folder = folder
        self._child = child
        self._supervisor = kept or Identity.of(child.pid if child else pid)
        self._identity = Identity.of(pid) if is_running(pid) else Identity(pid, -1)
        self._status: int | None = None
        self.link = Link(link, pid) if link else None

    @property
    def ours(self) -> bool:
        """Whether the process ends with this one: it was started here and not kept."""
        return self._child is not None

    @property
    def inside(self) -> tuple[str, ...]:
        """Command prefix that enters its network; empty for the machine's network."""
        return self.link.inside if self.link else ()

    @property
    def control_groups(self) -> Mapping[str, Path]:
        """Controller (`cpu`, `memory`) -> folder of the process's control group; empty without limits."""
        return self._group.located(self.pid)

    def alive(self) -> bool:
        """Whether the node's process runs; zombies do not count."""
        return self._identity.alive()

    def exit_status(self) -> int | None:
        """Return the exit status (128 + signal if killed), or None while the process runs, or if it was kept."""
        if self._status is None and self._child and not self.alive():
            assert self._child.stdout
            line = b"" if self._child.stdout.closed else self._child.stdout.readline()
            self._status = json.loads(line)["exit"] if line else None
        return self._status

    def throttle(self, on: bool) -> None:
        """Apply (`on`) or lift the requested CPU quota and disk limits. Does nothing if none were requested.

        LoadframeError if that fails while the process runs.
        """
        if self._asked == self._asked.lifted:
            return
        try:
            self._group.throttle(self._asked if on else self._asked.lifted)
        except (OSError, subprocess.SubprocessError) as error:
            # The control group disappears with its node. The cluster detects that the node has ended.
            if self.alive():
                raise LoadframeError(f"could not change the limits of process {self.pid}: {error}") from error

    def limit_differences(self, throttled: bool) -> list[Difference]:
        """Return differences of its cores, its control group and the group's limits from the requested ones.

        Unless `throttled`, the CPU quota and disk limits are expected to be lifted. Empty for an ended process.
        """
        asked = self._asked if throttled else self._asked.lifted
        try:
            differences = list(self._differences(asked))
        except OSError as error:
            differences = [Difference("control group", f"unreadable ({error})", self.name)]
        return differences if self.alive() else []

    def _differences(self, asked: Limits) -> Iterator[Difference]:
        """Yield the differences between the limits `asked` and the kernel's: cores, control group, CPU, memory, disk.

        If a process is outside of its control group, the limits are not compared. Without a control group and without
        limits, nothing is compared but the cores.
        """
        cores = os.sched_getaffinity(self.pid)
        if asked.cores is not None and not cores <= set(asked.cores):
            yield Difference("set of cores", *(", ".join(map(str, sorted(known))) for known in (cores, asked.cores)))
        if not asked and not self._group.folders:
            return
        processes = {identity.pid: identity for identity in (self._identity, *_descendants(self.pid))}
        for pid, group in self._group.strays(processes).items():
            if processes[pid].alive():
                yield Difference("control group", f"{group} (process {pid})", f"{self.name}, which has its limits")
                return
        actual = self._group.in_force(self.pid)
        if actual:
            yield from asked.differences(actual)

    def kill(self) -> None:
        """Send SIGKILL and wait until the process and its descendants have ended, 10 s at most.

        A restarted store could otherwise find files, ports or shared memory in use.
        """
        killed = self._signal(signal.SIGKILL)
        self._await(lambda: not any(identity.alive() for identity in killed))

    def pause(self) -> None:
        """Send SIGSTOP to the process and its descendants, and wait until the process is stopped, 10 s at most."""
        self._signal(signal.SIGSTOP)
        self._await(lambda: self.paused() or not self.alive())

    @staticmethod
    def _await(condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, 10 s at most."""
        end = time.monotonic() + GRACE
        while not condition() and time.monotonic() < end:
            time.sleep(0.001)

    def resume(self) -> None:
        """Send SIGCONT to the process and its descendants."""
        self._signal(signal.SIGCONT)

    def paused(self) -> bool:
        """Whether a signal has stopped it (state T in proc(5)); False after its end."""
        with contextlib.suppress(OSError):
            return stat_fields(self.pid)[0] == "T" and self.alive()
        return False

    def _signal(self, number: signal.Signals) -> list[Identity]:
        """Send a signal to the process and then its descendants, which do the work in some stores; return all of them.

        Empty, without a signal, if the process has ended.
        """
        if not self.alive():
            return []
        signalled = [self._identity, *_descendants(self.pid)]
        for identity in signalled:
            _send(identity, number)
        return signalled

    def keep(self) -> None:
        """Tell the supervisor to continue after our end of the pipe closes, and release it."""
        if self._child:
            assert self._child.stdin and self._child.stdout
            self._child.stdin.write(b"keep\n")
            self._child.stdin.close()
            self._child.stdout.close()
            self._child = None

    def record(self) -> dict[str, Any]:
        """Return the entry for the cluster's record, so that a later command can find, limit and clean it up.

        `guard` and `guard_started` identify its supervisor; `memory` is in bytes, and `cpus` in cores.
        """
        return {
            "name": self.name,
            "pid": self.pid,
            "guard": self._supervisor.pid,
            "guard_started": self._supervisor.started,
            "control_groups": {name: str(folder) for name, folder in self.control_groups.items()},
            "cpus": self._asked.cpus,
            "memory": self._asked.memory,
            "disk": asdict(self._asked.disk),
            "cores": None if self._asked.cores is None else list(self._asked.cores),
            "folder": str(self._folder),
            "limited_by": self._group.limiter,
            "link": self.link.name if self.link else None,
        }

    def stop(self) -> None:
        """Let the supervisor stop the node and clean up, and wait for it.

        The supervisor is never killed, because it removes scratch folders and control groups. If it does not end within
        20 s, this method kills the node. If its cleanup takes longer than another 120 s, it continues alone.
        """
        self.request_stop()
        if not self._supervisor_ends(2 * GRACE):
            self._signal(signal.SIGKILL)
            self._supervisor_ends(_CLEANING)
        if self._child:
            self.exit_status()
            assert self._child.stdout
            self._child.stdout.close()

    def _supervisor_ends(self, within: float) -> bool:
        """Wait for the end of the supervisor; False if it still runs after `within` s."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            if self._child.poll() is not None if self._child else not self._supervisor.alive():
                return True
            time.sleep(0.005)
        return False

    def request_stop(self) -> None:
        """Ask the supervisor, ours or that of a kept process, to stop the node; do not wait."""
        if self._child:
            assert self._child.stdin
            self._child.stdin.close()
        elif self._supervisor.alive():
            os.kill(self._supervisor.pid, signal.SIGTERM)


def _descendants(pid: int) -> list[Identity]:
    """Return the descendants of a process, parents first, without descendants that end meanwhile."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                children.setdefault(int(stat_fields(int(entry.name))[1]), []).append(int(entry.name))
    descendants = list(children.get(pid, ()))
    for descendant in descendants:
        descendants += children.get(descendant, ())
    identities = []
    for descendant in descendants:
        with contextlib.suppress(OSError):
            identities.append(Identity.of(descendant))
    return identities


def _send(identity: Identity, number: signal.Signals) -> None:
    """Send the signal `number` to a process, unless it has ended."""
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
