"""Sentences on the runs of an experiment: how many are used, which are left out, and why."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from loadframe.analyze.exclusion import selected_runs
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.base.units import counted

#: Why a run without a reason in its verdict is bounded.
_BELOW_LIMITS = "short waits of the load generator, below the limits of the verdict, bound some figures"


def trust(folder: RecordedExperiment) -> str:
    """Return sentences on the number of runs that the figures use, and on runs left out, bounded or repeated."""
    total, left_out, faulty = len(folder.runs), folder.left_out, folder.faulty
    bounded = sum(run.bounded for run in folder.used)
    words = "The run is used." if total == 1 else f"All {total} runs are used."
    # Without a successful request, a run has errors, but neither throughput nor response times.
    nothing = [run for run in folder.used if any(failure.kind == "success" for failure in run.failures)]
    if left_out or nothing:
        kinds = Counter(run_status(run) for run in left_out) + Counter({"without a success": len(nothing)})
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        used = total - len(left_out) - len(nothing)
        words = f"{used} of {counted(total, 'run')} {'is' if used == 1 else 'are'} used; left out: {counts}."
    elif not faulty and not bounded:
        words = "The run is valid." if total == 1 else f"All {total} runs are valid."
    # Comparisons have a warning of their own for this.
    if folder.description["kind"] != "compare" and (selection := selected_runs(folder)):
        words += f" Beware: {selection.cause}."
    if bounded:
        words += f" The load generator limited {counted(bounded, 'run')}, which widens the intervals."
    if faulty:
        words += f" The store was at fault in {counted(len(faulty), 'run')}, which count{'s' * (len(faulty) == 1)}."
    if earlier := len(folder.attempts):
        failed = sum(attempt.store_failed for attempt in folder.attempts)
        words += f" {counted(earlier, 'earlier attempt')} failed, {failed} because of the store."
    if folder.changed:
        words += f" Loadframe or the machine changed between sessions: {'; '.join(folder.changed)}."
    return words


def run_status(run: RecordedRun) -> str:
    """Return the status of a run: valid, bounded, store at fault, invalid, failed, interrupted, or not made."""
    if run.status == "done":
        if not run.sound:
            return "invalid"
        return "store at fault" if not run.usable else "bounded" if run.bounded else "valid"
    return "not made" if run.status == "missing" else run.status


def figures_text(run: RecordedRun) -> str:
    """Write the quality of a run's figures: `all good`, `response, service bounded; others good`."""
    phases = run.states()
    words = {phase: _states_text(states) for phase, states in phases.items()}
    if len(set(words.values())) <= 1:
        return next(iter(words.values()), "")
    return "; ".join(f"{phase}: {states}" for phase, states in words.items())


def _states_text(states: Mapping[str, str]) -> str:
    by_state: dict[str, list[str]] = {}
    for name, state in states.items():
        by_state.setdefault(state, []).append("response with failures" if name == "all" else name)
    if len(by_state) == 1:
        return f"all {next(iter(by_state))}"
    limited = [f"{', '.join(names)} {state}" for state, names in by_state.items() if state != "good"]
    return "; ".join([*limited, *(["others good"] if "good" in by_state else [])])


@dataclass(frozen=True)
class Exclusion:
    """A reason why runs are left out or bounded: their names, its cause in the first of them, its remedy."""

    runs: tuple[str, ...]
    cause: str
    remedy: str


def exclusions(folder: RecordedExperiment) -> list[Exclusion]:
    """Return the reasons why runs are left out, failed, at fault or bounded, the most frequent first.

    A run with two reasons is in both.
    """
    by_cause: dict[str, list[tuple[str, str, str]]] = {}
    listed = {id(run) for run in (*folder.left_out, *folder.faulty)}
    bounded = [run for run in folder.runs if run.bounded and id(run) not in listed]
    for run in (*folder.left_out, *folder.faulty, *folder.attempts, *bounded):
        for reason in run.reasons:
            by_cause.setdefault(reason.code, []).append((run.id, reason.cause, reason.remedy))
        if not run.reasons and run.status == "missing":
            by_cause.setdefault("missing", []).append(
                (run.id, "not made yet", "run the same command again to make missing runs")
            )
        elif not run.reasons and run.bounded:
            by_cause.setdefault("bounded", []).append((run.id, _BELOW_LIMITS, "use the figures with their bounds"))
        elif not run.reasons:
            remedy = "fix the cause, then repeat failed runs with `loadframe run --retry-failed`"
            by_cause.setdefault(why(run), []).append((run.id, why(run), remedy))
    # A run may have one reason in several of its phases.
    groups = [Exclusion(tuple(dict.fromkeys(row[0] for row in rows)), *rows[0][1:]) for rows in by_cause.values()]
    return sorted(groups, key=lambda group: -len(group.runs))


def why(run: RecordedRun) -> str:
    """Return why a run is left out: its failure, else the causes of its verdict, else its status."""
    if run.failure:
        return run.failure
    if run.reasons:
        return "; ".join(reason.cause for reason in run.reasons)
    return run_status(run)
