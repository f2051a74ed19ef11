"""Effects and shares of variation against textbooks' answers, and simulations with known truth."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.figures import Stretch
from loadframe.analyze.settings.analysis import analyse
from loadframe.analyze.settings.model import Data, aliases, estimable_terms, fit_model, widened
from loadframe.experiment.design.plans import fraction, plackett_burman
from loadframe.record.schema.figures import Latency
from loadframe.report.kinds.settings import effects_table
from loadframe.report.settings_words import lead
from made_up_runs import MadeUp, invalid, operation, phase, summary

CORNERS = list(itertools.product((0, 1), repeat=2))


def data(rows, response, *, levels=None, blocks=None, plots=None, hard=None, alone=False):
    rows = np.array(rows)
    factors = rows.shape[1]
    return Data(
        rows=rows,
        response=np.array(response, dtype=float),
        blocks=blocks or [1] * len(rows),
        plots=plots or list(range(len(rows))),
        levels=levels or [2] * factors,
        hard=hard or [False] * factors,
        alone=alone,
    )


def fit_of(model, term):
    return {fit.term: fit for fit in model.terms}[term]


def shares(model):
    return {fit.term: round(100 * fit.share, 2) for fit in model.terms}


def values(model):
    return {contrast.term: round(contrast.value, 4) for contrast in model.contrasts}


def test_memory_and_cache_of_a_workstation():
    """Jain, section 17.1: 15, 45, 25 and 75 MIPS; q_A = 20, q_B = 10, q_AB = 5; 76, 19 and 5 % of the variation."""
    model = fit_model(data([(0, 0), (1, 0), (0, 1), (1, 1)], [15, 45, 25, 75]))
    assert shares(model) == {(0,): 76.19, (1,): 19.05, (0, 1): 4.76}
    assert values(model) == {(0,): 40, (1,): 20, (0, 1): 20}


def test_bounds_of_values_widen_effects_and_take_back_claims_within_them():
    rows = [row for row in CORNERS for _ in range(3)]
    noise = np.tile([-0.01, 0.0, 0.01], 4)
    model = fit_model(data(rows, [1.0 * a + 0.2 * b + e for (a, b), e in zip(rows, noise, strict=True)]))
    assert fit_of(model, (0,)).p < 0.01
    assert fit_of(model, (1,)).p < 0.01
    wide = widened(model, Stretch(1.0, 1.5))
    assert fit_of(model, (0,)).p < fit_of(wide, (0,)).p < 0.01
    assert fit_of(wide, (1,)).p == 1.0
    # p is that of the possible effect nearest to 0: an interval that just excludes 0 has a p just below 5 %.
    (effect,) = [one for one in model.contrasts if one.term == (0,)]
    just = widened(model, Stretch(1.0, np.exp(effect.value - 1.01 * effect.half_width)))
    assert 0.04 < fit_of(just, (0,)).p < 0.05
    before, after = (next(one for one in it.contrasts if one.term == (0,)) for it in (model, wide))
    assert after.half_width == pytest.approx(before.half_width + np.log(1.5))


@pytest.mark.parametrize("repetitions", [1, 3])
def test_rounding_errors_of_equal_values_are_no_effects(repetitions):
    """Values of an open loop are its rate: they are equal, or differ in the last digit by setting."""
    rows = [row for row in itertools.product((0, 1), repeat=3) for _ in range(repetitions)]
    for response in ([np.log(100.0)] * len(rows), [np.log(100.0 + 1e-13 * row[0]) for row in rows]):
        model = fit_model(data(rows, response))
        assert all(fit.p > 0.1 for fit in model.terms)
        assert not any(one.excludes_none for one in model.contrasts)


#: Runs that are missing give others unequal weights. In the second design, level 1 is in one block only, so the other
#: levels determine the difference of this block.
UNEQUAL = (
    [(number // 4, (CORNERS * 6)[number]) for number in range(24) if number not in (3, 6, 13, 19, 22)],
    [(0, (1, 0)), *[(block, (level, 0)) for block in range(4) for level in (0, 2)]],
)


@pytest.mark.parametrize(("runs", "hard"), [(UNEQUAL[0], False), (UNEQUAL[0], True), (UNEQUAL[1], False)])
def test_bounds_widen_effects_by_the_largest_error_of_runs_within_them(runs, hard):
    random = np.random.default_rng(33)
    given = data(
        [row for _, row in runs], random.standard_normal(len(runs)), blocks=[block for block, _ in runs],
        plots=[(block, row[0]) for block, row in runs], levels=[3, 2], hard=[hard, False],
    )  # fmt: skip
    model = fit_model(given)
    assert model.contrasts
    for one, wide in zip(model.contrasts, widened(model, Stretch(1.0, np.exp(0.2))).contrasts, strict=True):
        moved = []
        for run in range(len(runs)):
            response = given.response.copy()
            response[run] += 0.2
            again = fit_model(replace(given, response=response))
            key = one.term, one.levels
            moved.append(next(it.value for it in again.contrasts if (it.term, it.levels) == key) - one.value)
        assert wide.half_width - one.half_width == pytest.approx(sum(change for change in moved if change > 0))
        assert wide.half_width - one.half_width == pytest.approx(-sum(change for change in moved if change < 0))


def test_three_factors_of_a_machine():
    """Jain, example 17.4: memory 18 %, cache 4 %, processors 71 %; interactions 4, 1, 2 and 0 %."""
    rows = [(a, b, c) for c in (0, 1) for b in (0, 1) for a in (0, 1)]
    model = fit_model(data(rows, [14, 22, 10, 34, 46, 58, 50, 86]))
    assert {term: round(share) for term, share in shares(model).items()} == {
        (0,): 18, (1,): 4, (2,): 71, (0, 1): 4, (0, 2): 1, (1, 2): 2, (0, 1, 2): 0
    }  # fmt: skip
    assert values(model) == {(0,): 20, (1,): 10, (2,): 40, (0, 1): 20, (0, 2): 8, (1, 2): 12, (0, 1, 2): 8}


def test_repeated_runs_of_memory_and_cache():
    """Jain, chapter 18: effects 21.5, 9.5 and 5 with s = 1.03 each; shares 78.88, 15.40, 4.27 and error 1.45 %."""
    rows = [row for row in [(0, 0), (1, 0), (0, 1), (1, 1)] for _ in range(3)]
    model = fit_model(data(rows, [15, 18, 12, 45, 48, 51, 25, 28, 19, 75, 75, 81]))
    assert shares(model) == {(0,): 78.88, (1,): 15.40, (0, 1): 4.27}
    assert round(100 * model.error_share, 2) == 1.45
    assert values(model) == {(0,): 43, (1,): 19, (0, 1): 20}
    assert model.freedom == 8
    half = {contrast.term: contrast.half_width for contrast in model.contrasts}
    # t(0.975, 8) = 2.306 times s = 1.031, which is q's; a difference of levels is 2 q.
    assert half[(0,)] == pytest.approx(2 * 2.306 * 1.031, rel=1e-3)
    assert max(fit.p for fit in model.terms) < 0.002


def test_one_factor_with_three_levels():
    """Three processors' code sizes, Jain, chapter 20: SSA = 10992.1, SSE = 94365.2, F = 0.7."""
    sizes = {0: [144, 120, 176, 288, 144], 1: [101, 144, 211, 288, 72], 2: [130, 180, 141, 374, 302]}
    rows, response = zip(*[((level,), size) for level, values in sizes.items() for size in values], strict=True)
    model = fit_model(data(rows, response, levels=[3]))
    (fit,) = model.terms
    assert fit.share == pytest.approx(10992.13 / (10992.13 + 94365.20), rel=1e-4)
    assert fit.p == pytest.approx(0.5164, abs=2e-3)
    assert [round(contrast.value, 1) for contrast in model.contrasts] == [-11.2, 51.0]


