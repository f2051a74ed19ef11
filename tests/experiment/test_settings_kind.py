"""Settings experiments: the runs of each scheme, their results, and errors in files."""

import io
import re

import pytest
from rich.console import Console

from loadframe.analyze.experiment import RecordedRun
from loadframe.analyze.settings.analysis import read_settings
from loadframe.base.errors import BadInput
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.kinds.settings import loss
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.record import RunWriter
from loadframe.record.schema import FORMAT
from loadframe.report.kinds import read_report
from loadframe.report.kinds.settings import settings_document
from simulated import Truth, write_run

EXPERIMENT = """\
experiment: tuned
store: {kind: opensearch}
workload: small.yaml
kind: settings
factors:
  store.settings.heap: [1g, 512m]
  collections.things.settings.shards: [5, 1]
  with.hits: [10, 20]
measure: look
repetitions: 2
confirm: 4
"""
#: Factor of throughput by setting.
TRUE = {"512m": 1.3, 1: 1.0, 20: 1.0}


def record(path, runs, gain=TRUE, noise=0.01, dies=lambda run: False):
    for run in runs:
        if dies(run):
            with RunWriter(path, run.id) as writer:
                manifest = {"format": FORMAT, "run": run.id, "treatment": dict(run.treatment), "block": run.block}
                writer.finish(manifest, {"status": "failed", "failure": "node-0 ended", "fault": "store"})
            continue
        factor = 1.0
        for level in run.treatment.values():
            factor *= gain.get(level, 1.0)
        truth = Truth(lam=100 * factor, operation="look", seconds=2, warmup=0, noise=noise)
        levels = {"treatment": dict(run.treatment), "block": run.block}
        write_run(path, run.id, truth, seed=sum(run.id.encode()), **levels)


def finished(experiment, folder, **truth):
    """Record the design and all that follows from it, as the loop does."""
    made = list(design(experiment).runs)
    record(folder.runs_path, made, **truth)
    while further := [run for run in experiment.kind.next_runs(experiment, folder.runs_path) if not folder.has(run.id)]:
        folder.extend(further)
        record(folder.runs_path, further, **truth)
        made += further
    return made


@pytest.fixture
def opened(load, tmp_path):
    """Load an experiment, and open its folder."""

    def opened(text=EXPERIMENT):
        experiment = load(text)
        return experiment, ExperimentFolder(tmp_path / "results", describe(experiment, design(experiment)))

    return opened


@pytest.mark.parametrize(
    ("scheme", "combinations"),
    [("full", 8), ("singles", 4), ("pairs", 7), ("triples", 8), ("screening", 4), ("fraction", 8), ("tpe", 1)],
)
def test_a_scheme_makes_its_combinations_and_the_default_is_one_of_them(load, scheme, combinations):
    experiment = load(EXPERIMENT + f"scheme: {scheme}\n")
    runs = design(experiment).runs
    assert len(runs) == combinations * (1 if scheme == "tpe" else 2)
    default = {"store.settings.heap": "1g", "collections.things.settings.shards": 5, "with.hits": 10}
    assert default in [dict(run.treatment) for run in runs]


def test_a_fraction_of_resolution_iii_is_half_of_three_factors(load):
    assert len(design(load(EXPERIMENT + "scheme: fraction\nresolution: 3\n")).runs) == 4 * 2


def test_every_size_has_the_whole_scheme(load):
    runs = design(load(EXPERIMENT + "at: {nodes: [1, 2]}\n")).runs
    assert len(runs) == 8 * 2 * 2
    assert {run.treatment["nodes"] for run in runs} == {1, 2}


def test_settings_that_need_a_restart_are_grouped(load):
    groups = list(design(load(EXPERIMENT)).groups())
    assert len(groups) == 2 * 4
    assert all(len(group) == 2 for group in groups)


