"""An experiment: its recorded runs, merged over any selection."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.analyze.experiment import RecordedExperiment, read_experiment
from loadframe.analyze.experiment import RecordedRun as DesignedRun
from loadframe.base.errors import BadInput
from loadframe.library.run import Run, events_table, histograms_table, operations_table, percentiles_table
from loadframe.library.tables import Table, cell, concatenate, table_of, with_columns
from loadframe.library.times import Kind, Times, selected
from loadframe.record import Run as RecordedRun
from loadframe.yamlfile import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa


class Experiment:
    """The folder of an experiment. Opening it reads its description; runs are read on first use.

    Iteration yields its recorded runs; `experiment["..."]` is the run with that name. Tables have the columns `run` and
    the factors in front.

    >>> experiment = loadframe.open("results/nodes")
    >>> experiment.runs.to_polars().select("nodes", "clients", "valid").height
    4
    >>> experiment.response_times(where={"nodes": 2}).percentile(99) > 0
    True
    """

    _folder: RecordedExperiment

    @classmethod
    def _opened(cls, path: Path) -> "Experiment":
        """Return the experiment in a folder; BadInput if it is not one."""
        experiment = cls.__new__(cls)
        experiment._folder = read_experiment(path)
        return experiment

    @property
    def path(self) -> Path:
        """The folder of the experiment."""
        return self._folder.path

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return str(self.description["experiment"])

    @property
    def kind(self) -> str:
        """`scale`, `capacity`, `elastic`, `settings` or `compare`."""
        return str(self.description["kind"])

    @property
    def description(self) -> Mapping[str, Any]:
        """The content of experiment.json: the keys of the file, the design and the sessions."""
        return self._folder.description

    @property
    def factors(self) -> dict[str, list[Any]]:
        """The levels of each factor."""
        return {name: list(levels) for name, levels in self.description["factors"].items()}

    @cached_property
    def runs(self) -> Table:
        """A row for each run of the design: factors, status, validity, reason and figures of its measured phases."""
        return Table("runs", lambda: table_of([_run_row(run) for run in self._folder.runs], ("run", "block")))

    @cached_property
    def operations(self) -> Table:
        """Figures of the measured windows: a row for each run, phase and operation."""
        return self._merged("operations", operations_table)

    @cached_property
    def seconds(self) -> Table:
        """Counts and response times: a row for each run, phase, stream, operation, segment and second."""
        return self._merged("seconds", lambda run: run.series)

    @cached_property
    def histograms(self) -> Table:
        """Times of the measured windows: a row for each run, phase, operation, kind, second and recorded value."""
        return self._merged("histograms", histograms_table)

    @cached_property
    def percentiles(self) -> Table:
        """Percentiles of response times with 95 % intervals: a row for each run, phase, operation and percentile."""
        return self._merged("percentiles", percentiles_table)

    @cached_property
    def telemetry(self) -> Table:
        """Samples of nodes, processes and the load generator: a row for each run and sample."""
        return self._merged("telemetry", lambda run: run.telemetry)

    @cached_property
    def events(self) -> Table:
        """Events of all runs, such as changes of the cluster. Nested values are JSON."""
        return self._merged("events", events_table)

    def response_times(
        self,
        *,
        operation: str | None = None,
        phase: str | None = None,
        where: Mapping[str, object] | None = None,
        runs: Iterable[str] | None = None,
        start: float = 0.0,
        end: float = math.inf,
    ) -> Times:
        """Return the response times of successes, merged over the valid runs.

        `where` selects the levels of factors; `runs` names runs, valid or not. See `Run.response_times` for the rest.

        >>> loadframe.open("results/nodes").response_times(where={"nodes": 1, "clients": 2}).count > 0
        True
        """
        return self._times("response", operation, phase, where, runs, start, end)

    def service_times(
        self,
        *,
        operation: str | None = None,
        phase: str | None = None,
        where: Mapping[str, object] | None = None,
        runs: Iterable[str] | None = None,
        start: float = 0.0,
        end: float = math.inf,
    ) -> Times:
        """Return the service times of successes, with the selection of `response_times`."""
        return self._times("service", operation, phase, where, runs, start, end)

    def failure_times(
        self,
        *,
        operation: str | None = None,
        phase: str | None = None,
        where: Mapping[str, object] | None = None,
        runs: Iterable[str] | None = None,
        start: float = 0.0,
        end: float = math.inf,
    ) -> Times:
        """Return the response times of failures, with the selection of `response_times`."""
        return self._times("failure", operation, phase, where, runs, start, end)

    def _times(
        self,
        kind: Kind,
        operation: str | None,
        phase: str | None,
        where: Mapping[str, object] | None,
        runs: Iterable[str] | None,
        start: float,
        end: float,
    ) -> Times:
        chosen = self._chosen(where or {}, runs)
        return selected((RecordedRun(run.path) for run in chosen), kind, phase, operation, start, end)

    def _chosen(self, where: Mapping[str, object], runs: Iterable[str] | None) -> list[RecordedRun]:
        """Return the recorded runs at some levels: those named, or else those that figures include."""
        known = list(dict.fromkeys(name for run in self._folder.runs for name in run.treatment))
        for name in where:
            if name not in known:
                raise BadInput(f"unknown factor {name!r}", where="where", remedy=did_you_mean(name, known))
        candidates = self._folder.used if runs is None else [self._designed(name) for name in runs]
        at_levels = [run for run in candidates if all(run.treatment.get(name) == at for name, at in where.items())]
        return [run.run for run in at_levels if run.run]

    def _designed(self, name: str) -> DesignedRun:
        """Return a run of the design by name; BadInput if it does not exist."""
        for run in self._folder.runs:
            if run.id == name:
                return run
        raise BadInput(
            f"unknown run {name!r}",
            where=str(self.path),
            remedy=did_you_mean(name, [run.id for run in self._folder.runs]),
        )

    def _merged(self, name: str, read: "Callable[[RecordedRun], pa.Table]") -> Table:
        def content() -> "pa.Table":
            # Fresh runs, so that the content of each is freed.
            return concatenate(
                [
                    with_columns(read(RecordedRun(run.run.path)), {"run": run.id, **_factors(run)})
                    for run in self._folder.runs
                    if run.run
                ]
            )

        return Table(name, content)

    def __getitem__(self, name: str) -> Run:
        """Return the run with this name; BadInput if it does not exist or is not recorded."""
        run = self._designed(name)
        if run.run is None:
            raise BadInput(f"the run {name} is not recorded yet", where=str(self.path), remedy="run the experiment")
        return Run(run.run.path)

    def __iter__(self) -> Iterator[Run]:
        """Yield the recorded runs in the order of the design."""
        return (Run(run.run.path) for run in self._folder.runs if run.run)

    def __len__(self) -> int:
        """Return the number of recorded runs."""
        return sum(run.run is not None for run in self._folder.runs)

    def __bool__(self) -> bool:
        """Return True, also without runs."""
        return True

    def __repr__(self) -> str:
        return f"<Experiment {self.name}: {self._state()}>"

    def _repr_html_(self) -> str:
        return f"<p><b>Experiment {cell(self.name)}</b>: {self._state()}</p>{self.runs._repr_html_()}"

    def _state(self) -> str:
        valid = sum(run.sound for run in self._folder.runs)
        return f"{self.kind}, {valid} of {len(self._folder.runs)} runs valid"


#: Columns of tables that a factor may not replace.
_OWN = {"run", "block", "status", "valid", "why", "phase", "operation", "stream", "segment", "kind", "time", "value"}


def _factors(run: DesignedRun) -> dict[str, Any]:
    """Return the columns of a run's treatment."""
    return {f"factor.{name}" if name in _OWN else name: level for name, level in run.treatment.items()}


def _run_row(run: DesignedRun) -> dict[str, Any]:
    """Return the row of a run: its factors, its status, and the figures of its measured phases."""
    row: dict[str, Any] = {"run": run.id, "block": run.block, **_factors(run), "status": run.status, "valid": run.sound}
    row["why"] = None if run.sound and not run.reasons else run.why
    for phase in run.run.summary.measured if run.run else ():
        row[f"{phase.name}.throughput"] = phase.throughput
        if len(phase.single) == 1:
            (operation,) = phase.single.values()
            row |= {f"{phase.name}.response_{name}": operation.response.at(name) for name in ("p50", "p99")}
    return row
