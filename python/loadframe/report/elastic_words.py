"""The answer of an elastic experiment in sentences, and its measures as texts for page and terminal alike."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadframe.analyze.elastic import MEASURES, Group, Repeated, StepMeasures, by_chance, drifted
from loadframe.analyze.estimate import Estimate, proportion
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.rates import EVENTS, RATES, THROUGHPUT, Rate
from loadframe.base.units import format_count, format_duration, format_nodes, format_share, format_size, parse_size
from loadframe.report.numbers import estimate_text, percent_text

_PER_SECOND = {rate.unit for rate in (*RATES.values(), EVENTS)}


@dataclass(frozen=True)
class Row:
    """One measure in words: with the event, in the control runs, and the difference."""

    title: str
    value: str
    control: str
    difference: str
    says: str


def heading(group: Group) -> str:
    """Return what tells a transition under a load from the others."""
    return f"{group.transition}, {group.load}"


def step_heading(step: StepMeasures) -> str:
    """Return what a step did, and to how many nodes."""
    nodes = format_nodes(step.before)
    more = "" if step.after == step.before else f", then {format_count(step.after)}"
    return f"Step {step.number}: {step.change or 'no change'} ({nodes}{more}; {format_duration(step.horizon)} watched)"


def lead(group: Group) -> list[str]:
    """Return what happened, a sentence or two for each step."""
    if not group.runs:
        return list(_unanswered(group))
    return [words for step in group.steps for words in _sentences(group, step)]


def _unanswered(group: Group) -> Iterator[str]:
    """Say that there is no answer, what is shown instead, and by which rules these runs were judged."""
    yield "No answer: no run with the event is valid."
    if group.example:
        yield f"{shown_as_invalid(group.example)} No figure uses it."
        yield _RULES


def shown_as_invalid(run: RecordedRun) -> str:
    """Say that a course is that of an invalid run, and why it is invalid."""
    causes = "; ".join(reason.cause for reason in run.reasons)
    return f"The course shown is that of {run.id}, which is invalid: {causes}."


#: See `verdict.judge` for runs whose cluster is changed.
_RULES = (
    "A run in which the cluster is changed is judged by its load generator, by whether anything was answered, and by"
    " whether each step was begun. Failures, drops, a step that the store did not make, a rate that was not achieved"
    " and throughput that drifts may be caused by the change, and make no run invalid."
)


def _sentences(group: Group, step: StepMeasures) -> list[str]:
    measures = step.measures
    parts = []
    if step.joins:
        parts.append(_joining(measures["join_delay"], *step.joins))
    if "departure" in measures:
        parts.append(f"the node had left after {_said(measures['departure'])}")
    if "redistribution" in measures:
        # Counted from where the node is a member, or was told to leave.
        took, left = _said(measures["redistribution"]), "departure" in measures
        parts.append(f"all data were in place after {took}" if left else f"its data were in place {took} later")
    if "stabilisation" in measures:
        parts.append(f"throughput and response times had settled after {_said(measures['stabilisation'])}")
    words = [f"{step.change or 'Without a change'}: {', '.join(parts) or 'see the table'}."]
    words[0] = words[0][:1].upper() + words[0][1:]
    if "lost_work" in measures:
        lost = measures["lost_work"]
        cost = _cost(lost)
        even = measures.get("break_even")
        dear = lost.difference is None or lost.difference.value > 0
        if dear and even and even.mean.value and step.after > step.before:
            cost += f"; it was made up for after {_said(even)}" if not even.censored else "; it was not made up for"
        words.append(f"{cost}.")
    if "realised_gain" in measures and step.after > step.before:
        growth, gain = step.after / step.before, measures["realised_gain"].mean
        gave = f"{format_count(growth)} times the nodes gave {format_count(round(gain.value * growth, 2))} times the"
        counted = "" if group.rate is THROUGHPUT else f" ({group.rate.unit})"
        gave += f" throughput{counted}{_of(measures['realised_gain'])}"
        if drift := drifted(measures):
            words.append(
                f"{gave}, but in the control run it became {_text(drift, '')} times what it was without"
                " them: the effect of the nodes cannot be separated from drift."
            )
        elif more := by_chance(measures):
            words.append(
                f"{gave}, and the control runs without them {_alone(measures['growth'])} times. The difference,"
                f" {estimate_text(more)}, may be chance: neither gain nor loss is claimed."
            )
        else:
            words.append(f"{gave}{_brought(gain, growth)}.")
    if group.open and "slowdown" in measures:
        slow = (
            estimate_text(measures["slowdown"].mean)
            if measures["slowdown"].mean.is_finite
            else _plain(measures["slowdown"])
        )
        words.append(f"At its worst second p99 was {slow} times what it was before.")
    return words


def _joining(delay: Repeated, joined: int, runs: int) -> str:
    """Say in how many runs the node joined, and after how long in these."""
    if joined == runs:
        return f"the node was a member after {_said(delay)}"
    share = proportion(joined, runs)
    interval = f"[{100 * share.low:.0f}, {100 * share.high:.0f}]"
    words = f"{joined} of {runs} joined ({format_share(share.value)} {interval})"
    return words if delay.conditional is None else f"{words}, those after {_duration(delay.conditional)}"


def _brought(gain: Estimate, growth: float) -> str:
    """Say what more nodes brought: a loss only where the interval lies below what the nodes did before."""
    if not gain.is_finite:
        less = gain.value * growth < 1
        seen = "less than before" if less else f"a realised gain of {_text(gain, 'share')}"
        return f": {seen}, in a single run, so its scatter is unknown"
    if gain.high * growth < 1:
        return ": more nodes did less"
    if gain.low * growth <= 1:
        return ": neither gain nor loss exceeds the scatter of the runs"
    return f": a realised gain of {_text(gain, 'share')}"


def _alone(measure: Repeated) -> str:
    """Write its mean in the control runs, which there are."""
    assert measure.drift
    return format_count(round(measure.drift.value, 2))


def _cost(lost: Repeated) -> str:
    if lost.difference is None:
        return f"On the way the work of {_duration(lost.mean)} was lost{_of(lost)}"
    if lost.difference.value <= 0:
        return f"On the way no more work was lost than in the control run{_of(lost)}"
    return f"On the way the work of {_duration(lost.difference)} was lost, beyond the control run's{_of(lost)}"


def rows(step: StepMeasures, rate: Rate) -> list[Row]:
    """Return each measure of a step in words; `rate` is what throughput counts."""
    return [_row(measure, rate) for measure in step.measures.values()]


def score_rows(group: Group) -> list[tuple[str, Sequence[str]]]:
    """Return each policy run's scores, by its name."""
    return [
        (
            run,
            (
                format_share(score.under_accuracy, 1),
                format_share(score.over_accuracy, 1),
                format_share(score.under_share, 1),
                format_share(score.over_share, 1),
                f"{60 * score.jitter:+.2f}/min",
            ),
        )
        for run, score in group.provisioning.items()
    ]


