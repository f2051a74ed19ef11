"""Model selection, claims, warnings and refusals of a scalability fit."""

import math

import numpy as np
import pytest
from usl_data import read_pairs, simulate

from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scalability import fit, warnings
from loadframe.analyze.scalability.intervals import CeilingChange
from loadframe.base.errors import BadInput

DOUBLING = [1, 2, 4, 8, 16, 32]
#: Throughput peaks at 25.
PEAKED = {"lam": 1000, "sigma": 0.03, "kappa": 1.5e-3}


def rules(result):
    return {warning.rule for warning in result.warnings}


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (lambda n: 100 * n, "linear"),
        (lambda n: 100 * n / (1 + 0.05 * (n - 1)), "amdahl"),
        (lambda n: min(100 * n, 650), "knee"),
        (lambda n: 100 * n / (1 + 0.05 * (n - 1) + 0.002 * n * (n - 1)), "usl"),
    ],
)
def test_each_model_is_chosen_for_exact_data_of_its_own(curve, expected):
    result = fit([(n, curve(n)) for n in DOUBLING])
    assert result.best == expected
    assert max(map(abs, result.best_model.residuals)) < 1e-6


def test_three_sizes_are_the_least_and_earn_a_warning():
    with pytest.raises(BadInput, match=r"only 2 distinct sizes \(n\)"):
        fit([(1, 10), (2, 20), (2, 21)])
    assert warnings.FEW_SIZES in rules(fit([(1, 10), (2, 20), (3, 30)]))
    assert warnings.FEW_SIZES not in rules(fit([(n, 10 * n) for n in DOUBLING]))


@pytest.mark.parametrize("bad", [(0, 1), (-1, 1), (1, 0), (1, -5), (math.nan, 1), (1, math.nan), (1, math.inf)])
def test_numbers_no_model_can_use_are_refused_by_their_place(bad):
    with pytest.raises(BadInput, match="observation 4"):
        fit([(1, 10), (2, 20), (3, 30), bad])


def test_sizes_below_1_are_fitted_as_the_same_curve_in_another_unit():
    whole = [(n, 100 * n / (1 + 0.1 * (n - 1) + 0.02 * n * (n - 1)) * e) for n in DOUBLING for e in (0.99, 1.01)]
    parts = [(n / 5, x) for n, x in whole]
    peaks = [fit(pairs).peak for pairs in (whole, parts)]
    assert peaks[1].n.value == pytest.approx(peaks[0].n.value / 5, rel=1e-4)
    assert peaks[1].throughput.value == pytest.approx(peaks[0].throughput.value, rel=1e-4)


def test_a_peak_below_1_is_shown_where_the_sizes_reach_below_it():
    curve = lambda n: 100 * n / (1 + 0.1 * (n - 1) + 1.6 * n * (n - 1))  # noqa: E731
    pairs = [(n, curve(n) * e) for n in (0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0) for e in (0.995, 1.005)]
    result = fit(pairs)
    assert result.standing == "shown"
    assert result.candidate.n.value == pytest.approx(0.75, rel=0.02)


@pytest.mark.slow
def test_hundreds_of_fractional_sizes_that_occur_once_are_fitted():
    random = np.random.default_rng(3)
    sizes = random.uniform(0.2, 6.3, 240)
    result = fit([(n, 3 * n / (1 + 0.4 * (n - 1) + 0.04 * n * (n - 1)) * random.lognormal(0, 0.1)) for n in sizes])
    peak = result.candidate.n
    assert peak.low <= math.sqrt(0.6 / 0.04) <= peak.high


def test_one_message_names_all_that_is_to_be_changed_and_what_it_says_works():
    sizes = np.geomspace(0.001, 0.01, 600)
    curve = lambda n: 1000 * n / (1 + 20 * n)  # noqa: E731
    with pytest.raises(BadInput) as refused:
        fit([(n, curve(n)) for n in sizes])
    assert "600 distinct sizes (n)" in str(refused.value)
    assert "multiply all sizes by 1,000, so that n counts a smaller unit" in str(refused.value)
    assert "round sizes to two significant digits" in str(refused.value)
    result = fit([(float(f"{1000 * n:.2g}"), curve(n)) for n in sizes])
    assert result.best in ("amdahl", "usl")


