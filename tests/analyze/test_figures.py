"""Figures of a run that are exact, bounded or unknown; bounds contain the true value."""

import math
from dataclasses import replace

import numpy as np
import pytest

from loadframe.analyze.compare import Group, Measure
from loadframe.analyze.compare.contrasts import contrast_values
from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.figures import Evidence, codes_about, figure, measured_figures
from loadframe.analyze.scale.treatments import gather, points
from loadframe.record import Manifest
from loadframe.record.schema import FORMAT
from loadframe.record.schema.figures import KernelTimes, Latency
from loadframe.record.schema.summary import GeneratorFigures, RankFigures, RecordedReason, StreamSummary
from made_up_runs import MadeUp, invalid, operation, phase, summary

GENERATOR = GeneratorFigures(
    threads=2, cpu_share=0.5, cpu_share_peak=0.7, waited_share=0.0, lateness_p99=4e-3, lag_p99=2e-3, longest_stall=5e-3
)
TIMES = Latency(count=1000, mean=0.020, p50=0.018, p90=0.030, p99=0.050, p999=0.070, max=0.080)
SERVED = replace(TIMES, mean=0.010, p50=0.008, p90=0.028, p99=0.040, p999=0.060, max=0.079)
OPEN = {"open": {"rate": 100.0, "arrivals": "constant"}}
CLOSED = {"closed": {"clients": 2, "think_time": 0.0}}


class Sample:
    """An exact distribution instead of a histogram."""

    def __init__(self, values):
        self.values = np.sort(values)
        self.count, self.mean = len(values), float(self.values.mean())

    def quantile(self, q):
        return float(np.quantile(self.values, q, method="inverted_cdf"))

    def __add__(self, other):
        return Sample(np.concatenate([self.values, other.values]))


class Log:
    """The histograms of a run, by tag."""

    def __init__(self, **samples):
        self.samples = {name: Sample(values) for name, values in samples.items()}

    def total(self, tag, start=0.0, end=math.inf):
        return self.samples[tag.rpartition("/")[2]]


def figures_of(*codes, pacing=CLOSED, generator=GENERATOR, times=TIMES, service=None, log=None, **parts):
    entry = replace(
        phase("range", {"range": operation(100.0, response=times, service=service or times)}, **parts),
        streams=(StreamSummary("main", pacing),),
    )
    entries = measured_figures(Evidence(entry, generator, codes, lambda: log))
    return {entry.figure: entry for entry in entries}


def states(*codes, **parts):
    return {name: entry.state for name, entry in figures_of(*codes, **parts).items() if name != "all"}


COUNTS, DISTRIBUTIONS = ("throughput", "documents", "errors"), ("response", "service")


def all_of(state):
    return dict.fromkeys((*COUNTS, *DISTRIBUTIONS), state)


@pytest.mark.parametrize(
    "code", ["errors", "unsteady", "dropped", "not_achieved", "documents_lost", "copies_lost", "node_lost"]
)
def test_results_of_the_store_leave_every_figure_good(code):
    assert states(code) == all_of("good")


@pytest.mark.parametrize("code", ["cluster_state", "machine_silent", "generator_failed", "a later one"])
def test_a_run_of_another_cluster_or_of_an_unknown_fault_has_no_figure(code):
    assert states(code) == all_of("unknown")


def test_lateness_of_an_open_load_bounds_response_times_and_leaves_the_rest_good():
    generator = replace(GENERATOR, achieved=1.0)
    given = {"pacing": OPEN, "generator": generator, "service": replace(SERVED, p90=0.02, p99=0.025)}
    entries = figures_of("lateness", **given)
    assert states("lateness", **given) == all_of("good") | {"response": "bounded"}
    assert entries["response"].reasons == ("lateness",)
    assert entries["response"].high["p50"] == TIMES.p50
    # Summaries have the 99th percentile of lateness, and not its mean: one request in a hundred was later by any time.
    assert entries["response"].low["p99"] == pytest.approx(TIMES.p90 - 4e-3)
    # A service time holds no lateness.
    assert (entries["response"].low["mean"], entries["response"].low["p50"]) == (SERVED.mean, SERVED.p50)


def percentiles(values):
    """Return a summary's statistics of a sample."""
    sample = Sample(values)
    return Latency(sample.count, sample.mean, *(sample.quantile(q) for q in (0.5, 0.9, 0.99, 0.999, 1.0)))