def test_block_effects_are_not_part_of_the_error():
    random = np.random.default_rng(1)
    rows = CORNERS * 4
    blocks = [block for block in range(4) for _ in CORNERS]
    response = [
        0.1 * a + 5 * block + 0.01 * random.standard_normal() for (a, _), block in zip(rows, blocks, strict=True)
    ]
    model = fit_model(data(rows, response, blocks=blocks))
    assert fit_of(model, (0,)).p < 1e-6
    assert model.block_share > 0.99


def test_singles_give_the_effect_of_each_setting_alone():
    model = fit_model(data([(0, 0), (1, 0), (0, 1)] * 2, [10, 13, 9] * 2, alone=True))
    assert not model.balanced
    assert values(model) == {(0,): 3, (1,): -1}


def test_singles_without_repetitions_have_no_p_since_they_share_the_default():
    """All effects contain the default run's error: with Lenth's method they would judge each other."""
    rows = [(0, 0, 0, 0, 0), *(tuple(int(index == place) for index in range(5)) for place in range(5))]
    model = fit_model(data(rows, [9.7, 10, 10.02, 9.98, 10.01, 10.9], alone=True))
    assert [fit.p for fit in model.terms] == [None] * 5
    assert all(contrast.half_width == np.inf for contrast in model.contrasts)