@pytest.mark.slow
def test_real_effects_are_found_and_absent_ones_are_not_claimed(opened):
    experiment, folder = opened()
    made = finished(experiment, folder)
    confirming = [run for run in made if run.id.startswith("confirm-")]
    assert len(confirming) == 2 * 4
    assert [run.treatment["store.settings.heap"] for run in confirming[:4]] in (["1g", "512m", "512m", "1g"],)
    assert {run.block for run in confirming}.isdisjoint(run.block for run in made[:16])

    (result,) = read_settings(folder.path).results
    response = result.responses[0]
    assert response.measure.kind == "throughput"
    assert {term for term in response.adjusted if response.claimed(term)} == {(0,)}
    (heap,) = [contrast for contrast in response.model.contrasts if contrast.term == (0,)]
    assert abs(heap.value - 0.262) < max(heap.half_width, 0.03)
    assert result.winner[0] == "512m"
    assert result.standings[0].better > 0.95
    best = next(standing for standing in result.standings if result.combinations[standing.combination] == result.winner)
    assert result.costs[best.combination] == pytest.approx(1 / 1.3, rel=0.1)
    assert result.confirmation.contrasts[0].ratio.value == pytest.approx(1.3, rel=0.05)
    document = settings_document(read_settings(folder.path))
    assert document["results"][0]["responses"][0]["terms"][0]["claimed"]
    report = read_report(folder.path)
    said = r"heap \(\d\d % of the variation; ratio 1\.[23]\d* \[[^]]*\], 512m instead of 1g\)"
    assert re.search(f"Settings that change throughput of look: {said}", report.page)
    console = Console(file=io.StringIO(), width=120)
    report.show(console)
    assert re.search(r"heap +\d\d\.\d % .*512m instead of 1g", console.file.getvalue())
    assert "Confirmation" in report.page
    assert "CPU of each process" in report.page


def test_where_nothing_matters_nothing_is_claimed(opened):
    experiment, folder = opened(EXPERIMENT.replace("confirm: 4", "confirm: 0"))
    finished(experiment, folder, gain={})
    (result,) = read_settings(folder.path).results
    assert not any(response.claimed(term) for response in result.responses for term in response.adjusted)
    assert "No setting changes throughput of look" in read_report(folder.path).page


@pytest.mark.slow
def test_a_screening_combines_only_significant_settings(opened):
    experiment, folder = opened(EXPERIMENT.replace("repetitions: 2", "repetitions: 3") + "scheme: screening\n")
    made = finished(experiment, folder)
    (result,) = read_settings(folder.path).results
    assert result.winner == ("512m", 5, 10)
    assert any(
        "cannot separate interactions: the effect of heap may come from shards × hits" in warning.cause
        for warning in result.warnings
    )
    term = settings_document(read_settings(folder.path))["results"][0]["responses"][0]["terms"][0]
    assert term["aliases"] == [
        {"factors": ["collections.things.settings.shards", "with.hits"], "part": pytest.approx(1)}
    ]
    report = read_report(folder.path)
    assert "heap (or shards × hits)" in report.page
    assert "or instead" in report.page
    console = Console(file=io.StringIO(), width=160)
    report.show(console)
    assert "or instead" in console.file.getvalue()
    assert [run.treatment["with.hits"] for run in made if run.id.startswith("confirm-")] == [10] * 8


@pytest.mark.slow
def test_an_optimiser_plans_trial_after_trial_and_resumes(opened):
    text = EXPERIMENT + "scheme: tpe\ntrials: 12\nat: {nodes: [1, 2]}\n"
    experiment, folder = opened(text)
    made = finished(experiment, folder)
    trials = [run for run in made if not run.id.startswith("confirm-")]
    assert len(trials) == 12 * 2
    assert len({run.id for run in made}) == len(made)
    assert len(experiment.kind.largest_design(experiment).runs) == 2 * (12 + 2 * 4)
    assert list(experiment.kind.next_runs(experiment, folder.runs_path)) == []
    folder.set_aside(trials[-1].id)
    assert [run.id for run in experiment.kind.next_runs(experiment, folder.runs_path)] == [trials[-1].id]
    record(folder.runs_path, trials[-1:])
    for result in read_settings(folder.path).results:
        assert result.winner[0] == "512m"
        assert len(result.course) == 12
    assert "Trials" in read_report(folder.path).page


def test_combinations_without_a_valid_run_are_reported(opened):
    experiment, folder = opened(EXPERIMENT.replace("confirm: 4", "confirm: 0"))
    runs = design(experiment).runs
    record(folder.runs_path, [run for run in runs if run.treatment != runs[0].treatment])
    (result,) = read_settings(folder.path).results
    assert any("1 of 8 combinations" in warning.cause for warning in result.warnings)