@pytest.mark.parametrize(("late", "bounded"), [(1e-6, False), (20e-6, True), (300e-6, True)])
@pytest.mark.parametrize("seed", range(3))
def test_lateness_bounds_the_times_of_a_fast_store_though_it_is_far_below_a_millisecond(seed, late, bounded):
    random = np.random.default_rng(seed)
    true = random.lognormal(np.log(100e-6), 0.5, 20_000)
    lateness = random.exponential(late, len(true))
    log = Log(response=true + lateness, service=true, failure=true, lateness=lateness, lag=np.zeros(600))
    given = {"pacing": OPEN, "generator": replace(GENERATOR, achieved=1.0), "log": log}
    given |= {"times": percentiles(true + lateness), "service": percentiles(true)}
    entry = figures_of(**given)["response"]
    assert entry.state == ("bounded" if bounded else "good")
    assert states(**given) == all_of("good") | {"response": entry.state}
    if bounded:
        assert entry.reasons == ("lateness",)
        for key in ("mean", "p50", "p90", "p99", "p999", "max"):
            real = percentiles(true).at(key)
            exact = entry.low[key] == entry.high[key]
            assert (0.99 if exact else 1 - 1e-9) * entry.low[key] <= real <= entry.high[key] * (1 + 1e-9)
        assert entry.low["p50"] > 0.9 * percentiles(true).p50, "service times make the bound tight"
    assert figures_of(**given | {"pacing": CLOSED})["response"].state == "good", "no request was due"


def test_lag_bounds_both_times_and_the_throughput_of_a_closed_loop_only():
    closed = figures_of("loop_lag", generator=replace(GENERATOR, waited_share=0.2))
    assert {name for name, entry in closed.items() if entry.state == "bounded"} == {
        "throughput", "documents", "response", "service"
    }  # fmt: skip
    # A worker that lacked a core for 20 % of the time could have done a quarter more; the delays say still less.
    assert 100 < closed["throughput"].high["value"] <= 125
    assert states("loop_lag", pacing=OPEN, generator=replace(GENERATOR, achieved=0.995))["throughput"] == "good"


def stamped(true, overhead, *, without=0, receive_only=0, **parts):
    """Return the figures of requests with these times and overheads, s; the first `without` of them have no stamps."""
    times = percentiles(true + overhead)
    known = [percentiles(values[without:]) for values in (overhead, true)]
    kernel = KernelTimes(*known, without, receive_only)
    entry = replace(
        phase("range", {"range": operation(100.0, response=times, service=times, kernel_times=kernel)}),
        streams=(StreamSummary("main", CLOSED),),
    )
    log = Log(response=true + overhead, service=true + overhead,
              overhead=overhead[without:], corrected=true[without:],
              lag=np.full(600, 1e-6), lateness=np.zeros(600))  # fmt: skip
    codes = parts.get("codes", ())
    recorded = measured_figures(Evidence(entry, GENERATOR, codes, lambda: parts.get("log", log)))
    return {figure.figure: figure for figure in recorded}


@pytest.mark.parametrize(("without", "receive_only"), [(0, 0), (3, 0), (0, 3), (2, 2), (300, 0)])
@pytest.mark.parametrize("codes", [(), ("loop_lag",), ("generator_overhead", "loop_lag")])
def test_kernel_timestamps_bound_service_times_where_lag_does_not_show_the_overhead(without, receive_only, codes):
    random = np.random.default_rng(7)
    true, overhead = random.exponential(1e-4, 1000) + 1e-4, random.exponential(4e-4, 1000)
    entries = stamped(true, overhead, without=without, receive_only=receive_only, codes=codes)
    measured, store = percentiles(true + overhead), percentiles(true)
    for name in ("service", "response"):
        assert entries[name].state == "bounded"
        assert "generator_overhead" in entries[name].reasons or codes == ("loop_lag",)
        for key in ("mean", "p50", "p90", "p99", "p999", "max"):
            assert entries[name].low[key] <= store.at(key) * (1 + 1e-9), key
            assert entries[name].high[key] == measured.at(key)
    if not without and not receive_only:
        assert entries["service"].low["p99"] == pytest.approx(store.p99)
    if without == 300:
        assert entries["service"].low["p50"] < store.p50, "three in ten requests may have taken no time"


def test_kernel_timestamps_that_show_little_overhead_leave_times_good():
    true = np.random.default_rng(7).exponential(1e-3, 1000) + 1e-3
    entries = stamped(true, true * 0.03)
    assert {entry.state for entry in entries.values()} == {"good"}
    assert entries["service"].low["p99"] == pytest.approx(percentiles(true).p99)
    exact = stamped(true, true * 0.001)["service"]
    assert figure(exact, 1.0, "p99").low == 1.0, "up to 1 % is ignored"


