"""The table of validity rules, each with an example."""

from collections.abc import Mapping
from typing import Any

from loadframe.analyze.exclusion import SELECTED_RUNS, WARNED_RUNS
from loadframe.analyze.finding import Rule
from loadframe.analyze.verdict.rules import RULES, Fault, ValidityRule, change_failed_text
from loadframe.analyze.verdict.self_monitor import STRAGGLING

_HEAD = """\
# Validity rules

<!-- Written by `python -m docs.generate`; change python/loadframe/analyze/verdict instead. -->

The verdict of a run lists every rule that applies, with its code, its message and a remedy. This table shows each rule
with example figures. [Invalid runs](../how-to/invalid-runs.md) explains how to fix the common ones, and
[load generation](../explanation/load-generation.md#when-the-generator-is-the-limit) how bounds are computed.

The effect states how a rule changes the figures of its phase:

| effect | throughput of a closed loop | response times | service times |
|---|---|---|---|
| result | good | good | good |
| late | good | upper bound; lower bound without lateness | good |
| delayed | bounded | upper bound; lower bound without lag and lateness | the same without lag |
| saturated | lower bound | upper bound | upper bound |
| partial | bounded by the missing share of the window | bounded | bounded |
| overhead | upper bound without the overhead | bounded without the overhead | the same |
| unknown | unknown | unknown | unknown |

The throughput of an open loop that achieved its rate is good with *late*, *delayed* and *saturated*. A rule with the
effect *result* describes the store or its machines: the run counts, and its throughput counts successes only.

A rule with words in the column *shifts* changes the figures of each run in the same direction. Repeated runs then
agree on a shifted figure, so the interval between them does not show the shift. Answers from several runs name these
rules, with the number of runs: see [`warned_runs`](#answers-from-several-runs). The other rules report incidents that
vary from run to run, results that answers count, or reasons to exclude the run.
"""

_ANSWERS = """\
## Answers from several runs

These rules apply to the runs of an experiment, a comparison or a gate. `--json` has them under `warned_runs` and,
for experiments, `selection`. `warned_runs` counts the valid runs as `total`, and the runs of each rule as `warned`.

| code | message | remedy |
|---|---|---|
"""

_TITLES: Mapping[Fault, str] = {
    "generator": "The load generator",
    "store": "The store",
    "cluster": "The state of the cluster and its machines",
}

_PHASE = {"phase": "range_100", "place": ""}
_BY_OPERATION = {"phase": "range_100", "operation": "range"}

#: Figures of an example of each rule.
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "generator_failed": {"what": "the load generator ended: a worker thread panicked"},
    "generator_cpu": {**_PHASE, "share": 0.93, "threads": 1},
    "starved": {**_PHASE, "share": 0.25},
    "throttled": {**_PHASE, "share": 0.04},
    "network": {**_PHASE, "share": 0.91},
    "generator_ceiling": {**_PHASE, "share": 0.88, "threads": 1},
    "lateness": {**_PHASE, "lateness": 0.004, "response": 0.02, "stolen": 0.0},
    "loop_lag": {**_PHASE, "lag": 0.036, "response": 0.002, "stolen": 0.0, "others": 0.45},
    "generator_overhead": {**_BY_OPERATION, "service": 42e-6, "corrected": 16e-6, "share": 0.62},
    "stalled": {**_PHASE, "longest": 0.9, "away": 0.031, "stolen": 0.0},
    "began_late": {**_PHASE, "rank": "rank 3 (node4)", "late": 0.4, "others": 0},
    "straggler": {**_PHASE, "rank": "rank 3 (node4)", "share": 0.5, "limit": STRAGGLING, "others": 0},
    "reader_cpu": {"phase": "ingest", "source": "events", "share": 0.95, "shared": False},
    "imprecise": {**_PHASE, "precision": 0.05, "duration": 1800.0, "widest": 0.081},
    "not_achieved": {**_PHASE, "achieved": 0.871, "warmup": 60.0},
    "backlog": {**_PHASE, "inherited": 4200, "achieved": 0.995},
    "no_steady_state": {**_PHASE, "limit": 300.0},
    "queue_not_empty": {**_PHASE, "limit": 60.0},
    "dropped": {**_BY_OPERATION, "dropped": 1200, "due": 60_000},
    "errors": {**_BY_OPERATION, "failed": 900, "requests": 60_000, "classes": "900 rejected"},
    "nothing_measured": _BY_OPERATION,
    "unsteady": {**_PHASE, "change": -0.12, "seconds": 60, "settled": True, "beside_documents": False},
    "left_over": {"phase": "ingest", "source": "events", "left_over": 310, "accepted": 60_000},
    "missing_events": {"collection": "adbids", "missing": 12, "indexed": 60_000},
    "check_failed": {"phase": "check", "what": "2 requests of totals_are_right failed"},
    "node_lost": {"loss": "node-1 has ended"},
    "copies_lost": {"loss": "2 replicas are missing"},
    "documents_lost": {"collection": "nyc_taxis", "held": 199_990, "acknowledged": 200_000},
    "change_failed": {"what": change_failed_text(1, "add 1", "node-1 did not join within 2 min")},
    "cluster_state": {"deviation": "the cluster has 2 nodes, not 3"},
    "contended": {
        **_PHASE,
        "share": 0.41,
        "busy": 0.98,
        "machine": "this machine",
        "programs": "rustc 32 %, python 9 %",
    },
    "machine_silent": {**_PHASE, "machine": "node4", "seconds": 5.0},
    "warned_runs": {
        "total": 8,
        "warned": {"loop_lag": 8, "node_lost": 1},
        "run": "b1-t4",
        "advice": "reserve cores for the load generator",
    },
    "selected_runs": {"left_out": 4, "total": 12, "among": "are more frequent at clients 4", "p": 0.008},
}


def page() -> str:
    """Return the documentation of the validity rules in Markdown."""
    answers = _ANSWERS + "".join(f"{_row(rule)}\n" for rule in (WARNED_RUNS, SELECTED_RUNS))
    return "\n".join([_HEAD, *(_section(fault, title) for fault, title in _TITLES.items()), answers])


def _section(fault: Fault, title: str) -> str:
    rows = [_row(rule) for rule in RULES.values() if rule.fault == fault]
    head = ["| code | effect | message | remedy | shifts |", "|---|---|---|---|---|"]
    return "\n".join([f"## {title}", "", *head, *rows]) + "\n"


def _row(rule: Rule) -> str:
    finding = rule(**EXAMPLES[rule.code])
    effect, shifts = ([rule.effect], [rule.shifts or ""]) if isinstance(rule, ValidityRule) else ([], [])
    return f"| {' | '.join([f'`{rule.code}`', *effect, finding.cause, finding.remedy, *shifts])} |"