def test_a_run_that_is_missing_weakens_a_factorial_and_no_more():
    random = np.random.default_rng(6)
    rows = list(itertools.product((0, 1), repeat=3)) * 3
    response = [0.3 * row[0] + 0.1 * row[1] * row[2] + 0.02 * random.standard_normal() for row in rows]
    whole, less = fit_model(data(rows, response)), fit_model(data(rows[:-1], response[:-1]))
    for term in ((0,), (1,), (1, 2)):
        assert fit_of(less, term).p < 1e-3
        assert fit_of(less, term).share == pytest.approx(fit_of(whole, term).share, abs=0.05)
    assert less.error_share == pytest.approx(whole.error_share, abs=0.01)


def test_a_fraction_of_resolution_iii_tells_main_effects_only():
    rows = np.array([(a, b, a ^ b) for a, b in CORNERS])
    assert estimable_terms(rows, [2, 2, 2], balanced=True) == [(0,), (1,), (2,)]


def simulated(random, effect=0.0, plot_noise=0.0, repetitions=3):
    """A 2^3 experiment with a hard-to-change first factor: each of its states is a cluster with a random offset."""
    rows, response, blocks, plots = [], [], [], []
    for block in range(repetitions):
        for a in (0, 1):
            luck = plot_noise * random.standard_normal()
            for b, c in CORNERS:
                rows.append((a, b, c))
                response.append(effect * b + luck + 0.05 * random.standard_normal())
                blocks.append(block)
                plots.append((block, a))
    return data(rows, response, blocks=blocks, plots=plots, hard=[True, False, False])


def claimed(model, level=0.05):
    return {fit.term for fit in model.terms if fit.p is not None and fit.p < level}


def test_real_effects_are_found_with_an_interval_that_covers_them():
    random = np.random.default_rng(2)
    covered, result = [], []
    for _ in range(200):
        model = fit_model(simulated(random, effect=0.15))
        result.append((1,) in claimed(model))
        (contrast,) = [contrast for contrast in model.contrasts if contrast.term == (1,)]
        covered.append(abs(contrast.value - 0.15) <= contrast.half_width)
    assert np.mean(result) > 0.98
    assert 0.91 <= np.mean(covered) <= 0.99


@pytest.mark.slow
@pytest.mark.parametrize("plot_noise", [0.0, 0.2])
def test_absent_effects_are_claimed_at_most_at_the_level(plot_noise):
    """Random differences between clusters are not effects of their start settings."""
    random = np.random.default_rng(3)
    claims = [claimed(fit_model(simulated(random, plot_noise=plot_noise, repetitions=4))) for _ in range(400)]
    for term in ((0,), (1,), (2,), (1, 2)):
        assert np.mean([term in claim for claim in claims]) <= 0.085


