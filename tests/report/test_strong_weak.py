"""A strong and a weak scaling curve of one store side by side: conclusions, and refused pairs."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from pages import Page
from scipy import special

from commands import loadframe, within
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.scale.strong_weak import independent_ratio, read_strong_and_weak
from loadframe.report import strong_weak
from loadframe.report.strong_weak import strong_weak_page
from simulated import Truth, fail_store, write_experiment

NODES = (1, 2, 4, 8)
#: A serial share of 10 %, of the one-node run and of the N-node run.
STRONG, WEAK = Truth(noise=0.005, node_sigma=0.1), Truth(noise=0.005, node_serial=0.1)


def strong(path, truth=STRONG, nodes=NODES, **changed):
    return write_experiment(path, truth, nodes=nodes, clients=(8,), repetitions=3, **{"experiment": "same", **changed})


def weak(path, truth=WEAK, nodes=NODES, **changed):
    grown = {"experiment": "grown", "scaling": "weak", "grows": "documents"}
    return strong(path, truth, nodes, **{**grown, **changed})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    path = tmp_path_factory.mktemp("pair")
    return strong(path / "strong"), weak(path / "weak", **{"with": {"documents": 10000}})


@pytest.fixture(scope="module")
def pair(folders):
    (pair,) = read_strong_and_weak(*folders).pairs
    return pair


@pytest.mark.slow
def test_each_law_gives_back_its_serial_share(pair):
    assert {scaling: law.name for scaling, law in pair.laws.items()} == {"strong": "amdahl", "weak": "gustafson"}
    for law in pair.laws.values():
        assert law.share.low <= 0.1 <= law.share.high


def test_the_speed_ups_are_those_of_the_laws(pair):
    assert [row.nodes for row in pair.rows] == list(NODES)
    for row in pair.rows:
        truths = {"strong": row.nodes / (1 + 0.1 * (row.nodes - 1)), "weak": row.nodes - 0.1 * (row.nodes - 1)}
        for scaling, truth in truths.items():
            for speedup in (row.measured[scaling], row.by_law[scaling]):
                assert speedup.low * 0.99 <= truth <= speedup.high * 1.01
    assert pair.rows[-1].by_law["weak"].value == pytest.approx(
        pair.curves["weak"].over_nodes.fit.scaled_speedup(8).value
    )


def test_sigma_is_translated_into_a_share_of_the_run_on_n_nodes(pair):
    share = pair.laws["strong"].share_of(8)
    assert share.low <= 8 * 0.1 / (1 + 0.1 * 7) <= share.high
    serial = pair.laws["weak"].share
    assert vars(pair.laws["weak"].share_of(8)) == pytest.approx(vars(serial))


def test_the_answer_compares_speed_ups_on_the_same_nodes(pair):
    assert pair.largest == 8
    assert pair.ratio.low <= 7.3 / (8 / 1.7) <= pair.ratio.high
    assert "More nodes pay off more if the data grow with them: at 8 nodes speed-up was 4." in strong_weak.lead(pair)
    said = " ".join(strong_weak.laws(pair))
    assert "Strong, by Amdahl's law: a serial share σ of" in said
    assert "Weak, by Gustafson's law: a serial share s of" in said
    assert "are different quantities" in said


@pytest.mark.slow
def test_one_curve_under_both_laws_is_not_called_two(tmp_path):
    # The order of the runs decides on their noise.
    result = read_strong_and_weak(
        strong(tmp_path / "a", nodes=(1, 2, 3)), weak(tmp_path / "b", replace(STRONG, lam=90), (3, 2, 1))
    )
    (pair,) = result.pairs
    # The shares differ, since they are of different runs.
    assert pair.laws["weak"].share.low > pair.laws["strong"].share.high
    assert "No significant difference between the curves" in strong_weak.lead(pair)


@pytest.mark.slow
def test_laws_that_miss_the_data_are_reported(tmp_path):
    result = read_strong_and_weak(strong(tmp_path / "a"), weak(tmp_path / "b", STRONG))
    assert "Gustafson's law does not fit these data (beyond the noise)." in strong_weak.laws(result.pairs[0])


def test_few_nodes_have_speed_ups_but_no_law(tmp_path):
    (pair,) = read_strong_and_weak(strong(tmp_path / "a", nodes=(2, 4)), weak(tmp_path / "b", nodes=(2, 4))).pairs
    assert pair.laws == {"strong": None, "weak": None}
    # By the fewest nodes, since one node was not measured.
    assert pair.rows[-1].measured["weak"].value == pytest.approx(3.7 / 1.9, rel=0.02)
    assert "More nodes pay off more" in strong_weak.lead(pair)
    assert "No law for the weak curve: only 2 distinct sizes" in strong_weak.laws(pair)[1]
    assert json.loads(json.dumps(pair.as_dict(), allow_nan=False))["laws"] == pair.laws


@pytest.mark.slow
def test_curves_with_different_first_nodes_lack_a_common_base(tmp_path):
    result = read_strong_and_weak(strong(tmp_path / "a", nodes=(1, 2, 4)), weak(tmp_path / "b", nodes=(2, 4, 6)))
    assert "the strong curve starts at 1 node and the weak one at 2 nodes" in strong_weak.lead(result.pairs[0])
    assert "c0-speedups" not in Page(strong_weak_page(result)).plots


@pytest.mark.slow
def test_the_page_has_both_curves_over_the_same_axis(folders):
    page = Page(strong_weak_page(read_strong_and_weak(*folders)))
    assert page.loads == []
    traces = {trace["name"]: trace for trace in page.plots["c0-speedups"]["traces"]}
    assert traces["strong, measured"]["x"] == traces["weak, measured"]["x"] == list(NODES)
    assert {"strong, Amdahl", "weak, Gustafson", "linear growth"} <= traces.keys()
    assert page.plots["c0-speedups"]["x"]["title"] == "nodes"
    assert "Strong (same): All 12 runs are valid." in page.text
    assert "Weak (grown): All 12 runs are valid." in page.text


def reported(*arguments):
    status, output, errors = within("report", *arguments, "--json")
    assert status == 0, errors
    return json.loads(output)


@pytest.mark.slow
def test_the_command_takes_the_folders_in_any_order(folders, tmp_path):
    first, second = folders
    forth = reported(first, second)
    assert forth["strong"] == "same"
    assert forth["weak"] == "grown"
    (curves,) = forth["curves"]
    assert curves["laws"]["strong"]["share_of_largest"]["nodes"] == 8
    assert curves["speedups"][-1]["measured"]["weak"]["value"] > curves["speedups"][-1]["measured"]["strong"]["value"]
    assert (first / "strong-and-weak.html").exists()
    assert not (first / "report.html").exists()
    assert reported(second, first, "--output", tmp_path / "pair.html") == forth


@pytest.mark.slow
def test_the_terminal_has_the_table_and_the_answer(folders, tmp_path):
    done = loadframe("report", *folders, "--output", tmp_path / "pair.html")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "More nodes pay off more if the data grow with them" in said
    assert "strong, measured strong, by law weak, measured weak, by law" in said


def described(path, **changed):
    """Write an experiment's folder without any run."""
    path.mkdir()
    description = {
        "experiment": "e", "kind": "scale", "scaling": "strong", "workload": "nyc_taxis", "with": {"documents": 10},
        "store": {"kind": "opensearch", "version": "3.8.0", "nodes": 1}, "measure": ["range"], "design": [],
        "factors": {"nodes": [1, 2, 4]},
    }  # fmt: skip
    (path / "experiment.json").write_text(json.dumps(description | changed))
    return path


