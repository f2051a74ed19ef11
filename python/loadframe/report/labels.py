"""Short texts from manifests and summaries: load models, clusters, failures, durations."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loadframe.base.units import (
    counted,
    format_count,
    format_duration,
    format_level,
    format_limit,
    format_nodes,
    format_share,
    format_size,
    share_beside,
    short_names,
)

if TYPE_CHECKING:
    from loadframe.analyze.percentiles import Percentile
    from loadframe.record.schema.figures import Figures, Latency, OperationFigures, SourceFigures
    from loadframe.record.schema.manifest import RecordedLimits, RecordedStore
    from loadframe.record.schema.summary import Level, PhaseSummary, StreamSummary

#: A stream that ran for less than this share of its phase ended before the others.
_MOST = 0.99
_STAGES = " in stages"
#: The number of failure messages that the terminal shows for each operation.
_MESSAGES = 3
#: Displayed names of arrival processes that differ from their keys.
_ARRIVALS = {"poisson": "Poisson"}

#: The end of an interval that the load generator or the number of requests leaves open.
UNKNOWN = "unknown"


def pacing_text(stream: "StreamSummary") -> str:
    """Write the load model of a stream: `8 clients thinking 250 ms`, `90 users on 8 clients`, `9/s, Poisson`.

    A level with stages is `0 to 9/s in stages`. A stream with a source is `events of NAME on 4 workers`.
    """
    if stream.source is not None:
        return f"events of {stream.source} on {counted(stream.workers, 'worker')}"
    if stream.rate is not None:
        rate = f"{_level_text(stream.rate)}/s{_STAGES * stream.has_stages}"
        group = f", {stream.group} requests together" if stream.group > 1 else ""
        return f"{rate}{group}, {_ARRIVALS.get(stream.arrivals or '', stream.arrivals)}"
    clients, think = stream.clients or 0, stream.think_time
    words = f"{_level_text(clients)} client{'s' * (clients != 1)}{_STAGES * stream.has_stages}"
    paced = f", starting every {format_duration(stream.pacing_time)}" if stream.pacing_time else ""
    if stream.users is not None:
        return f"{counted(stream.users, 'user')} on {words}{paced}"
    if isinstance(think, Mapping):
        return f"{words} with random think time"
    return f"{words} thinking {format_duration(think)}" if think else words + paced


def _level_text(level: "Level") -> str:
    """Write a number, or for a level with stages the range from its least to its greatest value: `1 to 8`."""
    if not isinstance(level, Mapping):
        return format_count(level)
    levels = [level["from"], *(stage["to"] for stage in level["stages"])]
    return f"{format_count(min(levels))} to {format_count(max(levels))}"


def load_text(phase: "PhaseSummary") -> str:
    """Write the load model of a phase; with several streams, of each after its name, joined by semicolons."""
    if len(phase.streams) == 1:
        return pacing_text(phase.streams[0])
    return "; ".join(f"{stream.name}: {pacing_text(stream)}" for stream in phase.streams)


def closed_text(phases: "Sequence[PhaseSummary]") -> str:
    """Return sentences on the bias of a closed loop on percentiles; empty if all measured streams are open.

    Measured are the phases that do not prepare; all phases if each prepares.
    """
    measured = [phase for phase in phases if not phase.prepares] or phases
    if all(stream.is_open for phase in measured for stream in phase.streams):
        return ""
    return (
        "Closed loop: each client waits for its answer before it sends the next request. A slow store therefore gets"
        " fewer requests, and percentiles understate the response times of independent users. Use --rate for an open"
        " loop."
    )


def cluster_text(store: "RecordedStore") -> str:
    """Write `opensearch 3.8.0, 2 nodes, each 0.5 CPUs and 1 GiB`, without the parts that are not recorded."""
    words = [" ".join(filter(None, (store.kind, store.version)))]
    if store.nodes:
        words.append(format_nodes(store.nodes))
    limits = limits_text(store.limits)
    return ", ".join([*words, limits] if limits else words)


def limits_text(limits: "RecordedLimits") -> str:
    """Write the limits of each node, such as `each 0.5 CPUs and 1 GiB on cores 0, 1`; empty without limits."""
    parts = []
    if limits.cpus:
        parts.append(f"{limits.cpus:g} CPUs")
    if limits.memory:
        parts.append(format_size(limits.memory))
    words = f"each {' and '.join(parts)}" if parts else ""
    return " ".join(filter(None, [words, cores_text(limits.cores, limits.cores_each)]))


def cores_text(numbers: Sequence[int] | None, per_node: int | None) -> str:
    """Write the cores of nodes: `on core 0`, `on cores 0, 1`, `on a dedicated core of 0, 1`; empty for all cores.

    `numbers` are the core numbers that nodes share; None or empty is all. `per_node` is the number of dedicated cores
    of each node; None or 0 is none.
    """
    listed = ", ".join(map(str, numbers or ()))
    if per_node:
        apart = "on a dedicated core" if per_node == 1 else f"on {per_node} dedicated cores"
        return f"{apart} of {listed}" if numbers else apart
    return f"on core{'s' * (len(numbers) != 1)} {listed}" if numbers else ""


def seconds_text(seconds: float | None) -> str:
    """Write a duration with its unit, such as `12.3 ms`, or a dash for None."""
    return "–" if seconds is None else format_duration(seconds)


def ends_text(percentile: "Percentile | None") -> tuple[str, str]:
    """Return the texts of both ends of a percentile's 95 % interval, such as `12.3 ms`.

    An end without a bound is `unknown`; both are empty for None.
    """
    if percentile is None:
        return "", ""
    low, high = (UNKNOWN if end is None else format_duration(end) for end in percentile.ends)
    return low, high


def interval_text(percentile: "Percentile | None") -> str:
    """Write a percentile's 95 % interval, `[1.2 ms, 3 ms]`, with `*` if few requests are slower; empty for None.

    Ends that read alike are written once.
    """
    if percentile is None:
        return ""
    ends = dict.fromkeys(ends_text(percentile))
    words = f"[{', '.join(ends_text(percentile))}]" if len(ends) > 1 else f"[{next(iter(ends))}]"
    return f"{words}{'*' * percentile.few}"


def few_text(percentiles: "Iterable[Percentile]") -> str:
    """Return sentences that explain `*` and unknown bounds of percentiles; empty if neither occurs."""
    # Imported late: commands that need no analysis import this module, too.
    from loadframe.analyze.percentiles import ENOUGH

    listed = list(percentiles)
    words = []
    if any(percentile.few for percentile in listed):
        words.append(f"* Fewer than {ENOUGH} requests are slower: single requests decide this percentile.")
    if any(percentile.too_short for percentile in listed):
        words.append("unknown: the phase is too short for a 95 % interval, since response times may change slowly.")
    if any(end is None for percentile in listed if not percentile.too_short for end in percentile.ends):
        words.append("unknown: too few independent requests for a 95 % bound on this side.")
    return " ".join([*words, "Measure longer, or at a higher rate, before you rely on it."]) if words else ""


def with_parts(operations: "Mapping[str, OperationFigures]") -> "Iterator[tuple[str, Figures]]":
    """Yield name and figures of each operation, each followed by its parts, such as the pages of a scroll.

    The name of a part begins with `· `.
    """
    for name, operation in operations.items():
        yield name, operation
        for part, figures in operation.parts.items():
            yield f"· {part}", figures


def _operation(figures: "Figures") -> "OperationFigures | None":
    """Return the figures if they belong to an operation; None if they belong to a part of one."""
    # Imported late: commands that need no record import this module, too.
    from loadframe.record.schema.figures import OperationFigures

    return figures if isinstance(figures, OperationFigures) else None


def with_failures(operation: "Figures") -> "Latency | None":
    """Return the response times of all requests, successful or not; unanswered ones count with their wait so far.

    Return None if no request failed or was unanswered (dropped ones do not count), or if the run did not record these
    times (earlier versions).
    """
    whole = _operation(operation)
    return operation.all if operation.errors or (whole and whole.in_flight_at_end) else None


def errors_text(figures: "Figures") -> str:
    """Write the failures of an operation or a part by class: `3 timeout, 1 rejected`; empty without any.

    For an operation, dropped and unanswered requests follow.
    """
    words = [f"{format_count(count)} {kind}" for kind, count in figures.errors.items()]
    operation = _operation(figures)
    if operation and operation.dropped:
        words.append(f"{format_count(operation.dropped)} dropped")
    if operation and operation.in_flight_at_end:
        words.append(f"{format_count(operation.in_flight_at_end)} unanswered")
    return ", ".join(words)


def messages_texts(phase: "PhaseSummary") -> list[str]:
    """Return texts for at most three failures of each operation, the most frequent first.

    Form: `120 of ask failed with 401 (client): token expired`.
    """
    return [
        f"{format_count(message.count)} of {name} failed with"
        f" {'' if message.status is None else f'{message.status} '}({message.error}): {message.message}"
        for name, operation in phase.operations.items()
        for message in operation.messages[:_MESSAGES]
    ]


def reconnects_texts(phase: "PhaseSummary") -> list[str]:
    """Return a text with the number of connections that a phase's clients reopened; no text if there are none."""
    count = sum(operation.reconnects for operation in phase.single.values())
    return [f"{counted(count, 'reconnect')}: the server closed the connection, or it broke"] if count else []


