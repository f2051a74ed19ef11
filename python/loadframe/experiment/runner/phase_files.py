"""Files of a phase in the run folder: dead letters, spilled events and latest answers.

Dead letters are lines that are not events, and events that the store refused.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def _name(phase: str, source: str) -> str:
    return f"dead-letters-{phase}-{source}.ndjson"


def with_spill_folder(plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the plan with `folder` for the temporary spill files of its sources."""
    where = {"spill_folder": str(folder.absolute())}
    sources = {
        name: {**source, **(where if "spill" in source else {})} for name, source in plan.get("sources", {}).items()
    }
    return {**plan, "sources": sources} if sources else plan


def with_dead_letter_files(plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the plan with a dead-letter file in `folder` for each source."""
    if "sources" not in plan:
        return plan
    files = {name: str((folder / _name(plan["phase"], name)).absolute()) for name in plan["sources"]}
    sources = {name: {**source, "dead_letters": files[name]} for name, source in plan["sources"].items()}
    return {**plan, "sources": sources}


def with_dead_letter_names(outcome: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the outcome's sources, with the name of the dead-letter file for sources that have one in `folder`."""
    files = {name: _name(outcome["phase"], name) for name in outcome.get("sources", {})}
    return {
        name: {**source, **({"kept": files[name]} if (folder / files[name]).exists() else {})}
        for name, source in outcome.get("sources", {}).items()
    }


class LatestAnswers:
    """The latest answer to each operation."""

    def __init__(self) -> None:
        self._answers: dict[str, bytes] = {}

    def keep(self, operation: str, answer: bytes) -> None:
        """Replace the latest answer to an operation."""
        self._answers[operation] = answer

    def write(self, folder: Path, phase: str) -> None:
        """Write the JSON answers by operation to `answers-PHASE.json`; no file if no answer is JSON."""
        answers = {name: read for name, answer in self._answers.items() if (read := _read(answer)) is not None}
        if answers:
            (folder / f"answers-{phase}.json").write_text(json.dumps(answers, indent=1))


def _read(answer: bytes) -> object:
    try:
        return json.loads(answer)
    except ValueError:
        return None
