"""The user's command that changes the number of nodes of an existing cluster, and the check of its effect."""

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from loadframe.base import interrupts
from loadframe.base.errors import BadInput, StoreFailed
from loadframe.base.units import format_duration, format_nodes
from loadframe.cluster.view import miscounted, unready
from loadframe.store import Balancing, Health
from loadframe.store.access import split_address

#: Placeholder of the number of nodes.
NODES = "{nodes}"
#: Default time limit of a change, until the store reports the new number of nodes, s.
SCALED_WITHIN = 600.0
#: Interval between two polls of the command and of the store, s.
_POLL = 0.2
#: Time without moving data that means "balanced", s: a store starts to move data a moment after a node has joined.
_CALM = 4.0
#: Waits that take longer than this are reported, s.
_UNREPORTED = 3.0
#: Longest part of the command's error output in a message.
_SHOWN = 200

#: Called at each poll during a change; raises LoadframeError to abort it.
Progress = Callable[[str, Balancing], None]
#: Called with each line of progress.
Report = Callable[[str], None]


def _silent(_text: str) -> None:
    """Ignore a line of progress."""


def _quiet(_what: str, _progress: Balancing) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class ScaleCommand:
    """Command with the placeholder `{nodes}`, run in `folder`.

    Lines of its output that are `host:port` replace the cluster's addresses.
    """

    command: str
    folder: Path
    within: float = SCALED_WITHIN  #: time limit of a change, and then of moving data, s

    def require(self) -> None:
        """Raise BadInput if the command lacks `{nodes}` or has an open quote, or its program cannot be executed."""
        if NODES not in self.command:
            raise BadInput(
                f"the command does not contain {NODES}",
                where=f"scale_command {self.command}",
                remedy=f"write where the number of nodes belongs, such as ./scale.sh {NODES}",
            )
        try:
            program = self._words(1)[0]
        except ValueError as error:
            raise BadInput(
                f"cannot split the command into words: {error}",
                where=f"scale_command {self.command}",
                remedy="close each quote, or write \\\\ for a backslash",
            ) from error
        folders = [self.folder] if "/" in program else [Path(folder) for folder in os.get_exec_path()]
        candidates = [folder / program for folder in folders if (folder / program).is_file()]
        if not any(os.access(file, os.X_OK) for file in candidates):
            why = "it is not executable" if candidates else "no such program"
            remedy = f"write its path relative to {self.folder.absolute()}"
            raise BadInput(
                f"cannot execute {program}: {why}",
                where=f"scale_command {self.command}",
                remedy=f"run: chmod +x {shlex.quote(str(candidates[0]))}" if candidates else remedy,
            )

    def carry_out(
        self, nodes: int, health: Callable[[], Health], report: Report = _silent, tell: Progress = _quiet
    ) -> list[str]:
        """Run the command, then wait until the store has `nodes` nodes; return the `host:port`s that it printed.

        `tell` is called every 0.2 s, and so is `health` after the end of the command. `report` gets the command, and
        the state of a wait after 3 s. StoreFailed if the command fails, or if the store does not have that number of
        nodes `within` s after its start. Errors of `health` are raised, KeyboardInterrupt after an interrupt.
        """
        limit = format_duration(self.within)
        report(f"running {self.text(nodes)} for {format_nodes(nodes)}, within {limit}")
        end = time.monotonic() + self.within
        addresses = self._run(nodes, end, tell)
        reporter = _Reporter(f"waiting up to {limit} from its start for {format_nodes(nodes)}", report)
        while differs := miscounted(now := health(), nodes):
            if time.monotonic() > end:
                raise StoreFailed(
                    f"{differs[0]}, {limit} after the start of {self.text(nodes)}",
                    remedy="check the command, or raise store.scale_within",
                )
            reporter.poll(differs)
            self._wait(f"waiting for {format_nodes(nodes)}", now, tell)
        return addresses

    def settle(
        self,
        nodes: int,
        health: Callable[[], Health],
        report: Report = _silent,
        tell: Progress = _quiet,
        *,
        ready: bool = True,
    ) -> float:
        """Wait until the store has moved no data, and with `ready` was ready, for 4 s; return when that began.

        Declared copies that do not fit on `nodes` nodes may be missing. The result is in s of the monotonic clock.
        `report` gets the state after 3 s without balance. StoreFailed if data still moves, or the store is not ready as
        required, `within` s after the call. `health`, whose errors are raised, and `tell` are called every 0.2 s.
        KeyboardInterrupt after an interrupt.
        """
        limit = format_duration(self.within)
        end = time.monotonic() + self.within
        reporter = _Reporter(f"waiting up to {limit} for balanced data", report)
        calm: float | None = None
        while True:
            now, at = health(), time.monotonic()
            if not now.moving and (now.serves_all(nodes) or not ready):
                calm = at if calm is None else calm
                if at - calm >= _CALM:
                    return calm
            elif at > end:
                raise StoreFailed(
                    f"the data is not balanced {limit} after the change: {'; '.join(unready(now, nodes))}",
                    remedy="check the nodes, or raise store.scale_within",
                )
            else:
                calm = None
                reporter.poll(unready(now, nodes))
            self._wait("waiting for balanced data", now, tell)

    def _run(self, nodes: int, end: float, tell: Progress) -> list[str]:
        """Run the command to its end, and return the addresses in its output; StoreFailed if it fails.

        If it does not end before `end` (monotonic clock), or after an interrupt, its process group is killed.
        """
        with TemporaryFile() as output, TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    self._words(nodes),
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                raise StoreFailed(f"cannot execute {self.text(nodes)}: {error.strerror}") from error
            try:
                while process.poll() is None:
                    if time.monotonic() > end:
                        raise StoreFailed(
                            f"{self.text(nodes)} did not end within {format_duration(self.within)}",
                            remedy="check the command, or raise store.scale_within",
                        )
                    self._wait(f"running {self.text(nodes)}", None, tell)
            finally:
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            if process.returncode != 0:
                said = _text(errors).strip()[-_SHOWN:]
                raise StoreFailed(
                    f"{self.text(nodes)} ended with status {process.returncode}{f': {said}' if said else ''}"
                )
            return [line for line in map(str.strip, _text(output).splitlines()) if _is_address(line)]

    @staticmethod
    def _wait(what: str, health: Health | None, tell: Progress) -> None:
        """Report the step `what` and its progress with `tell`, then sleep 0.2 s.

        `health` is None while the command runs. KeyboardInterrupt if an interrupt is pending.
        """
        left, state = (float(health.moving), health.status) if health else (0.0, "")
        tell(what, Balancing(left, "pieces", state))
        interrupts.check()
        time.sleep(_POLL)

    def _words(self, nodes: int) -> list[str]:
        """Return the words of the command with the number of nodes; one empty word for an empty command."""
        return [word.replace(NODES, str(nodes)) for word in shlex.split(self.command)] or [""]

    def text(self, nodes: int) -> str:
        """Return the command with the number of nodes, for messages."""
        return self.command.replace(NODES, str(nodes))


class _Reporter:
    """Reports once, when a wait has taken 3 s, what it waits for and the state of the cluster."""

    def __init__(self, what: str, report: Report) -> None:
        """Begin the wait; `what` names what is awaited and the time limit."""
        self._what = what
        self._report = report
        self._due: float | None = time.monotonic() + _UNREPORTED

    def poll(self, state: Sequence[str]) -> None:
        """Report the wait with the current `state`, as sentences, if it is due."""
        if self._due is not None and time.monotonic() >= self._due:
            self._report(f"{self._what}: {'; '.join(state)}")
            self._due = None


def _text(file: IO[bytes]) -> str:
    """Return the whole content of a file from its beginning, as UTF-8; invalid bytes are replaced."""
    file.seek(0)
    return file.read().decode(errors="replace")


def _is_address(line: str) -> bool:
    """Whether the line is `host:port`, without spaces."""
    try:
        split_address(line)
    except BadInput:
        return False
    return " " not in line