def retries_texts(phase: "PhaseSummary") -> list[str]:
    """Return a text for each operation of a phase that had retries, with their number."""
    return [
        f"{counted(operation.retries, 'retry', 'retries')} of {name}: response times include the back-off"
        for name, operation in phase.operations.items()
        if operation.retries
    ]


def setup_texts(phase: "PhaseSummary") -> list[str]:
    """Return a text with p50, p99 and maximum of the set-up times of connections; no text if none is recorded."""
    setup = phase.setup
    if setup is None or not setup.count or setup.p50 is None or setup.p99 is None or setup.max is None:
        return []
    times = f"p50 {format_duration(setup.p50)}, p99 {format_duration(setup.p99)}, max {format_duration(setup.max)}"
    return [f"setup of {counted(setup.count, 'connection')}: {times}"]


def kernel_times_texts(phase: "PhaseSummary") -> list[str]:
    """Return a text for each operation with kernel timestamps.

    It has the service time, the time without the generator's part, and that part, each as mean, p50 and p99; and the
    number of successes without timestamps.
    """
    return [
        f"kernel timestamps of {name}: {words}"
        for name, operation in phase.operations.items()
        if (words := _kernel_times_text(operation))
    ]


def _kernel_times_text(operation: "OperationFigures") -> str | None:
    """Write the kernel times of an operation; None if timestamps were off, or without a success."""
    times = operation.kernel_times
    if times is None or not times.corrected.count + times.without:
        return None
    if not times.corrected.count:
        return f"none of {counted(times.without, 'success', 'successes')} has any"
    part = times.overhead.mean or 0.0
    # The part of the stamped successes only: `operation.service` includes the others.
    mean = part + (times.corrected.mean or 0.0)
    service, rest, overhead = (
        f"mean {seconds_text(latency.mean)}{share}, p50 {seconds_text(latency.p50)}, p99 {seconds_text(latency.p99)}"
        for latency, share in (
            (operation.service, ""),
            (times.corrected, ""),
            (times.overhead, f" ({format_share(part / mean)} of the mean)" if mean else ""),
        )
    )
    words = (
        f"service time {service}; without the generator's part (a lower bound): {rest}; its part: {overhead};"
        " percentiles do not add up"
    )
    if times.without:
        words += f" ({counted(times.without, 'success', 'successes')} without timestamps omitted)"
    if times.receive_only:
        words += f" ({counted(times.receive_only, 'success', 'successes')} corrected for receiving only)"
    return words


