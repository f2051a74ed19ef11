"""Sentences on a scale experiment: the answer with its intervals, and its limits."""

from collections.abc import Sequence

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.figures import STATES
from loadframe.analyze.scalability import ScalabilityFit
from loadframe.analyze.scale.saturation import IDLE, OVERLOADED, Calibration
from loadframe.analyze.scale.sweep import PhaseCurves, Shape, Sweep
from loadframe.analyze.scale.treatments import Treatment
from loadframe.analyze.verdict.rules import ERROR_LIMIT
from loadframe.base.units import counted, format_count, format_nodes, format_share, format_shares
from loadframe.report.fit import scaled_sentences, sentence
from loadframe.report.labels import UNKNOWN, seconds_text, treatment_text
from loadframe.report.numbers import estimate_text, known_end_text, measured_text, percent_text
from loadframe.report.tables import Cell, count_cell, estimate_cell, time_cells, timed_text

_ENOUGH_SIZES = 6
#: Corrections below this share of the throughput are not mentioned.
_LITTLE = 0.0005


def lead(curves: PhaseCurves) -> str:
    """Return the answer for one measured phase, in one or more sentences, or why it has none.

    With six or more node counts, it is the conclusion of the fit; with fewer, the change from the fewest to the most
    nodes. Without a curve over nodes, it is about the offered rate or the number of clients.
    """
    if not curves.treatments:
        some = any(point.usable for point in curves.points)
        why = (
            f"valid run of {curves.phase} counted {curves.rate.counted}" if some else f"run of {curves.phase} is valid"
        )
        return f"No answer: no {why}."
    nodes, unit = curves.over_nodes, curves.rate.unit
    if nodes is None:
        return _offered(curves) if curves.any_offered else _over_clients(curves)
    if nodes.fit and len({n for n, _ in nodes.fit.observations}) >= _ENOUGH_SIZES:
        return sentence(nodes.fit, unit)
    first, last = curves.speedups[0], curves.speedups[-1]
    few, many = first.treatment.nodes or 0, last.treatment.nodes or 0
    values = (
        f"from {measured_text(first.treatment.throughput)} to {measured_text(last.treatment.throughput)} {unit}"
        f" between {few} and {many} nodes"
    )
    failed = [row.treatment for row in (first, last) if row.treatment.failed]
    if failed or not last.speedup.is_finite:
        times = f": {format_count(last.speedup.value)} times as much on {many / few:g} times the nodes"
        why = f"The store failed{_at(failed)}, so {_bounded(last.speedup)}." if failed else why_open(curves.treatments)
        return f"Throughput went {values}{'' if failed else times}. {why}"
    if last.speedup.low <= 1 <= last.speedup.high:
        return f"No significant change in throughput: it went {values}."
    verb = "grew" if last.speedup.value > 1 else "fell"
    return (
        f"Throughput {verb} {values}: {estimate_text(last.speedup)} times as much on {many / few:g} times the nodes,"
        f" an efficiency of {percent_text(last.efficiency)}."
    )


def _bounded(speedup: Estimate) -> str:
    """Write a speed-up with an end that failures leave open: `the speed-up is below 2.1 (95 % interval)`."""
    text = known_end_text(speedup)
    return f"the speed-up is {text}{'' if text == UNKNOWN else ' (95 % interval)'}"


def conclusion(sweep: Sweep) -> str:
    """Return the conclusion about more nodes, or the reason why the data do not support one.

    It compares the throughput of the largest cluster with that of the smallest.
    """
    for level in (level for curves in sweep.curves for level in curves.failed):
        # The remaining runs do not support a conclusion.
        return f"No conclusion: {level.cause}."
    rows = sweep.curves[0].speedups
    invalid = sum(not run.sound for run in sweep.folder.runs)
    left_out = f" {invalid} of {len(sweep.folder.runs)} runs were invalid." if invalid else ""
    again = "Stop other programs on this machine, and run it again in another folder."
    if len(rows) < 2 or not rows[-1].speedup.is_finite:
        return f"No conclusion: too few valid runs.{left_out} {again}"
    few, many, ratio = rows[0].treatment.nodes, rows[-1].treatment.nodes, rows[-1].speedup
    words = f"{estimate_text(ratio)} times the throughput on {many} nodes instead of {few} (95 % interval in brackets)"
    if ratio.low > 1:
        return f"Conclusion: more nodes answer more requests, {words}."
    if ratio.high < 1:
        return f"Conclusion: more nodes answered fewer requests, {words}."
    return f"No conclusion: these runs do not show whether more nodes answer more requests, {words}.{left_out} {again}"


