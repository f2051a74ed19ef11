"""Reports as one HTML page, exports, and runs in formats of other tools."""

import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from loadframe.analyze.experiment import EXPERIMENT_FILE, read_experiment
from loadframe.analyze.percentiles import check_bounds
from loadframe.base.errors import BadInput, NothingUsable
from loadframe.base.units import counted
from loadframe.library.arguments import checked
from loadframe.library.options import ExportFormat, OfRun, OtherTool, RecordsOf
from loadframe.library.tables import Answer
from loadframe.record import Run
from loadframe.record.gate_log import GATE_LOG
from loadframe.record.schema import MANIFEST_FILE, MEMBERS, SAMPLES_FILE

if TYPE_CHECKING:
    from rich.console import Console

    from loadframe.cluster import Cluster

#: Maximum number of runs in an error message.
_NAMED = 5
#: Height of a report in a notebook, in pixels.
_HEIGHT = 800


def save_file(content: str | bytes, path: str | os.PathLike[str]) -> Path:
    """Write a file, also over an existing one, and return its path.

    BadInput if that fails, or if the file is part of a recorded run, experiment or history.
    """
    target = Path(path)
    if target.exists() and target.resolve().name in (*MEMBERS, SAMPLES_FILE, EXPERIMENT_FILE, GATE_LOG):
        raise BadInput("the file is part of a recorded run", where=str(target), remedy="name another file")
    try:
        target.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise BadInput(
            f"the file cannot be written: {error.strerror}", where=str(target), remedy="name another file"
        ) from error
    return target


def default_file(folder: Path, name: str) -> Path:
    """Return the path of a file that a command writes to `folder` by default. BadInput if it is a symbolic link.

    The folder can be a copy from another user: a link in it would make the command overwrite a file elsewhere.
    """
    target = folder / name
    if target.is_symlink():
        raise BadInput(
            "the file is a symbolic link, and writing it would overwrite another file",
            where=str(target),
            remedy="remove the link, or name a file with --output",
        )
    return target


class Report(Answer):
    """A report: a self-contained HTML page, its summary as text, and its values.

    >>> report = loadframe.open("results/nodes").report()
    >>> report.save("results/nodes.html").stat().st_size > 10_000
    True
    >>> report.as_dict()["curves"][0]["speedups"][0]["nodes"]
    1
    """

    def __init__(
        self,
        html: str,
        document: Mapping[str, Any],
        show: "Callable[[Console], None]",
        unanswerable: BadInput | None = None,
    ) -> None:
        """Create the report from its page, its values and the function that prints it.

        `unanswerable` is the error if valid runs cannot answer the question of the experiment, else None.
        """
        super().__init__(document, show)
        self.html = html
        #: The error if valid runs cannot answer the question of the experiment.
        self.unanswerable = unanswerable

    @checked
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page, also over an existing file, and return its path; BadInput if that fails."""
        return save_file(self.html, path)

    def _repr_html_(self) -> str:
        """Return the page in a frame, for a notebook."""
        # A frame keeps the styles of the page out of the notebook.
        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: {_HEIGHT}px; border: 0"'
            ' title="loadframe report"></iframe>'
        )


class Exported(Answer):
    """The files of an export: plots, tables, the answer (`answer.txt`) and BibTeX entries (`software.bib`).

    >>> exported = loadframe.open("results/nodes").export("results/figures", formats="csv")
    >>> {file.suffix for file in exported.files} == {".csv", ".txt", ".bib"}
    True
    """

    def __init__(self, files: Sequence[Path], answer: Sequence[str], quotation: str) -> None:
        """Create the result from the files, the sentences of the answer, and its text for a quotation."""
        super().__init__(
            {"files": list(map(str, files)), "answer": list(answer)},
            lambda console: console.print(quotation, markup=False, highlight=False),
        )
        self._files = list(files)

    @property
    def files(self) -> list[Path]:
        """The files."""
        return self._files


class SentRecords(TypedDict):
    """Metrics records that were written: the index, their number, and the identifier of the race."""

    index: str
    records: int
    race: str


class Converted:
    """Runs in a format of another tool, or a run's queries, query results or statistics.

    >>> converted = loadframe.convert("results/nodes", "otava")
    >>> converted.left_out
    []
    >>> [file.name for file in converted.save("results/nodes.csv")]
    ['nodes.csv', 'nodes.yaml']
    """

    def __init__(self, text: str, left_out: Sequence[str] = (), runs: Sequence[Run] = ()) -> None:
        """Create the result from its text, the names of runs that it leaves out, and for Otava the runs."""
        self._text, self._left_out, self._runs = text, list(left_out), runs

    @property
    def text(self) -> str:
        """The content of the file."""
        return self._text

    @property
    def left_out(self) -> list[str]:
        """The names of runs that Otava does not get: failed, invalid, limited by the generator, or too different."""
        return self._left_out

    @checked
    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write the file and return its path in a list; for Otava also its configuration beside it, and both paths.

        Replaces existing files. BadInput if that fails, or if the configuration would replace a file of another kind.
        """
        target = Path(path)
        if not self._runs or not target.name:
            return [save_file(self.text, target)]
        from loadframe.report.formats.otava import config, config_file

        settings = config_file(target)
        table = save_file(self.text, target)
        try:
            return [table, save_file(config(self._runs, target), settings)]
        except BadInput as error:
            raise BadInput(
                f"{error.what}; the table {table} is written", where=error.where, remedy=error.remedy
            ) from error

    def __repr__(self) -> str:
        return f"<Converted: {counted(len(self.text.splitlines()), 'line')}>"


