"""Earlier attempts of an experiment's runs. A failed run that is repeated is kept as evidence."""

import re
from dataclasses import dataclass
from pathlib import Path

from loadframe.record.reader import Run

#: Folder of earlier attempts in an experiment's folder; RUN.1 is the first attempt of RUN.
ATTEMPTS = "attempts"
_NAME = re.compile(r"(?P<run>.+)\.(?P<number>[1-9]\d*)")


@dataclass(frozen=True)
class Attempt:
    """A failed run that was repeated: the run's name in the design, and the number of the attempt, from 1."""

    run_id: str
    number: int
    run: Run


def set_aside(experiment: Path, run: Path) -> Path:
    """Move a run to the attempts of its experiment, so that it is repeated; return its new folder."""
    folder = experiment / ATTEMPTS
    folder.mkdir(exist_ok=True)
    number = 1 + max((place for name, place, _ in _named(folder) if name == run.name), default=0)
    place = folder / f"{run.name}.{number}"
    run.rename(place)
    return place


def attempts(experiment: Path) -> tuple[Attempt, ...]:
    """Return the earlier attempts of an experiment's runs, by run and number; BadInput if one is broken."""
    named = sorted(_named(experiment / ATTEMPTS))
    return tuple(Attempt(name, number, Run(path)) for name, number, path in named)


def earlier_attempts(run: Path) -> tuple[Attempt, ...]:
    """Return the earlier attempts of one run; empty for a run outside an experiment."""
    return tuple(attempt for attempt in attempts(run.parent.parent) if attempt.run_id == run.name)


def _named(folder: Path) -> list[tuple[str, int, Path]]:
    if not folder.is_dir():
        return []
    matches = [(path, _NAME.fullmatch(path.name)) for path in folder.iterdir()]
    return [(match["run"], int(match["number"]), path) for path, match in matches if match]