SCORES = ("run", "too few: accuracy", "too many: accuracy", "too few: time", "too many: time", "jitter")


def _row(measure: Repeated, rate: Rate) -> Row:
    named = MEASURES[measure.name]
    unit = rate.unit if named.unit == "rate" else named.unit
    control = [value.value for value in measure.control.values()]
    censored = any(value.censored for value in measure.control.values())
    alone = Estimate(sum(control) / len(control), float("-inf"), float("inf")) if control else None
    return Row(
        title=named.title,
        value=_said(measure, unit),
        control="–" if alone is None else f"{'> ' * censored}{_text(alone, unit)}",
        difference="–" if measure.difference is None else _text(measure.difference, unit),
        says=named.says.format(counted=rate.counted),
    )


def _said(measure: Repeated, unit: str | None = None) -> str:
    """Write a measure: `12.3 s [10.1, 14.5]`, `> 480 s (in 1 of 3 runs)`, `12.3 s (from 1 of 3 runs)`."""
    text = _text(measure.mean, unit or MEASURES[measure.name].unit)
    if measure.censored:
        runs = f" (in {measure.censored} of {len(measure.values)} runs)" if len(measure.values) > 1 else ""
        text = f"> {text}{runs}"
        if measure.conditional:
            text += f"; {_text(measure.conditional, unit or MEASURES[measure.name].unit)} in the others"
    return text + _of(measure)


def _of(measure: Repeated) -> str:
    """Say on how few of its runs a measure rests."""
    told = len(measure.values)
    return f" (from {told} of {measure.runs} runs)" if told < measure.runs else ""


def _plain(measure: Repeated) -> str:
    return format_count(measure.mean.value)


def _text(estimate: Estimate, unit: str) -> str:
    if unit == "share":
        return percent_text(estimate) if estimate.is_finite else f"{100 * estimate.value:.3g} %"
    if unit in ("s", "seconds"):
        return _duration(estimate)
    if unit in _PER_SECOND:
        scatters = estimate.is_finite and estimate.low < estimate.high
        return _in(estimate, 1.0, unit) if scatters else f"{format_count(round(estimate.value, 2))} {unit}"
    if unit in ("bytes", "bytes/s"):
        return _size(estimate, unit.removeprefix("bytes"))
    return estimate_text(estimate) if estimate.is_finite else format_count(estimate.value)


def _duration(estimate: Estimate) -> str:
    if not estimate.is_finite:
        return format_duration(estimate.value) if estimate.value else "0 s"
    if estimate.low == estimate.high:
        return format_duration(estimate.value) if estimate.value else "0 s"
    small = abs(estimate.value) < 1.0 and abs(estimate.high) < 1.0
    return _in(estimate, *((1e-3, "ms") if small else (1.0, "s")))


def _size(estimate: Estimate, per: str) -> str:
    if not estimate.is_finite or estimate.low == estimate.high:
        return format_size(estimate.value) + per
    unit = format_size(estimate.value).rpartition(" ")[2]
    return _in(estimate, parse_size(f"1{unit}"), unit + per)


def _in(estimate: Estimate, unit: float, name: str) -> str:
    """Write an estimate in another unit, of this size in its own."""
    scaled = Estimate(estimate.value / unit, estimate.low / unit, estimate.high / unit)
    value, _, interval = estimate_text(scaled).partition(" [")
    return f"{value} {name} [{interval}"
