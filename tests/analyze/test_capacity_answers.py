"""The wording of a capacity search's result."""

from dataclasses import replace

import capacity_searches
import pytest

from loadframe.analyze.capacity.answers import Attempt, Search, _offered, capacities_of
from loadframe.analyze.capacity.criteria import ErrorCount, Judgement
from loadframe.analyze.capacity.search import Answer, Bounds, Kind, Next, Outcome
from loadframe.analyze.experiment import RecordedRun
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.manifest import RecordedWorkload
from loadframe.record.schema.summary import StreamSummary
from loadframe.report.capacity_words import documents_text, rate_text, sentence
from made_up_runs import MadeUp, operation, phase, summary


def searched(answer: Answer, *trials: tuple[float, Outcome]) -> Search:
    """Return a search in which the reason of a failed trial is its rate."""
    attempts = [
        Attempt(f"t{number}", rate, Judgement(outcome, (f"{rate:g}",), None, None, None, None))
        for number, (rate, outcome) in enumerate(trials)
    ]
    return Search(1, {}, tuple(attempts), answer)


def test_what_was_in_the_way_is_above_the_answer_and_no_failure_by_chance_below_it():
    trials = [(400, Outcome.FAILED), (400, Outcome.PASSED), (1000, Outcome.FAILED), (800, Outcome.FAILED)]
    result = searched(Answer(Kind.BRACKETED, 500.0, 800.0), *trials).nearest
    assert result is not None
    assert result.judgement.reasons == ("800",)
    undecided = [(600, Outcome.FAILED), *trials]
    assert searched(Answer(Kind.BRACKETED, 500.0, 800.0), *undecided).nearest.rate == 800


@pytest.mark.parametrize(("group", "steps"), [(1, 1), (3, 0), (1, 3)])
def test_random_arrivals_of_groups_and_journeys_offer_their_own_rate(group, steps):
    """1,050 arrivals within 10 s at a nominal 100/s offered 105/s, however many requests each sends."""
    stream = StreamSummary("main", {"open": {"rate": 100.0, "arrivals": "poisson"}}, measured=10.0, group=group)
    due = 1050 * max(group, steps)
    measured = replace(phase("m", {"a": operation(0.0, requests=due, successes=due)}), streams=(stream,))
    planned = {"name": "main", "journey": [{"operation": "a", "think_time": 0.0}] * steps}
    workload = RecordedWorkload(phases=({"name": "m", "streams": [planned]},))
    run = RecordedRun("r", 1, {"rate": 100.0}, MadeUp(summary(measured), Manifest(FORMAT, workload=workload)))
    assert _offered(run, ["m"], 100.0) == pytest.approx(105.0)


def test_without_an_answer_the_lowest_rate_gives_the_obstacle():
    result = searched(Answer(Kind.NONE, None, 2.0), (4, Outcome.FAILED), (2, Outcome.FAILED)).nearest
    assert result is not None
    assert result.rate == 2


def test_a_capacity_is_also_given_in_documents():
    def search(documents):
        attempts = [
            Attempt("t0", 400.0, Judgement(Outcome.PASSED, (), None, None, None, None), documents),
            Attempt("t1", 800.0, Judgement(Outcome.FAILED, ("slow",), None, None, None, None), documents / 2),
        ]
        return Search(1, {}, tuple(attempts), Answer(Kind.BRACKETED, 400.0, 800.0))

    (counted,) = capacities_of([[search(1000.0)]], 1)
    assert counted.documents.value == 400 * 1000
    assert documents_text(counted) == "400,000 to 800,000"
    assert "documents/s" in sentence(counted)
    (uncounted,) = capacities_of([[search(0.0)]], 1)
    assert uncounted.documents is None
    assert "documents" not in sentence(uncounted)