def _offered(curves: PhaseCurves) -> str:
    """Return where the rate of an open load was achieved, and how the response times change with the nodes.

    It has p50 and p99 on the fewest and the most nodes, and their ratio of p99 if that is known.
    """
    reached = [at for at in curves.best if at.offered]
    missed = [at for at in curves.best if not at.offered]
    words = f"The offered rate was achieved{_at(reached)}{_throughputs(reached, curves)}" if reached else ""
    if missed:
        start = "; in at least one run it" if reached else "In at least one run the offered rate"
        words += f"{start} was not achieved{_at(missed)}{_throughputs(missed, curves)}"
    chosen = curves.sized or curves.best
    first, last = chosen[0], chosen[-1]
    ends = (first, last) if first is not last else (first,)
    times = [
        f"p50 {' to '.join(_time_text(at.response_p50, at.response_p50_low, timed_text(at)) for at in ends)}",
        f"p99 {' to '.join(_time_text(at.response_p99, at.response_p99_low, timed_text(at)) for at in ends)}",
    ]
    span = f" from {first.nodes} to {format_nodes(last.nodes or 0)}" if first is not last else ""
    words += f". Response times of {curves.operation}{span}: {', '.join(times)}"
    ratio = curves.p99_ratio
    failed = [at for at in ends if at.failed]
    if failed or ratio is None:
        change = ", and the change of p99 is unknown" if span else ""
        unknown = f" The store failed{_at(failed)}: these times are of valid runs only{change}." if failed else ""
        return f"{words}.{unknown}"
    if not ratio.is_finite:
        return f"{words}. {why_open((first, last), 'Neither number of nodes')}"
    some = "no significant change of p99, " if ratio.low <= 1 <= ratio.high else "p99 is "
    return f"{words}; {some}{estimate_text(ratio)} times that of {format_nodes(first.nodes or 0)}."


def _is_repeated(treatments: Sequence[Treatment]) -> bool:
    """Return whether any treatment without failures has two or more runs: the variance between runs is known."""
    return any(len(treatment.points) > 1 and not treatment.failed for treatment in treatments)


def why_open(treatments: Sequence[Treatment], subject: str = "No treatment") -> str:
    """Return a sentence: why a ratio lacks a finite interval.

    If any treatment is repeated, the generator's limits are the cause; otherwise, the unknown variance between runs.
    `subject` begins the latter sentence.
    """
    if _is_repeated(treatments):
        return "The load generator's own limits leave the size of the change open."
    return f"{subject}{_without_failures(treatments)} has two valid runs, so the variance between runs is unknown."


def _without_failures(treatments: Sequence[Treatment]) -> str:
    """Return ` without failures`, to qualify treatments, if the store failed at any; else an empty text."""
    return " without failures" if any(treatment.failed for treatment in treatments) else ""


def _at(treatments: Sequence[Treatment]) -> str:
    """Write the numbers of nodes of treatments as part of a sentence: ` at 1, 2 and 4 nodes`; empty if unknown."""
    counts = [at.nodes for at in treatments if at.nodes]
    return f" at {format_nodes(*counts)}" if counts else ""


def _throughputs(treatments: Sequence[Treatment], curves: PhaseCurves) -> str:
    """Write the range of the treatments' throughputs with its unit, in parentheses: ` (512 to 540 requests/s)`.

    One number if both ends read alike. Needs a treatment.
    """
    values = [at.throughput.value for at in treatments]
    ends = dict.fromkeys(format_count(value) for value in (min(values), max(values)))
    return f" ({' to '.join(ends)} {curves.rate.unit})"


def _time_text(value: float | None, low: float | None, some: str) -> str:
    """Write the response time `value`, s; a dash for None.

    Write `at most ...` if the load generator's delays leave it open down to a smaller `low`, s; None: no bound.
    `some` names the runs that have it, such as `1 of 3 runs`; empty if all have.
    """
    text = f"at most {seconds_text(value)}" if value and low is not None and low < value else seconds_text(value)
    return f"{text} ({some})" if some else text


