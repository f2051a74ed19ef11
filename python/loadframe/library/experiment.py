"""An experiment: its definition, and its recorded runs, merged over any selection."""

import math
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.analyze.experiment import EXPERIMENT_FILE, RecordedExperiment, read_experiment
from loadframe.analyze.experiment import RecordedRun as DesignedRun
from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.cluster import ClusterSpec, Limits
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.experiment import Experiment as PlannedExperiment
from loadframe.experiment.file.reader import experiment_of, load_experiment
from loadframe.library.arguments import Positive, Seconds, checked, listed
from loadframe.library.options import USUAL_EXPORT, ExportFormat
from loadframe.library.plots import ExperimentPlots
from loadframe.library.reports import (
    Exported,
    Report,
    export_report,
    not_recorded,
    read_report,
    recover,
    strong_weak_report,
)
from loadframe.library.run import EVENT_COLUMNS, Run, histograms_table, operations_table, percentiles_table
from loadframe.library.tables import Table, cell, column_of, concatenate, table_of, with_columns
from loadframe.library.times import Kind, Times, selected
from loadframe.library.workload import Workload, merged, save_keys
from loadframe.record import Run as RecordedRun
from loadframe.record.schema import MANIFEST_FILE
from loadframe.store.base import nearest_first
from loadframe.yamlfile import did_you_mean, document_of

if TYPE_CHECKING:
    import pyarrow as pa


