"""Sentences on a capacity experiment: the capacity of each treatment, and the nodes that each demand needs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.analyze.capacity import RATE, USERS, Bounds, Capacities, Capacity, Demand, ErrorsOpen, Kind, Slo
from loadframe.analyze.capacity.answers import FAR, contradiction, warnings
from loadframe.analyze.exclusion import warned_document
from loadframe.base.units import counted, format_change, format_count, format_duration, format_nodes, format_share
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import estimate_text

#: Invalid trials whose reasons the terminal shows.
_SHOWN = 2
#: Kinds of answers without an upper end.
OPEN = (Kind.LOWER_BOUND, Kind.AT_MOST)
PERCENTILE_NAMES = {"p50": "median", "p90": "p90", "p99": "p99", "p999": "p99.9"}


def subject_text(slo: Slo) -> str:
    """Write the limited figure of an SLO by its displayed name: `median`, `p99.9 of all requests`."""
    return slo.subject.replace(slo.percentile, PERCENTILE_NAMES[slo.percentile])


def unit_of(over: str) -> str:
    """Return the unit of the level that a search varies: `users` if `over` is `users`, else `requests/s`."""
    return "users" if over == USERS else "requests/s"


def slo_text(slo: Slo) -> str:
    """Write the limits of an SLO: `p99 within 100 ms, fewer than 1 % errors`.

    Limits of single operations come first, each as `name: limits`, joined by `; `. The general limits then begin with
    `others: `. They are omitted if `response` is None.
    """
    apart = [f"{name}: {slo_text(bounds)}" for name, bounds in slo.operations]
    if slo.response is None:
        return "; ".join(apart)
    within = f"{subject_text(slo)} within {format_duration(slo.response)}"
    general = f"{within}, fewer than {100 * slo.errors:.3g} % errors"
    return "; ".join([*apart, f"others: {general}" if apart else general])


def rate_text(capacity: Capacity) -> str:
    """Write a capacity without its unit (requests/s or users); a dash if its rate is unknown.

    One search gives its bracket, `512 to 525`; several give a 95 % interval, `512 [480, 560]`. A capacity without an
    upper or lower end is `at least 512` or `at most 512`.
    """
    if capacity.rate is None:
        return "–"
    if capacity.bracket:
        return " to ".join(map(format_count, capacity.bracket))
    if capacity.kind in OPEN:
        return f"at least {format_count(least(capacity))}"
    if capacity.kind is Kind.UPPER_BOUND:
        return f"at most {format_count(capacity.rate.high)}"
    return estimate_text(capacity.rate)


def least(capacity: Capacity) -> float:
    """Return the least value of a capacity without an upper end, in requests/s or users.

    It is the rate of the only conclusive search, or the low end of the interval of several. The kind of the capacity is
    not checked. AssertionError if the capacity has no rate.
    """
    assert capacity.rate is not None
    return capacity.rate.value if len(capacity.conclusive) == 1 else capacity.rate.low


def counts_documents(capacity: Capacity) -> bool:
    """Return whether the capacity in documents/s differs from that in requests/s by more than 0.1 %.

    False if either is unknown.
    """
    documents, rate = capacity.documents, capacity.rate
    return documents is not None and rate is not None and not math.isclose(documents.value, rate.value, rel_tol=1e-3)


def invalid_trials(capacities: Capacities) -> list[str]:
    """Return lines on the invalid trials; an empty list if all are valid.

    The first line has their number among all trials. The next lines have name and reasons of the first two, and the
    last line names the others, if any.
    """
    invalid = capacities.invalid
    if not invalid:
        return []
    total = sum(len(search.attempts) for capacity in capacities.capacities for search in capacity.searches)
    verbs = ("is", "does") if len(invalid) == 1 else ("are", "do")
    lines = [f"{len(invalid)} of {counted(total, 'trial')} {verbs[0]} invalid and {verbs[1]} not count."]
    lines += [f"{attempt.run}: {'; '.join(attempt.judgement.reasons)}" for attempt in invalid[:_SHOWN]]
    if len(invalid) > _SHOWN:
        names = ", ".join(attempt.run for attempt in invalid[_SHOWN:])
        lines.append(f"{len(invalid) - _SHOWN} more, with their reasons in the report: {names}")
    return lines


def documents_text(capacity: Capacity) -> str:
    """Write the capacity in documents/s in the form of `rate_text`.

    Write a dash if no documents were counted or the capacity has no rate.
    """
    documents = capacity.documents
    if documents is None or capacity.rate is None:
        return "–"
    factor = documents.value / capacity.rate.value
    if capacity.bracket:
        return " to ".join(format_count(end * factor) for end in capacity.bracket)
    if capacity.kind in OPEN:
        return f"at least {format_count(least(capacity) * factor)}"
    if capacity.kind is Kind.UPPER_BOUND:
        return f"at most {format_count(documents.high)}"
    return estimate_text(documents)


#: How the order of trials widens an interval; one search, and an open end, have none.
_ORDER_INTERVAL = " Its interval covers all rates from the lowest that failed to the highest that passed."


def sentence(capacity: Capacity) -> str:
    """Return the answer for one treatment: its capacity, or why it has none. It begins with the treatment.

    Without levels of a treatment, it begins with the number of nodes. Adds ends that failed requests leave open, trials
    that contradict the capacity, and a slowdown from trial to trial.
    """
    name = treatment_text(capacity.treatment) or format_nodes(capacity.nodes)
    if all(search.answer is None for search in capacity.searches):
        return f"{name}: the search is not finished. Run the same command again to continue it."
    if capacity.kind is Kind.NONE:
        lowest = min(attempt.rate for search in capacity.searches for attempt in search.attempts)
        nearest = next(filter(None, (search.nearest for search in capacity.searches)))
        why = "; ".join(nearest.judgement.reasons)
        return (
            f"{name}: no {_level(capacity)} meets the SLO{_without_answer(capacity)}. At"
            f" {_amount(capacity, lowest)}, the lowest tried, {why}. Relax the SLO, give the store more resources, or"
            " lower search: least."
        )
    if capacity.kind is Kind.UNKNOWN:
        return f"{name}: no answer, because the deciding trials are invalid; see the reasons below."
    if capacity.rate is None:
        return (
            f"{name}: no answer{_basis(capacity)}, and in others the highest {_level(capacity)} passed. Lower search:"
            " least and raise search: most."
        )
    documents = f" ({documents_text(capacity)} documents/s)" if counts_documents(capacity) else ""
    words = f"{name}: {rate_text(capacity)} {unit_of(capacity.over)}{_basis(capacity)}{documents}"
    further = [_open_text(left) for left in capacity.errors_open]
    # Nearer failures are chance.
    if pair := contradiction(capacity, FAR - 1, after_warming=True):
        slow, fast = pair
        further.insert(
            0,
            f"But a trial at {_amount(capacity, slow.rate)} failed ({slow.run}) and one at"
            f" {_amount(capacity, fast.rate)} passed: the load alone does not decide, so the capacity may be lower.",
        )
    if (order := capacity.order) and order.is_slower:
        interval = capacity.rate is not None and capacity.rate.is_finite
        further.append(
            f"Response times at the same rate grow by {format_change(order.factor.value - 1)} from trial to trial"
            f" (p = {order.p:.2g}): the store slows down during the search, so the capacity depends on the order of"
            f" trials.{_ORDER_INTERVAL if interval else ''} Find the cause (growing data, caches, throttling), or"
            " start each trial from the same state."
        )
    return " ".join([_with_limit(capacity, words), *further])


def _with_limit(capacity: Capacity, words: str) -> str:
    """Return `words`, the beginning of a sentence on a capacity, completed by the reason why it is not higher.

    The reason comes from the kind of the capacity, or from the failed trial next above the answer. Without a reason,
    add only a full stop.
    """
    kinds = [answer.kind for answer in capacity.conclusive]
    total, open_ended, highest = len(kinds), kinds.count(capacity.kind), kinds.count(Kind.AT_MOST)
    some = f" in {open_ended} of {total} searches" if open_ended < total else ""
    sustained = f"the store sustained the highest {_level(capacity)} of the search"
    if capacity.kind is Kind.LOWER_BOUND:
        words = f"{words}, a lower bound: above it the load generator was the limit, not the store{some}."
        return f"{words} In {highest} of {total} searches, {sustained}. Raise search: most." if highest else words
    if capacity.kind is Kind.AT_MOST:
        return f"{words}: {sustained}{some}. Raise search: most."
    if capacity.kind is Kind.UPPER_BOUND:
        return f"{words}. Lower search: least."
    answered = [search for search in capacity.searches if search.nearest]
    why = "; ".join(answered[0].nearest.judgement.reasons) if answered and answered[0].nearest else ""
    return f"{words}; above that {why}." if why else f"{words}."


def _open_text(left: ErrorsOpen) -> str:
    """Write why an error limit is inconclusive, and how many requests decide it, or that the trials differ too much."""
    subject = f"Errors of {left.operation}" if left.operation else "Errors"
    words = (
        f"{subject} are inconclusive: {left.failed:,} of {counted(left.due, 'request')} failed where the SLO was met."
        f" The error share may be up to {format_share(left.high, 2)}; the SLO requires less than"
        f" {format_share(left.limit, 2)}."
    )
    if left.needed is None:
        return f"{words} The trials differ: add repetitions."
    return f"{words} About {left.needed:,} requests with as few failures decide it: measure longer or add repetitions."


def _level(capacity: Capacity) -> str:
    """Return the noun of the searched level: `number of users` or `rate`."""
    return "number of users" if capacity.over == USERS else "rate"


def _amount(capacity: Capacity, level: float) -> str:
    """Write `level` with the unit of the search: `12 users`, or `512/s` for a rate."""
    return counted(level, "user") if capacity.over == USERS else f"{format_count(level)}/s"


def _basis(capacity: Capacity) -> str:
    """Return the caveats to append to the figure of a capacity, beginning with a space; empty without any.

    They are a bracket from one search, searches that found no level that meets the SLO, and searches without an answer.
    """
    words = " by one search: a bracket, not an interval" if capacity.bracket else ""
    without = sum(answer.kind is Kind.NONE for answer in capacity.conclusive)
    if without:
        searches = counted(len(capacity.conclusive), "search", "searches")
        words += f" ({without} of {searches} found no {_level(capacity)} that meets the SLO)"
    return words + _without_answer(capacity)


def _without_answer(capacity: Capacity) -> str:
    """Write how many searches are unfinished or lack an answer because of invalid trials; empty if none.

    The text begins with a space: ` (of 3 searches 1 is not finished)`.
    """
    unfinished = sum(search.answer is None for search in capacity.searches)
    invalid = len(capacity.searches) - len(capacity.conclusive) - unfinished
    counts = [
        f"{count} {'is' if count == 1 else 'are'} {what}"
        for count, what in ((unfinished, "not finished"), (invalid, "without an answer, because of invalid trials"))
        if count
    ]
    return f" (of {counted(len(capacity.searches), 'search', 'searches')} {', '.join(counts)})" if counts else ""


#: A sentence for each set of arrival processes in the trials.
_ARRIVALS = {
    ("poisson",): "Requests arrived at random instants, like those of many independent users (Poisson arrivals).",
    ("constant",): (
        "Requests arrived at even intervals (constant arrivals). Independent users arrive in bursts and wait longer, so"
        " the capacity for them is lower. Set arrivals: poisson to measure it."
    ),
    ("constant", "poisson"): "Some streams had constant arrivals (even intervals), others Poisson arrivals (random).",
}


def arrivals_sentence(capacities: Capacities) -> str:
    """Return sentences on the arrival process of the trials: Poisson, constant or both; empty without trials."""
    return _ARRIVALS.get(capacities.arrivals, "")


def limits(capacities: Capacities) -> list[str]:
    """Return sentences on how to read the figures; the first one gives the rule by which a rate or user count passes.

    The others apply only if present: uncounted failed trials, users, arrivals, selection, and the kinds of intervals.
    """
    users = capacities.bounds.over == USERS
    passes = f"A {'number of users' if users else 'rate'} passes if {slo_text(capacities.slo)}"
    if not users:
        passes += ", at least 99 % of the load was achieved, and the number of requests in flight did not grow"
    bracketed = any(capacity.kind is Kind.BRACKETED for capacity in capacities.capacities)
    above = f"; the {'number' if users else 'rate'} above it failed twice" if bracketed else ""
    words = [f"{passes}. The answer passed three trials and failed at most one counted trial{above}."]
    if names := [one.run for capacity in capacities.capacities for made in capacity.searches for one in made.uncounted]:
        listed = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        words.append(
            f"The search did not count {counted(len(names), 'failed trial')} at its answer ({listed}): a higher rate"
            " passed later, or the same rate passed after two failures, so the store may have been cold."
        )
    if users:
        words.append(
            "Users wait for each answer and think before the next request: the slower the store, the fewer requests"
            " they send. They share the clients of the workload; the wait for a free client is part of a response time."
        )
    words += filter(None, [arrivals_sentence(capacities)])
    if selection := capacities.selection:
        words.append(selection.warning)
    if any(len(capacity.conclusive) > 1 for capacity in capacities.capacities):
        words.append(
            "With several searches, the capacity is the rate at which half of the trials pass, fitted to all trials,"
            " with a 95 % interval over searches. Trials with Poisson arrivals count at the rate that they offered."
        )
    if any(len(capacity.conclusive) == 2 for capacity in capacities.capacities):
        words.append(
            "Two searches give a wide interval, because they show little of the variance between searches. A third"
            " search narrows it most."
        )
    if any(capacity.bracket for capacity in capacities.capacities):
        words.append(
            "One search gives a bracket: the rate that passed, and the rate above it that failed. Trials vary, so the"
            " capacity often lies outside the bracket. Three or more repetitions give an interval."
        )
    return words


def warned_text(capacities: Capacities) -> str:
    """Return a warning that counts, by cause, the valid trials with figures that a rule shifts; empty if none."""
    return warned.warning if (warned := capacities.warned) else ""


def search_text(bounds: Bounds) -> str:
    """Write the range of a search with its unit: `1 to 5,000 requests/s, starting at 50, to a precision of 5.00 %`."""
    ends = f"{format_count(bounds.least)} to {format_count(bounds.most)} {unit_of(bounds.over)}"
    return f"{ends}, starting at {format_count(bounds.start)}, to a precision of {format_share(bounds.precision, 2)}"


def demand_text(asked: Mapping[str, Any] | float, over: str = RATE) -> tuple[float, str]:
    """Return a demand in the unit of the search, 1/s or users, and the text of a conversion to it; else an empty text.

    `asked` is the demand in the experiment's file: a level, or a mapping of `users` and the rate of `each` (1/s). A
    search `over` users takes only `users` of a mapping. Other searches take the product of both, with the text
    `90 users of 2 requests/s each`.
    """
    if isinstance(asked, Mapping) and over == USERS:
        return float(asked["users"]), ""
    if isinstance(asked, Mapping):
        rate = asked["each"]
        return asked["users"] * rate, f"{format_count(asked['users'])} users of {format_count(rate)} requests/s each"
    return float(asked), ""


def document(capacities: Capacities, demands: Sequence[tuple[Demand, str]]) -> dict[str, Any]:
    """Return the analysis as a JSON document; times in s, rates in requests/s, or in users if the search varies these.

    `demands` are the answers to demands, each with its sentence.
    """
    return {
        "experiment": capacities.folder.description["experiment"],
        "question": capacities.folder.description.get("question"),
        "warnings": [warning.as_dict() for warning in warnings(capacities)],
        "demands": [
            {
                "rate": answer.rate,
                "asked": answer.words,
                "nodes": answer.nodes,
                "least": answer.least,
                "most": answer.most,
                "measured": answer.measured,
                "extrapolated": answer.extrapolated,
                "untested": list(answer.untested),
                "unfinished": list(answer.unfinished),
                "margin": answer.margin and vars(answer.margin),
                "perhaps": answer.perhaps and vars(answer.perhaps),
                "single_search": answer.single,
                "sentence": words,
            }
            for answer, words in demands
        ],
        "slo": {
            "response": capacities.slo.response,
            "percentile": capacities.slo.percentile,
            "errors": capacities.slo.errors,
            "of": capacities.slo.of,
            **(
                {"operations": {name: _own(bounds) for name, bounds in apart}}
                if (apart := capacities.slo.operations)
                else {}
            ),
        },
        "over": capacities.bounds.over,
        "arrivals": list(capacities.arrivals),
        "capacities": [
            {
                "treatment": dict(capacity.treatment),
                "nodes": capacity.nodes,
                "kind": capacity.kind.value,
                "rate": capacity.rate.as_dict() if capacity.rate else None,
                "documents": documents.as_dict() if (documents := capacity.documents) else None,
                "bracket": capacity.bracket and {"held": capacity.bracket[0], "failed": capacity.bracket[1]},
                "errors_inconclusive": [vars(left) for left in capacity.errors_open],
                "order_effect": {"factor": order.factor.as_dict(), "p": order.p} if (order := capacity.order) else None,
                "searches": [_search(search) for search in capacity.searches],
            }
            for capacity in capacities.capacities
        ],
        "runs": [run.as_dict() for run in capacities.folder.runs],
        "selection": selection.as_dict() if (selection := capacities.selection) else None,
        **warned_document(capacities.warned),
        "excluded": [
            {"run": attempt.run, "reason": "; ".join(attempt.judgement.reasons)} for attempt in capacities.invalid
        ],
    }


def _own(bounds: Slo) -> dict[str, Any]:
    """Return the limits of one operation for JSON: `response` (s), `percentile`, `errors` (share) and `of`."""
    return {key: getattr(bounds, key) for key in ("response", "percentile", "errors", "of")}


def _search(search: Any) -> dict[str, Any]:
    """Return a search for JSON: its answer, and the rate, outcome and figures of each trial.

    Rates are in requests/s or users, `response` in s; `errors` and `achieved` are shares of one.
    """
    answer = search.answer
    return {
        "block": search.block,
        "answer": {"kind": answer.kind.value, "rate": answer.rate, "above": answer.above} if answer else None,
        "deciding": [attempt.run for attempt in search.deciding],
        "trials": [
            {
                "run": attempt.run,
                "rate": attempt.rate,
                "offered": attempt.offered,
                "outcome": attempt.judgement.outcome.value,
                "reasons": list(attempt.judgement.reasons),
                "response": attempt.judgement.response,
                **({"operation": name} if (name := attempt.judgement.operation) else {}),
                "counted": attempt not in search.uncounted,
                "errors": attempt.judgement.errors,
                "achieved": attempt.judgement.achieved,
            }
            for attempt in search.attempts
        ],
    }