GROWN = {"scaling": "weak", "grows": "documents"}


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({}, {}, "both experiments are of strong scaling"),
        (GROWN, GROWN, "both experiments are of weak scaling"),
        ({}, {**GROWN, "kind": "compare"}, "an experiment of kind compare lacks a curve over nodes"),
        ({"factors": {"clients": [1]}}, GROWN, "an experiment without nodes as a factor lacks a curve over nodes"),
        ({}, {**GROWN, "store": {"kind": "opensearch", "version": "3.7.0"}},
         "of different stores: store.version is 3.8.0 and 3.7.0"),
        ({}, {**GROWN, "workload": "ycsb/a"}, "of different workloads: workload is nyc_taxis and ycsb/a"),
        ({"with": {"size": 5}}, GROWN, "of different workloads: with.size is 5 and not set"),
        ({}, {**GROWN, "measure": ["daily"]}, "lack a common measured phase"),
    ],
)  # fmt: skip
def test_mismatched_pairs_are_refused(tmp_path, first, second, what):
    folders = described(tmp_path / "a", **first), described(tmp_path / "b", **second)
    status, output, errors = within("report", *folders)
    assert (status, output) == (2, "")
    assert what in " ".join(errors.split())
    assert "Traceback" not in errors
    assert not (folders[0] / "strong-and-weak.html").exists()


def test_growing_parameters_may_have_another_value_at_one_node(tmp_path):
    folders = described(tmp_path / "a"), described(tmp_path / "b", **GROWN, **{"with": {"documents": 5}})
    (pair,) = read_strong_and_weak(*folders).pairs
    assert strong_weak.lead(pair).startswith("No answer: fewer than two numbers of nodes have usable runs")


def test_two_folders_have_no_other_format(tmp_path):
    status, _, errors = within("report", tmp_path, tmp_path, "--format", "queries")
    assert status == 2
    assert "--format queries requires one run" in errors


def test_a_folder_that_is_missing_is_named(folders, tmp_path):
    status, _, errors = within("report", folders[0], tmp_path / "none")
    assert status == 2
    assert "none" in errors


