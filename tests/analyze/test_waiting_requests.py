"""Seconds with few or no answers: response times come from the waiting requests, or are absent."""

import numpy as np
import pytest

from loadframe.analyze.elastic.course import SecondResponses, responses
from simulated import write_histograms

#: Eight closed-loop clients get answers in 10 ms; none from 20 s to 30 s, then all eight.
SECONDS = 40
QUICK = [0.010] * 100
STUCK = [10.01] * 8


@pytest.fixture
def waits(tmp_path):
    """Return the figures by second of requests with these response times, by the second in which they were done."""

    def figures(answered, others=None, unanswered=None, oldest=None, lost=0):
        sides = ({}, {})
        for side, times in zip(sides, (answered, others or {}), strict=True):
            if times:
                log = write_histograms(tmp_path / "histograms.hlog", times)
                side.update({round(time): histogram for time, histogram in log.seconds("x")})
        done = [SecondResponses(second, histogram, None) for second, histogram in sides[0].items()]
        done += [SecondResponses(second, None, histogram) for second, histogram in sides[1].items()]
        nothing = np.full(SECONDS, np.nan)
        unanswered = nothing if unanswered is None else unanswered
        return responses(done, unanswered, nothing if oldest is None else oldest, lost)

    return figures


def outage(of_silence=()):
    """Return the response times by second; the seconds of the outage have `of_silence`."""
    times = dict.fromkeys(range(SECONDS), QUICK) | {30: QUICK + STUCK}
    for second in range(20, 30):
        times[second] = list(of_silence)
    return {second: values for second, values in times.items() if values}


#: How long the eight had truly waited at the end of each second of the outage.
TRUTH = np.arange(1, 11)


def test_requests_answered_after_a_silence_waited_through_it(waits):
    p50, p99 = waits(outage())
    for figures in (p50, p99):
        assert (figures[20:30] <= TRUTH).all()
        assert (figures[20:30] >= TRUTH - 1).all()
    assert p99[[*range(19), *range(31, SECONDS)]] == pytest.approx(0.010, rel=0.01)


def test_a_few_quick_answers_amid_an_outage_do_not_hide_it(waits):
    p50, p99 = waits(outage(of_silence=[0.010] * 5))
    assert (p99[21:30] >= TRUTH[1:] - 1).all()
    assert (p50[23:30] > 1).all()


def test_one_straggler_among_hundreds_does_not_make_the_99th_percentile(waits):
    slow = dict.fromkeys(range(SECONDS), QUICK * 3) | {30: [*QUICK, 10.01]}
    assert waits(slow)[1][:30] == pytest.approx(0.010, rel=0.01)


def test_requests_that_failed_in_the_end_had_waited_too(waits):
    served = dict.fromkeys([*range(20), *range(30, SECONDS)], QUICK)
    assert np.isnan(waits(served)[1][20:30]).all()
    assert (waits(served, {30: STUCK})[1][20:30] >= TRUTH - 1).all()


def test_waiting_requests_count_even_without_an_answer(waits):
    served = dict.fromkeys(range(20), QUICK)
    unanswered, oldest = np.full(SECONDS, 1.0), np.full(SECONDS, 0.009)
    unanswered[20:], oldest[20:] = 8.0, np.arange(1, 21)
    p50, p99 = waits(served, unanswered=unanswered, oldest=oldest)
    assert p99[20:].tolist() == list(range(1, 21))
    assert np.isfinite(p50).all()
    assert p99[:20] == pytest.approx(0.010, rel=0.01)


def test_the_oldest_of_many_quick_requests_is_not_their_99th_percentile(waits):
    served = dict.fromkeys(range(SECONDS), QUICK)
    few, many = np.full(SECONDS, 1.0), np.full(SECONDS, 2.0)
    old = np.full(SECONDS, 5.0)
    assert waits(served, unanswered=few, oldest=np.full(SECONDS, 0.5))[1] == pytest.approx(0.010, rel=0.01)
    assert waits(served, unanswered=few, oldest=old)[1] == pytest.approx(0.010, rel=0.01), "one of 101 is under 1 %"
    assert waits(served, unanswered=many, oldest=old)[1] == pytest.approx(0.010, rel=0.01), "all ended, in time"
    assert waits(served, unanswered=many, oldest=old, lost=2)[1] == pytest.approx(5.0)


def test_one_of_many_clients_that_waits_does_not_make_the_99th_percentile(waits):
    # 64 clients get 1000 answers each second, and one of them waits from 20 s on. The second of its answer has more.
    served = dict.fromkeys(range(SECONDS), QUICK * 10) | {30: [*QUICK * 50, 10.01]}
    oldest = np.where((np.arange(SECONDS) >= 20) & (np.arange(SECONDS) < 30), np.arange(SECONDS) - 19.0, 0.01)
    p99 = waits(served, unanswered=np.full(SECONDS, 64.0), oldest=oldest)[1]
    assert p99 == pytest.approx(0.010, rel=0.01)


def test_slow_answers_beside_waiting_requests_keep_their_share(waits):
    # 0.8 % of the answers of one second take 3 s, and one more request waits meanwhile.
    slow = dict.fromkeys(range(SECONDS), QUICK * 10) | {25: [*[0.010] * 992, *[3.0] * 8], 30: [*QUICK * 10, 10.01]}
    assert waits(slow)[1] == pytest.approx(0.010, rel=0.01)
    # Twelve waiting requests are over 1 % of each second.
    stuck = dict.fromkeys(range(SECONDS), QUICK * 10) | {30: [*QUICK * 10, *[10.01] * 12]}
    p99 = waits(stuck)[1]
    assert (p99[21:30] >= TRUTH[1:] - 1).all()
    assert p99[:19] == pytest.approx(0.010, rel=0.01)


def test_a_silence_of_which_nothing_is_known_stays_unknown(waits):
    served = dict.fromkeys([*range(20), *range(30, SECONDS)], QUICK)
    p99 = waits(served)[1]
    assert np.isnan(p99[20:30]).all()
    assert np.isfinite(p99[[*range(20), *range(30, SECONDS)]]).all()
