"""The verdict names the rank and machine at fault."""

from dataclasses import replace

import numpy as np
import pytest

from loadframe.analyze.verdict.judge import JudgedPhase, judge
from loadframe.analyze.verdict.self_monitor import stragglers
from loadframe.record.schema.figures import Latency
from loadframe.record.schema.summary import GeneratorFigures, RankFigures
from made_up_runs import operation, phase

QUIET = RankFigures(rank=0, machine="m0", requests=3000, successes=3000, last_done=10.0)


def reasons(*changes):
    """Return the reasons against a run of ranks on separate machines; each change applies to one quiet rank."""
    ranks = tuple(replace(QUIET, rank=i, machine=f"m{i}", **change) for i, change in enumerate(changes))
    answered = operation(100.0, response=Latency(p99=0.1), service=Latency(p99=0.1))
    measured = replace(phase("range", {"range": answered}), ranks=ranks)
    generator = GeneratorFigures(threads=len(ranks), cpu_share=0.1, cpu_share_peak=0.1, waited_share=0.0)
    return judge([JudgedPhase(measured, generator, np.full(30, 100.0))], ()).reasons


def test_ranks_alike_are_valid():
    assert reasons({}, {}, {}) == ()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"began_late": 0.06}, "began_late"),
        ({"requests": 1500}, "straggler"),
        ({"last_done": 20.0}, "straggler"),
        ({"cpu_share": 0.9}, "generator_cpu"),
        ({"waited_share": 0.3}, "starved"),
    ],
)
def test_a_rank_at_fault_is_named_with_its_machine(change, code):
    (reason,) = reasons({}, {}, change)
    assert reason.code == code
    assert "rank 2 (m2)" in reason.as_dict()["cause"]


@pytest.mark.parametrize("change", [{"began_late": 0.04}, {"requests": 2200}, {"last_done": 14.0}])
def test_small_differences_are_none(change):
    assert reasons({}, {}, change) == ()


def test_shares_of_few_requests_are_not_judged():
    few = {"requests": 60}
    assert reasons(few, few, {"requests": 30}) == ()


def test_ranks_without_clients_are_no_stragglers():
    ranks = [QUIET, replace(QUIET, rank=1, requests=0, last_done=0.0)]
    assert [rank.rank for rank, _ in stragglers([*ranks, replace(QUIET, rank=2)], 3)] == [1]
    assert stragglers([*ranks, replace(QUIET, rank=2)], 2) == []
    assert stragglers(ranks, 1) == []


def test_the_worst_of_several_is_named_and_the_others_are_counted():
    (reason,) = reasons({}, {"began_late": 0.1}, {"began_late": 0.3})
    cause = reason.as_dict()["cause"]
    assert "rank 2 (m2) started 300 ms" in cause and "1 more" in cause