def limits(curves: PhaseCurves) -> list[str]:
    """Return sentences on the limits of the data: few sizes, choice of clients, calibration, and untried clients."""
    words = _scaled(curves)
    nodes = curves.over_nodes
    if nodes:
        counts = sorted({treatment.nodes or 0 for treatment in nodes.treatments})
        if len(counts) < _ENOUGH_SIZES:
            words.append(
                f"{counted(len(counts), 'node count')} cannot distinguish a curve that flattens from one that keeps"
                f" growing, so the report makes no claim beyond {format_nodes(counts[-1])}."
            )
        if curves.over_clients:
            words.append(
                "Each number of nodes uses its best number of clients: the throughput with the highest lower"
                f" confidence bound{_survivors(curves)} ({_best_clients(curves)}). {_luck(curves)}"
            )
    words += [_calibration(calibration) for calibration in curves.calibrations]
    if curves.at_edge:
        words.append(
            f"At {format_nodes(*curves.at_edge)} the largest number of clients gave the highest throughput: more"
            " clients may give more. Add larger numbers of clients."
        )
    return words


def _scaled(curves: PhaseCurves) -> list[str]:
    """Return sentences on weak scaling by Gustafson's law, unless `lead` contains them."""
    nodes = curves.over_nodes
    if nodes is None or nodes.fit is None or len({n for n, _ in nodes.fit.observations}) >= _ENOUGH_SIZES:
        return []
    return scaled_sentences(nodes.fit)


def over_clients(curves: PhaseCurves) -> list[tuple[str, str]]:
    """Return names and conclusion of the curves over clients, one pair for curves with the same conclusion.

    A name has the numbers of nodes, or is `over clients`. A conclusion that `lead` contains is left out.
    """
    nodes: dict[str, list[int]] = {}
    for curve in curves.over_clients:
        words = sentence(curve.fit, curves.rate.unit) if curve.fit else f"Not fitted: {curve.refusal}."
        nodes.setdefault(words, []).extend([curve.nodes] if curve.nodes else [])
    answer = lead(curves)
    return [
        (format_nodes(*counts) if counts else "over clients", words)
        for words, counts in nodes.items()
        if words != answer
    ]


def treatment_rows(curves: PhaseCurves) -> tuple[tuple[str, ...], list[list[Cell]]]:
    """Return the columns and rows of a table of all treatments, for curves without speed-ups.

    Throughput is in the unit of its column; p50 and p99 are response times.
    """
    columns = ("nodes", "clients", "runs", curves.rate.unit, "p50", "p99", "figures")
    rows = [
        [
            count_cell(at.nodes) if at.nodes else Cell(""),
            count_cell(at.clients) if at.clients else Cell(""),
            count_cell(len(at.points)),
            estimate_cell(measured_text(at.throughput, at.stretch), at.throughput),
            *time_cells(at),
            _figures_cell(at),
        ]
        for at in curves.treatments
    ]
    return columns, rows


def _figures_cell(treatment: Treatment) -> Cell:
    """Return the worst state of a treatment's figures: good, bounded or unknown.

    The small text has the largest share of failed requests of a run, if that is above the limit of the verdict.
    """
    states = (state for point in treatment.points for state in (point.state, point.response_state))
    failed = max(point.failed_share for point in treatment.points)
    small = f"{format_share(failed)} of requests failed" if failed > ERROR_LIMIT else ""
    return Cell(max(states, key=STATES.index), small)


def times_text(curves: PhaseCurves) -> str:
    """Return a sentence that names the operation of the response times; empty if the phase has only one."""
    if not curves.other_operations:
        return ""
    return f"p50 and p99 are response times of {curves.operation}, one of several operations."


def heading(curves: PhaseCurves) -> str:
    """Return the heading of the curves: the phase, and the levels of other factors."""
    others = treatment_text(curves.others)
    return f"{curves.phase}, {others}" if others else curves.phase


def fits(curves: PhaseCurves) -> list[tuple[str, ScalabilityFit]]:
    """Return each fit with the title of its table: over nodes first, then over clients at each number of nodes."""
    titled = []
    if curves.over_nodes and curves.over_nodes.fit:
        titled.append(("Over nodes, each at its best number of clients", curves.over_nodes.fit))
    for curve in curves.over_clients:
        if curve.fit:
            at = f" at {format_nodes(curve.nodes)}" if curve.nodes else ""
            titled.append((f"Over clients{at}", curve.fit))
    return titled