def test_a_richer_model_must_be_significantly_better_however_few_the_runs():
    straight = fit([(1, 100), (2, 197), (4, 404), (8, 795)])
    assert straight.best == "linear"
    assert straight.models["usl"].aicc is None
    assert straight.models["amdahl"].aicc is None
    bent = fit([(1, 100), (2, 190), (4, 340), (8, 560)])
    assert bent.best == "amdahl"


def test_a_single_size_above_the_slope_makes_no_ceiling():
    assert fit([(1, 10.0), (2, 20.01), (3, 25.0)]).best == "linear"


def test_superlinear_growth_is_flagged_with_its_negative_sigma():
    data = simulate(DOUBLING, lam=100, sigma=-0.01, kappa=0, noise=0.01, repetitions=3, seed=1)
    result = fit(data, over="nodes")
    assert result.models["amdahl"].parameters["sigma"].value == pytest.approx(-0.01, abs=0.002)
    assert result.models["amdahl"].parameters["sigma"].high < 0
    assert warnings.SUPERLINEAR in rules(result)


def test_growth_above_linear_within_the_noise_is_mentioned():
    result = fit([(1, 100), (2, 180), (4, 440), (8, 880)])
    assert result.models["amdahl"].parameters["sigma"].value == 0
    assert warnings.PERHAPS_SUPERLINEAR in rules(result)


def test_a_peak_beyond_the_measured_sizes_is_not_claimed():
    data = simulate([1, 2, 4, 8, 12, 16], lam=1000, sigma=0.03, kappa=5e-4, noise=0.0002, repetitions=5, seed=2)
    result = fit(data, over="nodes")
    assert result.best == "usl"
    assert result.models["usl"].parameters["kappa"].low > 0
    assert result.peak is None
    assert warnings.PEAK_TOO_FAR in rules(result)


def test_where_a_simpler_model_explains_the_data_better_the_peak_of_the_usl_is_denied():
    result = fit(read_pairs("sysbench_cpu"), over="threads")
    assert result.best == "knee"
    assert result.standing == "none"
    assert warnings.PEAK_NOT_BEST in rules(result)


@pytest.mark.slow
def test_six_single_runs_past_a_peak_show_it_as_five_and_seven_do():
    shown = []
    for runs in (5, 6, 7, 8):
        sizes = np.geomspace(1, 48, runs)
        fits = [fit(simulate(sizes, **PEAKED, noise=0.02, repetitions=1, seed=seed)) for seed in range(20)]
        shown.append(sum(result.peak is not None for result in fits))
        assert not any(result.standing == "none" for result in fits)
    assert shown[1] >= 15
    assert shown == sorted(shown)


@pytest.mark.slow
@pytest.mark.parametrize(
    "curve", [lambda n: 1000 * n, lambda n: 1000 * n / (1 + 0.05 * (n - 1)), lambda n: min(n, 5.3)]
)
def test_six_single_runs_of_a_curve_without_a_peak_hardly_ever_show_one(curve):
    shown = 0
    for seed in range(20):
        noise = np.random.default_rng(seed).standard_normal(6)
        shown += fit([(n, curve(n) * (1 + 0.05 * e)) for n, e in zip(DOUBLING, noise, strict=True)]).peak is not None
    assert shown <= 2


def test_models_that_fit_equally_well_and_disagree_about_a_peak_say_so():
    result = fit([(1, 100), (2, 195), (4, 350), (8, 570), (16, 600), (32, 540)], over="nodes")
    assert result.standing == "open"
    assert result.peak is None
    assert "usl" in result.possible
    disagreement = next(warning for warning in result.warnings if warning.rule == warnings.PEAK_OPEN)
    assert "disagree about a peak: the USL puts one at" in disagreement.cause
    assert "hard knee has none" in disagreement.cause


