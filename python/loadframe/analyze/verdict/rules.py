"""Validity rules: why a run is invalid, who is to blame, and which figures that affects.

A fault of the store is a result: the run counts. A fault of the generator bounds figures or makes them unknown. A
cluster in another state than the treatment names excludes the run.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from loadframe.analyze.finding import Finding, Rule
from loadframe.base.units import (
    counted,
    duration_beside,
    format_change,
    format_count,
    format_duration,
    format_limit,
    format_share,
    share_beside,
)
from loadframe.record.schema.summary import RecordedReason

#: The component to blame.
Fault = Literal["store", "generator", "cluster"]

#: Effects of a rule on the figures of its phase (see `figures`):
#: result     nothing: the store behaved like this;
#: late       response times include the lateness of requests; counts and service times hold;
#: delayed    response and service times include delays of the event loops, and closed loops did less because of them;
#: saturated  throughput is a lower bound; response and service times are upper bounds;
#: partial    the load was incomplete for a part of the window;
#: overhead   response and service times include the generator's overhead, which kernel timestamps bound;
#: unknown    no figure describes the store at its treatment.
Effect = Literal["result", "late", "delayed", "saturated", "partial", "overhead", "unknown"]

#: Failures of the whole run: missing documents, lost replicas, a lost node, no success, most users stuck, or an aborted
#: run. Failures within a run: failed requests, unanswered requests, a failed cluster change.
FailureKind = Literal["documents", "copies", "node", "success", "users", "run", "requests", "unanswered", "change"]

#: A busier worker sends its next burst late, and the run measures the worker's speed instead of the store's.
CPU_LIMIT = 0.8
#: Unread bytes of a connection or pipe from which its sender may wait (half of the least that Linux buffers, 64 KiB),
#: and the share of the samples with as many above which senders waited.
UNREAD, UNREAD_LIMIT = 32 << 10, 0.1
#: A worker that waits for a core for a larger share of the time has less of a core than `CPU_LIMIT`. The effect of
#: shorter waits on response times shows in lateness and lag.
WAITED_LIMIT = 0.2
#: Stolen or throttled time above 1 % shows in the 99th percentile.
STOLEN_SHARE = 0.01
THROTTLED_LIMIT = 0.01
#: Above this, queues build up in front of an interface at every burst.
NETWORK_LIMIT = 0.8
#: Share of the requests per second that calibration measured for one core.
CEILING_LIMIT = 0.8
#: Lateness adds to response times. The limit is a share of the 99th percentile of response times.
LATENESS_SHARE = 0.05
#: Share of the 99th percentile of service times that the generator's overhead may take. Figures above it are bounded.
OVERHEAD_LIMIT = 0.05
#: Smallest limit of lag, s. A shorter lag is mostly the wake-up of an idle thread, which busy event loops do not need.
LAG_LIMIT = 1e-3
#: Lag has a recorded cause if other programs use more than this share of the machine, or a generator thread more than
#: this share of its core: requests then queue for the thread although it keeps up on average.
OTHERS_LIMIT, LAG_CPU_LIMIT = 0.2, 0.5
#: From here on, multiples are written without decimals.
_WHOLE = 10
#: A stall of this length (s) takes half of a one-second interval.
STALL_LIMIT = 0.5
#: A closed load that stalls for a share of the time falls short by that share at any response time.
AWAY_LIMIT = 0.02
#: A rank that starts later than this (s) misses a visible share of its first second.
BEGAN_LATE_LIMIT = 0.05
#: Warm-ups below this many seconds may leave caches cold and a JVM uncompiled.
SHORT_WARMUP = 30.0
#: Below this share of its rate, an open load was not achieved.
ACHIEVED_LIMIT = 0.99
#: Nodes lack the processor time that other programs use, if little is idle.
CONTENDED_LIMIT, BUSY_LIMIT = 0.05, 0.8
#: Percentiles cover the requests that were sent: p99.9 means nothing if one in a thousand was dropped.
DROPPED_LIMIT = 1e-3
#: Throughput and percentiles cover successes: p99 means nothing if one request in a hundred failed.
ERROR_LIMIT = 0.01

#: The validity rules by code.
RULES: dict[str, "ValidityRule"] = {}


@dataclass(frozen=True)
class ValidityRule(Rule):
    """A reason for which a run is invalid. It registers itself in `RULES`; a code may not be used twice.

    `judged_if_disturbed`: whether it also applies to runs with deliberate changes of the cluster. `severity` names the
    figure by which the worst of several findings is chosen: the largest, or with `-NAME` the smallest. `failure` is
    the kind of the store's failure, if it is one.

    `shifts` names, for answers from several runs, the cause that shifted their figures in one direction. Repeated runs
    with the same shift agree, so their variation does not show it. It is None for incidents that vary from run to run,
    for results that answers count themselves (failures, an unachieved rate), and for rules that exclude the run.
    """

    # The defaults are the gravest: an unknown reason must not turn into a result.
    fault: Fault = "generator"
    effect: Effect = "unknown"
    judged_if_disturbed: bool = True
    severity: str | None = None
    failure: FailureKind | None = None
    shifts: str | None = None

    def __post_init__(self) -> None:
        """Add the rule to `RULES`; ValueError if its code is used already."""
        if self.code in RULES:
            raise ValueError(f"there are two validity rules {self.code}")
        RULES[self.code] = self


def severity_of(finding: Finding) -> float | None:
    """Return the figure that compares a finding with others of its rule, larger if worse, or None if it has none.

    Its sign is reversed for rules in which a smaller figure is worse.
    """
    named = RULES[finding.code].severity
    if named is None:
        return None
    figure = float(finding.figures[named.removeprefix("-")])
    return -figure if named.startswith("-") else figure


def recorded(finding: Finding) -> RecordedReason:
    """Return a finding of a validity rule as the reason that summaries store, with its phase and severity."""
    phase = finding.figures.get("phase")
    return RecordedReason(finding.code, finding.cause, finding.remedy, phase, severity_of(finding))


def fault_of(code: str) -> Fault:
    """Return the component to blame for a recorded reason; the generator if the code is unknown."""
    return RULES[code].fault if code in RULES else "generator"


def effect_of(code: str) -> Effect:
    """Return the effect of a recorded reason on the figures of its phase; `unknown` if the code is unknown."""
    return RULES[code].effect if code in RULES else "unknown"


def lateness_limit(response: float) -> float:
    """Return the largest acceptable p99 of lateness, s: 5 % of `response`, the p99 of response times, s."""
    return LATENESS_SHARE * response


def lag_limit(response: float) -> float:
    """Return the largest acceptable p99 of event-loop lag, s: the larger of 1 ms and 5 % of `response`.

    `response` is the p99 of response times, s.
    """
    return max(LAG_LIMIT, LATENESS_SHARE * response)


def _stolen(share: float) -> str:
    """Return a clause about the share of processor time that the hypervisor took; empty for up to 1 %."""
    if share <= STOLEN_SHARE:
        return ""
    return f"; the hypervisor took {format_share(share)} of this machine's processor time"


#: Remedy for other processes on the generator's cores, by command and experiment file; clusters that exist already
#: refuse both.
OWN_CORES = (
    "give the generator its own cores (--cores or store.limits.cores if Loadframe starts the nodes, taskset for other"
    " stores)"
)
#: Remedy if the threads of the generator are busy.
_MORE_THREADS = "give the generator more threads (--threads, or threads in the experiment file; it had {threads})"


def _unless_stolen(remedy: str) -> Callable[[float], str]:
    """Return a function of the stolen share of processor time, which returns `remedy` if it is at most 1 %.

    Above 1 %, it returns the advice to measure without other guests of the host.
    """

    def sentence(stolen: float) -> str:
        """Return the remedy; `stolen` is the share of processor time that the hypervisor took."""
        if stolen > STOLEN_SHARE:
            return "measure when other guests of this host are idle, or on a machine with dedicated processors"
        return remedy

    return sentence


def _late(phase: str, place: str, lateness: float, response: float, stolen: float) -> str:
    """Return the cause: requests were sent late; `lateness` and `response` are 99th percentiles, s.

    `place` is empty, or names the rank: ` on rank 3 (m2)`. `stolen` is the share of processor time that the hypervisor
    took.
    """
    share = share_beside(lateness / response, LATENESS_SHARE)
    return (
        f"in phase {phase}{place} requests were sent late: p99 {format_duration(lateness)}, {share} of the p99 response"
        f" time (limit {format_share(LATENESS_SHARE)}){_stolen(stolen)}"
    )


def _loop_lag(
    phase: str,
    place: str,
    lag: float,
    response: float,
    stolen: float,
    others: float | None = None,
    cpus: int | None = None,
    busiest: float = 0.0,
) -> str:
    """Return the cause: event loops lagged; `lag` and `response` are 99th percentiles, s.

    `place` is empty, or names the rank: ` on rank 3 (m2)`. `others`, `stolen` and `busiest` are shares: of the machine
    for other programs, of processor time that the hypervisor took, and of a core for the busiest generator thread.
    `cpus` is the number of logical CPUs. Unknown `others` count as 0 and unknown `cpus` as 1.
    """
    limit, share = lag_limit(response), lag / response
    relation = f"{share_beside(share, LATENESS_SHARE)} of"
    if share >= 1:
        relation = f"{share:.1f} times" if share < _WHOLE else f"{format_count(round(share))} times"
    causes = {
        "others": f"other programs used {format_share(others or 0.0)} of this machine",
        "stolen": f"the hypervisor took {format_share(stolen)} of this machine's processor time",
        "busiest": f"a generator thread used {format_share(busiest)} of its core",
    }
    return "; ".join(
        [
            f"in phase {phase}{place} the generator's event loops lagged: p99 {duration_beside(lag, limit)},"
            f" {relation} the p99 response time (limit {format_duration(limit)}, the larger of"
            f" {format_duration(LAG_LIMIT)} and {format_share(LATENESS_SHARE)})",
            *(causes[cause] for cause in _lag_causes(stolen, others, cpus, busiest)),
        ]
    )


def _lag_causes(stolen: float, others: float | None, cpus: int | None, busiest: float) -> list[str]:
    """Return the names of the shares that explain lag, of `others`, `stolen` and `busiest`.

    `others` is the share of the machine that other programs used (limit 20 %), `stolen` the share of its processor time
    that the hypervisor took (limit 1 % / `cpus`). `busiest` is the share of its core that the busiest generator thread
    used (limit 50 %). Unknown `others` count as 0 and unknown `cpus` as 1.
    """
    above = {
        "others": (others or 0.0) > OTHERS_LIMIT,
        "stolen": stolen * (cpus or 1) > STOLEN_SHARE,
        "busiest": busiest > LAG_CPU_LIMIT,
    }
    return [cause for cause, known in above.items() if known]


def _lag_remedy(
    stolen: float, others: float | None = None, cpus: int | None = None, busiest: float = 0.0, threads: int = 1
) -> str:
    """Return a remedy for each cause of lag, or for other processes if no cause is known.

    `others`, `stolen` and `busiest` are shares: of the machine for other programs, of processor time that the
    hypervisor took, and of a core for the busiest generator thread. `cpus` is the number of logical CPUs, `threads` the
    number of the generator's threads.
    """
    remedies = {
        "others": "stop other programs on this machine",
        "stolen": "use a machine of your own, or repeat when other guests of its host are idle",
        "busiest": f"{_MORE_THREADS.format(threads=threads)} or use several generators",
    }
    causes = _lag_causes(stolen, others, cpus, busiest)
    return "; ".join(remedies[cause] for cause in causes) or (
        f"other processes used the generator's cores: {OWN_CORES}, or stop other programs"
    )


def _stalled(phase: str, place: str, longest: float, away: float, stolen: float) -> str:
    """Return the cause: the generator stalled for `longest` s at most, and for a share `away` of the time.

    `place` is empty, or names the rank: ` on rank 3 (m2)`. `stolen` is the share of processor time that the hypervisor
    took.
    """
    return (
        f"in phase {phase}{place} the generator stalled for up to {duration_beside(longest, STALL_LIMIT)} at a time,"
        f" and for {share_beside(away, AWAY_LIMIT, 1)} of the time in total (limits {format_duration(STALL_LIMIT)} and"
        f" {format_share(AWAY_LIMIT)}){_stolen(stolen)}"
    )


def _others(others: int, what: str) -> str:
    """Return a clause that `others` more ranks did `what` too, such as `started late`; empty for 0."""
    return f"; {counted(others, 'more rank')} {what} too" if others else ""


def _began_late(phase: str, rank: str, late: float, others: int) -> str:
    """Return the cause: a rank started `late` s after the others; `others` is the number of further late ranks."""
    return (
        f"in phase {phase} {rank} started {duration_beside(late, BEGAN_LATE_LIMIT)} after the others"
        f" (limit {format_duration(BEGAN_LATE_LIMIT)}){_others(others, 'started late')}"
    )


def _straggler(phase: str, rank: str, share: float, limit: float, others: int) -> str:
    """Return the cause: a rank did only the `share` of the median rank's work, less than `limit`.

    `others` is the number of further ranks below the limit.
    """
    return (
        f"in phase {phase} {rank} did {share_beside(share, limit)} of the work of the median rank"
        f" (limit {format_share(limit)}){_others(others, 'fell behind')}"
    )


def _busy_reader(shared: bool) -> str:
    """Return the remedy for a busy thread that reads a source; `shared`: whether connections share several threads."""
    if shared:
        return "give the generator more threads and send over as many connections, or send slower"
    return "use a lower rate, or let several ranks read a part of the source each"


def _unachieved(warmup: float) -> str:
    """Return the remedy for an unachieved rate after a warm-up of `warmup` s."""
    remedy = "the rate exceeds the capacity: lower it, or treat this run as an overload test"
    if warmup >= SHORT_WARMUP:
        return remedy
    after = f"after a warm-up of {format_duration(warmup)}" if warmup else "without a warm-up"
    return f"{remedy}; the store may also be cold {after}: set 60 s (--warmup, or warmup in the file)"


def _imprecise(phase: str, precision: float, duration: float, widest: float | None) -> str:
    """Return the cause: a window missed its precision.

    `precision` is the required relative half-width of intervals, `widest` the reached one, `duration` in s.
    """
    width = "is unknown" if widest is None else f"is {share_beside(widest, precision, 1)}"
    return (
        f"in phase {phase} throughput and p99 did not reach the required precision of {format_limit(precision)}"
        f" within {format_duration(duration)}: the half-width of their widest 95 % interval {width}"
    )


def _unsteady(phase: str, change: float, seconds: int, settled: bool, beside_documents: bool) -> str:
    """Return the cause: throughput changed by the share `change` over `seconds`.

    `settled`: it drifted; otherwise it had not settled when the window began. `beside_documents`: the effect of the
    growing number of documents is removed from `change`.
    """
    how = "drifted" if settled else "had not settled when the window began"
    rest = ", after removing the effect of document growth" if beside_documents else ""
    return f"in phase {phase} throughput {how}: {format_change(change)} over {seconds} s{rest}"


def _missing_documents(collection: str, held: int, acknowledged: int) -> str:
    """Return the cause: a collection has `held` documents, fewer than the `acknowledged` ones."""
    return f"{acknowledged - held:,} of {acknowledged:,} acknowledged documents are missing in {collection}"


# The generator. `place` is empty, or names the rank: ` on rank 3 (m2)`.
GENERATOR_FAILED = ValidityRule(
    "generator_failed",
    "{what}",
    "repeat the run; the report shows what was recorded before the failure",
)
GENERATOR_CPU = ValidityRule(
    "generator_cpu",
    f"in phase {{phase}}{{place}} a generator thread used {{share:share beside {CPU_LIMIT}}} of its core"
    f" (limit {format_share(CPU_LIMIT)})",
    f"{_MORE_THREADS} or a separate machine, or reduce the load",
    effect="saturated",
    severity="share",
    shifts="a generator thread was busy",
)
STARVED = ValidityRule(
    "starved",
    f"in phase {{phase}}{{place}} a generator thread waited for a core for {{share:share beside {WAITED_LIMIT}}} of the"
    f" time because other processes used it (limit {format_share(WAITED_LIMIT)})",
    f"stop other programs on this machine, or {OWN_CORES}",
    effect="delayed",
    severity="share",
    shifts="a generator thread waited for a core",
)
THROTTLED = ValidityRule(
    "throttled",
    f"in phase {{phase}}{{place}} the generator was throttled for {{share:share beside {THROTTLED_LIMIT}}} of the time"
    f" because its control group had exhausted its CPU quota (limit {format_share(THROTTLED_LIMIT)})",
    "raise the CPU quota of the container or job that runs loadframe, or run loadframe outside it",
    effect="delayed",
    severity="share",
    shifts="a CPU quota throttled the generator",
)
NETWORK = ValidityRule(
    "network",
    "in phase {phase} the busiest network interface of this machine carried"
    f" {{share:share beside {NETWORK_LIMIT}}} of its speed"
    f" (limit {format_share(NETWORK_LIMIT)})",
    "use a faster network, generate the load from more machines, or request smaller answers",
    effect="saturated",
    severity="share",
    shifts="the network was close to its speed",
)
GENERATOR_CEILING = ValidityRule(
    "generator_ceiling",
    f"in phase {{phase}} each generator thread sent {{share:share beside {CEILING_LIMIT}}} of the highest rate that"
    f" calibration measured on this machine (limit {format_share(CEILING_LIMIT)})",
    f"{_MORE_THREADS} or more machines, or reduce the load",
    effect="saturated",
    severity="share",
    shifts="the generator was close to its calibrated rate",
)
LATENESS = ValidityRule(
    "lateness",
    _late,
    _unless_stolen(f"{OWN_CORES}, give it more threads (--threads, or threads in the file), or lower the rate"),
    effect="late",
    severity="lateness",
    shifts="requests were sent late",
)
LOOP_LAG = ValidityRule(
    "loop_lag",
    _loop_lag,
    _lag_remedy,
    effect="delayed",
    severity="share",
    shifts="the generator's event loops lagged",
)
GENERATOR_OVERHEAD = ValidityRule(
    "generator_overhead",
    "in phase {phase} kernel timestamps show the generator's overhead: without it, the p99 service time of {operation}"
    f" is {{corrected:duration}} instead of {{service:duration}}, {{share:share beside {OVERHEAD_LIMIT}}} less"
    f" (limit {format_share(OVERHEAD_LIMIT)})",
    "quote the time without the overhead as the lower bound and the service time as the upper one; to narrow them,"
    f" {OWN_CORES}, reduce the load, or give it more threads (--threads, or threads in the file)",
    effect="overhead",
    severity="share",
    shifts="service times include the generator's overhead",
)
STALLED = ValidityRule(
    "stalled",
    _stalled,
    _unless_stolen(f"{OWN_CORES}, and look for what stops it: a suspended process or machine, swapping, a debugger"),
    effect="delayed",
    severity="longest",
)
BEGAN_LATE = ValidityRule(
    "began_late",
    _began_late,
    "run nothing else on that machine, or give it fewer ranks",
    effect="partial",
    severity="late",
)
STRAGGLER = ValidityRule(
    "straggler",
    _straggler,
    "check that machine and its network path to the nodes, or remove it from the run",
    effect="saturated",
    severity="-share",
    judged_if_disturbed=False,
    shifts="a rank fell behind",
)
READER_CPU = ValidityRule(
    "reader_cpu",
    f"in phase {{phase}} a thread that reads {{source}} used {{share:share beside {CPU_LIMIT}}} of its core"
    f" (limit {format_share(CPU_LIMIT)})",
    _busy_reader,
    effect="saturated",
    severity="share",
    shifts="a thread that reads a source was busy",
)
IMPRECISE = ValidityRule(
    "imprecise",
    _imprecise,
    "raise at_most or precision of the duration: four times the length halves an interval",
    effect="result",
)

# The store: results, which affect no figure.
NOT_ACHIEVED = ValidityRule(
    "not_achieved",
    "in phase {phase} the load achieved only"
    f" {{achieved:share1 beside {ACHIEVED_LIMIT}}} of the offered rate in time (limit {format_share(ACHIEVED_LIMIT)})",
    _unachieved,
    fault="store",
    effect="result",
    severity="-achieved",
    judged_if_disturbed=False,
)
BACKLOG = ValidityRule(
    "backlog",
    "in phase {phase} the measured window answered {inherited:count} requests that were due in the warm-up, and reached"
    " {achieved:share1} of the offered rate: response times include the backlog",
    "lengthen the warm-up until the backlog is gone, set wait_for_queue: true in the phase, or lower the rate",
    fault="store",
    effect="result",
    judged_if_disturbed=False,
    shifts="response times include a backlog of the warm-up",
)
NO_STEADY_STATE = ValidityRule(
    "no_steady_state",
    "in phase {phase} the load did not reach steady state within the longest warm-up of {limit:duration}",
    "raise at_most of warmup: {{at_most: 10m}}; look at merges, compactions and caches of the store",
    fault="store",
    effect="result",
    judged_if_disturbed=False,
    shifts="the load did not reach steady state",
)
QUEUE_NOT_EMPTY = ValidityRule(
    "queue_not_empty",
    "in phase {phase} requests were still in flight {limit:duration} after the warm-up: response times include a"
    " backlog",
    "raise wait_for_queue, lower the rate, or look for requests that the store never answers",
    fault="store",
    effect="result",
    judged_if_disturbed=False,
    shifts="requests of the warm-up were still in flight",
)
DROPPED = ValidityRule(
    "dropped",
    "in phase {phase} {dropped:count} of {due:counted request} of {operation} were dropped, because too many were in"
    " flight",
    "lower the rate, or raise the stream's max_in_flight",
    fault="store",
    effect="result",
    severity="dropped",
    judged_if_disturbed=False,
    failure="requests",
)
ERRORS = ValidityRule(
    "errors",
    "in phase {phase} {failed:count} of {requests:counted request} of {operation} failed ({classes}; limit"
    f" {format_share(ERROR_LIMIT)})",
    "look at the answers with `loadframe check` and at the store's log; throughput counts successes only",
    fault="store",
    effect="result",
    severity="failed",
    judged_if_disturbed=False,
    failure="requests",
)
NOTHING_MEASURED = ValidityRule(
    "nothing_measured",
    "no request of {operation} was answered in the measured window of phase {phase}",
    "measure for longer, or look at the answers with `loadframe check`",
    fault="store",
    effect="result",
)
UNSTEADY = ValidityRule(
    "unsteady",
    _unsteady,
    "lengthen the warm-up; if throughput still drifts, look at merges, compactions and caches of the store",
    fault="store",
    effect="result",
    judged_if_disturbed=False,
)
LEFT_OVER = ValidityRule(
    "left_over",
    "in phase {phase} {left_over:count} of {accepted:count} events accepted from {source} are left over: the store"
    " neither acknowledged nor refused them",
    "send slower than the store ingests events, or let the phase end with the source (until: exhausted)",
    fault="store",
    effect="result",
    severity="left_over",
    failure="requests",
)
MISSING_EVENTS = ValidityRule(
    "missing_events",
    "{missing:count} of {indexed:count} events that the store acknowledged are not in {collection} after the load",
    "check the store's log for nodes that failed; with an asynchronous translog such a node loses events",
    fault="store",
    effect="result",
    severity="missing",
    failure="documents",
)
CHECK_FAILED = ValidityRule(
    "check_failed",
    "in phase {phase}, which finishes the run, {what}",
    "look at the answers with `loadframe check`, and at the store's log",
    fault="store",
    effect="result",
    failure="requests",
)
NODE_LOST = ValidityRule(
    "node_lost",
    "the store did not survive the load: {loss}",
    "look at the node's log; give it more memory, or less load",
    fault="store",
    effect="result",
    failure="node",
    shifts="a node was lost",
)
COPIES_LOST = ValidityRule(
    "copies_lost",
    "the store lost replicas under the load: {loss}",
    "see the nodes' logs; give the store more memory, or less load",
    fault="store",
    effect="result",
    failure="copies",
    shifts="replicas were lost",
)
DOCUMENTS_LOST = ValidityRule(
    "documents_lost",
    _missing_documents,
    "see the store's log and its durability settings; another program may have deleted documents",
    fault="store",
    effect="result",
    failure="documents",
)
CHANGE_FAILED = ValidityRule(
    "change_failed",
    "{what}",
    "see the node's log; give the change more time or resources",
    fault="store",
    effect="result",
    failure="change",
)

# The cluster and its machines.
CLUSTER_STATE = ValidityRule(
    "cluster_state",
    "{deviation}",
    "repair the cluster, or change the treatment to match its state, then run again",
    fault="cluster",
)
MACHINE_SILENT = ValidityRule(
    "machine_silent",
    "in phase {phase} the machine {machine} did not answer for {seconds:duration}",
    "check that machine and the network to it, then run again",
    fault="cluster",
)
CONTENDED = ValidityRule(
    "contended",
    f"in phase {{phase}} other programs used {{share:share beside {CONTENDED_LIMIT}}} of the processors of {{machine}},"
    f" which were {{busy:share beside {BUSY_LIMIT}}} busy: {{programs}} (limit {format_share(CONTENDED_LIMIT)} of"
    f" processors over {format_share(BUSY_LIMIT)} busy)",
    "stop these programs and repeat the run: without them, the store may be faster",
    fault="cluster",
    effect="result",
    severity="share",
    shifts="other programs used the processors of the nodes",
)

#: How runs record that a collection and the acknowledgements differ.
_DIFFERENCE = re.compile(
    r"(?P<collection>.+) holds (?P<held>[\d,]+) documents?, but (?P<acknowledged>[\d,]+) were acknowledged"
)


def documents_lost(difference: str) -> Finding | None:
    """Return a finding from a sentence of `document_counts`; None if it reports no missing document.

    The sentence is such as `C holds 9 documents, but 10 were acknowledged`; any other text gives None.
    """
    match = _DIFFERENCE.fullmatch(difference)
    if match is None:
        return None
    held, acknowledged = (int(match[key].replace(",", "")) for key in ("held", "acknowledged"))
    if held >= acknowledged:
        return None
    return DOCUMENTS_LOST(collection=match["collection"], held=held, acknowledged=acknowledged)


def change_failed_text(step: int, change: str, cause: str) -> str:
    """Return the words for a failed change of the cluster: `step 2, add node-3, failed: CAUSE`."""
    return f"step {step}, {change}, failed: {cause}"
