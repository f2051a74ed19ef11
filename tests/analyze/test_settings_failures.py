"""Settings at which the store fails: slow runs die more often, and the survivors must not look like an improvement."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from loadframe.analyze.compare import Group
from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.analyze.figures import Stretch
from loadframe.analyze.settings import CONFIRM
from loadframe.analyze.settings.analysis import Settings, analyse
from loadframe.analyze.settings.model import Data, fit_with_failures, widened
from loadframe.analyze.settings.ranking import rank
from loadframe.experiment.kinds.settings import loss
from loadframe.record.schema.figures import Latency
from loadframe.record.schema.summary import GeneratorFigures
from loadframe.report.kinds.settings import effects_plots, ranking_table, settings_document
from loadframe.report.settings_words import effect_text, lead, level_text
from made_up_runs import MadeUp, invalid, operation, phase, summary

FACTORS = {"cache": [0, 1], "threads": [2, 4]}
DESCRIPTION = {
    "factors": FACTORS, "at": {}, "measure": ["look"], "objective": "throughput", "scheme": "full", "hard": [],
}  # fmt: skip
CACHE, THREADS = (0,), (1,)


def experiment(random, dies, *, effects=(0.0, 0.0), repetitions=6, noise=0.1):
    """Return the runs of a full factorial; `dies(cache, threads, noise)` says whether the store fails in a run.

    `effects` are logarithms of the ratios of the second levels of both settings.
    """
    runs = []
    for block, cache, threads in itertools.product(range(1, repetitions + 1), (0, 1), (2, 4)):
        deviation = noise * random.standard_normal()
        rate = 100 * np.exp(effects[0] * cache + effects[1] * (threads == 4) + deviation)
        figures = operation(rate, response=Latency(p50=1 / rate, p99=5 / rate))
        verdict = invalid(*(["node_lost"] if dies(cache, threads, deviation) else []))
        made = MadeUp(summary(phase("look", {"read": figures}), verdict=verdict))
        runs.append(RecordedRun(f"b{block}-{cache}-{threads}", block, {"cache": cache, "threads": threads}, made))
    return runs


def slow_ones_die(cache, threads, deviation):
    """With the cache, the slowest two fifths of the runs kill the store."""
    return cache == 1 and deviation < -0.025


def chance_decides(cache, threads, deviation):
    """With the cache, about two fifths of the runs kill the store, regardless of their speed."""
    return cache == 1 and 1000 * deviation % 1 < 0.4


def effect(result, term):
    (contrast,) = [contrast for contrast in result.responses[0].model.contrasts if contrast.term == term]
    return contrast


def document(result):
    """Return a result as JSON has it."""
    folder = RecordedExperiment(Path("e"), {"experiment": "e", "kind": "settings", "scheme": "full"}, ())
    return settings_document(Settings(folder, (result,)))["results"][0]


def survivors_gain(runs):
    """Return the ratio of the mean logarithms of the runs that survived, with and without the cache."""
    logs = {level: [np.log(run.phase("look").throughput) for run in runs
                    if run.treatment["cache"] == level and not run.requests_failed] for level in (0, 1)}  # fmt: skip
    return np.mean(logs[1]) - np.mean(logs[0])


@pytest.mark.slow
def test_survivors_of_a_setting_that_kills_slow_runs_do_not_make_it_better():
    random = np.random.default_rng(5)
    trials, claimed, held, wins, naive = 100, 0, 0, 0, []
    for _ in range(trials):
        runs = experiment(random, slow_ones_die)
        (result,) = analyse(DESCRIPTION, runs, costs=False)
        naive.append(survivors_gain(runs))
        cache = effect(result, CACHE)
        held += cache.ratio.low <= 1.0 <= cache.ratio.high
        claimed += result.responses[0].claimed(CACHE) and cache.value > 0
        wins += result.winner is not None and result.winner[0] == 1 and result.failed != {}
    assert np.mean(naive) > 0.05, "the survivors are faster by selection alone"
    assert claimed == 0
    assert held >= 0.95 * trials
    # A combination wins only if the store survived all of its runs, which is rare here.
    assert wins <= 0.1 * trials


@pytest.mark.slow
@pytest.mark.parametrize(("dies", "ratio"), [(slow_ones_die, 1.25), (chance_decides, 1.25), (chance_decides, 0.8)])
def test_intervals_hold_the_true_ratio_when_runs_fail(dies, ratio):
    random = np.random.default_rng(9)
    trials, held = 30, 0
    for _ in range(trials):
        runs = experiment(random, dies, effects=(np.log(ratio), 0.0))
        (result,) = analyse(DESCRIPTION, runs, costs=False)
        cache = effect(result, CACHE)
        held += cache.ratio.low <= ratio <= cache.ratio.high
        assert not any(run.requests_failed for run in runs) or cache.low_open
    assert held >= 0.93 * trials


def test_a_setting_at_which_the_store_always_fails_has_an_unknown_effect():
    runs = experiment(np.random.default_rng(10), lambda cache, threads, deviation: cache == 1, effects=(0.5, 0.5))
    (result,) = analyse(DESCRIPTION, runs, costs=False)
    assert effect_text(effect(result, CACHE)) == "unknown"
    assert not result.responses[0].claimed(CACHE)
    ratios = {tuple(one["factors"]): one["ratio"] for one in document(result)["responses"][0]["effects"]}
    assert ratios["cache",] == {"value": None, "low": None, "high": None}
    assert effect(result, THREADS).ratio.low <= np.exp(0.5) <= effect(result, THREADS).ratio.high
    assert lead(result, FACTORS)


@pytest.mark.slow
def test_a_setting_that_does_not_fail_keeps_its_bounded_effect():
    """The store dies without the cache and with few threads, so more threads and the cache are better at least."""
    random = np.random.default_rng(6)
    trials, claims, held = 60, np.zeros(2), 0
    for _ in range(trials):
        runs = experiment(random, lambda cache, threads, deviation: (cache, threads, deviation < -0.1) == (0, 2, True),
                          effects=(0.3, 0.3), noise=0.08)  # fmt: skip
        (result,) = analyse(DESCRIPTION, runs, costs=False)
        claims += [result.responses[0].claimed(term) for term in (CACHE, THREADS)]
        contrasts = [effect(result, term).ratio for term in (CACHE, THREADS)]
        held += all(ratio.low <= np.exp(0.3) <= ratio.high for ratio in contrasts)
    assert claims.min() >= 0.9 * trials
    assert held >= 0.93 * trials


def test_reports_state_bounded_and_unknown_effects():
    random = np.random.default_rng(7)
    runs = experiment(random, lambda cache, threads, deviation: False, effects=(0.5, 0.0), noise=0.01)
    dead = [run for run in runs if run.id in ("b1-1-2", "b2-1-4")]
    for run in dead:
        run.run.__dict__["summary"] = summary(run.phase("look"), verdict=invalid("node_lost"))
    (result,) = analyse(DESCRIPTION, [RecordedRun(*vars(run).values()) for run in runs], costs=False)
    assert effect_text(effect(result, CACHE)).startswith("below 1.")
    assert effect_text(effect(result, THREADS)) == "unknown"
    assert not result.responses[0].claimed(CACHE)
    assert lead(result, FACTORS)[0].startswith("Inconclusive: which settings change throughput")
    assert result.winner in (None, (0, 4)), "the store failed at both combinations with the cache"
    ratios = {standing.combination: standing.ratio for standing in result.standings}
    failing = [ratios[number] for number in result.failed]
    assert all(ratio.low == 0.0 for ratio in failing)
    content = document(result)
    for one in content["ranking"]:
        ratio = one["ratio"]
        assert (one["mean"] is None) == bool(one["failed_runs"])
        known = [key for key in ("value", "low", "high") if ratio[key] is not None]
        assert known == (["high"] if one["failed_runs"] else ["value", "low", "high"])
    ratios = {tuple(one["factors"]): one["ratio"] for one in content["responses"][0]["effects"]}
    assert [ratios["cache",][key] is None for key in ("value", "low", "high")] == [True, True, False]
    rows = {row[2].text != "0": row for row in ranking_table(result).rows if row[0].text != "default"}
    assert rows[True][3].text == "–", "survivors have no mean"
    assert rows[False][3].text.endswith("/s")
    cells = {failed: row[4] for failed, row in rows.items()}
    assert cells[True].text.startswith("below 1.")
    assert (cells[True].number.value, cells[True].number.low) == (None, None)
    (figure,) = effects_plots(result, 0, dict.fromkeys(result.factors, (0, 1)), "effects")
    shown = [label for _, label in figure.panels[0].y.ticks]
    assert any(label.startswith("cache: ") for label in shown)
    assert not any(trace.legend for trace in figure.traces), "survivors have no mark"
    assert " [" not in cells[True].text and cells[False].small.startswith("[")


@pytest.mark.parametrize("objective", ["throughput", "p99"])
def test_a_failed_run_opens_the_bad_end_in_every_measure(objective):
    random = np.random.default_rng(8)
    runs = experiment(random, lambda *run: run[:2] == (1, 4) and run[2] < 0.005, noise=0.01)
    (result,) = analyse({**DESCRIPTION, "objective": objective}, runs, costs=False)
    cache = effect(result, CACHE)
    assert (cache.low_open, cache.high_open) == ((True, False) if objective == "throughput" else (False, True))


@pytest.mark.parametrize("code", ["not_achieved", "unsteady"])
def test_runs_in_which_a_setting_overloaded_the_store_are_not_left_out(code):
    """The cache is faster by a sixth, but it overloads the store in half of the design's runs."""
    random, runs = np.random.default_rng(1), []
    generator = GeneratorFigures(
        threads=1, cpu_share=0.1, cpu_share_peak=0.1, waited_share=0.0, achieved=1.0, lateness_p99=1e-6,
        lag_p99=1e-6, longest_stall=1e-6,
    )  # fmt: skip
    for block, cache in itertools.product(range(1, 13), (0, 1)):
        overloaded = bool(cache) and block in (1, 2, 3, 7, 8)
        p99 = 5.0 if overloaded else (0.010 if cache else 0.012) * np.exp(0.01 * random.standard_normal())
        latency = Latency(count=1000, mean=p99, p50=p99, p90=p99, p99=p99, p999=p99, max=p99)
        figures = operation(100.0, response=latency, service=latency)
        verdict = invalid(*([code] if overloaded else []))
        made = MadeUp(summary(phase("look", {"read": figures}), verdict=verdict, generator=generator))
        runs.append(RecordedRun(f"{CONFIRM if block > 6 else ''}b{block}-{cache}", block, {"cache": cache}, made))
    factors = {"cache": [0, 1]}
    (result,) = analyse({**DESCRIPTION, "factors": factors, "objective": "p99"}, runs, costs=False)
    assert result.winner is None
    assert "best" not in lead(result, factors)[0]
    ratios = {result.combinations[standing.combination]: standing.ratio.value for standing in result.standings}
    assert ratios[(1,)] > 5, "half of the runs are 400 times as slow"
    assert any("in 3 of 12 runs" in warning.cause for warning in result.warnings)
    groups = [Group(str(cache), tuple(run for run in runs[12:] if run.treatment == {"cache": cache}), strict=True)
              for cache in (0, 1)]  # fmt: skip
    assert [len(group.usable) for group in groups] == [6, 6]
    folder = RecordedExperiment(Path("e"), {"kind": "settings"}, tuple(runs))
    assert (len(folder.used), len(folder.faulty)) == (24, 5)
    assert loss("p99", runs[1], "look") == pytest.approx(np.log(5.0))


