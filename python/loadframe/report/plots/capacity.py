"""Plots of a capacity experiment: response time of each trial against its rate, and capacity against nodes."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from loadframe.analyze.capacity import USERS, Capacities, Capacity, Kind, Outcome
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scalability import ScalabilityFit
from loadframe.base.units import format_count, format_nodes
from loadframe.report.capacity_words import OPEN, least, subject_text, unit_of
from loadframe.report.fit import is_conclusive
from loadframe.report.labels import seconds_text, treatment_text
from loadframe.report.plot import (
    COLORS,
    INK,
    MUTED,
    Axis,
    Band,
    Figure,
    LineStyle,
    Mark,
    Panel,
    Rule,
    Trace,
    level_ticks,
    logarithmic,
    numbers,
)

_MARKS = {
    Outcome.PASSED: Mark(COLORS[2], size=9),
    Outcome.FAILED: Mark(COLORS[1], "x", 9),
    Outcome.INVALID: Mark(MUTED, "diamond", 9),
}


def trials_plot(capacity: Capacity, capacities: Capacities, name: str) -> Figure:
    """Draw the trials of a treatment: rate or users, response time (ms) and outcome. `name` is the plot's identifier.

    If operations have limits of their own, the y axis is the worst ratio of a response time to its limit. Trials
    without a response time or a limit are left out.
    """
    attempts = [attempt for search in capacity.searches for attempt in search.attempts]
    apart, unit = bool(capacities.slo.operations), unit_of(capacity.over)
    traces = []
    for outcome, mark in _MARKS.items():
        shown = [
            (attempt, attempt.judgement.response)
            for attempt in attempts
            if attempt.judgement.outcome is outcome and attempt.judgement.response and attempt.judgement.limit
        ]
        if shown:
            texts = [
                f"{attempt.run}\n{format_count(attempt.rate)} {unit}: {seconds_text(response)}"
                for attempt, response in shown
            ]
            rates = [attempt.rate for attempt, _ in shown]
            # If operations have different limits, draw the ratio of the worst operation's response to its limit.
            times = [
                response / (attempt.judgement.limit or 1) if apart else 1e3 * response for attempt, response in shown
            ]
            traces.append(Trace(numbers(rates), numbers(times), outcome.value, mark=mark, texts=texts))
    limit = 1.0 if apart else 1e3 * (capacities.slo.response or 0.0)
    over = "response of the worst operation / its limit" if apart else f"{subject_text(capacities.slo)}, ms"
    return Figure(
        name,
        replace(
            logarithmic(
                "users (log scale)" if capacity.over == USERS else "offered rate, requests/s (log scale)",
                [attempt.rate for attempt in attempts],
            ),
            whole=capacity.over == USERS,
        ),
        [Panel(logarithmic(f"{over} (log scale)", [limit]))],
        traces,
        f"Each mark is a trial of {treatment_text(capacity.treatment) or 'the store'}. Dotted line: the SLO's limit. A"
        " trial below it can still fail because of errors, an unachieved load, or a growing backlog.",
        rules=[Rule(limit, over="y", dash="dot")],
    )


def capacity_plot(capacities: Sequence[Capacity], fitted: ScalabilityFit | None, name: str) -> Figure:
    """Draw capacity (requests/s or users) against nodes, with the fitted curve and its band if the fit is conclusive.

    Treatments without a rate are left out. `name` is the plot's identifier.
    """
    known = [(capacity, capacity.rate) for capacity in capacities if capacity.rate]
    unit = unit_of(capacities[0].over if capacities else "rate")
    traces: list[Trace] = []
    bands: list[Band] = []
    if fitted and is_conclusive(fitted):
        sizes = np.linspace(min(capacity.nodes for capacity, _ in known), fitted.largest, 80)
        low, high = fitted.best_model.band(sizes)
        bands.append(Band(numbers(sizes), numbers(low), numbers(high), COLORS[0], "fit"))
        rates = fitted.best_model.predicted(sizes)
        texts = [
            f"fit\n{n:.3g} node{'' if n == 1 else 's'}: {format_count(rate)} {unit}"
            for n, rate in zip(sizes, rates, strict=True)
        ]
        traces.append(Trace(numbers(sizes), numbers(rates), "fit", LineStyle(COLORS[0], 2), texts=texts))
    for kinds, label, mark in (
        ((Kind.BRACKETED,), "capacity", Mark(INK, size=9)),
        (OPEN, "at least", Mark(INK, "triangle-up", 10)),
        ((Kind.UPPER_BOUND,), "at most", Mark(INK, "triangle-down", 10)),
    ):
        shown = [(it, _marked(it, rate)) for it, rate in known if it.kind in kinds]
        if not shown:
            continue
        bars = [_bar(capacity, rate) for capacity, rate in shown]
        bound = "" if label == "capacity" else f"{label} "
        traces.append(
            Trace(
                [capacity.nodes for capacity, _ in shown],
                numbers([rate.value for _, rate in shown]),
                label,
                mark=mark,
                low=numbers([low for low, _ in bars]),
                high=numbers([high for _, high in bars]),
                texts=[f"{format_nodes(it.nodes)}: {bound}{format_count(rate.value)} {unit}" for it, rate in shown],
            )
        )
    return Figure(
        name,
        Axis("nodes", whole=True, ticks=level_ticks([capacity.nodes for capacity, _ in known])),
        [Panel(Axis(unit, from_zero=True))],
        traces,
        "Each mark is a capacity, with the 95 % interval over repeated searches. With one search, the mark is the"
        " highest rate that passed, and the bar reaches to the rate that failed; it is not an interval. A triangle"
        " up is a lower bound, a triangle down an upper bound.",
        bands,
    )


def _marked(capacity: Capacity, rate: Estimate) -> Estimate:
    """Return the estimate to mark: for a bound, the end that the text states, without a bar; else `rate` unchanged."""
    if capacity.kind in OPEN:
        return Estimate(least(capacity), least(capacity), math.inf)
    return Estimate(rate.high, rate.high, rate.high) if capacity.kind is Kind.UPPER_BOUND else rate


def _bar(capacity: Capacity, rate: Estimate) -> tuple[float, float]:
    """Return the ends of a capacity's bar: its bracket, or its interval. An infinite upper end becomes the value."""
    low, high = capacity.bracket or (rate.low or rate.value, rate.high)
    return low, high if np.isfinite(high) else rate.value