def recall_text(figures: "Figures") -> str | None:
    """Write the recall of an operation: `recall 0.934`; None if it was not measured."""
    operation = _operation(figures)
    return None if operation is None or operation.recall is None else f"recall {operation.recall:.3f}"


def growth_text(figures: "Figures") -> str | None:
    """Write how an operation's mean response time changed with the documents, with its 95 % interval.

    For example `rose by 12 ms [10 ms, 14 ms] with each 1,000 documents held (from 0 to 34,800)`. Return None if
    unknown, for a part of an operation, or if the interval includes no change.
    """
    operation = _operation(figures)
    growth = None if operation is None else operation.growth
    if growth is None or growth.low <= 0 <= growth.high:
        return None
    rose = growth.slope > 0
    ends = (growth.low, growth.high) if rose else (-growth.high, -growth.low)
    slope, low, high = (format_duration(seconds) for seconds in (abs(growth.slope), *ends))
    documents = ("held" if growth.all else "added") if growth.held else "written (replaced ones included)"
    words = (
        f"{'rose' if rose else 'fell'} by {slope} [{low}, {high}] with each 1,000 documents {documents}"
        f" (from {format_count(round(growth.begin))} to {format_count(round(growth.end))})"
    )
    return words if growth.apart else f"{words}, or with time"


def resolution_text(figures: "Figures") -> str | None:
    """Write the poll interval of visibility probes; None if an operation has none."""
    operation = _operation(figures)
    if operation is None or operation.resolution is None:
        return None
    measure = "visibility latency of its events" if "visible" in operation.parts else "visibility latency"
    return f"{measure}, polled every {format_duration(operation.resolution)}"


def set_aside_texts(phase: "PhaseSummary") -> list[str]:
    """Return a text for each corpus that has lines without a document, with the number of these skipped lines."""
    return [
        f"{counted(aside.lines, 'line')} of the corpus {aside.corpus} skipped (not documents);"
        f" see {', '.join(aside.kept)}"
        for aside in phase.set_aside
    ]


def first_failure_texts(phase: "PhaseSummary") -> list[str]:
    """Return a text with the time of a phase's first failure, from the start of the load; no text without a failure."""
    if phase.first_failure is None:
        return []
    return [f"the first request failed {format_duration(phase.first_failure)} after the load began"]


