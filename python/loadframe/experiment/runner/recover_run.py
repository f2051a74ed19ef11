"""Recovers the data of a killed process as a failed run.

Series and histograms are complete up to the last whole second. Samples of nodes and machines and the final statistics
of ranks are lost.
"""

import contextlib
import csv
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadframe.analyze.summary import summarize
from loadframe.base.errors import GeneratorFailed
from loadframe.base.event_kinds import PHASE_ENDED
from loadframe.record import RunWriter
from loadframe.record.unfinished import BegunPhase, Wreck, wrecks

_WHY = "the process that recorded the run was killed"


def recover_runs(parent: Path, selected: Callable[[str], bool] = lambda _: True, *, why: str = _WHY) -> list[Path]:
    """Recover the runs of killed processes of this machine in the folder `parent`, and return their run folders.

    `selected` chooses them by identifier; `why` is the recorded cause. Each becomes a run with status `failed` and the
    seconds that it had recorded. A run whose final folder exists, or that another process recovers, is skipped.
    """
    kept = []
    for wreck in wrecks(parent):
        if selected(wreck.run_id) and not (parent / wreck.run_id).exists():
            # Another process may recover the same run.
            with contextlib.suppress(FileNotFoundError):
                kept.append(_finish(wreck, why))
    return kept


def _finish(wreck: Wreck, why: str) -> Path:
    """Complete the folder of a crashed run as a failed run with the recorded seconds, and return its path.

    `why` is the cause in the recorded failure. FileNotFoundError if another process recovers the run.
    """
    with RunWriter.adopt(wreck) as writer:
        outcomes = []
        planned = {phase["name"]: phase for phase in wreck.manifest["workload"]["phases"]}
        for phase in replace(wreck, folder=writer.folder).phases():
            outcome = phase.outcome or _outcome(phase, wreck.manifest)
            of_phase = planned[outcome["phase"]]
            growth = {key: phase.begun.get(key) for key in ("held", "gains")}
            outcomes.append({**outcome, "prepares": of_phase["prepares"], **growth})
        last = outcomes[-1]
        ended = last["offset"] + last["warmup"] + last["measured"]
        writer.event(PHASE_ENDED, ended, phase=last["phase"])
        joined = writer.join()
        failure = GeneratorFailed(f"{why} in phase {last['phase']}")
        ceiling = wreck.manifest["generator"].get("ceiling")
        judged = summarize(
            joined.series, joined.histograms, outcomes, joined.telemetry, (), ceiling, failure=failure.what
        )
        summary = replace(judged, status="failed", failure=failure.what, fault=failure.fault)
        return writer.finish(wreck.manifest, summary.as_dict())


def _outcome(phase: BegunPhase, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outcome of a phase without one, as if it had ended with its last recorded second.

    `manifest` is the run's. An automatic warm-up counts until the first measured second.
    """
    begun = phase.begun
    planned = next(entry for entry in manifest["workload"]["phases"] if entry["name"] == begun["phase"])
    # Each worker has a row in each second.
    seconds = 1 + max((int(row["second"]) for row in _rows(phase.folder / "generator.csv")), default=-1)
    rows = [*_rows(phase.folder / "series.csv")]
    warmup: float = planned["warmup"]
    if any(key in planned for key in ("auto_warmup", "wait_for_queue")):
        # The planned warm-up is its limit.
        warmup = min((float(row["second"]) for row in rows if row["segment"] == "measure"), default=warmup)

    def measured(until: int) -> float:
        """Return the seconds from the end of the warm-up to second `until` of the phase, at least 0."""
        return max(until - warmup, 0.0)

    of_stream = {
        stream["name"]: [row for row in rows if row["stream"] == stream["name"]] for stream in planned["streams"]
    }
    return {
        **begun,
        "offset": begun["start"],
        "warmup": warmup,
        "measured": measured(seconds),
        "streams": [
            {
                "name": stream["name"],
                "pacing": stream["pacing"],
                "measured": measured(_seconds_of(stream, planned, warmup, of_stream[stream["name"]], seconds)),
                "ran_out": False,
            }
            for stream in planned["streams"]
        ],
        **_counts(rows, planned["operations"].keys(), warmup, seconds - 1),
    }


def _seconds_of(
    stream: Mapping[str, Any], phase: Mapping[str, Any], warmup: float, rows: Sequence[Mapping[str, str]], seconds: int
) -> int:
    """Return the length of a stream with its warm-up, s. `stream` and `phase` are their entries in the manifest.

    A stream that stops by requests, journeys or the end of its data lasts until the last of its `rows` of `series.csv`;
    0 without rows. A stream with a duration, or one that ends with the phase, may have seconds without a row. It lasts
    for `seconds`, the recorded seconds of the phase, but no longer than `warmup` plus its own duration or that of a
    stream that ends the phase, rounded up.
    """
    if "duration" not in stream.get("stop", ()) and stream.get("stop") != "ended":
        return 1 + max((int(row["second"]) for row in rows), default=-1)
    ending = [other for other in phase["streams"] if other["name"] in phase.get("ends_with", ())]
    stops = [other.get("stop") for other in (stream, *ending)]
    durations = [stop["duration"] for stop in stops if isinstance(stop, Mapping) and "duration" in stop]
    return min([seconds, *(math.ceil(warmup + float(duration)) for duration in durations)])


def _counts(
    rows: Sequence[Mapping[str, str]], known: Collection[str], warmup: float, last: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the entries of `operations` and of their `parts`, as in outcomes, from rows of `series.csv`.

    `known` are the names of the operations, `warmup` is in s, and `last` is the last recorded second. A row named
    `OPERATION.PART` is a part; another unknown name combines several operations (`of_several`).
    """
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    named: dict[str, Any]
    for row in rows:
        name = row["operation"]
        whole, _, part = name.rpartition(".")
        named = {"stream": row["stream"], "operation": name}
        if name not in known:
            # A name that is neither an operation nor a part combines several operations.
            named = {**named, "operation": whole, "part": part} if whole in known else {**named, "of_several": True}
        zeros = dict.fromkeys(("completed", "completed_documents", "dropped", "in_flight_at_end"), 0)
        entry = entries.setdefault((row["stream"], name), {**named, **zeros})
        # Rows count completions in their second. A request due after the warm-up also completes after it.
        if row["segment"] == "measure" or int(row["second"]) >= warmup:
            entry["completed"] += int(row["successes"])
            entry["completed_documents"] += int(row["documents"])
        if row["segment"] == "measure":
            entry["dropped"] += int(row["dropped"])
        if int(row["second"]) == last:
            entry["in_flight_at_end"] += int(row["unanswered"])
    return {
        "operations": [entry for entry in entries.values() if "part" not in entry],
        "parts": [entry for entry in entries.values() if "part" in entry],
    }


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file in order, as mappings from column to text; nothing if the file is missing."""
    if path.exists():
        with path.open(newline="") as lines:
            yield from csv.DictReader(lines)