def test_without_repetitions_few_large_effects_stand_out():
    random = np.random.default_rng(4)
    rows = list(itertools.product((0, 1), repeat=4))
    claims = []
    for _ in range(100):
        response = [0.5 * row[2] + 0.03 * random.standard_normal() for row in rows]
        claims.append(claimed(fit_model(data(rows, response)), level=0.005))
    assert np.mean([(2,) in claim for claim in claims]) > 0.95
    assert np.mean([bool(claim - {(2,)}) for claim in claims]) < 0.1


def test_constant_responses_do_not_have_effects():
    model = fit_model(data(CORNERS * 2, [7] * 8))
    assert not claimed(model)
    assert model.error_share == 0


def aliased(rows, order=2):
    rows = np.array(rows)
    levels = [2] * rows.shape[1]
    result = aliases(rows, levels, estimable_terms(rows, levels, balanced=True))
    return {
        term: {alias.term: round(alias.part, 3) for alias in values if len(alias.term) == order}
        for term, values in result.items()
    }


def test_half_of_three_factors_mixes_each_with_the_interaction_of_the_others():
    assert aliased(fraction(3, 3)) == {(0,): {(1, 2): 1}, (1,): {(0, 2): 1}, (2,): {(0, 1): 1}}


def test_resolution_iv_mixes_single_settings_with_interactions_of_three_only():
    assert set(map(len, aliased(fraction(4, 4)).values())) == {0}
    assert aliased(fraction(4, 4), order=3)[(0,)] == {(1, 2, 3): 1}


def test_plackett_and_burman_mix_a_third_of_each_interaction_into_every_other_factor():
    """Montgomery, "Design and Analysis of Experiments", section 8.6: 45 interactions at 1/3 in 12 runs for 11."""
    result = aliased(plackett_burman(11))
    assert all(len(values) == 45 and set(values.values()) == {0.333} for values in result.values())
    assert not any(0 in term for term in result[(0,)])


def test_a_full_factorial_mixes_nothing():
    assert not any(aliased(list(itertools.product((0, 1), repeat=3))).values())


def test_an_interaction_that_passes_for_a_setting_is_among_what_the_setting_may_be():
    rows = [row for row in fraction(3, 3) for _ in range(4)]
    random = np.random.default_rng(1)
    response = [0.2 * (b == c) + 0.02 * random.standard_normal() for _, b, c in rows]
    model = fit_model(data(rows, response))
    assert fit_of(model, (0,)).p < 0.001
    assert [alias.term for alias in model.aliases[(0,)]] == [(1, 2)]


def undetermined(rows, response, levels=(2, 2), blocks=None):
    """Return the undetermined terms and contrasts of an incomplete design."""
    size = len(rows)
    given = Data(np.array(rows), np.array(response, float), blocks or [0] * size, range(size), levels, [False] * 2)
    model = fit_model(given)
    return [fit.term for fit in model.terms], {(one.term, one.levels): round(one.value, 6) for one in model.contrasts}


def test_figures_that_the_runs_do_not_determine_are_absent():
    first_alone = undetermined([(0, 0), (1, 0), (0, 0), (1, 0)], [1, 3, 1.2, 3.2])
    assert first_alone == ([(0,)], {((0,), (1,)): 2}), "the second factor has one level in all of them"
    assert undetermined([(0, 0), (1, 1), (0, 0), (1, 1)], [1, 3, 1.2, 3.2]) == ([], {}), "which of the two is it?"
    by_block = undetermined([(0, 0), (1, 0), (0, 1), (1, 1)], [1, 3, 5, 7], blocks=[0, 0, 1, 1])
    assert by_block[1][((0,), (1,))] == 2
    assert ((1,), (1,)) not in by_block[1], "it may be the blocks that differ"


def test_a_level_without_runs_has_no_figure_and_the_others_keep_theirs():
    terms, contrasts = undetermined([(0, 0), (0, 1), (2, 0), (2, 1)] * 2, [1, 2, 4, 5] * 2, levels=(3, 2))
    assert terms == [(0,), (1,)]
    assert contrasts == {((0,), (2,)): 3, ((1,), (1,)): 1}


