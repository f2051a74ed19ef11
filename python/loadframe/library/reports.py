"""Results that print as text, show in notebooks and save themselves; reports as one HTML page."""

import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadframe.analyze.experiment import EXPERIMENT_FILE, read_experiment
from loadframe.analyze.percentiles import check_bounds
from loadframe.base.errors import BadInput, NothingUsable
from loadframe.base.terminal import PrintableConsole
from loadframe.library.arguments import checked
from loadframe.record import Run
from loadframe.record.gate_log import GATE_LOG
from loadframe.record.schema import MANIFEST_FILE, MEMBERS, SAMPLES_FILE

if TYPE_CHECKING:
    from rich.console import Console

#: Columns of printed text.
_WIDTH = 100
#: Maximum number of runs in an error message.
_NAMED = 5
#: Height of a report in a notebook, in pixels.
_HEIGHT = 800


def text_of(show: "Callable[[Console], None]") -> str:
    """Return the text that a function prints on a console of 100 columns, without styles."""
    file = StringIO()
    # In a notebook, rich would display the text instead of writing it to the file.
    show(
        PrintableConsole(
            file=file, width=_WIDTH, emoji=False, force_terminal=False, force_jupyter=False, color_system=None
        )
    )
    return file.getvalue()


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


class Answer:
    """A result of an analysis: `print` it, show it in a notebook, or take its values with `as_dict`."""

    def __init__(self, document: Mapping[str, Any], show: "Callable[[Console], None]") -> None:
        """Create the result from its values, of which it keeps a copy, and the function that prints it."""
        self._document = dict(document)
        self._show = show

    def as_dict(self) -> dict[str, Any]:
        """Return the values that the command prints with `--json`. Times are s, rates 1/s."""
        return self._document

    def show(self, console: "Console") -> None:
        """Print the result on a rich console."""
        self._show(console)

    def __str__(self) -> str:
        return text_of(self._show).rstrip("\n")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {next(iter(str(self).splitlines()), '')}>"

    def _repr_html_(self) -> str:
        """Return the printed text as HTML for a notebook."""
        return f"<pre>{escape(str(self))}</pre>"


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


def read_report(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report on a run or an experiment. `bands` are the upper bounds of latency buckets, s.

    BadInput if the folder is neither, or is damaged, or if the bounds are not ascending.
    """
    check_bounds(bands)
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
