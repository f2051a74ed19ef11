"""The gate on runs that were really made: a service that got slower by a fifth is stopped, an equal one passes.

The service sleeps rather than works, so that how busy this machine is hardly matters.
"""

import pytest

from commands import within
from loadframe.record import Run
from rest_service import RestService

pytestmark = [pytest.mark.alone, pytest.mark.trial]

WORKLOAD = """\
workload: slow
operations: {login: {http: {method: POST, path: /login, body: {user: ann}}}}
phases: [{name: login, operation: login, clients: 16, duration: 900ms}]
"""
#: Seconds for an answer: throughput falls by a fifth where it takes a quarter longer.
DELAYS = {"old": 0.4, "same": 0.4, "slow": 0.5}
RUNS = 4
#: On a machine that is busy with other things some runs are invalid, and are measured again.
ROUNDS = 15


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("versions")
    (root / "slow.yaml").write_text(WORKLOAD)
    valid = dict.fromkeys(DELAYS, 0)
    with RestService(DELAYS["old"]) as old, RestService(DELAYS["same"]) as same, RestService(DELAYS["slow"]) as slow:
        services = {"old": old, "same": same, "slow": slow}
        for number in range(ROUNDS):
            for name in DELAYS if number % 2 else reversed(DELAYS):
                if valid[name] < RUNS:
                    place = ["--hosts", services[name].address, "--output", root / name / f"r{number}"]
                    status, _, errors = within("bench", root / "slow.yaml", "--store", "http", *place)
                    assert status == 0, errors
                    valid[name] += Run(root / name / f"r{number}").summary.verdict.valid
    return root


def gate(results, new):
    return within("gate", results / new, "--baseline", results / "old", "--measure", "p50")


def test_a_service_that_got_slower_by_a_fifth_is_stopped(results):
    status, said, _ = gate(results, "slow")
    assert status == 1, said
    assert "regression" in said


def test_an_equal_service_passes(results):
    status, said, _ = gate(results, "same")
    assert status == 0, said


def test_the_comparison_gives_the_slowdown(results):
    status, said, _ = within("compare", results / "old", results / "slow", "--measure", "p50")
    assert status == 0
    assert "slow is worse than old (ratio" in " ".join(said.split())
    assert "interleaved" not in said
