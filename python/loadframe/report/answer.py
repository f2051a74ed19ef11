"""The answer of an experiment in a few honest sentences: what was seen, with intervals, and what cannot be said."""

from collections import Counter
from dataclasses import dataclass

from loadframe.analyze.scalability import ScalabilityFit
from loadframe.analyze.sweep import PhaseCurves, Sweep, SweepRun
from loadframe.report.fit_words import sentence
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import estimate_text, measured_text, percent_text
from loadframe.units import format_count

UNIT = "requests/s"
_ENOUGH_SIZES = 6


def lead(curves: PhaseCurves) -> str:
    """Return the one sentence that answers the question, for one measured phase."""
    if not curves.treatments:
        return f"No answer: no run of {curves.phase} can be believed."
    nodes = curves.over_nodes
    if nodes is None:
        fits = [curve.fit for curve in curves.over_clients if curve.fit]
        return sentence(fits[0], UNIT) if fits else _single(curves)
    if nodes.fit and len({n for n, _ in nodes.fit.observations}) >= _ENOUGH_SIZES:
        return sentence(nodes.fit, UNIT)
    first, last = curves.speedups[0], curves.speedups[-1]
    few, many = first.treatment.nodes or 0, last.treatment.nodes or 0
    values = (
        f"from {measured_text(first.treatment.throughput)} to {measured_text(last.treatment.throughput)} {UNIT}"
        f" between {few} and {many} nodes"
    )
    if not last.speedup.is_finite:
        return (
            f"Throughput went {values}: {format_count(last.speedup.value)} times as much on {many / few:g} times the"
            " nodes. No treatment has two valid runs, so nothing says how much of this is noise."
        )
    if last.speedup.low <= 1 <= last.speedup.high:
        return f"Throughput did not change measurably: it went {values}."
    verb = "grew" if last.speedup.value > 1 else "fell"
    return (
        f"Throughput {verb} {values}: {estimate_text(last.speedup)} times as much on {many / few:g} times the nodes,"
        f" an efficiency of {percent_text(last.efficiency)}."
    )


def limits(curves: PhaseCurves) -> list[str]:
    """Return what the data cannot say, and how the figures are to be taken."""
    words = []
    nodes = curves.over_nodes
    if nodes:
        counts = sorted({treatment.nodes or 0 for treatment in nodes.treatments})
        if len(counts) < _ENOUGH_SIZES:
            words.append(
                f"{len(counts)} node counts say what these nodes gave; they cannot tell a curve that flattens from one"
                f" that goes on, so nothing is claimed beyond {counts[-1]} nodes."
            )
        if curves.over_clients:
            words.append(
                "Each number of nodes is taken at the number of clients that gave it the most throughput"
                f" ({_best_clients(curves)})."
            )
    if curves.at_edge:
        listed = " and ".join(format_count(number) for number in curves.at_edge)
        words.append(
            f"At {listed} node{'s' * (curves.at_edge != (1,))} the most clients gave the most throughput, so more"
            " clients might give more still."
        )
    return words


def over_clients(curves: PhaseCurves) -> list[tuple[str, str]]:
    """Return, for each number of nodes, its name and what its curve over clients says."""
    rows = []
    for curve in curves.over_clients:
        name = f"{curve.nodes} node{'s' * (curve.nodes != 1)}" if curve.nodes else "over clients"
        rows.append((name, sentence(curve.fit, UNIT) if curve.fit else f"Not fitted: {curve.refusal}."))
    return rows


def trust(sweep: Sweep) -> str:
    """Return how many runs the figures rest on, and what became of the others."""
    total, left_out = len(sweep.folder.runs), sweep.left_out
    if not left_out:
        return f"All {total} runs are valid."
    kinds = Counter(standing(run) for run in left_out)
    words = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return f"{total - len(left_out)} of {total} runs are used; left out of every figure: {words}."


def standing(run: SweepRun) -> str:
    """Return in one word how a run stands: valid, invalid, failed, interrupted, or not made."""
    if run.status == "done":
        return "valid" if run.usable else "invalid"
    return "not made" if run.status == "missing" else run.status


@dataclass(frozen=True)
class Exclusion:
    """One reason for which runs are left out: how often, its cause in one of them, what to do about it."""

    runs: tuple[str, ...]
    cause: str
    remedy: str


def exclusions(sweep: Sweep) -> list[Exclusion]:
    """Return why runs are left out, the most frequent reason first; a run with two reasons is in both."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for run in sweep.left_out:
        reasons = (run.verdict or {}).get("reasons") or []
        for reason in reasons:
            found.setdefault(reason["code"], []).append((run.id, reason["cause"], reason["remedy"]))
        if not reasons and run.status == "missing":
            found.setdefault("missing", []).append((run.id, "not made yet", "the same command makes what is missing"))
        elif not reasons:
            remedy = "mend the cause; `loadframe run --retry-failed` makes failed runs again"
            found.setdefault(why(run), []).append((run.id, why(run), remedy))
    groups = [Exclusion(tuple(name for name, _, _ in rows), rows[0][1], rows[0][2]) for rows in found.values()]
    return sorted(groups, key=lambda group: -len(group.runs))


def why(run: SweepRun) -> str:
    """Return why a run is left out: what failed, or the causes of its verdict."""
    if run.failure:
        return run.failure
    if run.verdict and run.verdict["reasons"]:
        return "; ".join(reason["cause"] for reason in run.verdict["reasons"])
    return standing(run)


def heading(curves: PhaseCurves) -> str:
    """Return what tells these curves from others of the experiment: the phase, and levels of further factors."""
    others = treatment_text(curves.others)
    return f"{curves.phase}, {others}" if others else curves.phase


def fits(curves: PhaseCurves) -> list[tuple[str, ScalabilityFit]]:
    """Return each fit with the title of its table."""
    found = []
    if curves.over_nodes and curves.over_nodes.fit:
        found.append(("Over nodes, each at its best number of clients", curves.over_nodes.fit))
    for curve in curves.over_clients:
        if curve.fit:
            at = f" at {curve.nodes} node{'s' * (curve.nodes != 1)}" if curve.nodes else ""
            found.append((f"Over clients{at}", curve.fit))
    return found


def _best_clients(curves: PhaseCurves) -> str:
    return ", ".join(f"{format_count(row.treatment.clients or 0)} at {row.treatment.nodes}" for row in curves.speedups)


def _single(curves: PhaseCurves) -> str:
    best = max(curves.treatments, key=lambda treatment: treatment.throughput.value)
    return f"Throughput was {measured_text(best.throughput)} {UNIT} at best."
