"""What a capacity experiment says in words: each treatment's capacity, and the nodes that loads need."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.analyze.capacity import USERS, Capacities, Capacity, Demand, ErrorsOpen, Kind, Slo
from loadframe.base.units import format_change, format_count, format_duration, format_nodes, format_share
from loadframe.report.labels import treatment_text
from loadframe.report.numbers import estimate_text

PERCENTILE_NAMES = {"p50": "median", "p90": "p90", "p99": "p99", "p999": "p99.9"}


def subject_text(slo: Slo) -> str:
    """Write what the SLO's limit is on: `p99`, `p99.9 of all requests`."""
    return slo.subject.replace(slo.percentile, PERCENTILE_NAMES[slo.percentile])


def unit_of(over: str) -> str:
    """Return the unit of what was searched for: `requests/s` or `users`."""
    return "users" if over == USERS else "requests/s"


def slo_text(slo: Slo) -> str:
    """Write `p99 within 100 ms, fewer than 1 % errors`, and what is asked of operations with bounds of their own."""
    apart = [f"{name}: {slo_text(bounds)}" for name, bounds in slo.operations]
    if slo.response is None:
        return "; ".join(apart)
    within = f"{subject_text(slo)} within {format_duration(slo.response)}"
    general = f"{within}, fewer than {100 * slo.errors:.3g} % errors"
    return "; ".join([*apart, f"others: {general}" if apart else general])


def rate_text(capacity: Capacity) -> str:
    """Write `512 to 525` of one search, `512 [480, 560]` of several, `at least 512`, or a dash."""
    if capacity.rate is None:
        return "–"
    if capacity.bracket:
        return " to ".join(map(format_count, capacity.bracket))
    if capacity.kind in (Kind.LOWER_BOUND, Kind.AT_MOST):
        return f"at least {format_count(capacity.rate.value)}"
    return estimate_text(capacity.rate)


def documents_text(capacity: Capacity) -> str:
    """Write the capacity in documents/s, as `rate_text` does that in requests/s; a dash where none were counted."""
    documents = capacity.documents
    if documents is None or capacity.rate is None:
        return "–"
    factor = documents.value / capacity.rate.value
    if capacity.bracket:
        return " to ".join(format_count(end * factor) for end in capacity.bracket)
    if capacity.kind in (Kind.LOWER_BOUND, Kind.AT_MOST):
        return f"at least {format_count(documents.value)}"
    return estimate_text(documents)


def sentence(capacity: Capacity, slo: Slo) -> str:
    """Return what is known of one treatment."""
    name = treatment_text(capacity.treatment) or format_nodes(capacity.nodes)
    if all(search.answer is None for search in capacity.searches):
        return f"{name}: the search is not finished; the same command continues it."
    if capacity.kind is Kind.NONE:
        lowest = min(attempt.rate for search in capacity.searches for attempt in search.attempts)
        nearest = next(filter(None, (search.nearest for search in capacity.searches)))
        why = "; ".join(nearest.judgement.reasons)
        return (
            f"{name}: no {_level(capacity)} meets the SLO; at {_amount(capacity, lowest)}, the lowest that was tried,"
            f" {why}. Ask for less, give the store more, or search lower with search: least."
        )
    if capacity.kind is Kind.UNKNOWN:
        return f"{name}: the trials that decide it are invalid; see why below."
    documents = f", which are {documents_text(capacity)} documents/s" if capacity.documents else ""
    words = f"{name}: {rate_text(capacity)} {unit_of(capacity.over)}{_basis(capacity)}{documents}"
    further = [_open_text(left) for left in capacity.errors_open]
    if (order := capacity.order) and order.is_slower:
        further.append(
            f"Response times at the same rate grow by {format_change(order.factor.value - 1)} from trial to trial"
            f" (p = {order.p:.2g}): the store slows down during the search, so the capacity depends on the order of"
            " trials. Its interval reaches from the lowest rate that failed to the highest that passed. Find out why"
            " (data that grow, caches, throttling), or start each trial from the same state."
        )
    return " ".join([_worth(capacity, words), *further])


def _worth(capacity: Capacity, words: str) -> str:
    """Return the sentence with what limits the answer."""
    if capacity.kind is Kind.LOWER_BOUND:
        return f"{words}, a lower bound: above it the load generator, not the store, was the limit."
    if capacity.kind is Kind.AT_MOST:
        return f"{words}: the highest {_level(capacity)} that the search may try was held; raise search: most."
    answered = [search for search in capacity.searches if search.nearest]
    why = "; ".join(answered[0].nearest.judgement.reasons) if answered and answered[0].nearest else ""
    return f"{words}; above that {why}." if why else f"{words}."


def _open_text(left: ErrorsOpen) -> str:
    """Write why a limit of errors is inconclusive, and how many requests decide it."""
    whose = f"Errors of {left.operation}" if left.operation else "Errors"
    words = (
        f"{whose} are inconclusive: {left.failed:,} of {left.due:,} requests failed where the SLO was met, so up to"
        f" {format_share(left.high, 2)} may fail, and fewer than {format_share(left.limit, 2)} must."
    )
    if left.needed is None:
        return f"{words} The trials differ: add repetitions."
    return f"{words} About {left.needed:,} requests decide it if as few fail: measure longer or add repetitions."


