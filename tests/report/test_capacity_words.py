"""Sentences on capacity experiments."""

from types import SimpleNamespace

from loadframe.analyze.capacity import Bounds
from loadframe.analyze.estimate import Estimate
from loadframe.report import capacity_words


def of_trials(invalid, valid=2):
    """Return the input of `invalid_trials`: an experiment with these invalid trials and some valid ones."""
    attempts = [
        SimpleNamespace(run=f"trial-{n}", judgement=SimpleNamespace(reasons=(f"reason {n}", "late")))
        for n in range(invalid)
    ]
    searches = [SimpleNamespace(attempts=[*attempts, *[None] * valid])]
    return SimpleNamespace(invalid=tuple(attempts), capacities=(SimpleNamespace(searches=searches),))


def test_reasons_of_two_invalid_trials_are_shown_and_the_others_named():
    assert capacity_words.invalid_trials(of_trials(0)) == []
    assert capacity_words.invalid_trials(of_trials(1)) == [
        "1 of 3 trials is invalid and does not count.",
        "trial-0: reason 0; late",
    ]
    lines = capacity_words.invalid_trials(of_trials(20, 67))
    assert lines[0] == "20 of 87 trials are invalid and do not count."
    assert lines[1:3] == ["trial-0: reason 0; late", "trial-1: reason 1; late"]
    names = ", ".join(f"trial-{number}" for number in range(2, 20))
    assert lines[3:] == [f"18 more, with their reasons in the report: {names}"]


def test_a_demand_has_the_unit_of_the_search():
    asked = {"users": 20_000, "each": 0.1}
    assert capacity_words.demand_text(asked) == (2000.0, "20,000 users of 0.1 requests/s each")
    assert capacity_words.demand_text(asked, "users") == (20_000.0, "")
    assert (
        capacity_words.search_text(Bounds(50, 1, 5000))
        == "1 to 5,000 requests/s, starting at 50, to a precision of 5.00 %"
    )
    assert capacity_words.search_text(Bounds(50, 1, 5000, over="users")).startswith("1 to 5,000 users, starting at 50")


def test_documents_are_reported_only_if_they_differ_from_requests():
    rate = Estimate(100.0, 90.0, 110.0)
    for factor, reported in ((1.0, False), (50.0, True)):
        documents = Estimate(100.0 * factor, 90.0 * factor, 110.0 * factor)
        assert capacity_words.counts_documents(SimpleNamespace(rate=rate, documents=documents)) is reported
    assert not capacity_words.counts_documents(SimpleNamespace(rate=rate, documents=None))
    assert not capacity_words.counts_documents(SimpleNamespace(rate=None, documents=None))
