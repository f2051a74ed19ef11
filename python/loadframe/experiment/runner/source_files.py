"""Files and sizes of the sources in a plan, and in the outcome of its phase."""

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


def with_limits(
    outcomes: Mapping[str, Mapping[str, Any]], sources: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the outcome of each source, with the sizes of its `buffer` and `spill` in bytes."""
    limits = {name: {"buffer": source["buffer"], "spill": source.get("spill", 0)} for name, source in sources.items()}
    return {name: {**outcome, **limits[name]} for name, outcome in outcomes.items()}