def _level(capacity: Capacity) -> str:
    return "number of users" if capacity.over == USERS else "rate"


def _amount(capacity: Capacity, level: float) -> str:
    return f"{format_count(level)} users" if capacity.over == USERS else f"{format_count(level)}/s"


def _basis(capacity: Capacity) -> str:
    """Return what the figure rests on where that is less than it seems."""
    words = " by one search, which is a bracket and not an interval" if capacity.bracket else ""
    without = sum(answer.kind is Kind.NONE for answer in capacity.conclusive)
    if without:
        words += f" ({without} of {len(capacity.conclusive)} searches met no {_level(capacity)} that meets the SLO)"
    return words


#: What a capacity means by the arrivals at which it was searched for.
_ARRIVALS = {
    ("poisson",): "Requests arrived at random instants, as many independent users send them (Poisson arrivals).",
    ("constant",): (
        "Requests arrived at even intervals (constant arrivals). Users who arrive independently of each other come in"
        " bursts and wait longer, so that a store holds less of their load: arrivals: poisson measures that."
    ),
    ("constant", "poisson"): (
        "The requests of some streams arrived at even intervals (constant), those of others at random instants"
        " (Poisson)."
    ),
}


def arrivals_sentence(capacities: Capacities) -> str:
    """Say how requests arrived in the trials; empty while there is no trial."""
    return _ARRIVALS.get(capacities.arrivals, "")


def limits(capacities: Capacities) -> list[str]:
    """Return how to read the figures."""
    users = capacities.bounds.over == USERS
    held = f"A {'number of users' if users else 'rate'} is held when {slo_text(capacities.slo)}"
    if not users:
        held += ", at least 99 % of the load was achieved, and the number of requests in flight did not grow"
    words = [
        f"{held}. The answer passed two of three trials and was run again; the {'number' if users else 'rate'} above it"
        " failed twice."
    ]
    if users:
        words.append(
            "Users wait for their answers and think between them: the slower the store, the fewer requests they make."
            " They share the clients that the workload gives them, and waiting for one is part of a response time."
        )
    words += filter(None, [arrivals_sentence(capacities)])
    if selection := capacities.selection:
        words.append(f"Beware: {selection.cause}.")
    if any(len(capacity.conclusive) > 1 for capacity in capacities.capacities):
        words.append(
            "The capacity of several searches is the rate at which half of the trials pass, fitted to all trials, with"
            " its 95 % interval over searches."
        )
    if any(len(capacity.conclusive) == 2 for capacity in capacities.capacities):
        words.append(
            "Two searches say little about how searches differ, so their intervals are wide: a third narrows them most."
        )
    if any(capacity.bracket for capacity in capacities.capacities):
        words.append(
            "One search gives a bracket: the rate that held, and the rate above it that failed. Because"
            " trials scatter, the capacity often lies outside of it, and how answers vary between searches is unknown."
            " Three repetitions or more give an interval."
        )
    return words


def demand_text(asked: Mapping[str, Any] | float) -> tuple[float, str]:
    """Return a demand's rate (1/s), and its words where it was asked for in users."""
    if isinstance(asked, Mapping):
        rate = asked["each"]
        return asked["users"] * rate, f"{format_count(asked['users'])} users of {format_count(rate)} requests/s each"
    return float(asked), ""


def document(capacities: Capacities, demands: Sequence[tuple[Demand, str]]) -> dict[str, Any]:
    """Return the analysis for JSON. Rates are 1/s, times s."""
    return {
        "experiment": capacities.folder.description["experiment"],
        "question": capacities.folder.description.get("question"),
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
        "excluded": [
            {"run": attempt.run, "reason": "; ".join(attempt.judgement.reasons)} for attempt in capacities.invalid
        ],
        "demands": [
            {
                "rate": answer.rate,
                "asked": answer.words,
                "nodes": answer.nodes,
                "least": answer.least,
                "most": answer.most,
                "measured": answer.measured,
                "extrapolated": answer.extrapolated,
                "single_search": answer.single,
                "sentence": words,
            }
            for answer, words in demands
        ],
    }


def _own(bounds: Slo) -> dict[str, Any]:
    return {key: getattr(bounds, key) for key in ("response", "percentile", "errors", "of")}


def _search(search: Any) -> dict[str, Any]:
    answer = search.answer
    return {
        "block": search.block,
        "answer": {"kind": answer.kind.value, "rate": answer.rate, "above": answer.above} if answer else None,
        "trials": [
            {
                "run": attempt.run,
                "rate": attempt.rate,
                "outcome": attempt.judgement.outcome.value,
                "reasons": list(attempt.judgement.reasons),
                "response": attempt.judgement.response,
                **({"operation": name} if (name := attempt.judgement.operation) else {}),
                "errors": attempt.judgement.errors,
                "achieved": attempt.judgement.achieved,
            }
            for attempt in search.attempts
        ],
    }
