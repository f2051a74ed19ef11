"""How an experiment's runs stand, in words: how many are used, which are left out, and why."""

from collections import Counter
from dataclasses import dataclass

from loadframe.analyze.exclusion import selected_runs
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun


def trust(folder: RecordedExperiment) -> str:
    """Return how many runs the figures rest on, and what became of the others."""
    total, left_out, faulty = len(folder.runs), folder.left_out, folder.faulty
    bounded = sum(run.bounded for run in folder.used)
    words = "The run is used." if total == 1 else f"All {total} runs are used."
    # Such a run has errors, and nothing that a curve or a mean could be made of.
    nothing = [run for run in folder.used if any(failure.kind == "success" for failure in run.failures)]
    if left_out or nothing:
        kinds = Counter(standing(run) for run in left_out) + Counter({"without a success": len(nothing)})
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        used = total - len(left_out) - len(nothing)
        words = f"{used} of {total} runs are used; left out of every figure: {counts}."
    elif not faulty and not bounded:
        words = "The run is valid." if total == 1 else f"All {total} runs are valid."
    # Comparisons warn of it themselves: a group is a level, too.
    if folder.description["kind"] != "compare" and (selection := selected_runs(folder)):
        words += f" Beware: {selection.cause}."
    if bounded:
        words += f" In {bounded} of them the load generator bounds figures, and their intervals are wider for it."
    if faulty:
        of_them = "In one of them" if len(faulty) == 1 else f"In {len(faulty)} of them"
        words += f" {of_them} the store was at fault, which counts as a result."
    if earlier := len(folder.attempts):
        failed = sum(attempt.store_failed for attempt in folder.attempts)
        words += f" {earlier} earlier attempt{'s' * (earlier != 1)} failed, {failed} of them because of the store."
    if folder.changed:
        words += f" The instrument or the machine changed between sessions: {'; '.join(folder.changed)}."
    return words


def standing(run: RecordedRun) -> str:
    """Return in a few words how a run stands.

    These are: valid, bounded, store at fault, invalid, failed, interrupted, or not made.
    """
    if run.status == "done":
        if not run.sound:
            return "invalid"
        return "store at fault" if not run.usable else "bounded" if run.bounded else "valid"
    return "not made" if run.status == "missing" else run.status


def figures_text(run: RecordedRun) -> str:
    """Return how well the figures of a run were measured: `throughput bounded, response bounded, errors good`."""
    phases = run.states()
    names = [
        ", ".join(f"{name} {state}" for name, state in states.items() if name != "all") for states in phases.values()
    ]
    if len(phases) == 1:
        return names[0]
    return "; ".join(f"{phase}: {words}" for phase, words in zip(phases, names, strict=True))


@dataclass(frozen=True)
class Exclusion:
    """One reason for which runs are left out: how often, its cause in one of them, what to do about it."""

    runs: tuple[str, ...]
    cause: str
    remedy: str


def exclusions(folder: RecordedExperiment) -> list[Exclusion]:
    """Return why runs are left out, doubted or bounded, the most frequent reason first.

    A run with two reasons is in both.
    """
    by_cause: dict[str, list[tuple[str, str, str]]] = {}
    told = {id(run) for run in (*folder.left_out, *folder.faulty)}
    bounded = [run for run in folder.runs if run.bounded and id(run) not in told]
    for run in (*folder.left_out, *folder.faulty, *folder.attempts, *bounded):
        for reason in run.reasons:
            by_cause.setdefault(reason.code, []).append((run.id, reason.cause, reason.remedy))
        if not run.reasons and run.status == "missing":
            by_cause.setdefault("missing", []).append(
                (run.id, "not made yet", "the same command makes what is missing")
            )
        elif not run.reasons:
            remedy = "mend the cause; `loadframe run --retry-failed` makes failed runs again"
            by_cause.setdefault(why(run), []).append((run.id, why(run), remedy))
    # A run may have one reason in several of its phases.
    groups = [Exclusion(tuple(dict.fromkeys(row[0] for row in rows)), *rows[0][1:]) for rows in by_cause.values()]
    return sorted(groups, key=lambda group: -len(group.runs))


def why(run: RecordedRun) -> str:
    """Return why a run is left out: what failed, or the causes of its verdict."""
    if run.failure:
        return run.failure
    if run.reasons:
        return "; ".join(reason.cause for reason in run.reasons)
    return standing(run)