def test_a_sharp_knee_after_which_throughput_falls_is_not_said_to_have_no_peak():
    result = fit([(1, 100), (2, 200), (4, 380), (8, 620), (16, 600), (32, 560)], over="nodes")
    assert result.possible == ("knee",)
    assert result.standing == "open"
    doubt = next(warning for warning in result.warnings if warning.rule == warnings.CEILING_MAY_FALL)
    assert "throughput may fall beyond it: it changes by -10 %" in doubt.cause
    holding = fit([(n, min(100 * n, 620) * e) for n in DOUBLING for e in (0.99, 1, 1.01)])
    assert holding.standing == "none"


def test_that_there_is_no_peak_is_said_only_where_the_interval_of_kappa_allows_none():
    linear = simulate(DOUBLING, lam=1000, sigma=0, kappa=0, noise=0.01, repetitions=3, seed=1)
    assert fit(linear).standing == "none"
    noisy = fit([(1, 100), (2, 180), (4, 430), (8, 700)])
    assert noisy.candidate.n.low < 8
    assert noisy.standing == "open"


def test_a_fall_beyond_the_knee_does_not_end_at_zero():
    fall = CeilingChange(4, 32, Estimate(-0.04, -0.08, -0.0004))
    assert "throughput falls beyond it: it changes by -4.0 % [-8.0 %, -0.04 %] from 4 to 32 nodes" in (
        warnings.CEILING_MAY_FALL(ceiling=fall, over="nodes").cause
    )


@pytest.mark.slow
def test_a_hard_knee_does_not_grow_faster_than_size():
    for seed in range(10):
        noise = np.random.default_rng(seed).standard_normal((3, 6))
        runs = [(n, min(1000 * n, 8000) * (1 + 0.02 * e)) for row in noise for n, e in zip(DOUBLING, row, strict=True)]
        result = fit(runs)
        assert result.best == "knee"
        assert warnings.SUPERLINEAR not in rules(result)


def test_a_run_that_lies_far_off_and_decides_is_named():
    runs = simulate(np.geomspace(1, 32, 10), lam=1000, sigma=0, kappa=0, noise=0.02, repetitions=1, seed=3)
    assert fit(runs).robust is None
    runs[9] = (runs[9][0], 0.6 * runs[9][1])
    result = fit(runs, over="nodes", names=[f"b1-{place}" for place in range(10)])
    assert result.best != "linear"
    assert result.peak is None
    assert [outlier.place for outlier in result.robust.outliers] == [9]
    assert result.robust.outliers[0].deviation == pytest.approx(-0.35, abs=0.02)
    assert result.robust.best == "linear"
    warning = next(warning for warning in result.warnings if warning.rule == warnings.RUNS_DECIDE)
    assert "a single run decides the result: b1-9 (35 %" in warning.cause
    assert "below the curve of the others)" in warning.cause
    assert "without it linear scaling" in warning.cause
    assert (
        "the run with 20,476 at 32 n (35 % below"
        in next(w for w in fit(runs).warnings if w.rule == warnings.RUNS_DECIDE).cause
    )


def test_misfit_shows_against_the_noise_of_repeated_runs():
    wavy = {1: 100, 2: 240, 4: 330, 8: 900, 16: 1000, 32: 3300}
    result = fit([(n, x * e) for n, x in wavy.items() for e in (0.99, 1, 1.01)])
    assert result.best_model.lack_of_fit is not None
    assert result.best_model.lack_of_fit.p < 0.001
    assert warnings.MISFIT in rules(result)
    fair = fit(simulate(DOUBLING, lam=100, sigma=0.05, kappa=0.002, noise=0.02, repetitions=3, seed=3))
    assert fair.best_model.lack_of_fit.p > 0.05
    assert warnings.MISFIT not in rules(fair)


def test_a_model_that_cannot_predict_its_largest_size_is_doubted():
    result = fit([(n, 100 * n) for n in (1, 2, 4, 8, 16)] + [(32, 2000)])
    assert warnings.POOR_PREDICTION in rules(result)
    assert result.models["linear"].extrapolation_error > 0.5


