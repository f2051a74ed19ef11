"""Results in the formats of other tools. docs/how-to/other-tools.md defines the fields."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadframe.analyze.experiment import EXPERIMENT_FILE, read_experiment
from loadframe.base.errors import BadInput
from loadframe.record import Run
from loadframe.record.schema import HISTOGRAMS_FILE, MANIFEST_FILE
from loadframe.report.formats import junit, k6, otava, rally, tables, ycsb
from loadframe.report.run.queries import appendix, queries


@dataclass(frozen=True)
class RunFormat:
    """A format: its writer, and whether it holds several runs."""

    write: Callable[[Sequence[Run]], str]
    several: bool


def _of_one(write: Callable[[Run], str]) -> RunFormat:
    """Return the format for one run that `write` converts to text. It ignores all runs but the first."""
    return RunFormat(lambda runs: write(runs[0]), several=False)


def _histograms(run: Run) -> str:
    """Return the text of the run's histograms.hlog, an HdrHistogram log. Bytes that are not UTF-8 are replaced."""
    # Comments of other programs may have any encoding.
    return (run.path / HISTOGRAMS_FILE).read_text(encoding="utf-8", errors="replace")


FORMATS: Mapping[str, RunFormat] = {
    "query-results": _of_one(lambda run: json.dumps(appendix(run)) + "\n"),
    "queries": _of_one(lambda run: json.dumps(queries(run)) + "\n"),
    "rally": _of_one(rally.race),
    "osb": _of_one(rally.osb_run),
    "ycsb": _of_one(ycsb.text),
    "k6": _of_one(k6.summary),
    "otava": RunFormat(otava.table, several=True),
    "hdr": _of_one(_histograms),
    "jsonl": RunFormat(tables.json_lines, several=True),
    "junit": RunFormat(junit.suites, several=True),
    "markdown": RunFormat(tables.markdown, several=True),
}


def runs_at(path: Path) -> list[Run]:
    """Return the run at a path, the runs of an experiment, or the runs in a folder, in order of their start.

    An experiment's runs include failed attempts that count. Links to folders are ignored. BadInput if there are none,
    or a run is broken.
    """
    if (path / EXPERIMENT_FILE).is_file():
        # With the attempts in which the store failed, which repeating does not undo.
        runs = [recorded.run for recorded in read_experiment(path).counted if recorded.run]
    elif (path / MANIFEST_FILE).is_file() or not path.is_dir():
        return [Run(path)]
    else:
        runs = [Run(file.parent) for file in sorted(path.glob(f"*/{MANIFEST_FILE}")) if not file.parent.is_symlink()]
    if not runs:
        raise BadInput("no recorded run here", where=str(path), remedy=f"name a folder with a {MANIFEST_FILE}")
    return sorted(runs, key=lambda run: (run.manifest.started or "", run.path.name))


def runs_for(path: Path, name: str) -> list[Run]:
    """Return the runs of `runs_at(path)` for the format `name`, a key of `FORMATS` or `statistics`.

    BadInput if there are none, if a run is broken, or if the format holds one run and there are several.
    """
    runs = runs_at(path)
    if len(runs) > 1 and not (name in FORMATS and FORMATS[name].several):
        raise BadInput(
            f"the format {name} holds one run, and this folder has {len(runs)}",
            where=str(path),
            remedy=f"name one of them, such as {runs[0].path}",
        )
    return runs


def formatted(runs: Sequence[Run], name: str) -> str:
    """Return the text of runs in the format `name`, a key of `FORMATS`. BadInput if a run is damaged."""
    for run in runs:
        run.require_whole()
    return FORMATS[name].write(runs)
