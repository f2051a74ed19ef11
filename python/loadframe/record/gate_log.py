"""Log of gates in a history folder: one JSON object per line for each gate, and for each change that a user accepts."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.folders import ends_mid_line

GATE_LOG = "gates.jsonl"
_FORMAT = 1
#: Most bytes in the name of a file.
_LONGEST_NAME = 255
#: Begins the criterion of a watched operation.
_WATCH = "watch "
_OUTCOMES = ("passed", "regression", "inconclusive")


@dataclass(frozen=True)
class GateRecord:
    """One gate: its time (ISO 8601), the folder of its runs, their commit, its outcome, and the checks that failed.

    `references` are the speeds of the machine at that time: `cpu` (time of a computation, s), `disk` and `network`
    (B/s). Some can be missing. `criteria` are texts of what the gate checked: `p99: 0.05 0.2` against a baseline with
    these thresholds, `p99 within 0.05`, `watch NAME`. They are empty for gates of earlier versions.
    """

    time: str
    folder: str
    commit: str | None
    outcome: str
    failed: Sequence[str] = ()
    references: Mapping[str, float] = field(default_factory=dict)
    criteria: Sequence[str] = ()

    def is_at(self, name: str) -> bool:
        """Return whether `name` is the folder, the commit, or the first seven or more digits of the commit."""
        return name in (self.folder, self.commit) or (len(name) >= 7 and (self.commit or "").startswith(name))

    @property
    def checked(self) -> frozenset[str]:
        """What the gate checked, without thresholds: `p99` against a baseline, `p99 within` a bound, `watch NAME`."""

        def without_threshold(text: str) -> str:
            """Return the criterion without its thresholds or limit; the name of an operation may look like either."""
            if text.startswith(_WATCH):
                return text
            return text.rpartition(" ")[0] if " within " in text else text.partition(":")[0]

        return frozenset(map(without_threshold, self.criteria))

    def replaces(self, earlier: "GateRecord") -> bool:
        """Return whether both gates have the same commit, and this one checks all criteria of `earlier`.

        Thresholds may differ. It must also watch the earlier one's operations: without `--watch`, their checks are much
        less sensitive. A gate without criteria, as of earlier versions, is replaced only by another without them.
        """
        if self.commit != earlier.commit:
            return False
        return self.checked >= earlier.checked if earlier.criteria else not self.criteria


@dataclass(frozen=True)
class Acceptance:
    """A change that a user accepted: `at` is the commit, run or folder of its first point."""

    time: str
    at: str
    reason: str


@dataclass(frozen=True)
class GateLog:
    """Content of a log. `damaged` are the unreadable lines: number and cause."""

    gates: Sequence[GateRecord] = ()
    accepted: Sequence[Acceptance] = ()
    damaged: Sequence[tuple[int, str]] = ()

    def acceptance(self, folder: str, runs: Collection[str]) -> Acceptance | None:
        """Return the newest acceptance of the changes at a folder, which is the last in the log, or None.

        An acceptance names the folder, the commit of one of its gates (see `is_at`), or one of its `runs`.
        """
        gates = [gate for gate in self.gates if gate.folder == folder]
        names = {folder, *runs} - {""}
        newest_first = reversed(self.accepted)
        return next((it for it in newest_first if it.at in names or any(gate.is_at(it.at) for gate in gates)), None)

    @property
    def refused(self) -> set[str]:
        """Names of folders with a failed gate (regression) that no acceptance covers.

        An acceptance counts if it names the folder or the commit; one that names a run does not count here.
        """
        return {
            gate.folder
            for gate in self.gates
            if gate.outcome == "regression" and not any(gate.is_at(entry.at) for entry in self.accepted)
        }


def read_gate_log(folder: Path) -> GateLog:
    """Read the log of a folder; an empty one if there is none. BadInput if the file cannot be read.

    Damaged lines are listed in `damaged`, by line number and problem.
    """
    path = folder / GATE_LOG
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return GateLog()
    except OSError as error:
        raise BadInput(
            f"the log of gates cannot be read: {error.strerror}", where=str(path), remedy="restore its permissions"
        ) from error
    gates: list[GateRecord] = []
    accepted: list[Acceptance] = []
    damaged = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = _parse(line)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            damaged.append((number, f"lacks {error}" if isinstance(error, KeyError) else "is not a record of a gate"))
            continue
        if isinstance(entry, GateRecord):
            gates.append(entry)
        else:
            accepted.append(entry)
    return GateLog(gates, accepted, damaged)


def missing_folders(folder: Path, names: Iterable[str]) -> list[str]:
    """Return the `names` that are not folders inside `folder`, without duplicates, in order of first appearance."""
    return [name for name in dict.fromkeys(names) if not (folder / name).is_dir()]


def folders_without_gate(folder: Path, log: GateLog) -> list[str]:
    """Return the names of the folders in a history folder that no gate of its log names, sorted; hidden ones never.

    A link to a folder that a gate names is not listed.
    """
    known = {gate.folder for gate in log.gates}
    places = {os.path.realpath(folder / name) for name in known}
    children = (child for child in sorted(folder.glob("[!.]*")) if child.is_dir())
    return [child.name for child in children if os.path.realpath(child) not in places]


def add_to_gate_log(folder: Path, entry: GateRecord | Acceptance) -> None:
    """Append an entry to the log of a folder, on disk; create a missing log. BadInput if it cannot be written.

    A cut-off last line of the log is ended first.
    """
    path = folder / GATE_LOG
    kind = "gate" if isinstance(entry, GateRecord) else "accepted"
    line = json.dumps({"format": _FORMAT, "kind": kind, **vars(entry)}) + "\n"
    try:
        with path.open("ab+") as file:
            # A line that an interrupted command left unfinished must not damage this one.
            if ends_mid_line(file.fileno()):
                line = f"\n{line}"
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BadInput(
            f"the log of gates cannot be written: {error.strerror}", where=str(path), remedy="name another folder"
        ) from error


def _parse(line: str) -> GateRecord | Acceptance:
    """Return the entry in a line of the log. ValueError, TypeError or KeyError if the line is not a valid entry."""
    entry = json.loads(line)
    if entry["format"] != _FORMAT or entry["kind"] not in ("gate", "accepted"):
        raise ValueError
    if entry["kind"] == "accepted":
        return Acceptance(_text(entry["time"]), _text(entry["at"]), _text(entry["reason"]))
    if entry["outcome"] not in _OUTCOMES or not isinstance(entry["references"], dict):
        raise ValueError
    return GateRecord(
        _text(entry["time"]),
        _name(entry["folder"]),
        None if entry["commit"] is None else _text(entry["commit"]),
        _text(entry["outcome"]),
        [_text(name) for name in entry["failed"]],
        {name: _speed(speed) for name, speed in entry["references"].items()},
        [_text(criterion) for criterion in entry.get("criteria", ())],
    )


def _text(value: Any) -> str:
    """Return a text unchanged; TypeError for other values."""
    if not isinstance(value, str):
        raise TypeError
    return value


def _name(value: Any) -> str:
    """Return a text unchanged if a file can have this name; TypeError or ValueError for other values."""
    if "\0" in _text(value) or len(os.fsencode(value)) > _LONGEST_NAME:
        raise ValueError
    return str(value)


def _speed(value: Any) -> float:
    """Return a positive finite number; ValueError for other values."""
    # Booleans are integers in Python, and JSON of Python may hold NaN.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError
    return float(value)
