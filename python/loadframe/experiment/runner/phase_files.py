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
    """Return a plan in which what a source spills to disk goes to `folder`, where nothing is left of it."""
    where = {"spill_folder": str(folder.absolute())}
    sources = {
        source: {**said, **(where if "spill" in said else {})} for source, said in plan.get("sources", {}).items()
    }
    return {**plan, "sources": sources} if sources else plan


def with_dead_letter_files(plan: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a plan in which the dead letters of each source go to a file in `folder`; nothing else is changed."""
    if "sources" not in plan:
        return plan
    files = {source: str((folder / _name(plan["phase"], source)).absolute()) for source in plan["sources"]}
    sources = {source: {**said, "dead_letters": files[source]} for source, said in plan["sources"].items()}
    return {**plan, "sources": sources}


def with_dead_letter_names(outcome: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the outcome's sources, each with the name of the file in `folder` that has its dead letters, if any."""
    names = {source: _name(outcome["phase"], source) for source in outcome.get("sources", {})}
    return {
        source: {**said, **({"kept": names[source]} if (folder / names[source]).exists() else {})}
        for source, said in outcome.get("sources", {}).items()
    }


class LatestAnswers:
    """Keeps the last answer to each operation, which is JSON as a whole."""

    def __init__(self) -> None:
        self._answers: dict[str, bytes] = {}

    def keep(self, operation: str, answer: bytes) -> None:
        """Keep an answer instead of the one before."""
        self._answers[operation] = answer

    def write(self, folder: Path, phase: str) -> None:
        """Write `answers-PHASE.json`, the answers by operation; nothing where there are none, or none is JSON."""
        answers = {name: read for name, answer in self._answers.items() if (read := _read(answer)) is not None}
        if answers:
            (folder / f"answers-{phase}.json").write_text(json.dumps(answers, indent=1))


def _read(answer: bytes) -> object:
    try:
        return json.loads(answer)
    except ValueError:
        return None