def converted(path: Path, to: OfRun | OtherTool) -> Converted:
    """Return the run or runs at a path in another format. If the run was killed, its records are recovered first.

    BadInput if there is no run, a run is damaged, or the format holds only one and there are several.
    """
    from loadframe.report.formats import formatted, otava, runs_for

    recover(path)
    runs = runs_for(path, to)
    if to == "statistics":
        return Converted(_statistics(runs[0]))
    text = formatted(runs, to)
    return Converted(text, otava.omitted(runs), runs) if to == "otava" else Converted(text)


def only_run(path: Path, to: OfRun) -> Path:
    """Return the folder of the only run at a path. If it was killed, its records are recovered first.

    BadInput, which names the format, if there is no run, or if there are several.
    """
    from loadframe.report.formats import runs_for

    recover(path)
    return runs_for(path, to)[0].path


def _statistics(run: Run) -> str:
    """Return the statistics of a run's nodes as CSV; BadInput without statistics.

    The columns are those that the store exports; all recorded metrics for a user's own store.
    """
    from loadframe.report.run.document import Column, statistics
    from loadframe.store import stores

    # A user's own store is a file, which may be absent here; its statistics are exported unchanged.
    known = stores().get(run.manifest.store.kind or "")
    figures = (known.exported or known.watched) if known else ()
    return statistics(run, [Column(figure.title, figure.metric, rate=figure.total) for figure in figures])


def send_records(path: Path, index: str, to: RecordsOf, attach: "Callable[[], Cluster]") -> SentRecords:
    """Write the metrics records of a run to an index of a cluster; return their number and the race's identifier.

    If the run was killed, its records are recovered first. BadInput if the store is not a search engine, if the run is
    damaged, or for a name that no index can have. StoreFailed if the store refuses a record.
    """
    from loadframe.report.formats.rally import mapping, race_id, records, require_index
    from loadframe.store.search import SearchStore

    require_index(index)
    cluster = attach()
    if not isinstance(cluster.store, SearchStore):
        raise BadInput(
            f"metrics records cannot be written to {cluster.store.kind}",
            remedy="give an Elasticsearch or OpenSearch cluster",
        )
    recover(path)
    run = Run(path)
    run.require_whole()
    count = cluster.store.write_documents(cluster.addresses, index, mapping(to), records(run, to))
    return {"index": index, "records": count, "race": race_id(run)}


def export_report(path: Path, folder: Path, formats: Sequence[ExportFormat], bands: Sequence[float] = ()) -> Exported:
    """Write plots and tables of the report on a run or an experiment to `folder`, in these formats.

    A run also has the plot of its percentiles. If the run was killed, its records are recovered first. `bands` are the
    upper bounds of latency buckets, s. BadInput without formats, if the folder cannot be written, or for PDF and PNG
    without the package that writes them.
    """
    if not formats:
        raise BadInput("formats is empty", remedy="name a format such as svg or csv, or leave formats out")
    check_bounds(bands)
    recover(path)
    from loadframe.analyze.percentiles import percentiles_of
    from loadframe.report.export import export
    from loadframe.report.run_status import standing_of, trust
    from loadframe.store import stores

    if (path / EXPERIMENT_FILE).is_file():
        from loadframe.report import kinds

        page, experiment = kinds.read_report(path, bands).page, read_experiment(path)
        runs, caveat = [recorded.run for recorded in experiment.runs if recorded.run], trust(experiment)
    else:
        from loadframe.report.plots.run import response_by_percentile
        from loadframe.report.run.page import run_page

        runs = [Run(path)]
        page, (_, caveat) = run_page(runs[0], bands), standing_of(runs[0], percentiles_of(runs[0]))
        tail = response_by_percentile(runs[0], "percentiles")
        page.figures = [*page.figures, tail] if tail.traces else page.figures
    makers = {kind: store.maker for kind, store in stores().items()}
    files, quotation = export(page, [run.manifest for run in runs], caveat, folder, formats, makers)
    return Exported(files, page.answer, quotation)