def split_plot(rows, response, blocks, hard=1):
    """Return runs of a design whose first factors are hard to change: a cluster for each block and their levels."""
    plots = [(block, *row[:hard]) for block, row in zip(blocks, rows, strict=True)]
    return data(rows, response, blocks=blocks, plots=plots, hard=[index < hard for index in range(len(rows[0]))])


def repeated(design, effects, hard, *, noise=0.01, seed=0, repetitions=3):
    """Return runs of a split plot with noise; `effects` are those of some factors."""
    rows, blocks = list(design) * repetitions, [block for block in range(repetitions) for _ in design]
    errors = noise * np.random.default_rng(seed).standard_normal(len(rows))
    response = [sum(effects.get(index, 0) * level for index, level in enumerate(row)) for row in rows] + errors
    return split_plot(rows, response, blocks, hard)


@pytest.mark.parametrize("missing", [[(block, 1, 1) for block in range(5)], [(0, 0, 0), (3, 1, 0), (3, 0, 1)]])
def test_missing_runs_do_not_shift_the_effect_of_a_hard_factor(missing):
    """The second factor doubles the response; without correction, its runs that are left decide on the first."""
    runs = [(block, *row) for block in range(6) for row in CORNERS if (block, *row) not in missing]
    rows, blocks = [row for _, *row in runs], [block for block, *_ in runs]
    exact = fit_model(split_plot(rows, [0.1 * block + np.log(2) * b for block, _, b in runs], blocks))
    assert values(exact) == {(0,): 0, (1,): 0.6931, (0, 1): 0}
    random, covered = np.random.default_rng(11), []
    for _ in range(200):
        luck = 0.03 * random.standard_normal((6, 2))
        response = [luck[block, a] + np.log(2) * b + 0.05 * random.standard_normal() for block, a, b in runs]
        (hard,) = [one for one in fit_model(split_plot(rows, response, blocks)).contrasts if one.term == (0,)]
        covered.append(abs(hard.value) <= hard.half_width)
    assert 0.91 <= np.mean(covered) <= 0.99


def test_a_hard_factor_alone_does_not_include_the_effects_of_the_others():
    """Singles: only the cluster at the default has runs at other levels of the easy factors."""
    rows = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)] * 3
    blocks = [block for block in range(3) for _ in range(4)]
    given = split_plot(rows, [0.2 * a + 0.5 * b - 0.3 * c for a, b, c in rows], blocks)
    assert values(fit_model(replace(given, alone=True))) == {(0,): 0.2, (1,): 0.5, (2,): -0.3}


def test_effects_of_levels_alone_without_a_run_of_the_default_are_unknown():
    """The runs show the difference of levels 1 and 2 of the easy factor, and no effect against the default."""
    given = split_plot([(0, 1), (0, 2), (1, 0)] * 3, [1, 3, 5, 1.1, 3.2, 5, 1.2, 3.1, 5], [0, 0, 0, 1, 1, 1, 2, 2, 2])
    model = fit_model(replace(given, levels=[2, 3], alone=True))
    assert model.contrasts == ()
    assert [fit.term for fit in model.terms] == [(1,)]


def test_a_hard_factor_is_apart_from_an_easy_one_that_differs_between_clusters_only():
    rows = [(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)] * 3
    blocks = [block for block in range(3) for _ in range(4)]
    model = fit_model(split_plot(rows, [0.2 * a + 0.5 * c for a, _, c in rows], blocks))
    assert values(model) == {(2,): 0.5}, "the effect of the first factor may be that of the second"


@pytest.mark.parametrize(
    ("design", "hard"),
    [
        (fraction(6, 4), 3),
        (fraction(5, 3), 2),
        (fraction(6, 3), 2),
        (fraction(7, 4), 3),
        (plackett_burman(6), 2),
        (plackett_burman(7), 2),
    ],
)
def test_fractions_with_hard_factors_determine_easy_ones_that_are_constant_on_each_cluster(design, hard):
    effects = {0: 0.1, **{index: 0.5 + 0.1 * index for index in range(hard, len(design[0]))}}
    model = fit_model(repeated(design, effects, hard))
    assert [fit.term for fit in model.terms] == [(index,) for index in range(len(design[0]))]
    assert all(one.value == pytest.approx(effects.get(one.term[0], 0), abs=0.012) for one in model.contrasts)
    assert max(one.half_width for one in model.contrasts) < 0.01
    assert model.error_share < 0.001