@pytest.mark.parametrize("kept", [1, 3])
def test_too_few_valid_runs_for_an_effect_are_reported_without_claims(opened, kept):
    experiment, folder = opened(EXPERIMENT.replace("confirm: 4", "confirm: 0"))
    first = design(experiment).runs[0]
    record(folder.runs_path, [run for run in design(experiment).runs if run.treatment == first.treatment][:kept])
    (result,) = read_settings(folder.path).results
    assert result.responses == ()
    assert any("no effect can be estimated" in warning.cause for warning in result.warnings)
    page = read_report(folder.path).page
    assert "No comparison: only one combination has valid runs." in page
    assert "No setting changes" not in page


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("scheme: ful", "ful"),
        ("scheme: spsa", "valid here: fraction, full, pairs, screening, singles, tpe, triples"),
        ("at: {with.hits: [1]}", "both in factors and in at"),
        ("scheme: tpe\nuntil: {relative_interval: 5%, most: 4}", "ends after its trials"),
        ("objective: p98", "p98"),
    ],
)
def test_typing_errors_are_reported(refused, more, what):
    error, _ = refused(EXPERIMENT + more + "\n")
    assert what in str(error)


def test_screening_requires_two_levels(refused):
    error, _ = refused(EXPERIMENT.replace("[10, 20]", "[10, 20, 30]") + "scheme: screening\n")
    assert "two levels" in error.what
    error, _ = refused(EXPERIMENT.replace("[10, 20]", "[10]").replace("[5, 1]", "[5]").replace("[1g, 512m]", "[1g]"))
    assert "only one level" in error.what


def dies_at_512m(run):
    """Whether a run is one of the four of five that the store does not survive with a heap of 512 MiB."""
    return run.treatment["store.settings.heap"] == "512m" and run.block % 5


ONE_FACTOR = re.sub(r"  collections.*\n  with.*\n", "", EXPERIMENT).replace("repetitions: 2", "repetitions: 5")


def test_a_combination_at_which_the_store_mostly_dies_does_not_win(opened):
    experiment, folder = opened(ONE_FACTOR)
    made = finished(experiment, folder, dies=dies_at_512m)
    assert not any(run.id.startswith("confirm-") for run in made), "nothing has won, so nothing is confirmed"
    (result,) = read_settings(folder.path).results
    assert result.winner is None
    (number,) = result.failed
    assert (result.combinations[number], result.failed[number]) == (("512m",), (4, 5))
    (standing,) = [standing for standing in result.standings if standing.combination == number]
    assert standing.measured == pytest.approx(1.3, rel=0.05)
    assert standing.better is None
    (warning,) = [warning for warning in result.warnings if "the store failed" in warning.cause]
    dead = ", ".join(run.id for run in made if dies_at_512m(run))
    assert warning.cause.startswith(f"the store failed in 4 of 5 runs at heap 512m ({dead}: node-0 ended)")
    report = read_report(folder.path)
    console = Console(file=io.StringIO(), width=200)
    report.show(console)
    for text in (report.page, console.file.getvalue()):
        assert "No combination beats the default in throughput of look; the store failed at heap 512m" in text
    excluded = {entry["run"]: entry["reason"] for entry in report.document["excluded"]}
    assert excluded == dict.fromkeys(dead.split(", "), "node-0 ended")


def test_a_screening_does_not_combine_settings_that_kill_the_store(opened):
    text = EXPERIMENT.replace("repetitions: 2", "repetitions: 3") + "scheme: screening\n"
    experiment, folder = opened(text)
    finished(experiment, folder, dies=lambda run: run.treatment["store.settings.heap"] == "512m" and run.block == 1)
    (result,) = read_settings(folder.path).results
    assert result.winner is None


def test_a_winner_that_dies_when_it_is_measured_again_has_not_held(opened):
    experiment, folder = opened(ONE_FACTOR)

    def dies(run):
        """Whether a run is one of three of the four that confirm the winner."""
        return run.id.startswith("confirm-") and run.treatment["store.settings.heap"] == "512m" and run.block != 6

    finished(experiment, folder, dies=dies)
    (result,) = read_settings(folder.path).results
    assert result.winner == ("512m",)
    assert [len(group.failed) for group in result.confirmation.groups] == [0, 3]
    assert result.confirmation.contrasts[0].outcome == "inconclusive"
    failed = "was not confirmed: measured again, the store failed in 3 of 4 runs"
    assert failed in read_report(folder.path).page