def test_a_combination_that_always_fails_makes_the_effects_that_its_interaction_includes_unknown():
    """The cache is slower by a tenth at the default, but its effect with more threads is unknown."""
    random = np.random.default_rng(12)
    logs = {(0, 2): 0.0, (1, 2): -0.1, (0, 4): -1.0, (1, 4): 0.0}
    runs = experiment(random, lambda cache, threads, deviation: (cache, threads) == (1, 4), noise=0.01)
    for run in runs:
        rate = run.phase("look").throughput * np.exp(logs[run.treatment["cache"], run.treatment["threads"]])
        figures = operation(rate, response=Latency(p50=1 / rate, p99=5 / rate))
        verdict = run.run.summary.verdict
        run.run.__dict__["summary"] = summary(phase("look", {"read": figures}), verdict=verdict)
    (result,) = analyse(DESCRIPTION, runs, costs=False)
    for term in (CACHE, THREADS, (0, 1)):
        assert effect_text(effect(result, term)) == "unknown"
        assert not result.responses[0].claimed(term)


@pytest.mark.slow
def test_survivors_of_one_of_five_equal_levels_do_not_claim_the_setting():
    """The slowest 60 % of the runs at the last level fail; the F test of all levels claims 8 %."""
    random = np.random.default_rng(13)
    rows = np.tile(np.arange(5)[:, np.newaxis], (10, 1))
    claims, trials = 0, 400
    for _ in range(trials):
        logs = 0.05 * random.standard_normal(50)
        last = np.flatnonzero(rows[:, 0] == 4)
        failed = last[np.argsort(logs[last])[:6]]
        order = np.concatenate([np.setdiff1d(np.arange(50), failed), failed])
        blocks = (order // 5).tolist()
        given = Data(rows[order], logs[order], blocks, order.tolist(), [5], [False])
        model = fit_with_failures(given, 6, higher=True)
        (fit,) = model.terms
        claims += fit.p < 0.05
        assert [one.low_open for one in model.contrasts] == [False, False, False, True]
    assert claims <= 0.05 * trials


def test_an_effect_between_levels_without_failures_is_claimed_beside_a_level_with_failures():
    random = np.random.default_rng(14)
    rows = np.array([(level,) for _ in range(6) for level in (0, 1, 2)])
    logs = 0.5 * (rows[:, 0] == 1) + 0.02 * random.standard_normal(18)
    (fit,) = fit_with_failures(Data(rows, logs, [0] * 18, range(18), [3], [False]), 1, higher=True).terms
    assert fit.p < 1e-6


def interacting(random, size, failed=0):
    """Return runs of two settings with three levels that interact at the levels (1, 1) alone, and their model.

    The last `failed` runs, all at the levels (2, 2), are the failed ones.
    """
    rows = np.array([row for row in itertools.product(range(3), repeat=2) for _ in range(5)])
    logs = 0.1 * rows[:, 0] + size * (rows == 1).all(axis=1) + 0.02 * random.standard_normal(len(rows))
    given = Data(rows, logs, [0] * len(rows), range(len(rows)), [3, 3], [False] * 2)
    return given, fit_with_failures(given, failed, higher=True)


@pytest.mark.parametrize("failed", [0, 2])
def test_an_interaction_of_three_levels_is_claimed_beside_levels_with_failures(failed):
    _, model = interacting(np.random.default_rng(19), 0.2, failed)
    (fit,) = [fit for fit in model.terms if fit.term == (0, 1)]
    assert fit.p < 1e-4
    effects = {one.levels: one for one in model.contrasts if one.term == (0, 1)}
    assert list(effects) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert effects[1, 1].ratio.low < np.exp(0.2) < effects[1, 1].ratio.high
    assert [one.low_open for one in effects.values()] == [False, False, False, failed > 0]
    wide = widened(model, Stretch(1.0, 1.02))
    assert fit.p <= next(it.p for it in wide.terms if it.term == (0, 1)) < 1e-4, "no bound explains this effect"


@pytest.mark.slow
def test_absent_interactions_of_three_levels_are_not_claimed_for_survivors():
    """The slowest runs at one combination fail."""
    random, claims, trials = np.random.default_rng(20), 0, 150
    for _ in range(trials):
        given, _ = interacting(random, 0.0)
        last = np.argsort(given.response[-5:])[::-1]
        order = np.concatenate([np.arange(40), 40 + last])
        again = Data(given.rows[order], given.response[order], [0] * 45, range(45), [3, 3], [False] * 2)
        model = fit_with_failures(again, 3, higher=True)
        claims += next(fit.p for fit in model.terms if fit.term == (0, 1)) < 0.05
    assert claims <= 0.08 * trials


def test_reports_name_the_levels_of_an_interaction():
    runs = []
    for block, cache, threads in itertools.product(range(1, 4), (0, 1, 2), (2, 4)):
        rate = 100 * np.exp(0.3 * (cache == 2) * (threads == 4) + 0.01 * ((7 * block + 3 * cache + threads) % 5))
        figures = operation(rate, response=Latency(p50=1 / rate, p99=5 / rate))
        made = MadeUp(summary(phase("look", {"read": figures}), verdict=invalid()))
        runs.append(RecordedRun(f"b{block}-{cache}-{threads}", block, {"cache": cache, "threads": threads}, made))
    factors = {"cache": [0, 1, 2], "threads": [2, 4]}
    (result,) = analyse({**DESCRIPTION, "factors": factors}, runs, costs=False)
    contrasts = [one for one in result.responses[0].model.contrasts if len(one.term) == 2]
    texts = [level_text(result, one, factors) for one in contrasts]
    assert texts == ["1 with 4, beyond each alone", "2 with 4, beyond each alone"]
    assert contrasts[1].ratio.low < np.exp(0.3) < contrasts[1].ratio.high
    assert "cache × threads (" in lead(result, factors)[0]


def test_bounds_of_values_do_not_close_an_end_that_failures_hide():
    """Level 2 seems better, but failed runs may be slower; level 1 differs by less than the bounds."""
    random = np.random.default_rng(15)
    rows = np.array([(level,) for _ in range(6) for level in (0, 1, 2)])
    logs = np.array([0.0, 0.1, 0.5])[rows[:, 0]] + 0.005 * random.standard_normal(18)
    model = fit_with_failures(Data(rows, logs, [0] * 18, range(18), [3], [False]), 1, higher=True)
    assert model.terms[0].p < 0.01
    wide = widened(model, Stretch(1.0, 1.2))
    assert [(one.low_open, one.value > one.half_width) for one in wide.contrasts] == [(False, False), (True, True)]
    assert wide.terms[0].p == 1.0


def with_survivors(random, rows, dead, *, spread, hard=False):
    """Return data in which the last run of each combination in `dead` failed, and the number of failed runs.

    Survivors of these combinations vary by `spread`, other runs by 1. With `hard`, the first setting needs a cluster.
    """
    order = np.argsort([tuple(row) in dead and block == 5 for block, row in rows], kind="stable")
    kept = [rows[index] for index in order]
    scale = [spread if tuple(row) in dead else 1.0 for _, row in kept]
    factors = len(kept[0][1])
    given = Data(
        np.array([row for _, row in kept]), random.standard_normal(len(kept)) * scale, [block for block, _ in kept],
        [(block, row[0]) for block, row in kept] if hard else range(len(kept)),
        [max(row[index] for _, row in kept) + 1 for index in range(factors)], [hard, *[False] * (factors - 1)],
    )  # fmt: skip
    return given, len(dead)


@pytest.mark.parametrize(
    ("levels", "dead", "hard"),
    [
        ([range(4)], {(2,), (3,)}, False),
        ([range(3)], {(0,), (2,)}, False),
        ([range(2), range(3)], {(1, 2)}, False),
        ([range(2), range(3)], {(1, 2)}, True),
        ([range(2), range(2)], {(0, 1), (1, 1)}, True),
    ],
)
def test_the_variance_of_survivors_is_in_no_interval(levels, dead, hard):
    """All responses of survivors change, but no half-width does: it comes from combinations without failures."""
    rows = [(block, row) for block in range(6) for row in itertools.product(*levels)]
    widths = []
    for spread in (0.0, 1.0, 50.0):
        given, failed = with_survivors(np.random.default_rng(25), rows, dead, spread=spread, hard=hard)
        model = fit_with_failures(given, failed, higher=True)
        widths.append([one.half_width for one in model.contrasts])
    assert widths[1] == pytest.approx(widths[0])
    assert widths[2] == pytest.approx(widths[0])
    assert any(0.1 < width < 10 for width in widths[0])


def test_without_a_combination_that_never_fails_the_variance_is_unknown():
    rows = [(block, (level,)) for block in range(6) for level in range(2)]
    given, failed = with_survivors(np.random.default_rng(26), rows, {(0,), (1,)}, spread=1.0)
    model = fit_with_failures(given, failed, higher=True)
    assert model.freedom == 0
    assert [(one.half_width, one.p) for one in model.contrasts] == [(np.inf, None)]
    dead = experiment(np.random.default_rng(27), lambda cache, threads, deviation: deviation == 0)
    for run in dead[:4]:
        run.run.__dict__["summary"] = summary(run.phase("look"), verdict=invalid("node_lost"))
    (result,) = analyse(DESCRIPTION, [RecordedRun(*vars(run).values()) for run in dead], costs=False)
    (cause,) = [it.cause for it in result.warnings if it.code == "unrepeated"]
    assert cause.startswith("the store failed at each combination with two valid runs")
    assert {standing.better for standing in result.standings} == {None}
    assert not any(standing.ratio.is_finite for standing in result.standings if standing.combination)
    assert lead(result, FACTORS)[0].startswith("Inconclusive")


def test_a_failed_attempt_in_a_session_of_its_own_opens_the_effect():
    """The repetition succeeded in a later session, so the survivors are a selection all the same."""
    random = np.random.default_rng(34)
    rows = np.array([(level,) for _ in range(5) for level in (0, 1)] + [(1,)])
    blocks = [*np.repeat(range(5), 2).tolist(), "first session"]
    given = Data(rows, 0.1 * random.standard_normal(11), blocks, range(11), [2], [False])
    (effect,) = fit_with_failures(given, 1, higher=True).contrasts
    assert (effect.low_open, effect.high_open) == (True, False)


@pytest.mark.slow
def test_effects_without_failures_hold_the_truth_if_most_levels_fail():
    """The slower half of the runs fails at six of eight levels; with the survivors' variance, 91 % hold the truth."""
    random, held, trials = np.random.default_rng(28), 0, 500
    rows = np.repeat(np.arange(8), 4)[:, np.newaxis]
    for _ in range(trials):
        logs = 0.1 * random.standard_normal(32)
        fails = (rows[:, 0] > 1) & (logs < 0)
        order = np.argsort(fails, kind="stable")
        given = Data(rows[order], logs[order], [0] * 32, range(32), [8], [False])
        model = fit_with_failures(given, int(fails.sum()), higher=True)
        (first,) = [one for one in model.contrasts if one.levels == (1,)]
        assert not (first.low_open or first.high_open)
        held += abs(first.value) <= first.half_width
    assert held >= 0.93 * trials


def test_a_combination_with_failures_or_without_the_figure_is_counted_once():
    """All runs failed at one combination, and no run has a throughput at another: only the other one lacks a figure."""
    runs = experiment(np.random.default_rng(29), lambda cache, threads, deviation: (cache, threads) == (1, 4))
    for run in runs:
        if run.treatment == {"cache": 0, "threads": 4}:
            run.run.__dict__["summary"] = summary(phase("look", {"read": operation(0.0)}), verdict=invalid())
    (result,) = analyse(DESCRIPTION, [RecordedRun(*vars(run).values()) for run in runs], costs=False)
    (cause,) = [it.cause for it in result.warnings if it.code == "incomplete"]
    assert cause.startswith("1 of 4 combinations lack a valid run with a known throughput of look,")
    assert sum(it.code == "failed_combination" for it in result.warnings) == 1


def test_a_measure_without_an_upper_bound_in_every_run_has_no_effects():
    """The generator limits the throughput of all runs, and response times are known."""
    runs = experiment(np.random.default_rng(30), lambda cache, threads, deviation: False)
    for run in runs:
        verdict = invalid("generator_cpu")
        run.run.__dict__["summary"] = summary(run.phase("look"), verdict=verdict)
    again = [RecordedRun(*vars(run).values()) for run in runs]
    (result,) = analyse({**DESCRIPTION, "objective": "p99"}, again, costs=False)
    assert "throughput" not in [response.measure.kind for response in result.responses]


def test_the_answer_names_an_effect_that_excludes_none():
    """Level 2 of the cache seems better most, but its runs fail; the answer names level 1."""
    random = np.random.default_rng(16)
    runs = []
    for block, cache in itertools.product(range(1, 7), (0, 1, 2)):
        rate = 100 * np.exp(0.3 * cache + 0.01 * random.standard_normal())
        figures = operation(rate, response=Latency(p50=1 / rate, p99=5 / rate))
        verdict = invalid(*(["node_lost"] if cache == 2 and block == 1 else []))
        made = MadeUp(summary(phase("look", {"read": figures}), verdict=verdict))
        runs.append(RecordedRun(f"b{block}-{cache}", block, {"cache": cache}, made))
    factors = {"cache": [0, 1, 2]}
    (result,) = analyse({**DESCRIPTION, "factors": factors}, runs, costs=False)
    first, _ = lead(result, factors)
    assert first.startswith("Settings that change throughput of look: cache (ratio 1.3")
    assert first.endswith(", 1 instead of 0).")


def test_a_fraction_does_not_choose_a_level_whose_lead_failed_runs_could_explain():
    """Runs fail equally often at the default and at level 2, which looks best; level 1 is better at least."""
    random, runs = np.random.default_rng(21), []
    for block, cache in itertools.product(range(1, 7), (0, 1, 2)):
        rate = 100 * np.exp(0.3 * cache + 0.01 * random.standard_normal())
        figures = operation(rate, response=Latency(p50=1 / rate, p99=5 / rate))
        verdict = invalid(*(["node_lost"] if cache != 1 and block == 1 else []))
        made = MadeUp(summary(phase("look", {"read": figures}), verdict=verdict))
        runs.append(RecordedRun(f"b{block}-{cache}", block, {"cache": cache}, made))
    (result,) = analyse({**DESCRIPTION, "factors": {"cache": [0, 1, 2]}, "scheme": "fraction"}, runs, costs=False)
    assert result.responses[0].claimed(CACHE)
    assert result.winner == (1,)


def test_reports_name_the_combination_whose_failures_make_all_effects_unknown():
    """Seven of eight combinations estimate no interaction of three, which may explain each effect."""
    random, runs = np.random.default_rng(22), []
    for block, *levels in itertools.product(range(1, 4), (0, 1), (0, 1), (0, 1)):
        rate = 100 * np.exp(0.3 * levels[0] + 0.01 * random.standard_normal())
        figures = operation(rate, response=Latency(p50=1 / rate, p99=5 / rate))
        verdict = invalid(*(["node_lost"] if levels == [1, 1, 0] else []))
        made = MadeUp(summary(phase("look", {"read": figures}), verdict=verdict))
        treatment = dict(zip("abc", levels, strict=True))
        runs.append(RecordedRun(f"b{block}-{levels}", block, treatment, made))
    factors = {name: [0, 1] for name in "abc"}
    (result,) = analyse({**DESCRIPTION, "factors": factors}, runs, costs=False)
    assert {effect_text(one) for one in result.responses[0].model.contrasts} == {"unknown"}
    (answer, _) = lead(result, factors)
    assert "failed in every run at a 1, b 1, where settings may interact." in answer
    (cause,) = [it.cause for it in result.warnings if it.code == "failed_combination"]
    assert cause.endswith("so effects of a, b, c are unknown, because these settings may interact there")


@pytest.mark.parametrize("dead", [1, 2])
def test_a_setting_with_one_unknown_level_is_among_those_that_failures_hide(dead):
    runs = []
    for block, cache, threads in itertools.product(range(1, 4), (0, 1, 2), (2, 4)):
        rate = 100 * np.exp(0.01 * ((7 * block + 3 * cache + threads) % 5))
        figures = operation(rate, response=Latency(p50=1 / rate, p99=5 / rate))
        verdict = invalid(*(["node_lost"] if (cache, threads) == (dead, 4) else []))
        made = MadeUp(summary(phase("look", {"read": figures}), verdict=verdict))
        runs.append(RecordedRun(f"b{block}-{cache}-{threads}", block, {"cache": cache, "threads": threads}, made))
    (result,) = analyse({**DESCRIPTION, "factors": {"cache": [0, 1, 2], "threads": [2, 4]}}, runs, costs=False)
    unknown = [one.levels for one in result.responses[0].model.contrasts
               if one.term == CACHE and effect_text(one) == "unknown"]  # fmt: skip
    assert unknown == [(dead,)]
    (cause,) = [it.cause for it in result.warnings if it.code == "failed_combination"]
    assert "so effects of cache, threads are unknown" in cause


def test_survivors_do_not_raise_the_ratios_of_combinations_without_failures():
    """The slower half of the runs fails at four of eight combinations; the common mean of all is 8 % too high."""
    random, leads = np.random.default_rng(23), []
    for _ in range(60):
        numbers = np.repeat(np.arange(8), 4)
        logs = 0.1 * random.standard_normal(32)
        alive = (numbers < 4) | (logs > 0)
        ranked = rank(numbers[alive].tolist(), [0] * alive.sum(), logs[alive], higher=True, failed=range(4, 8))
        leads += [np.log(it.ratio.value) for it in ranked if 0 < it.combination < 4]
        failing = [it for it in ranked if it.combination > 3]
        assert all(it.ratio.value == pytest.approx(it.measured) for it in failing)
    assert abs(np.mean(leads)) < 0.02


@pytest.mark.slow
def test_survivors_do_not_narrow_the_intervals_of_combinations_without_failures():
    """The slower half of the runs fails at six of eight combinations; with their variance, 89 % hold the truth."""
    random, held = np.random.default_rng(24), []
    for _ in range(600):
        numbers, effects = np.repeat(np.arange(8), 4), 0.1 * random.standard_normal(8)
        noise = 0.1 * random.standard_normal(32)
        alive = (numbers < 2) | (noise > 0)
        logs = (effects[numbers] + noise)[alive]
        ranked = rank(numbers[alive].tolist(), [0] * len(logs), logs, higher=True, failed=range(2, 8))
        (ratio,) = [it.ratio for it in ranked if it.combination == 1]
        held.append(ratio.low <= np.exp(effects[1] - effects[0]) <= ratio.high)
    assert np.mean(held) > 0.925


def test_errors_of_a_ranking_include_those_of_the_blocks():
    """A combination with one run is compared with the two runs of the default in its block only."""
    random = np.random.default_rng(31)
    blocks, numbers = [0, 0, 1, 1, 2, 2, 3, 3, 0], [0] * 8 + [1]
    logs = np.repeat(3 * random.standard_normal(4), 2).tolist()
    logs = 0.1 * random.standard_normal(9) + np.array([*logs, logs[0] + 9.0])
    (other,) = [it for it in rank(numbers, blocks, logs, higher=True) if it.combination]
    pairs = logs[:8].reshape(4, 2)
    deviation = np.sqrt(((pairs[:, 0] - pairs[:, 1]) ** 2).sum() / 2 / 4)
    assert np.log(other.measured) == pytest.approx(logs[8] - pairs[0].mean())
    # t(0.975, 4) = 2.776 times the error of a run minus the mean of two.
    assert np.log(other.ratio.high / other.ratio.value) == pytest.approx(2.776 * deviation * np.sqrt(1.5), rel=0.05)


def test_combinations_that_share_no_block_have_no_ratio_to_the_default():
    random = np.random.default_rng(32)
    numbers, blocks = [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    ranked = {it.combination: it for it in rank(numbers, blocks, random.standard_normal(12), higher=True)}
    assert ranked[1].ratio.is_finite
    assert [(ranked[number].ratio.is_finite, ranked[number].better) for number in (2, 3)] == [(False, None)] * 2


def test_an_equal_combination_is_neither_better_nor_worse_if_runs_do_not_vary():
    ranked = rank([0, 1, 2] * 2, [0] * 6, np.log([100.0, 100.0, 110.0] * 2), higher=True)
    better = {it.combination: it.better for it in ranked if it.combination}
    assert better[1] == pytest.approx(0.5, abs=0.01)
    assert better[2] > 0.99