def test_kernel_timestamps_without_histograms_bound_times_by_recorded_percentiles():
    true = np.linspace(1e-4, 2e-4, 1000)
    entries = stamped(true, np.full(1000, 1e-4), log=None)
    assert entries["service"].low["p99"] == pytest.approx(percentiles(true).p99)
    assert entries["service"].state == "bounded"


def test_overhead_bounds_the_throughput_of_closed_loops_once_the_rule_applies():
    true = np.full(1000, 1e-3)
    assert stamped(true, true)["throughput"].state == "good"
    throughput = stamped(true, true, codes=("generator_overhead",))["throughput"]
    assert (throughput.state, throughput.low, throughput.high) == ("bounded", {"value": 100.0}, {"value": 200.0})
    assert throughput.reasons == ("generator_overhead",)


def test_lag_without_a_wait_for_a_core_bounds_a_closed_loop_by_its_mean():
    """Two clients at 100/s have a cycle of 20 ms; 2 ms of it are lag, and lateness is none."""
    log = Log(
        lag=np.full(2000, 2e-3), lateness=np.zeros(1000), response=np.full(1000, 18e-3), service=np.full(1000, 18e-3)
    )
    throughput = figures_of("loop_lag", log=log)["throughput"]
    assert throughput.state == "bounded"
    assert throughput.high["value"] == pytest.approx(100 * 20 / 18)
    assert figures_of("loop_lag")["throughput"].high == {}, "a summary has no mean of lag"


def test_clients_lose_the_lag_of_failed_requests_too():
    """Two clients with 100 successes/s among 200 requests/s have a cycle of 10 ms; 2 ms of it are lag."""
    log = Log(
        lag=np.full(2000, 2e-3), lateness=np.zeros(2000), response=np.full(1000, 8e-3), service=np.full(1000, 8e-3)
    )
    half = operation(100.0, requests=2000, errors={"server": 1000}, response=TIMES, service=TIMES)
    entry = replace(phase("range", {"range": half}), streams=(StreamSummary("main", CLOSED),))
    throughput = measured_figures(Evidence(entry, GENERATOR, ("loop_lag",), lambda: log))[0]
    assert throughput.high["value"] == pytest.approx(100 * 10 / 8)


def test_an_open_load_that_was_not_achieved_while_the_generator_lagged_is_bounded_by_what_was_offered():
    entries = figures_of("loop_lag", pacing=OPEN, generator=replace(GENERATOR, achieved=0.8))
    assert entries["throughput"].high["value"] == pytest.approx(125)


@pytest.mark.parametrize("code", ["generator_cpu", "generator_ceiling", "network", "reader_cpu", "straggler"])
def test_a_saturated_generator_bounds_throughput_from_below_and_times_from_above(code):
    entries = figures_of(code)
    assert (entries["throughput"].low, entries["throughput"].high) == ({"value": 100.0}, {})
    for name in DISTRIBUTIONS:
        assert set(entries[name].low.values()) == {0.0}
        assert entries[name].high["p99"] == TIMES.p99
    assert entries["errors"].state == "good"


def test_a_rank_that_began_within_the_warm_up_affects_nothing():
    early = (RankFigures(rank=1, began_late=0.5),)
    assert states("began_late", ranks=early) == all_of("good")
    late = figures_of("began_late", ranks=(RankFigures(rank=1, began_late=1.9),))
    assert late["throughput"].high["value"] == pytest.approx(100 / 0.9)
    assert late["response"].low["p50"] < TIMES.p50 < late["response"].high["p50"]
    assert "p99" not in late["response"].high


def test_an_operation_without_an_answer_has_no_times_and_others_do():
    entry = phase("mix", {"read": operation(100.0, response=TIMES, service=TIMES), "scan": operation(
        0.0, requests=0, successes=0)})  # fmt: skip
    entries = measured_figures(Evidence(entry, GENERATOR, ("nothing_measured",)))
    assert {(it.figure, it.operation) for it in entries if it.state == "unknown"} == {
        ("response", "scan"), ("service", "scan")
    }  # fmt: skip
    nothing = phase("scan", {"scan": operation(0.0, requests=0, successes=0)})
    assert {it.state for it in measured_figures(Evidence(nothing, GENERATOR, ("nothing_measured",)))} == {"unknown"}