@pytest.mark.parametrize("scheme", ["scheme: full\n", "scheme: tpe\ntrials: 12\n"])
def test_a_failed_confirmation_run_is_repeated_and_changes_no_other_run(opened, scheme):
    experiment, folder = opened(EXPERIMENT + scheme)
    died = []

    def dies(run):
        """Whether a run is the first one that measures the winner again."""
        if run.id.startswith("confirm-") and run.treatment["store.settings.heap"] == "512m":
            died.append(run.id)
        return died[:1] == [run.id]

    finished(experiment, folder, dies=dies)
    assert died, "there is a winner"
    folder.set_aside(died[0])
    assert [run.id for run in experiment.kind.next_runs(experiment, folder.runs_path)] == [died[0]]


@pytest.mark.slow
def test_an_optimiser_learns_of_a_dead_store(opened):
    """A heap of 512 MiB would be faster; the store dies of it."""
    experiment, folder = opened(EXPERIMENT + "scheme: tpe\ntrials: 24\n")
    made = finished(experiment, folder, dies=lambda run: run.treatment["store.settings.heap"] == "512m")
    trials = [run for run in made if not run.id.startswith("confirm-")]
    late = [run.treatment["store.settings.heap"] for run in trials[12:]]
    assert late.count("512m") < len(late) / 2
    (result,) = read_settings(folder.path).results
    assert result.winner is None or result.winner[0] == "1g"


def test_an_optimiser_remembers_that_the_store_died_in_an_earlier_attempt(opened):
    """A heap of 512 MiB is faster, but the store dies of it in the first attempt and survives in the second."""
    experiment, folder = opened(EXPERIMENT + "scheme: tpe\ntrials: 24\n")
    following = list(design(experiment).runs)
    trials = []
    while following and not following[0].id.startswith("confirm-"):
        folder.extend(following)
        dying = [run for run in following if run.treatment["store.settings.heap"] == "512m"]
        record(folder.runs_path, dying, dies=lambda run: True)
        for run in dying:
            folder.set_aside(run.id)
        record(folder.runs_path, following)
        trials += following
        following = experiment.kind.next_runs(experiment, folder.runs_path)
    late = [run.treatment["store.settings.heap"] for run in trials[12:]]
    assert late.count("512m") < len(late) / 2
    assert not any(run.treatment["store.settings.heap"] == "512m" for run in following), "it is not confirmed"


def test_a_lower_bound_of_throughput_tells_an_optimiser_nothing(tmp_path):
    (known, bounded) = (
        write_run(tmp_path, name, Truth(operation="look", seconds=2, cpu_share=share))
        for name, share in (("known", 0.3), ("bounded", 0.97))
    )
    assert loss("throughput", RecordedRun("known", 1, {}, known), "look") is not None
    assert loss("throughput", RecordedRun("bounded", 1, {}, bounded), "look") is None


@pytest.mark.parametrize(
    "rate", ["rate: 100", "at: {rate: [100, 200]}", "factors: {with.hits: [10, 20], rate: [100, 200]}"]
)
def test_throughput_is_no_objective_of_an_open_load(refused, load, rate):
    text = EXPERIMENT if "factors" not in rate else re.sub("factors:(\n  .*)+\n", "", EXPERIMENT)
    error, _ = refused(f"{text}{rate}\n")
    assert "equals its rate" in error.what
    assert load(f"{text}{rate}\nobjective: p99\n").arrivals != []


def test_throughput_is_an_objective_of_an_open_phase_whose_clients_are_varied(load, tmp_path):
    load(EXPERIMENT)
    workload = (tmp_path / "small.yaml").read_text()
    (tmp_path / "open.yaml").write_text(workload.replace("operation: look, clients: 2", "operation: look, rate: 10"))
    text = EXPERIMENT.replace("small.yaml", "open.yaml")
    assert load(text + "at: {clients: [1, 2]}\n").arrivals == []
    with pytest.raises(BadInput, match="equals its rate"):
        load(text)