@pytest.mark.slow
def test_easy_factors_that_are_constant_on_each_cluster_are_tested_against_differences_of_clusters():
    """With the error of runs on one cluster, half of these experiments would claim the fifth factor."""
    random, claims, trials = np.random.default_rng(12), 0, 300
    for _ in range(trials):
        given = repeated(fraction(6, 4), {}, 3)
        luck = {plot: random.standard_normal() for plot in given.plots}
        response = 0.3 * random.standard_normal(len(given.rows)) + [luck[plot] for plot in given.plots]
        claims += (4,) in claimed(fit_model(replace(given, response=response)))
    assert claims <= 0.09 * trials


def analysed(names, scheme, given, excluded=lambda row: False):
    """Return the result of an experiment with these factors, and its answer; responses are logarithms of rates.

    `excluded(row)` says whether the runs at these levels are invalid.
    """
    factors = {name: [0, 1] for name in names}
    runs = []
    for row, block, value in zip(given.rows.tolist(), given.blocks, given.response, strict=True):
        rate = 100 * np.exp(value)
        figures = operation(rate, response=Latency(p50=1 / rate, p99=5 / rate))
        verdict = invalid(*(["loop_lag"] if excluded(row) else []))
        made = MadeUp(summary(phase("look", {"read": figures}), verdict=verdict))
        runs.append(RecordedRun(f"b{block}-{row}", block, dict(zip(names, row, strict=True)), made))
    hard = [name for name, is_hard in zip(names, given.hard, strict=True) if is_hard]
    description = {
        "factors": factors, "at": {}, "measure": ["look"], "objective": "throughput", "scheme": scheme, "hard": hard,
    }  # fmt: skip
    (result,) = analyse(description, runs, costs=False)
    return result, lead(result, factors)


def unknown(result):
    return [it.cause for it in result.warnings if it.code == "unknown_effects"]


def test_the_answer_has_an_easy_setting_that_is_constant_on_each_cluster():
    result, (effects, _) = analysed("abcdef", "fraction", repeated(fraction(6, 4), {0: 0.1, 4: 0.5}, 3))
    assert effects.startswith("Settings that change throughput of look: e ")
    assert (result.unknown, unknown(result)) == ((), [])


@pytest.mark.slow
@pytest.mark.parametrize("factors", [9, 11, 15])
def test_screenings_estimate_easy_settings_that_are_partly_between_clusters(factors):
    """With three hard factors, other effects are partly between and partly within clusters."""
    random, size = np.random.default_rng(17), np.linspace(-0.3, 0.5, factors)
    held, wide = np.zeros(factors), []
    for _ in range(40):
        given = repeated(plackett_burman(factors), {}, 3)
        luck = {plot: 0.02 * random.standard_normal() for plot in given.plots}
        noise = 0.02 * random.standard_normal(len(given.rows)) + [luck[plot] for plot in given.plots]
        model = fit_model(replace(given, response=given.rows @ size + noise))
        assert [fit.term for fit in model.terms] == [(index,) for index in range(factors)]
        for one in model.contrasts:
            held[one.term[0]] += abs(one.value - size[one.term[0]]) <= one.half_width
            wide.append(one.half_width)
    assert held.mean() >= 0.92 * 40
    assert held.min() >= 0.8 * 40
    assert np.median(wide) < 0.05
    assert model.unseparated_share == 0


@pytest.mark.slow
def test_effects_across_clusters_include_the_variance_of_clusters():
    """With the variance of runs alone, most of these experiments would claim an effect that is not there."""
    random, claims, trials = np.random.default_rng(18), np.zeros(11), 60
    for _ in range(trials):
        given = repeated(plackett_burman(11), {}, 3)
        luck = {plot: random.standard_normal() for plot in given.plots}
        response = 0.1 * random.standard_normal(len(given.rows)) + [luck[plot] for plot in given.plots]
        fits = fit_model(replace(given, response=response)).terms
        claims += [fit.p < 0.05 for fit in fits]
    assert claims.mean() <= 0.08 * trials