def test_the_interval_of_an_independent_ratio_holds_the_truth():
    random = np.random.default_rng(3)
    freedom, trials = 6, 600
    t = float(special.stdtrit(freedom, 0.975))

    def estimated(truth, error):
        spread = error * math.sqrt(random.chisquare(freedom) / freedom)
        value = truth * math.exp(error * random.standard_normal())
        return Estimate(value, value * math.exp(-t * spread), value * math.exp(t * spread))

    pairs = [(estimated(7.3, 0.05), estimated(4.7, 0.02)) for _ in range(trials)]
    ratios = [independent_ratio(above, below) for above, below in pairs]
    held = sum(ratio.low <= 7.3 / 4.7 <= ratio.high for ratio in ratios)
    assert 0.93 * trials <= held <= 0.98 * trials


def test_unrepeated_measurements_do_not_have_a_bounded_ratio():
    assert independent_ratio(Estimate(4, 0, math.inf), Estimate(2, 1.9, 2.1)) == Estimate(2, 0, math.inf)


def test_an_open_end_leaves_the_other_end_of_a_ratio_known():
    closed = independent_ratio(Estimate(4, 3.8, 4.2), Estimate(2, 1.9, 2.1))
    assert independent_ratio(Estimate(4, 0, 4.2), Estimate(2, 1.9, 2.1)) == Estimate(2, 0, closed.high)
    assert independent_ratio(Estimate(4, 3.8, 4.2), Estimate(2, 0, 2.1)) == Estimate(2, closed.low, math.inf)


def fail(path, nodes):
    fail_store(path / "runs" / f"b1-nodes{nodes}-clients8")
    return path


@pytest.mark.parametrize(
    ("strong_at", "weak_at", "expected"),
    [
        (
            None,
            4,
            r"More nodes pay off less if the data grow with them: at 4 nodes speed-up was [\d.]+ \[[\d., ]+\] with the"
            r" same data and below [\d.]+ with data that grow with the nodes, below 0\.\d+ times as high\.",
        ),
        (
            4,
            None,
            r"Inconclusive, because the store failed at 4 nodes with the same data: at 4 nodes speed-up was below"
            r" [\d.]+ with the same data and [\d.]+ \[[\d., ]+\] with data that grow with the nodes, above 0\.\d+ times"
            r" as high\.",
        ),
        (
            1,
            1,
            r"Inconclusive, because the store failed at 1 node with the same data and at 1 node with data that grow"
            r" with the nodes: at 4 nodes speed-up was above [\d.]+ with the same data and above [\d.]+ with data that"
            r" grow with the nodes\.",
        ),
    ],
)
def test_failures_of_the_store_are_the_cause_of_an_open_ratio(tmp_path, strong_at, weak_at, expected):
    folders = strong(tmp_path / "a", nodes=(1, 4)), weak(tmp_path / "b", Truth(noise=0.005, node_sigma=0.3), (1, 4))
    for path, nodes in zip(folders, (strong_at, weak_at), strict=True):
        if nodes:
            fail(path, nodes)
    (pair,) = read_strong_and_weak(*folders).pairs
    assert re.fullmatch(expected, strong_weak.lead(pair))
    document = pair.as_dict()
    assert document["weak_by_strong"]["value"] is None
    measured = document["speedups"][-1]["measured"]
    assert [measured[scaling]["value"] is None for scaling in ("strong", "weak")] == [bool(strong_at), bool(weak_at)]
    figure = strong_weak.speedups_plot(pair, "plot")
    traces = {trace.name: trace for trace in figure.traces}
    for scaling, failed in (("strong", strong_at), ("weak", weak_at)):
        marked = traces[f"{scaling}, measured"]
        assert list(marked.x) == ([1] if failed else [1, 4])
        assert 0 not in marked.low
        if failed:
            name, end = ("at most", "high") if failed == 4 else ("at least", "low")
            (known,) = traces[f"{scaling}, {name}"].y
            assert known == pytest.approx(getattr(pair.rows[-1].measured[scaling], end), rel=1e-5)
    assert "A hollow triangle: the store failed" in figure.caption


def test_single_runs_are_the_cause_of_an_open_ratio(tmp_path):
    grown = {"experiment": "grown", "scaling": "weak", "grows": "documents"}
    folders = [
        write_experiment(tmp_path / name, STRONG, nodes=(1, 4), clients=(8,), repetitions=1, **described)
        for name, described in (("a", {"experiment": "same"}), ("b", grown))
    ]
    (pair,) = read_strong_and_weak(*folders).pairs
    said = strong_weak.lead(pair)
    assert said.startswith("Inconclusive: at 4 nodes speed-up was ")
    assert said.endswith(" No treatment has two valid runs, so the variance between runs is unknown.")
