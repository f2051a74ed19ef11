"""Growth of response times with the documents is found at its size, and not where there is none."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from loadframe.analyze.summary import documents_by_second
from loadframe.analyze.verdict.judge import JudgedPhase, judge
from loadframe.analyze.verdict.trends import growth, steadiness, without_growth
from loadframe.record.schema.figures import GrowthFigures, Latency
from loadframe.record.schema.summary import GeneratorFigures, StreamSummary
from loadframe.simulate import autoregressive
from made_up_runs import operation, phase

SECONDS = 120
EVEN = np.full(SECONDS, 100.0)
#: Documents that arrive in stages, so that their number is not proportional to time.
STAGES = np.repeat([300.0, 10.0, 150.0], SECONDS // 3)


def course(rate):
    return np.cumsum(rate) - rate / 2


def simulated(documents, *, slope, seed, rho=0.4, noise=0.1, drift=0.0):
    """Return the finding for a run with a mean response time of 1 s plus `slope` s per thousand documents."""
    source = np.random.default_rng(seed)
    counts = source.poisson(20, len(documents)).astype(float)
    means = 1 + slope * documents / 1000 + drift * np.linspace(0, 1, len(documents))
    return growth(means + noise * autoregressive(source, (len(documents),), rho), counts, documents)


@pytest.mark.parametrize("rho", [0.0, 0.4, 0.7])
@pytest.mark.parametrize("rate", [EVEN, STAGES], ids=["even", "stages"])
@pytest.mark.parametrize("slope", [0.0, 0.02])
def test_the_interval_covers_the_slope_at_the_nominal_rate(rate, rho, slope):
    judged = [simulated(course(rate), slope=slope, seed=seed, rho=rho) for seed in range(100)]
    assert sum(one.low <= slope <= one.high for one in judged) >= 90
    assert sum(one.grows for one in judged) <= 5 if slope == 0 else sum(one.grows for one in judged) >= 25
    assert np.mean([one.slope for one in judged]) == pytest.approx(slope, abs=0.004)


def test_effects_of_time_are_not_attributed_to_distinguishable_documents():
    judged = [simulated(course(STAGES), slope=0.0, seed=seed, drift=0.5) for seed in range(100)]
    assert all(one.apart for one in judged)
    assert sum(one.grows for one in judged) <= 7


def test_documents_at_an_even_pace_are_reported_as_indistinguishable_from_time():
    judged = simulated(course(EVEN), slope=0.0, seed=1, drift=0.5)
    assert judged.grows
    assert not judged.apart


def test_seconds_without_answers_are_left_out():
    documents = course(EVEN)
    counts = np.where(np.arange(SECONDS) % 4 == 0, 60.0, 0.0)
    means = np.where(counts > 0, 0.01 + 1e-6 * documents, 0.0) + np.where(counts > 0, 1e-4, 0) * (-1) ** np.arange(
        SECONDS
    )
    judged = growth(means, counts, documents)
    assert judged.slope == pytest.approx(1e-3, rel=0.05)
    assert (judged.begin, judged.end) == (documents[0], documents[116])


def test_few_seconds_or_documents_that_stay_say_nothing():
    ones = np.ones(19)
    assert growth(ones, ones, np.arange(19.0)) is None
    assert growth(np.ones(60), np.ones(60), np.full(60, 7.0)) is None


def test_a_response_time_that_does_not_vary_has_a_slope_of_zero():
    judged = growth(np.ones(60), np.ones(60), np.arange(60.0))
    assert judged.slope == pytest.approx(0, abs=1e-9)
    assert not judged.grows


def throughputs(documents, *, rest=1.0, seed=0, rho=0.4):
    """Return the throughput of eight clients with requests of 1 ms, plus 0.05 ms per thousand documents."""
    noise = 1 + 0.03 * autoregressive(np.random.default_rng(seed), (len(documents),), rho)
    return 8 / (0.001 + 0.05e-6 * documents) * noise * rest


@pytest.mark.parametrize("rate", [EVEN, STAGES], ids=["even", "stages"])
def test_a_fall_that_documents_explain_leaves_a_steady_rest(rate):
    documents = course(rate)
    judged = [
        (steadiness(series), steadiness(without_growth(series, documents)))
        for series in (throughputs(documents, seed=seed) for seed in range(20))
    ]
    assert sum(not plain.steady for plain, _ in judged) == 20
    assert sum(rest.steady for _, rest in judged) >= 19


def test_a_fall_by_time_is_not_attributed_to_distinguishable_documents():
    documents = course(STAGES)
    fall = np.linspace(1.2, 0.8, SECONDS)
    series = [throughputs(documents, rest=fall, seed=seed) for seed in range(20)]
    assert sum(not steadiness(without_growth(one, documents)).steady for one in series) >= 19


def test_throughput_that_rose_with_the_documents_is_left_as_it_is():
    series = np.linspace(80, 120, SECONDS)
    assert without_growth(series, course(EVEN)) is series


QUIET = GeneratorFigures(
    threads=2, cpu_share=0.5, cpu_share_peak=0.7, waited_share=0.01, lateness_p99=1e-5, lag_p99=1e-4, away_share=0.0
)
GROWN = GrowthFigures(slope=0.05e-3, low=0.04e-3, high=0.06e-3, begin=0, end=12000, held=True, all=True, apart=False)
CLOSED = {"closed": {"clients": 8, "think_time": 0.0}}
OPEN = {"open": {"rate": 100.0, "arrivals": "constant", "max_in_flight": 1024}}


def verdict(figures=GROWN, *, pacing=CLOSED, rest=1.0, rate=EVEN, counted=True):
    latency = Latency(p99=0.1)
    measured = replace(
        phase("load", {"add": operation(100.0, response=latency, service=latency, growth=figures)}),
        streams=(StreamSummary("main", pacing),),
    )
    documents = course(rate)
    series = throughputs(documents, rest=rest)
    return judge([JudgedPhase(measured, QUIET, series, documents=documents if counted else None)], [])


def test_drift_explained_by_documents_is_reported_without_a_reason():
    judged = verdict()
    assert not judged.reasons
    [words] = judged.recorded().explained
    assert words.startswith("in phase load throughput moved by -4")
    assert "documents grew from 0 to 12,000, which slowed add; documents grew at an even rate" in words


def test_a_drift_that_they_explain_in_part_is_a_reason_by_its_rest():
    judged = verdict(rest=np.linspace(1.2, 0.8, SECONDS), rate=STAGES)
    [reason] = judged.reasons
    assert reason.code == "unsteady"
    assert reason.cause.endswith(f"over {SECONDS} s, after removing the effect of document growth")
    assert judged.explained == ()


@pytest.mark.parametrize(
    "unlike",
    [
        {"figures": None},
        {"figures": replace(GROWN, low=-1e-6)},
        {"figures": replace(GROWN, held=False)},
        {"pacing": OPEN},
        {"counted": False},
    ],
)
def test_a_drift_without_growth_stays_a_reason(unlike):
    judged = verdict(**unlike)
    assert [reason.code for reason in judged.reasons] == ["unsteady"]
    assert "document growth" not in judged.reasons[0].cause


def test_documents_are_counted_from_the_warm_up_on_by_operation():
    rows = pa.table(
        {
            "operation": ["load", "load", "load", "remove", "find"],
            "second": [0, 1, 2, 1, 1],
            "documents": [100, 50, 50, 20, 999],
            "successes": [1, 1, 1, 20, 1],
        }
    )
    gains = {
        "load": {"amount": 1.0, "by": "documents", "sure": True},
        "remove": {"amount": -1.0, "by": "successes", "sure": True},
    }
    outcome = {"warmup": 1.0, "measured": 2.0, "gains": gains, "held": 1000}
    assert documents_by_second(outcome, rows).tolist() == [1115.0, 1155.0]
    assert documents_by_second(outcome | {"gains": {}}, rows) is None
