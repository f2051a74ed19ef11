"""The leading sentences of a comparison."""

from dataclasses import replace

import pytest

from loadframe.analyze.compare import compare, read_groups
from loadframe.report.compare_words import lead
from simulated import Truth, write_run


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    root = tmp_path_factory.mktemp("versions")
    for seed, (name, lam) in enumerate({"old": 100, "slow": 80}.items()):
        for number in range(4):
            write_run(root / name, f"r{number}", Truth(lam=lam, seconds=2), seed=100 * seed + number)
    return compare(read_groups([str(root / "old"), str(root / "slow")]), ["throughput", "p50", "p99", "max"])


def test_measures_that_are_decided_are_named_although_the_first_is_open(compared):
    first, *others = compared.contrasts
    assert {other.outcome for other in others} == {"worse"}
    undecided = replace(compared, contrasts=(replace(first, outcome="open"), *others))
    one, other = lead(undecided)
    assert "inconclusive for a difference" in one
    assert other == "slow is worse in range_100 p50; range_100 p99 and range_100 max."


def test_better_and_worse_measures_stand_in_one_sentence_and_open_ones_in_none(compared):
    first, p50, p99, most = compared.contrasts
    mixed = replace(compared, contrasts=(first, p50, replace(p99, outcome="better"), replace(most, outcome="open")))
    assert lead(mixed)[-1] == "slow is worse in range_100 p50, and better in range_100 p99."
    open_ = replace(compared, contrasts=tuple(replace(c, outcome="open") for c in compared.contrasts))
    assert len(lead(open_)) == 1