@pytest.mark.parametrize("stalled", [0.0, 0.005, 0.05])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_hold_the_true_percentiles_under_delays(seed, stalled):
    random = np.random.default_rng(seed)
    n = 20_000
    true = random.lognormal(-5, 0.7, n)
    lateness, lag = random.exponential(2e-3, n), random.exponential(1e-3, n)
    lag[random.random(n) < stalled] += 0.5
    log = Log(response=true + lateness + lag, service=true + lag, failure=true,
              lateness=lateness, lag=random.choice(lag, 600))  # fmt: skip
    for name, delayed in (("response", true + lateness + lag), ("service", true + lag)):
        real = Sample(true)
        quantiles = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
        entries = figures_of(
            "loop_lag", "lateness", times=percentiles(delayed), service=percentiles(true + lag), log=log
        )[name]
        for key, q in quantiles.items():
            assert entries.low[key] <= real.quantile(q) <= entries.high[key]


@pytest.mark.parametrize("late", [0.1, 10.0])
def test_bounds_from_a_summary_alone_hold_the_true_percentiles(late):
    """Between two percentiles of a summary the times may jump anywhere."""
    true = np.full(100_000, 1e-3)
    lateness = np.zeros(len(true))
    # A hundredth of the requests is so late that the 90th percentile is theirs.
    true[:9_500], lateness[9_500:10_400] = 0.1, late
    recorded, real = Sample(true + lateness), Sample(true)
    quantiles = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
    generator = replace(GENERATOR, lateness_p99=Sample(lateness).quantile(0.99), achieved=1.0)
    times, service = percentiles(true + lateness), percentiles(true)
    entry = figures_of("lateness", pacing=OPEN, generator=generator, times=times, service=service)["response"]
    assert recorded.quantile(0.9) > 50 * real.quantile(0.9)
    for key, q in quantiles.items():
        # A statistic that lateness changed by at most 1 % counts as exact.
        assert 0.99 * entry.low[key] <= real.quantile(q) <= entry.high[key]
    assert entry.low["mean"] <= real.mean


def test_a_stall_that_left_no_sample_of_lag_bounds_nothing():
    times = np.full(100, 0.02)
    log = Log(response=times, service=times, failure=times, lateness=np.zeros(100), lag=[0.0])
    log.samples["lag"].count = 0
    entry = figures_of("stalled", times=Latency(100, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02), log=log)["service"]
    assert (entry.state, set(entry.low.values())) == ("bounded", {0.0})


def test_a_run_without_recorded_figures_has_those_that_follow_from_its_reasons():
    entry = phase("range", {"range": operation(100.0, response=TIMES, service=SERVED)})
    run = RecordedRun("r", 1, {}, MadeUp(summary(entry, verdict=invalid("lateness"), generator=GENERATOR)))
    assert run.sound
    throughput, p99 = run.figure("range", "throughput"), run.figure("range", "response", "range", "p99")
    assert (throughput.state, throughput.low, throughput.high) == ("good", 100.0, 100.0)
    assert (p99.state, p99.high, p99.reasons) == ("bounded", TIMES.p99, ("lateness",))
    spoilt = RecordedRun("r", 1, {}, MadeUp(summary(entry, verdict=invalid("cluster_state"), generator=GENERATOR)))
    assert not spoilt.sound
    assert not spoilt.figure("range", "throughput").counts


def test_a_reason_about_one_phase_leaves_the_others_alone():
    first, second = (phase(name, {name: operation(100.0, response=TIMES, service=TIMES)}) for name in ("one", "two"))
    verdict = invalid("generator_cpu")
    verdict = replace(verdict, reasons=(replace(verdict.reasons[0], phase="two"),))
    run = RecordedRun("r", 1, {}, MadeUp(summary(first, second, verdict=verdict, generator=GENERATOR)))
    assert [run.figure(name, "throughput").state for name in ("one", "two")] == ["good", "bounded"]


def test_waits_below_the_limit_of_the_verdict_bound_a_closed_loop():
    waited = figures_of(generator=replace(GENERATOR, waited_share=0.15, lag_p99=None, lateness_p99=None))
    assert (waited["throughput"].state, waited["throughput"].reasons) == ("bounded", ("starved",))
    assert waited["throughput"].high["value"] == pytest.approx(100 / 0.85)
    little = figures_of(generator=replace(GENERATOR, waited_share=0.02, lag_p99=None, lateness_p99=None))
    assert little["throughput"].state == "good"
    assert little["throughput"].high["value"] == pytest.approx(100 / 0.98)