def test_settings_that_a_fraction_cannot_judge_are_named_and_not_called_without_effect():
    given = repeated(fraction(4, 4), {3: 0.5}, 0)
    result, (effects, winner) = analysed("abcd", "fraction", given, excluded=lambda row: row[3] == 1)
    assert result.unknown == ("d",)
    assert effects.startswith("Inconclusive: the effect of d on throughput of look is unknown")
    assert winner.startswith("The best combination is unknown")
    (cause,) = unknown(result)
    assert "do not determine the effect of d: " in cause


def test_a_setting_with_a_level_without_valid_runs_is_unknown():
    given = repeated(list(itertools.product((0, 1), repeat=3)), {0: 0.001}, 0)
    result, (effects, _) = analysed("abc", "full", given, excluded=lambda row: row[1] == 1)
    assert result.unknown == ("b",)
    assert effects.startswith("Inconclusive: the effect of b on throughput of look is unknown")
    (remedy,) = [it.remedy for it in result.warnings if it.code == "unknown_effects"]
    assert remedy == "find out why runs were excluded, and repeat them"


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_large_effects_of_easy_factors_are_not_errors_between_clusters(size):
    """Plackett and Burman with two hard factors: plots of a block have other means of the easy factors."""
    effects = {0: 0.1, **dict.fromkeys(range(2, 9), size)}
    covered, widths = [], []
    for seed in range(60):
        model = fit_model(repeated(plackett_burman(9), effects, 2, seed=seed))
        hard, other = (next(one for one in model.contrasts if one.term == (index,)) for index in (0, 1))
        covered += [abs(hard.value - 0.1) <= hard.half_width, abs(other.value) <= other.half_width]
        widths.append(hard.half_width)
    assert 0.005 < np.median(widths) < 0.012
    assert np.mean(covered) > 0.91


def test_an_effect_without_an_interval_is_unknown():
    """Without repetitions, the differences between clusters include unknown errors of the easy factors."""
    given = repeated(plackett_burman(9), {0: 0.1}, 2, noise=0.001, repetitions=1)
    _, (effects, _) = analysed("abcdefghi", "screening", given)
    assert effects.startswith("Inconclusive: the effect of a, b on throughput of look is unknown")


def other_shares(given):
    """Return the last rows of the table of effects, and the sum of all shares in the table, %."""
    names = "abcdefghijk"[: given.rows.shape[1]]
    result, _ = analysed(names, "screening", given)
    rows = effects_table(result, 0, {name: [0, 1] for name in names}).rows
    others = [row[0].text for row in rows if row[0].text and row[0].text not in names and "×" not in row[0].text]
    return others, sum(float(row[3].text.removesuffix(" %")) for row in rows if row[3].text)


@pytest.mark.parametrize(("factors", "hard", "separates"), [(9, 2, False), (9, 3, True), (11, 2, True)])
def test_shares_of_a_balanced_design_include_effects_that_it_does_not_separate(factors, hard, separates):
    others, total = other_shares(repeated(plackett_burman(factors), {0: 0.1, factors - 1: 0.5}, hard))
    assert others == ["blocks", "run-to-run variance", *(["effects that the runs do not separate"] * (not separates))]
    assert total == pytest.approx(100, abs=1)


def test_a_full_factorial_separates_all_effects():
    given = repeated(list(itertools.product((0, 1), repeat=3)), {0: 0.1}, 1)
    assert fit_model(given).unseparated_share == 0
    others, total = other_shares(given)
    assert others == ["blocks", "run-to-run variance"]
    assert total == pytest.approx(100, abs=1)
    constant = replace(given, response=np.zeros(len(given.rows)))
    assert fit_model(constant).unseparated_share == 0
    alone = replace(given, rows=given.rows * (given.rows.sum(axis=1, keepdims=True) == 1), alone=True)
    assert fit_model(alone).unseparated_share == 0
