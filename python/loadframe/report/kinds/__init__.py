"""Reports of each kind of experiment. The name of each module is the `kind:` of its experiments; none is registered.

Each module has `read(path, bands)`, which analyses an experiment's folder and returns its `Report`. `bands` are the
bounds of latency buckets, s.
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
from loadframe.report.page import Page


@dataclass(frozen=True)
class Report:
    """The report on an experiment: an HTML page, a JSON document, and a function that prints it.

    `unanswerable` is the error if valid runs cannot answer the experiment's question.
    """

    page: Page
    document: dict[str, Any]
    show: Callable[[Console], None]
    unanswerable: BadInput | None = None


def read_report(path: Path, bands: Sequence[float] = ()) -> Report:
    """Return the report on an experiment's folder; BadInput if it is not one, is broken, or has an unknown kind.

    `bands` are the bounds of latency buckets, s; without them the report has no buckets.
    """
    file = path / EXPERIMENT_FILE
    try:
        kind = json.loads(file.read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            "not an experiment's folder: cannot read its kind",
            where=str(file),
            remedy=f"give a folder that `loadframe run` wrote, with its {EXPERIMENT_FILE}",
        ) from error
    known = sorted(module.name for module in pkgutil.iter_modules(__path__))
    if kind not in known:
        raise BadInput(
            f"unknown kind of experiment {kind!r}",
            where=str(file),
            remedy=f"this version supports {', '.join(known)}; use the version that made the experiment",
        )
    report: Report = importlib.import_module(f"{__name__}.{kind}").read(path, bands)
    return report
