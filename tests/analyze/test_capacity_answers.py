"""What a search for a capacity is said to have found."""

from loadframe.analyze.capacity.answers import Attempt, Search
from loadframe.analyze.capacity.criteria import Judgement
from loadframe.analyze.capacity.search import Answer, Kind, Outcome


def searched(answer: Answer, *trials: tuple[float, Outcome]) -> Search:
    """A search whose failed trials give their rates as their reasons."""
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


def test_without_an_answer_the_lowest_rate_says_what_was_in_the_way():
    result = searched(Answer(Kind.NONE, None, 2.0), (4, Outcome.FAILED), (2, Outcome.FAILED)).nearest
    assert result is not None
    assert result.rate == 2