def test_errors_that_few_requests_do_not_exclude_are_inconclusive_with_the_number_that_decides():
    def capacity(*failed, due=330):
        attempts = [
            Attempt(f"t{number}", 400.0, Judgement(Outcome.PASSED, (), None, None, None, None, counts=(
                ErrorCount(None, count, due, 0.001),
            )))
            for number, count in enumerate(failed)
        ]  # fmt: skip
        attempts.append(Attempt("t9", 410.0, Judgement(Outcome.FAILED, ("slow",), None, None, None, None)))
        return capacities_of([[Search(1, {}, tuple(attempts), Answer(Kind.BRACKETED, 400.0, 410.0))]], 1)[0]

    few = capacity(0, 0, 0)
    assert [(left.due, left.needed) for left in few.errors_open] == [(990, 2995)]
    said = sentence(few)
    assert (
        "Errors are inconclusive: 0 of 990 requests failed where the SLO was met. The error share may be up to 0.30 %"
        in said
    )
    assert "About 2,995 requests with as few failures decide it" in said
    assert not capacity(0, 0, 0, due=1000).errors_open
    (apart,) = capacity(0, 0, 18, due=9000).errors_open
    assert apart.needed is None
    assert "The trials differ: add repetitions." in sentence(capacity(0, 0, 18, due=9000))
    assert "The error share may be up to 100.00 %" in sentence(capacity(0))


def test_at_least_is_the_low_end_of_several_searches_and_not_their_mean():
    """Two searches end near 105 and 110/s; the third sustains the highest rate of the search."""
    bounds = Bounds(start=100, least=1, most=800)

    def capacity(*truths):
        made = [capacity_searches.searched(truth, bounds=bounds, block=n) for n, truth in enumerate(truths)]
        return capacities_of([made], 1)[0]

    mixed = capacity(105.0, 110.0, 5000.0)
    assert mixed.kind is Kind.AT_MOST
    assert mixed.rate.low < 105
    assert rate_text(mixed) == f"at least {mixed.rate.low:.3g}"
    said = sentence(mixed)
    assert "the store sustained the highest rate of the search in 1 of 3 searches. Raise search: most." in said
    for truths in ((5000.0,), (5000.0, 5000.0, 5000.0)):
        every = capacity(*truths)
        assert rate_text(every) == "at least 800"
        assert sentence(every).endswith("the highest rate of the search. Raise search: most.")


def test_searches_without_an_answer_are_named_beside_the_figure():
    done = capacity_searches.searched(105.0)
    unfinished = replace(done, attempts=done.attempts[:2], end=Next(200.0, 1, "ramp"))
    unknown = replace(done, end=Answer(Kind.UNKNOWN, None, 1.0))
    said = sentence(capacities_of([[done, unfinished, unknown]], 1)[0])
    assert "(of 3 searches 1 is not finished, 1 is without an answer, because of invalid trials)" in said
    nothing = replace(done, attempts=done.attempts[-1:], end=Answer(Kind.NONE, None, 105.0))
    assert nothing.nearest is not None
    said = sentence(capacities_of([[nothing, unfinished]], 1)[0])
    assert "no rate meets the SLO (of 2 searches 1 is not finished). At" in said
    assert "(of " not in sentence(capacities_of([[done, done]], 1)[0])


def test_searches_that_the_generator_limited_are_counted_apart_from_those_at_the_highest_rate():
    bounds = Bounds(start=100, least=1, most=400)
    high, other, bracketed = (
        capacity_searches.searched(truth, bounds=bounds, block=n) for n, truth in enumerate((1000, 1000, 210))
    )
    limited = replace(high, end=Answer(Kind.LOWER_BOUND, 200.0, 400.0))
    said = sentence(capacities_of([[limited, other, bracketed]], 1)[0])
    assert "the load generator was the limit, not the store in 1 of 3 searches. In 1 of 3 searches, the store" in said
    assert said.endswith("sustained the highest rate of the search. Raise search: most.")
    every = sentence(capacities_of([[limited, limited]], 1)[0])
    assert every.endswith("the load generator was the limit, not the store.")