def equal_resources(shapes: Sequence[Shape], unit: str) -> list[str]:
    """Return sentences that compare many small nodes with few large ones that have the same CPUs in total.

    `shapes` must be grouped by phase, other levels and total CPUs. The first of each group is the one that the others
    are compared with. `unit` is that of the throughputs.
    """
    words = []
    base: Shape | None = None
    for shape in shapes:
        alike = base and (base.phase, base.others, round(base.total, 6))
        if base is None or alike != (shape.phase, shape.others, round(shape.total, 6)):
            base = shape
            continue
        figures = f"{format_count(shape.throughput.value)} against {format_count(base.throughput.value)} {unit}"
        if shape.is_open:
            text = known_end_text(shape.ratio)
            ratio = f"the store failed, so the ratio of {_shape(shape)} to {_shape(base)} is {text}"
        else:
            ratio = f"{_shape(shape)} gave {measured_text(shape.ratio)} times the throughput of {_shape(base)}"
        words.append(f"{shape.phase}, {shape.total:g} CPUs in total: {ratio} ({figures}).")
    return words


def _shape(shape: Shape) -> str:
    """Write the number of nodes and the CPUs of each: `4 nodes of 0.5`."""
    return f"{format_nodes(shape.nodes)} of {shape.cpus:g}"


def _calibration(calibration: Calibration) -> str:
    """Return a sentence on the most clients that keep the CPU use of every node between 20 % and 90 % of its limit.

    If no number does, say so with the reason and a remedy.
    """
    at = f"At {format_nodes(calibration.nodes)}" if calibration.nodes else "There"
    shares = format_shares(calibration.idlest or 0, calibration.busiest or 0, (IDLE, OVERLOADED))
    kept = f"kept every node between {format_share(IDLE)} and {format_share(OVERLOADED)} of its CPU limit"
    if calibration.clients is None:
        return f"{at} no number of clients {kept} (the nodes used {shares}). {_outside(calibration)}"
    clients = "only a single client" if calibration.clients == 1 else f"up to {calibration.clients} clients"
    return f"{at} {clients} {kept} ({shares})."


def _outside(calibration: Calibration) -> str:
    """Return sentences on why CPU use outside the bounds of a calibration matters, and the remedy.

    CPU use must be below the lower or above the upper bound.
    """
    idle, full = (calibration.idlest or 0) < IDLE, (calibration.busiest or 0) > OVERLOADED
    why = []
    if idle:
        why.append("nodes with little load do not show their capacity")
    if full:
        why.append("at the limit, more clients add waiting time, not throughput")
    words = "; ".join(why)
    if idle and full:
        remedy = (
            "Add numbers of clients between those measured; if one node idles while another is full, balance the data"
        )
    else:
        remedy = f"Add {'smaller' if full else 'larger'} numbers of clients"
    return f"{words[0].upper()}{words[1:]}. {remedy}."


def _best_clients(curves: PhaseCurves) -> str:
    """Write the best number of clients for each number of nodes: `8 at 1, 16 at 2`."""
    return ", ".join(f"{format_count(row.treatment.clients or 0)} at {row.treatment.nodes}" for row in curves.speedups)


def _survivors(curves: PhaseCurves) -> str:
    """Return a clause that the best clients are chosen among those without failures.

    Empty if the store failed at no treatment.
    """
    some = any(treatment.failed for treatment in curves.treatments)
    return " without a failure of the store, if there is one" if some else ""


def _luck(curves: PhaseCurves) -> str:
    """Return a sentence on the correction for selecting the best of several numbers of clients."""
    if not _is_repeated(curves.treatments):
        unlike = _without_failures(curves.treatments)
        return f"No treatment{unlike} has two valid runs, so the selection bias is unknown."
    most = 1 - min(row.treatment.without_luck for row in curves.speedups)
    if most < _LITTLE:
        return "Their leads are too large to be due to chance."
    return (
        "Part of the lead of the best is chance: its throughput was corrected by up to"
        f" {format_share(most, 1)} (shrinkage towards numbers of clients that perform almost alike)."
    )


def _over_clients(curves: PhaseCurves) -> str:
    """Return the answer for one size: the growth with the clients, or without a fit the highest mean throughput."""
    if fits := [curve.fit for curve in curves.over_clients if curve.fit]:
        return sentence(fits[0], curves.rate.unit)
    most = max(curves.treatments, key=lambda at: at.throughput.value)
    at = f" with {counted(most.clients, 'client')}" if most.clients and len(curves.treatments) > 1 else ""
    return f"The highest mean throughput was {measured_text(most.throughput)} {curves.rate.unit}{at}."