class Experiment:
    """An experiment: defined by the keys of an experiment file, or opened with its recorded runs.

    `loadframe.run` carries it out. A recorded experiment yields its runs on iteration; `experiment["..."]` is the run
    with that name. Its tables have the columns `run` and the factors in front; a factor is `factor.NAME` in a table
    that has a column NAME of its own. BadInput names the key of an error. A trailing underscore is removed from keyword
    arguments, as in `with_`.

    >>> planned = loadframe.Experiment(
    ...     experiment="clients",
    ...     kind="scale",
    ...     store={"kind": "sim"},
    ...     workload=workload,
    ...     factors={"clients": [1, 2]},
    ... )
    >>> len(planned.design)
    2
    >>> experiment = loadframe.open("results/nodes")
    >>> experiment.runs.to_polars().select("nodes", "clients", "valid").height
    4
    >>> experiment.response_times(where={"nodes": 2}).percentile(99) > 0
    True
    """

    @checked
    def __init__(self, keys: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Check the experiment that the keys define. `workload` is a name, a path or a `Workload`.

        Keyword arguments override `keys`. BadInput for an invalid experiment.
        """
        written = merged(keys, more)
        workload = written.get("workload")
        given = workload._loaded if isinstance(workload, Workload) else None
        if given:
            written["workload"] = given.name
        self._define(experiment_of(document_of(written, "Experiment"), given))

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> "Experiment":
        """Load and check an experiment file. `loadframe.open` opens the folder of its results."""
        experiment = cls.__new__(cls)
        experiment._define(load_experiment(Path(path)))
        return experiment

    @classmethod
    def demo(cls) -> "Experiment":
        """Return the experiment of `loadframe demo` on this machine. BadInput if it has neither CPU limits nor 3 cores.

        It starts real nodes for about five minutes.
        """
        experiment = cls.__new__(cls)
        experiment._define(load_demo())
        return experiment

    @classmethod
    def _opened(cls, path: Path) -> "Experiment":
        """Return the recorded experiment in a folder; BadInput if the folder is not one."""
        experiment = cls.__new__(cls)
        experiment._planned, experiment._recorded = None, read_experiment(path)
        return experiment

    def _define(self, planned: PlannedExperiment) -> None:
        """Set the checked definition of an experiment without recorded runs."""
        self._planned: PlannedExperiment | None = planned
        self._recorded: RecordedExperiment | None = None

    @property
    def _folder(self) -> RecordedExperiment:
        """The recorded experiment; BadInput without recorded runs."""
        if self._recorded is None:
            raise BadInput(
                f"the experiment {self.name} has no recorded runs here",
                remedy="run it with loadframe.run, or open its folder with loadframe.open",
            )
        return self._recorded

    @property
    def path(self) -> Path:
        """The folder of the recorded experiment; BadInput without recorded runs."""
        return self._folder.path

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return str(self.description["experiment"])

    @property
    def kind(self) -> str:
        """`scale`, `capacity`, `elastic`, `settings` or `compare`."""
        return str(self.description["kind"])

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """The content of experiment.json: the keys of the file, the design and, once recorded, the sessions."""
        if self._recorded:
            return self._recorded.description
        assert self._planned
        return describe(self._planned, design(self._planned))

    @property
    def factors(self) -> dict[str, list[Any]]:
        """The levels of each factor, by its name."""
        return {name: list(levels) for name, levels in self.description["factors"].items()}

    @property
    def design(self) -> Table:
        """A row for each planned run, and each further one of the record: its block and its factors."""
        rows = [{"run": it["run"], "block": it["block"]} for it in self._entries]
        return Table("design", lambda: self._with_factors(rows, ("run", "block")))

    @property
    def _entries(self) -> list[Mapping[str, Any]]:
        """The planned runs, and further ones of the record: mappings with name (`run`), `block` and `treatment`."""
        return [*self.description["design"], *self.description.get("further", [])]

    @cached_property
    def _levels(self) -> "dict[str, dict[str, pa.Scalar]]":
        """The level of each factor by run and factor. A factor has the same type in all runs, and so in all tables."""
        treatments = {it["run"]: it["treatment"] for it in self._entries}
        names = dict.fromkeys(name for treatment in treatments.values() for name in treatment)
        columns = {name: column_of([treatment.get(name) for treatment in treatments.values()]) for name in names}
        return {run: {name: column[row] for name, column in columns.items()} for row, run in enumerate(treatments)}

    def _factor_columns(self, taken: Collection[str]) -> dict[str, str]:
        """Return the name of each factor's column: NAME, or `factor.NAME` if another column `taken` has that name."""
        names = next(iter(self._levels.values()), {})
        return {name: f"factor.{name}" if name in taken else name for name in names}

    def _with_factors(
        self, rows: Sequence[Mapping[str, Any]], first: Sequence[str], later: Sequence[str] = ()
    ) -> "pa.Table":
        """Return rows of runs as a table with the factors after the columns `first`.

        The columns `first` and `later` exist even without rows.
        """
        columns = self._factor_columns({*first, *later, *(key for row in rows for key in row)})
        levels = {
            run: {columns[name]: level.as_py() for name, level in of_run.items()}
            for run, of_run in self._levels.items()
        }
        return table_of([{**row, **levels[row["run"]]} for row in rows], (*first, *columns.values(), *later))

    def planned(self) -> PlannedExperiment:
        """Return the checked definition; BadInput if the experiment was opened from its results.

        Not part of the stable interface.
        """
        if self._planned is None:
            raise BadInput(
                f"the experiment {self.name} was opened from its results",
                remedy="load its file with Experiment.load, or define it again",
            )
        return self._planned

    @checked
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the keys to an experiment file and return its path. A `Workload` needs a file of its own.

        BadInput for a recorded experiment.
        """
        if self._planned is None:
            raise BadInput(
                "a recorded experiment is not written again", remedy="read its file with description['file']"
            )
        return save_keys(self._planned.document.data, Path(path))

    @cached_property
    def runs(self) -> Table:
        """A row for each run of the design: factors, status, validity, reason (`why`), figures of measured phases."""
        runs = self._folder.runs
        return Table("runs", lambda: self._with_factors([_run_row(run) for run in runs], ("run", "block")))

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
        """Events of all runs, such as changes of the cluster. Nested values are JSON.

        `nodes` is the column of an event's nodes, so the factor `nodes` is `factor.nodes` here.
        """
        runs = [(run.id, run.run.path) for run in self._folder.runs if run.run]

        def content() -> "pa.Table":
            """Return the events of all runs as one table."""
            # Events have different fields, so the types of their columns depend on all runs.
            rows = [{**event, "run": name} for name, path in runs for event in RecordedRun(path).events]
            return self._with_factors(rows, ("run",), EVENT_COLUMNS)

        return Table("events", content)

    @checked
    def response_times(
        self,
        *,
        operation: str | None = None,
        phase: str | None = None,
        where: Mapping[str, object] | None = None,
        runs: str | Iterable[str] | None = None,
        start: Seconds = 0.0,
        end: Seconds = math.inf,
    ) -> Times:
        """Return the response times of successes, merged over the valid runs.

        `where` selects the levels of factors; `runs` names runs, valid or not. BadInput for an unknown name or level.
        See `Run.response_times` for the rest.

        >>> loadframe.open("results/nodes").response_times(where={"nodes": 1, "clients": 2}).count > 0
        True
        """
        return self._times("response", operation, phase, where, runs, start, end)

    @checked
    def service_times(
        self,
        *,
        operation: str | None = None,
        phase: str | None = None,
        where: Mapping[str, object] | None = None,
        runs: str | Iterable[str] | None = None,
        start: Seconds = 0.0,
        end: Seconds = math.inf,
    ) -> Times:
        """Return the service times of successes, with the selection of `response_times`."""
        return self._times("service", operation, phase, where, runs, start, end)

    @checked
    def failure_times(
        self,
        *,
        operation: str | None = None,
        phase: str | None = None,
        where: Mapping[str, object] | None = None,
        runs: str | Iterable[str] | None = None,
        start: Seconds = 0.0,
        end: Seconds = math.inf,
    ) -> Times:
        """Return the response times of failures, with the selection of `response_times`."""
        return self._times("failure", operation, phase, where, runs, start, end)

    def _times(
        self,
        kind: Kind,
        operation: str | None,
        phase: str | None,
        where: Mapping[str, object] | None,
        runs: str | Iterable[str] | None,
        start: float,
        end: float,
    ) -> Times:
        """Return merged times of one kind, with the selection of `response_times`."""
        chosen = self._chosen(where or {}, runs)
        return selected((RecordedRun(run.path) for run in chosen), kind, phase, operation, start, end)

    def _chosen(self, where: Mapping[str, object], runs: str | Iterable[str] | None) -> list[RecordedRun]:
        """Return the recorded runs at the levels `where`: the named `runs`, or else all runs that figures include.

        BadInput for an unknown factor, level or run.
        """
        known = list(dict.fromkeys(name for run in self._folder.runs for name in run.treatment))
        for name in where:
            if name not in known:
                raise BadInput(f"unknown factor {name!r}", where="where", remedy=did_you_mean(name, known))
            levels = [run.treatment[name] for run in self._folder.runs if name in run.treatment]
            if where[name] not in levels:
                remedy = f"its levels are {nearest_first(repr(where[name]), dict.fromkeys(map(repr, levels)))}"
                raise BadInput(f"unknown level {where[name]!r} of {name}", where="where", remedy=remedy)
        candidates = self._folder.used if runs is None else [self._designed(name) for name in listed(runs)]
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
        """Return the table `name`: `read(run)` of all recorded runs joined, with columns run and factors in front."""
        runs = [(run.id, run.run.path) for run in self._folder.runs if run.run]

        def content() -> "pa.Table":
            """Read the tables of all runs and join them, with the columns `run` and the factors in front."""
            import pyarrow as pa

            # Fresh runs, so that the content of each is freed.
            tables = {name: read(RecordedRun(path)) for name, path in runs}
            columns = self._factor_columns({"run", *(name for table in tables.values() for name in table.column_names)})
            return concatenate(
                [
                    with_columns(
                        table,
                        {"run": pa.scalar(run), **{columns[name]: at for name, at in self._levels[run].items()}},
                    )
                    for run, table in tables.items()
                ]
            )

        return Table(name, content)

    @checked
    def report(
        self, *, bands: Sequence[Positive] = (), beside: "str | os.PathLike[str] | Experiment | None" = None
    ) -> Report:
        """Return the report: a page, its summary and its values. `beside`: a second, for strong and weak scaling.

        `bands` are upper bounds of latency buckets, s. Of the experiment and `beside`, which may be a folder, one has
        strong and one has weak scaling.
        """
        if beside is None:
            return read_report(self.path, bands)
        if bands:
            raise BadInput("bands and beside contradict each other", remedy="give one of them")
        return strong_weak_report(self.path, _folder_of(beside))

    def conclusion(self) -> str:
        """Return a sentence on whether more nodes answer more requests, or why the runs do not show that.

        BadInput unless it is a recorded scale experiment over nodes, with one measured phase and no factor besides
        `nodes` and `clients`.
        """
        from loadframe.analyze.scale.sweep import read_sweep
        from loadframe.report.scale_words import conclusion

        path = self.path
        curves = read_sweep(path) if self.kind == "scale" and "nodes" in self.factors else None
        if curves is None or len(curves.curves) != 1:
            raise BadInput(
                "this is not a scale experiment with one curve over nodes",
                where=str(path),
                remedy="read the answers in its report",
            )
        return conclusion(curves)

    @checked
    def export(
        self,
        folder: str | os.PathLike[str],
        *,
        formats: ExportFormat | Sequence[ExportFormat] = USUAL_EXPORT,
        bands: Sequence[Positive] = (),
    ) -> Exported:
        """Write the report's plots and tables, the answer and BibTeX entries to a folder.

        Creates the folder and replaces existing files. PDF and PNG need the extra `figures`.
        """
        return export_report(self.path, Path(folder), listed(formats), bands)

    @property
    def plot(self) -> ExperimentPlots:
        """The plots of the report, by name."""
        return ExperimentPlots(self.path, self.kind)

    @checked
    def __getitem__(self, name: str) -> Run:
        """Return the run with this name; BadInput if it does not exist or is not recorded."""
        run = self._designed(name)
        if run.run is None:
            raise BadInput(f"the run {name} is not recorded yet", where=str(self.path), remedy="run the experiment")
        return Run(run.run.path)

    def __iter__(self) -> Iterator[Run]:
        """Yield the recorded runs in the order of the design; BadInput if the experiment is not recorded."""
        return (Run(run.run.path) for run in self._folder.runs if run.run)

    def __len__(self) -> int:
        """Return the number of recorded runs; BadInput if the experiment is not recorded."""
        return sum(run.run is not None for run in self._folder.runs)

    def __bool__(self) -> bool:
        """Return True, also without runs."""
        return True

    def __repr__(self) -> str:
        return f"<Experiment {self.name}: {self._state()}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: name, state, and the table of runs or, if not recorded, of the design."""
        shown = self.runs if self._recorded else self.design
        return f"<p><b>Experiment {cell(self.name)}</b>: {self._state()}</p>{shown._repr_html_()}"

    def _state(self) -> str:
        """Return kind and runs as text: `scale, 12 runs planned`, or if recorded `scale, 9 of 12 runs valid`."""
        if self._recorded is None:
            return f"{self.kind}, {counted(len(self.design), 'run')} planned"
        valid = sum(run.sound for run in self._folder.runs)
        return f"{self.kind}, {valid} of {counted(len(self._folder.runs), 'run')} valid"


def _run_row(run: DesignedRun) -> dict[str, Any]:
    """Return the row of a run: its status and the figures of its measured phases.

    Throughput is 1/s. A phase with exactly one operation also has p50 and p99 of its response times, s.
    """
    row: dict[str, Any] = {"run": run.id, "block": run.block, "status": run.status, "valid": run.sound}
    row["why"] = None if run.sound and not run.reasons else run.why
    for phase in run.run.summary.measured if run.run else ():
        row[f"{phase.name}.throughput"] = phase.throughput
        if len(phase.single) == 1:
            (operation,) = phase.single.values()
            row |= {f"{phase.name}.response_{name}": operation.response.at(name) for name in ("p50", "p99")}
    return row


@checked
def _folder_of(beside: str | os.PathLike[str] | Experiment) -> Path:
    """Return the folder of a recorded experiment; BadInput, which names `beside`, for a run."""
    return beside.path if isinstance(beside, Experiment) else Path(beside)


@checked
def open(path: str | os.PathLike[str]) -> Run | Experiment:  # noqa: A001 - the name is `loadframe.open`
    """Open the folder of a run or an experiment. BadInput if it is neither, or is damaged.

    The records of a killed run are recovered first.

    >>> loadframe.open("results/tail").status
    'done'
    >>> loadframe.open("results/nodes")
    <Experiment simulated: scale, 4 of 4 runs valid>
    """
    folder = Path(path)
    recover(folder)
    if (folder / EXPERIMENT_FILE).is_file():
        return Experiment._opened(folder)
    if folder.is_dir() and not (folder / MANIFEST_FILE).is_file():
        raise not_recorded(folder)
    return Run(folder)


#: Cluster sizes in demo.yaml. Without CPU limits, only sizes with a core for each node and the generator are used.
_DEMO_NODES = (1, 2, 4)


def load_demo() -> PlannedExperiment:
    """Return the demo experiment for this machine; BadInput without CPU limits and with fewer than three cores."""
    _, obstacle = ClusterSpec().place().machines[0].limited_by(Limits(cpus=0.1), Path.cwd())
    text = demo_text(sorted(os.sched_getaffinity(0)), obstacle)
    with tempfile.TemporaryDirectory(prefix="loadframe-demo-") as folder:
        path = Path(folder) / "demo.yaml"
        path.write_text(text, encoding="utf-8")
        return load_experiment(path)


def demo_text(cores: Sequence[int], obstacle: str | None) -> str:
    """Return the demo's experiment file for a machine with these usable cores.

    `obstacle` is the reason why CPU limits cannot be enforced; None if they can. Without limits, fewer than three cores
    raise BadInput.
    """
    text = (files("loadframe.experiment") / "demo.yaml").read_text(encoding="utf-8")
    if obstacle is None:
        # The first core is reserved for the generator, unless it is the only one.
        others = f", cores: {_core_list(cores[1:])}" if len(cores) > 1 else ""
        return _with_change(text, ", cores: 1}", others + "}")
    nodes = [number for number in _DEMO_NODES if number < len(cores)]
    if len(nodes) < 2:
        count = counted(len(cores), "core")
        raise BadInput(
            f"the demo needs CPU limits, which cannot be enforced here, or three cores: one for each of two nodes and"
            f" one for the generator. This machine has {count}",
            where=obstacle,
            remedy="run it as root or on a machine with more cores; with systemd, try `systemd-run --user --scope -p"
            " Delegate=yes loadframe demo`",
        )
    text = re.sub(r"limits: \{.*\}", "limits: {cores: 1 each}", text)
    return _with_change(text, f"nodes: {list(_DEMO_NODES)}", f"nodes: {nodes}")


def _with_change(text: str, before: str, after: str) -> str:
    """Return the text with `before`, which must occur exactly once, replaced by `after`."""
    assert text.count(before) == 1, f"demo.yaml must contain {before!r} exactly once"
    return text.replace(before, after)


def _core_list(cores: Collection[int]) -> str:
    """Return core numbers in the syntax of the file: `1`, or `"1,2,3"`."""
    words = ",".join(map(str, cores))
    return words if len(cores) == 1 else f'"{words}"'
