"""Calibration of the load generator on this machine, as tables and text."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.table import Table as Grid

from loadframe.base import folders
from loadframe.base.errors import BadInput, GeneratorFailed
from loadframe.base.units import format_count, format_duration, format_share
from loadframe.library.arguments import checked, listed
from loadframe.library.progress import Callback, Progress
from loadframe.library.tables import Answer, Table, table_of
from loadframe.load import calibrate as measuring
from loadframe.load import present
from loadframe.ranks.launch import PROGRAM
from loadframe.report.labels import seconds_text
from loadframe.yamlfile import did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from loadframe.ranks.children import ChildOfRank

#: Minimum share of the offered rate at which lateness is meaningful.
_ACHIEVED = 0.99


class Calibration(Answer):
    """The limits of the load generator on a machine, and with ranks on each of their machines.

    >>> calibration = loadframe.calibrate(quick=True, drivers=["http"])
    >>> calibration.drivers.columns[:3]
    ['driver', 'requests', 'cpu_per_request']
    >>> calibration.doubt is None
    False
    """

    def __init__(
        self,
        calibration: measuring.Calibration,
        stored: "Path | None" = None,
        machines: "Mapping[str, Calibration] | None" = None,
    ) -> None:
        """Create the result of a calibration; `stored` is the file for later verdicts, None if it is not stored.

        `machines` has the results of the other machines with ranks, by name.
        """
        others = {name: other._values() for name, other in (machines or {}).items()}
        self._calibration = calibration
        super().__init__(
            {**self._values(), "kept": stored and str(stored), **({"machines": others} if others else {})}, self._print
        )
        #: The file for later verdicts; None if the figures are not stored.
        self.stored = stored
        #: The results of the other machines with ranks, by name; empty without ranks.
        self.machines = dict(machines or {})

    def _values(self) -> dict[str, Any]:
        """Return the figures of this machine alone, with the doubt about them."""
        return {**self._calibration.as_dict(), "doubt": self.doubt}

    @property
    def doubt(self) -> str | None:
        """The reason why verdicts must not use the figures; None if they may."""
        return self._calibration.doubt

    @cached_property
    def drivers(self) -> Table:
        """A row for each driver: requests and documents per second of one core, and CPU time of each, s.

        `reached` is the number of requests that one worker sent per second of wall time.
        """
        names = ("requests", "cpu_per_request", "reached", "documents", "cpu_per_document")
        rows = [
            {"driver": driver, **{name: getattr(ceiling, name) for name in names}}
            for driver, ceiling in self._calibration.drivers.items()
        ]
        return Table("drivers", lambda: table_of(rows, ("driver", *names)))

    @cached_property
    def lateness(self) -> Table:
        """A row for each driver and offered rate (1/s): time from scheduled to sent, s, and the achieved share."""
        names = ("rate", "p50", "p99", "achieved")
        rows = [
            {"driver": driver, **{name: getattr(lateness, name) for name in names}}
            for driver, ceiling in self._calibration.drivers.items()
            for lateness in ceiling.lateness
        ]
        return Table("lateness", lambda: table_of(rows, ("driver", *names)))

    @property
    def warnings(self) -> list[str]:
        """Doubts about the figures, as sentences; those about other machines begin with the machine."""
        warnings = []
        if self._calibration.machine["usable"] == 1:
            warnings.append("Generator and server shared the only core, which increases the lateness.")
        if self.doubt:
            sentence = f"Verdicts do not use these figures: {self.doubt}."
            if not self._calibration.quick:
                sentence += " Stop other programs on this machine, and calibrate again."
            warnings.append(sentence)
        others = (f"{name}: {words}" for name, other in self.machines.items() for words in other.warnings)
        return [*warnings, *others]

    def _print(self, console: "Console") -> None:
        """Print two tables with a row for each driver: rates and CPU times per core, and lateness by rate."""
        drivers = self._calibration.drivers.items()
        capacity = Grid(box=None, padding=(0, 3, 0, 0), header_style="dim")
        capacity.add_column("per core")
        for title in ("requests/s", "CPU per request", "documents/s", "CPU per document"):
            capacity.add_column(title, justify="right")
        for name, ceiling in drivers:
            documents = "–" if ceiling.documents is None else format_count(ceiling.documents)
            capacity.add_row(
                name,
                format_count(ceiling.requests),
                format_duration(ceiling.cpu_per_request),
                documents,
                seconds_text(ceiling.cpu_per_document),
            )
        late = Grid(box=None, padding=(0, 3, 0, 0), header_style="dim")
        late.add_column("late at")
        for rate in measuring.RATES:
            late.add_column(f"{rate:,.0f}/s", justify="right")
        for name, ceiling in drivers:
            late.add_row(name, *map(_late, ceiling.lateness))
        console.print(capacity)
        console.print()
        console.print(late)
        console.print("late: from scheduled to sent, median and 99th percentile", style="dim", highlight=False)
        for machine, other in self.machines.items():
            console.print(f"\n{machine}", markup=False, highlight=False)
            other.show(console)


def _late(lateness: measuring.Lateness) -> str:
    """Return the median and p99 of lateness as text, or the achieved share of the rate if it is below 99 %."""
    if lateness.achieved < _ACHIEVED:
        return f"{format_share(lateness.achieved)} reached"
    return f"{format_duration(lateness.p50)}, {format_duration(lateness.p99)}"


@checked
def calibrate(
    *, quick: bool = False, drivers: str | Sequence[str] = (), progress: Callback | None = None
) -> Calibration:
    """Measure the load generator's own limits on this machine, against a server that does nothing.

    It takes two minutes, with `quick` 40 s for rough figures that verdicts do not use; keep the machine idle. The
    figures are stored, unless a quick calibration would replace a complete one, and later verdicts use them. `drivers`
    limits the measurement to some drivers (BadInput for unknown names); its figures are not stored, and other
    machines with ranks are not measured. GeneratorFailed if the measurement fails on another machine.

    >>> loadframe.calibrate(quick=True, drivers=["null"]).drivers.to_polars()["driver"].to_list()
    ['null']
    """
    known = measuring.measurable()
    for name in listed(drivers):
        if name not in known:
            raise BadInput(f"unknown driver {name!r}", where="drivers", remedy=did_you_mean(name, known))
    chosen = [name for name in known if name in listed(drivers)] if drivers else known

    def tell(name: str, index: int, total: int) -> None:
        if progress:
            progress(Progress("step", name, index=index, total=total))

    elsewhere = _start_elsewhere(quick) if chosen == known else {}
    calibration = measuring.calibrate(chosen, quick=quick, tell=tell)
    # Another machine may fail.
    stored = calibration.save(folders.cache()) if chosen == known else None
    return Calibration(
        calibration, stored, {machine: _finished(machine, program) for machine, program in elsewhere.items()}
    )


def _start_elsewhere(quick: bool) -> dict[str, "ChildOfRank"]:
    """Start `calibrate --json` (with `quick`, also `--quick`) through one rank of every other machine that has ranks.

    Returns the handles of the programs by machine; empty without ranks.
    """
    hub = present()
    if hub is None:
        return {}
    here, *others = hub.ranks()
    first = {rank.machine: rank.rank for rank in reversed(others) if rank.machine != here.machine}
    command = [*PROGRAM, "calibrate", "--json", *(["--quick"] if quick else [])]
    return {machine: hub.start(first[machine], command) for machine in sorted(first)}


def _finished(machine: str, program: "ChildOfRank") -> Calibration:
    """Wait for the command on another machine and return its figures. GeneratorFailed if it fails."""
    output = b"".join(iter(program.receive, b""))
    if program.status() != 0:
        raise GeneratorFailed(f"calibration failed: {program.words()}", where=machine)
    result = json.loads(output)
    return Calibration(
        measuring.Calibration.from_dict({key: result[key] for key in result if key not in ("doubt", "kept")})
    )
