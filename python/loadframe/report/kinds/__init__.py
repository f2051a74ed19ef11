"""What each kind of experiment says of its runs: each module here is named as `kind:` has it, registered nowhere else.

It has `read(path, bands)`, which analyses an experiment's folder and returns its `Report`; `bands` are the bounds of
bands of response time, s.
"""

import importlib
import json
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from loadframe.analyze.experiment import EXPERIMENT_FILE
from loadframe.base.errors import BadInput


@dataclass(frozen=True)
class Report:
    """An experiment's answer in three forms: a page of its own, JSON, and words on a terminal.

    `unanswerable` says what is wrong with a question to which runs that went well have no answer.
    """

    page: str
    document: dict[str, Any]
    show: Callable[[Console], None]
    unanswerable: BadInput | None = None


def read_report(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report on an experiment's folder; BadInput if it is not one, is broken, or has an unknown kind.

    With the bounds of bands of response time, s, it has these of each operation and treatment.
    """
    file = path / EXPERIMENT_FILE
    try:
        kind = json.loads(file.read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            "this is not an experiment's folder: its kind cannot be read",
            where=str(file),
            remedy=f"name a folder that `loadframe run` wrote, with its {EXPERIMENT_FILE}",
        ) from error
    known = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if kind not in known:
        raise BadInput(
            f"an experiment of kind {kind!r} cannot be reported",
            where=str(file),
            remedy=f"this loadframe knows {', '.join(known)}; report it with the one that made it",
        )
    report: Report = importlib.import_module(f"{__name__}.{kind}").read(path, bands)
    return report