def closed_run(name, throughput, lost, block):
    """Return a closed-loop run with a generator that lacked a core for a share of the time."""
    generator = replace(GENERATOR, waited_share=lost, lag_p99=None, lateness_p99=None)
    codes = ("starved",) if lost > 0.2 else ()
    entry = phase("range", {"range": operation(throughput, response=TIMES, service=TIMES)})
    manifest = Manifest(FORMAT, session="s", started=f"2026-01-01T00:{block:02}:00+00:00", block=block)
    made = MadeUp(summary(entry, verdict=invalid(*codes), generator=generator), manifest, f"e/{name}")
    return RecordedRun(name, block, {}, made)


def test_a_treatment_whose_main_operation_failed_has_no_bounds_of_times():
    failed = operation(0.0, successes=0, errors={"server": 1000}, response=Latency(count=0))
    entry = phase("mix", {"read": failed, "write": operation(50.0, response=TIMES)})
    run = RecordedRun("r", 1, {}, MadeUp(summary(entry, verdict=invalid("errors"), generator=GENERATOR)))
    (treatment,), _ = gather(points([run], "mix", "read"))
    assert (treatment.response_p50_low, treatment.response_p99_low) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.0, 2.0])
def test_intervals_of_compared_runs_hold_the_truth_where_fast_runs_are_disturbed_more(ratio):
    """The faster a run, the more the generator lacks cores: leaving disturbed runs out would select slow ones."""
    random = np.random.default_rng(7)
    measure, held, valid_only, trials = Measure("range", "throughput"), 0, 0, 200
    for _ in range(trials):
        sides, valid = [], []
        for number, rate in enumerate((100.0, 100.0 * ratio)):
            true = rate * np.exp(random.normal(0, 0.1, 6))
            # Above the usual rate a run loses up to half of its time, below it next to nothing.
            lost = np.clip(np.log(true / rate) * 3 + random.uniform(0, 0.1, 6), 0, 0.5)
            runs = [closed_run(f"{number}-{block}", x * (1 - w * random.uniform()), w, block)
                    for block, (x, w) in enumerate(zip(true, lost, strict=True))]  # fmt: skip
            sides.append(Group(str(number), tuple(runs)))
            valid.append(np.mean(true[lost <= 0.2]) / rate)
        estimate = contrast_values(measure, *sides, 0.0).estimate
        assert len(sides[0].usable) == len(sides[1].usable) == 6
        held += estimate.ratio.low <= ratio <= estimate.ratio.high
        valid_only += valid[0] < 1
    assert held >= 0.95 * trials
    # The runs without a reason are slower than all runs in nearly every experiment.
    assert valid_only > 0.8 * trials


def test_the_mean_of_a_treatment_holds_the_truth_and_a_lower_bound_opens_its_interval():
    random = np.random.default_rng(3)
    held, trials = 0, 300
    for _ in range(trials):
        true = 100 * np.exp(random.normal(0, 0.1, 4) - 0.005)
        lost = random.uniform(0, 0.5, 4)
        runs = [closed_run(f"r{block}", x * (1 - w), w, block)
                for block, (x, w) in enumerate(zip(true, lost, strict=True))]  # fmt: skip
        (treatment,), _ = gather(points(runs, "range", "range"))
        held += treatment.throughput.low <= 100 <= treatment.throughput.high
    assert held >= 0.95 * trials
    saturated = replace(runs[0].run.summary.verdict, reasons=invalid("generator_cpu").reasons)
    runs[0].run.__dict__["summary"] = replace(runs[0].run.summary, verdict=saturated)
    again = RecordedRun("r0", 0, {}, runs[0].run)
    (treatment,), _ = gather(points([again, *runs[1:]], "range", "range"))
    assert treatment.throughput.low > 0
    assert math.isinf(treatment.throughput.high)


@pytest.mark.parametrize("longer", ["read_more", "read-more", "read.more", "reader"])
@pytest.mark.parametrize(
    "cause",
    ["in phase {} requests were sent late", "in phase {}, which ends", "lag in phase {}", "it was late in phase {}."],
)
def test_reasons_of_older_runs_belong_to_the_phase_that_they_name_in_full(longer, cause):
    names = ["read", longer]
    of_longer, of_read = (RecordedReason("lateness", cause.format(name), "", None, None) for name in names[::-1])
    assert codes_about([of_longer], "read", names) == ()
    assert codes_about([of_longer], longer, names) == ("lateness",)
    assert codes_about([of_read], "read", names) == ("lateness",)
    assert codes_about([of_read], longer, names) == ()