def stored_lines_text(name: str, source: "SourceFigures") -> str:
    """Write how many received lines of a source the store acknowledged, how many not, and why.

    Lines dropped on purpose do not count as received. `name` is the source's name.
    """
    received = source.lines - source.dropped
    words = f"{name}: {format_count(source.indexed)} of {counted(received, 'line')} stored"
    if received > source.indexed:
        causes = {**source.dead_letters, "left over": source.left_over}
        why = ", ".join(f"{format_count(count)} {cause}" for cause, count in causes.items() if count)
        words += f", {format_count(received - source.indexed)} not" + (f" ({why})" if why else "")
    return f"{words}, {format_count(source.dropped)} more dropped" if source.dropped else words


def sources_texts(phase: "PhaseSummary") -> list[str]:
    """Return texts for each source: its counts, then each trouble that it reported.

    Counts: lines stored, not stored and dropped, events accepted, dead letters, events spilled, probed events seen.
    """
    texts = []
    for name, source in phase.sources.items():
        words = f"{stored_lines_text(name, source)}; {counted(source.accepted, 'event')} accepted"
        if source.dead:
            words += f", {counted(source.dead, 'dead letter')}{f' (see {source.kept})' if source.kept else ''}"
        if source.spilled_events:
            words += f", {format_count(source.spilled_events)} spilled to disk"
        if source.sampled is not None:
            words += f", {format_count(source.seen or 0)} of {format_count(source.sampled)} probed events seen"
        texts += [words, *(f"{name}: {trouble}" for trouble in source.trouble)]
    return texts


def ended_early_texts(phase: "PhaseSummary") -> list[str]:
    """Return a text for each stream that ran out of requests, or ran for less than 99 % of its phase."""
    return [
        f"stream {stream.name} ran out of requests after {format_duration(stream.measured)}: its requests/s and"
        " documents/s are means over that time"
        for stream in phase.streams
        if stream.measured is not None and (stream.ran_out or stream.measured < _MOST * phase.duration)
    ]


#: Shortest age of a backlog that is shown, s.
_BACKLOG_AGE = 1.0


def window_texts(phase: "PhaseSummary") -> list[str]:
    """Return texts on the measured window: its choice, its precision, and the backlog with which it began.

    Parts that are not recorded are left out. A backlog is written only under an open load, and if its oldest request is
    at least 1 s old.
    """
    texts = []
    window = phase.window
    if window and window.steady_from is not None:
        texts.append(f"steady state began {format_duration(window.steady_from)} after the start of the load")
    if window and window.queue_empty_at is not None:
        texts.append(f"no request was in flight {format_duration(window.queue_empty_at)} after the start of the load")
    if window and window.precision is not None:
        required = window.precision
        reached = "" if window.reached else f", not the required {format_limit(required)}, within the longest window"
        width = "unknown" if window.widest is None else f"within {share_beside(window.widest, required)}"
        of = " of the most frequent operations" if len(phase.single) > 1 else ""
        texts.append(f"automatic duration: 95 % intervals of throughput and p99{of} are {width}{reached}")
    if window and window.throughput_low is not None and window.throughput_high is not None:
        low, high = (format_count(end) for end in (window.throughput_low, window.throughput_high))
        texts.append(f"throughput of the phase: 95 % interval {low}/s to {high}/s, corrected for repeated looks")
    if phase.has_open_load and phase.backlog and (phase.backlog_age or 0.0) >= _BACKLOG_AGE:
        texts.append(
            f"the window began with {counted(phase.backlog, 'unanswered request')} of the warm-up, the oldest due"
            f" {format_duration(phase.backlog_age or 0.0)} before"
        )
    return texts


def stopped_by_texts(phase: "PhaseSummary") -> list[str]:
    """Return a text with the condition that ended a phase early; no text if none did."""
    stop = phase.stopped_by
    if stop is None:
        return []
    bound = format_duration(stop.above) if stop.metric == "response_p99" else f"{stop.above:g}"
    return [f"stopped early by stop_when: {stop.metric} was above {bound} for {format_duration(stop.seconds)}"]


def overruns_texts(phase: "PhaseSummary") -> list[str]:
    """Return a text for each stream in which iterations took longer than its pacing, with their number."""
    return [
        f"stream {stream.name}: {format_count(stream.overruns)} of {counted(stream.iterations, 'iteration')} took"
        f" longer than the pacing of {format_duration(stream.pacing_time)}; the next one started at once"
        for stream in phase.streams
        if stream.overruns
    ]


def treatment_text(treatment: Mapping[str, Any]) -> str:
    """Write `nodes 2, memory 1 GiB`: the short name of each factor, and its level; empty without factors."""
    names = short_names(treatment)
    return ", ".join(f"{names[factor]} {format_level(factor, level)}" for factor, level in treatment.items())