def strong_weak_report(first: Path, second: Path) -> Report:
    """Return the report on a strong and a weak scale experiment, in any order. BadInput for other experiments."""
    from loadframe.analyze.scale.strong_weak import read_strong_and_weak
    from loadframe.report.strong_weak import print_strong_weak, strong_weak_page

    pair = read_strong_and_weak(first, second)
    return Report(strong_weak_page(pair), pair.as_dict(), lambda console: print_strong_weak(pair, console))


def recover(path: Path) -> None:
    """Recover the records of a killed run if they belong at `path` and nothing exists there."""
    if not path.exists():
        from loadframe.experiment.runner.recover_run import recover_runs

        # A killed run left its records under another name.
        recover_runs(path.parent, lambda run: run == path.name)


def read_report(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report on a run or an experiment. `bands` are the upper bounds of latency buckets, s.

    A run that was killed is recovered first. BadInput if the folder is neither, or is damaged, or if the bounds are not
    ascending.
    """
    check_bounds(bands)
    recover(path)
    if (path / EXPERIMENT_FILE).is_file():
        from loadframe.report import kinds

        report = kinds.read_report(path, bands)
        return Report(report.page, report.document, report.show, report.unanswerable)
    if path.is_dir() and not (path / MANIFEST_FILE).is_file():
        raise not_recorded(path)
    return run_report(Run(path), bands)


def not_recorded(folder: Path) -> BadInput:
    """Return the error that a folder is neither a run nor an experiment; it names one inside the folder."""
    remedy = f"name a folder that holds {MANIFEST_FILE} or {EXPERIMENT_FILE}"
    # Hidden folders hold unfinished runs.
    for inside in ("[!.]*", "[!.]*/[!.]*"):
        if recorded := sorted(
            file.parent for name in (MANIFEST_FILE, EXPERIMENT_FILE) for file in folder.glob(f"{inside}/{name}")
        ):
            remedy = (
                f"name one of the folders in it, such as {recorded[0]}; `loadframe compare` and `loadframe history`"
                " read several runs"
            )
            break
    return BadInput("this is neither a run nor an experiment", where=str(folder), remedy=remedy)


def run_report(run: Run, bands: Sequence[float] = ()) -> Report:
    """Return the report on a run. `bands` are the upper bounds of latency buckets, s; BadInput if not ascending."""
    check_bounds(bands)
    from loadframe.report.run.document import run_document
    from loadframe.report.run.page import run_page
    from loadframe.report.run.terminal import print_run

    return Report(run_page(run, bands), run_document(run, bands), lambda console: print_run(run, console, bands))


def require_usable(path: Path, *, strict: bool) -> None:
    """Raise NothingUsable if no run of an experiment has usable figures, or with `strict` if any run has none.

    Runs that the store failed are results, and count as usable. Accepts a folder that is not an experiment.
    """
    if not (path / EXPERIMENT_FILE).is_file():
        return
    folder = read_experiment(path)
    unusable = folder.unusable
    if not unusable or (not strict and len(unusable) < len(folder.runs)):
        return
    everything = len(unusable) == len(folder.runs)
    if all(run.status == "missing" for run in unusable):
        problem = (
            "no run was made yet" if everything else f"{len(unusable)} of {len(folder.runs)} runs were not made yet"
        )
        remedy = "make them with `loadframe run` and the experiment's file, in this folder"
    else:
        problem = "no run is valid" if everything else f"{len(unusable)} of {len(folder.runs)} runs are invalid"
        remedy = "the report gives the causes; remove them, and run the experiment in another folder"
    listed = ", ".join(run.id for run in unusable[:_NAMED])
    raise NothingUsable(
        f"{problem}: {listed}{', ...' if len(unusable) > _NAMED else ''}", where=str(path), remedy=remedy
    )