def test_the_fitted_throughput_of_one_is_shown_against_the_measured():
    result = fit([(1, 130), *((n, 100 * n) for n in (2, 4, 8, 16, 32))], residuals="absolute")
    assert result.measured_at_one == 130
    assert warnings.LAMBDA_OFF in rules(result)


def test_data_that_two_models_explain_alike_say_so():
    result = fit([(n, x) for n, x in zip((4, 8, 16, 32, 64, 128), (100, 100, 101, 99, 100, 100), strict=True)])
    alike = next(warning for warning in result.warnings if warning.rule == warnings.MODELS_ALIKE)
    assert {result.best, *alike.figures["others"]} == {"amdahl", "knee"}


def test_one_run_per_size_has_the_interval_of_the_t_distribution():
    # Three residuals about a straight line through 0: by hand, s^2 = sum(r^2) / 2 and t(0.975, 2) = 4.3027.
    n, x = np.array([1.0, 2.0, 4.0]), np.array([101.0, 198.0, 402.0])
    slope = (n * x).sum() / (n * n).sum()
    error = np.sqrt(((x - slope * n) ** 2).sum() / 2 / (n * n).sum())
    estimate = fit(list(zip(n, x, strict=True)), residuals="absolute").models["linear"].parameters["lambda"]
    assert estimate.value == pytest.approx(slope)
    assert estimate.high - estimate.value == pytest.approx(4.302653 * error, rel=1e-6)
    assert estimate.value - estimate.low == pytest.approx(4.302653 * error, rel=1e-6)


def test_as_many_parameters_as_runs_leave_the_interval_open():
    usl = fit([(1, 10), (2, 18), (4, 28)]).models["usl"]
    assert usl.parameters["kappa"].high == math.inf
    assert usl.parameters["kappa"].as_dict()["high"] is None


def test_the_band_holds_the_curve_and_widens_beyond_the_data():
    result = fit(simulate(DOUBLING, lam=1000, sigma=0.03, kappa=5e-4, noise=0.02, repetitions=3, seed=4))
    usl = result.models["usl"]
    n = np.array([1.0, 4.0, 16.0, 32.0, 64.0])
    low, high = usl.band(n)
    assert (low < usl.predicted(n)).all()
    assert (usl.predicted(n) < high).all()
    width = (high - low) / usl.predicted(n)
    assert width[-1] > 2 * width[2]


def test_the_same_seed_gives_the_same_intervals():
    data = simulate(DOUBLING, lam=1000, sigma=0.03, kappa=5e-4, noise=0.02, repetitions=3, seed=4)
    assert fit(data, seed=7).as_dict() == fit(data, seed=7).as_dict()
    assert fit(data, seed=7).as_dict() != fit(data, seed=8).as_dict()


def test_the_order_of_the_runs_does_not_matter():
    data = read_pairs("raytracer")
    forwards, backwards = fit(data), fit(data[::-1])
    assert forwards.as_dict() == backwards.as_dict()
    assert forwards.best_model.residuals == backwards.best_model.residuals[::-1]


def test_each_warning_states_cause_and_remedy():
    for data in (read_pairs("raytracer", 6), read_pairs("sysbench_cpu"), read_pairs("netflix_cassandra")):
        for warning in fit(data, over="nodes").warnings:
            assert warning.cause
            assert warning.remedy
            assert "inf" not in warning.cause


def test_an_error_that_all_runs_of_a_size_share_keeps_the_interval_open():
    exact = [(float(n), 100.0 * n) for n in (1, 2, 4, 8)]
    for observations in (exact, exact * 3):
        ends = [fit(observations, resolution=resolution).best_model.band([4.0]) for resolution in (1e-6, 0.02)]
        (low, high), (lower, higher) = ends
        assert high[0] - low[0] < 0.01
        # The mean of four sizes, each known to 2 %: at least one standard error to either side.
        assert higher[0] - lower[0] > 2 * 400 * 0.02 / 2
