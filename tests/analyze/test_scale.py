"""Scale experiments: the analysis recovers the known truth, and reports the runs that it left out."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from loadframe._engine import HistogramLog
from loadframe.analyze.compare import Group, compare, read_runs
from loadframe.analyze.experiment import RecordedRun, read_experiment
from loadframe.analyze.scale import warnings
from loadframe.analyze.scale.sweep import curves_document, read_sweep
from loadframe.analyze.scale.treatments import Point, choose, gather, highest_lower_bound, points
from loadframe.analyze.settings.analysis import analyse
from loadframe.analyze.telemetry import FRESH_NODE, UPTIME, by_machine, machines_of_one_node
from loadframe.base.errors import BadInput
from loadframe.record import Run
from loadframe.record.reader import set_aside
from loadframe.record.schema.figures import Latency
from loadframe.report import scale_words
from loadframe.report.kinds.scale import sweep_page
from loadframe.report.tables import speedup_table
from made_up_runs import MadeUp, operation, phase, summary
from simulated import Truth, add_samples, fail_store, write_experiment, write_histograms, write_run

TRUTH = Truth(noise=0.01)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six client counts on three node counts, three repetitions, three runs that went wrong."""
    return write_experiment(
        tmp_path_factory.mktemp("sweep") / "e",
        TRUTH,
        repetitions=3,
        invalid=["b1-nodes2-clients4"],
        failed=["b2-nodes3-clients16"],
        missing=["b3-nodes3-clients32"],
    )


@pytest.fixture(scope="module")
def curves(experiment):
    (curves,) = read_sweep(experiment).curves
    return curves


@pytest.mark.slow
def test_the_curve_over_clients_has_the_parameters_it_was_made_from(curves):
    assert [curve.nodes for curve in curves.over_clients] == [1, 2, 3]
    for curve in curves.over_clients:
        assert curve.fit.best == "usl"
        parameters = curve.fit.best_model.parameters
        lam = TRUTH.lam * curve.nodes / (1 + TRUTH.node_sigma * (curve.nodes - 1))
        assert parameters["lambda"].value == pytest.approx(lam, rel=0.05)
        assert parameters["sigma"].value == pytest.approx(TRUTH.sigma, abs=0.02)
        assert parameters["kappa"].value == pytest.approx(TRUTH.kappa, rel=0.2)
        assert curve.fit.peak.n.value == pytest.approx(15.4, rel=0.05)


def test_nodes_are_compared_at_their_best_clients(curves):
    assert [(row.treatment.nodes, row.treatment.clients) for row in curves.speedups] == [(1, 16), (2, 16), (3, 16)]
    truth = [nodes / (1 + TRUTH.node_sigma * (nodes - 1)) for nodes in (1, 2, 3)]
    for row, speedup in zip(curves.speedups, truth, strict=True):
        assert row.speedup.low * 0.98 <= speedup <= row.speedup.high * 1.02
        assert row.efficiency.value == pytest.approx(row.speedup.value / row.treatment.nodes)
    assert curves.over_nodes.fit.best == "amdahl"
    assert curves.over_nodes.fit.peak is None


def test_littles_law_gives_the_requests_in_flight(curves):
    for treatment in curves.treatments:
        assert treatment.parallelism == pytest.approx(treatment.clients, rel=0.05)


def in_flight(clients=8, **operations):
    made = summary(phase("mixed", operations, clients=clients, duration=10.0))
    (point,) = points([RecordedRun("r", 1, {}, MadeUp(made))], "mixed", next(iter(operations)))
    return point.in_flight


def times(mean, count=1000):
    return Latency(count=count, mean=mean, p50=mean, p99=mean)


def test_requests_in_flight_are_the_sum_over_operations_with_their_own_times():
    quick = operation(600.0, service=times(0.001), response=times(0.001))
    slow = operation(400.0, service=times(0.1), response=times(0.2))
    # A journey repeats the requests of both, with its pauses.
    journey = operation(200.0, service=times(3.0), response=times(3.0), of_several=True)
    assert in_flight(quick=quick, slow=slow, journey=journey) == pytest.approx(600 * 0.001 + 400 * 0.1)


def test_requests_without_success_are_in_flight_until_they_end():
    some = operation(90.0, service=times(0.01, 900), response=times(0.01, 900), all=times(1.009, 1000))
    # 100 of the 1000 requests of 10 s took 10 s each.
    assert in_flight(some=some) == pytest.approx(90 * 0.01 + 100 * 10.0 / 10)


def test_waits_after_the_measured_window_are_not_in_flight_in_it(tmp_path):
    # Four of the eight clients wait from the eighth second of the 10 s on, and 30 s beyond the end.
    some = operation(600.0, service=times(0.01, 6000), response=times(0.01, 6000),
                     all=times((6000 * 0.01 + 4 * 32) / 6004, 6004), in_flight_at_end=4)  # fmt: skip
    made = MadeUp(summary(phase("mixed", {"some": some}, clients=8, duration=10.0)))
    write_histograms(tmp_path / "x.hlog", {41: [32.0] * 4})
    text = (tmp_path / "x.hlog").read_text().replace("Tag=x,41.000", "Tag=mixed/some/abandoned,41.500")
    (tmp_path / "x.hlog").write_text(text)
    made.__dict__["histograms"] = HistogramLog(tmp_path / "x.hlog")
    (point,) = points([RecordedRun("r", 1, {}, made)], "mixed", "some")
    assert point.in_flight == pytest.approx(600 * 0.01 + 4 * 2 / 10)


def test_without_a_service_time_the_requests_in_flight_are_unknown():
    quick = operation(600.0, service=times(0.001), response=times(0.001))
    assert in_flight(quick=quick, other=operation(400.0)) is None


@pytest.mark.slow
def test_invalid_failed_and_missing_runs_are_in_no_figure_and_listed(experiment, curves):
    left_out = read_sweep(experiment).folder.left_out
    assert [run.id for run in left_out] == [
        "b1-nodes2-clients4",
        "b2-nodes3-clients16",
        "b3-nodes3-clients32",
    ]
    assert [run.status for run in left_out] == ["done", "failed", "missing"]
    used = {point.run for treatment in curves.treatments for point in treatment.points}
    assert len(used) == 51
    assert used.isdisjoint(run.id for run in left_out)


def test_the_interval_of_a_mean_shares_the_spread_of_all_treatments(curves):
    widths = {
        (treatment.throughput.high - treatment.throughput.low) / treatment.throughput.value
        for treatment in curves.treatments
        if len(treatment.points) == 3
    }
    assert max(widths) == pytest.approx(min(widths))
    # 2 t(0.975, 33) / sqrt(3) times the noise of a run: the truth's noise and sampling noise of five seconds.
    assert max(widths) == pytest.approx(2 * 2.03 / 3**0.5 * 0.0135, rel=0.35)


@pytest.mark.slow
def test_the_document_is_json_for_programs(experiment):
    document = json.loads(json.dumps(read_sweep(experiment).as_dict(), allow_nan=False))
    assert document["curves"][0]["over_nodes"]["fit"]["best"] == "amdahl"
    assert document["left_out"] == ["b1-nodes2-clients4", "b2-nodes3-clients16", "b3-nodes3-clients32"]
    assert {run["status"] for run in document["runs"]} == {"done", "failed", "missing"}


def test_the_best_clients_at_the_edge_are_named(tmp_path):
    (curves,) = read_sweep(
        write_experiment(tmp_path / "e", Truth(node_cpu=0.3), clients=(1, 2, 4), nodes=(1, 2), repetitions=1)
    ).curves
    assert curves.at_edge == (1, 2)


@pytest.mark.parametrize(
    ("four", "eight", "best"), [([90, 100, 110], [115], 4), ([90, 100, 110], [105, 115, 125], 8), ([100], [115], 8)]
)
def test_a_number_of_nodes_is_not_taken_at_a_single_lucky_run(four, eight, best):
    points = [
        Point(f"{clients}-{number}", 1, clients, throughput, 0.01, 0.02, 0.01, usable=True)
        for clients, values in ((4, four), (8, eight))
        for number, throughput in enumerate(values)
    ]
    assert highest_lower_bound(gather(points)[0]).clients == best


def plateau(random, runs, noise, levels=(0.3, 0.6, 1.0, 1.0, 1.0, 1.0)):
    """Return points of one node; throughput stops growing at the third number of clients."""
    return [
        Point(f"{clients}-{number}", 1, clients, 1000 * level * np.exp(noise * random.standard_normal()), 0.01, 0.02,
              0.01, usable=True)
        for clients, level in zip((1, 2, 4, 8, 16, 32), levels, strict=True)
        for number in range(runs)
    ]  # fmt: skip


@pytest.mark.parametrize(("runs", "noise"), [(2, 0.1), (3, 0.03), (5, 0.1)])
def test_the_best_of_a_plateau_is_quoted_without_its_luck(runs, noise):
    random = np.random.default_rng(1)
    quoted, lucky, covered = [], [], []
    for _ in range(150):
        treatments, spread = gather(plateau(random, runs, noise))
        best = choose(treatments, spread)
        measured = highest_lower_bound(treatments)
        assert best.clients == measured.clients
        quoted.append(np.log(best.throughput.value / 1000))
        lucky.append(np.log(measured.throughput.value / 1000))
        covered.append(best.throughput.low <= 1000 <= best.throughput.high)
    assert np.mean(lucky) > 0.4 * noise
    assert abs(np.mean(quoted)) < 0.4 * np.mean(lucky)
    assert np.mean(covered) >= 0.91, "95 %, less two standard errors of 150"


def test_a_clear_best_is_quoted_as_it_was_measured():
    points = plateau(np.random.default_rng(1), 3, 0.01, levels=(0.2, 0.4, 0.6, 0.8, 1.0, 1.3))
    best = choose(*gather(points))
    assert (best.clients, best.without_luck) == (32, 1.0)


def test_the_plot_over_time_shows_the_quoted_treatment(tmp_path):
    # 8 clients have the greatest mean, by a single run; 4 have the highest lower bound.
    path = tmp_path / "e"
    write_experiment(path, Truth(lam=100, noise=0.0), nodes=(1, 2), clients=(4, 8), repetitions=3,
                     missing=["b2-nodes1-clients8", "b3-nodes1-clients8"])  # fmt: skip
    for run, factor in (("b1-nodes1-clients4", 0.95), ("b2-nodes1-clients4", 1.0), ("b3-nodes1-clients4", 1.05),
                        ("b1-nodes1-clients8", 1.01)):  # fmt: skip
        file = path / "runs" / run / "summary.json"
        summary = json.loads(file.read_text())
        for figures in summary["phases"][0]["operations"].values():
            figures["throughput"] = 300 * factor
        file.write_text(json.dumps(summary))
    sweep = read_sweep(path)
    [curves] = sweep.curves
    quoted = [(row.treatment.nodes, row.treatment.clients) for row in curves.speedups]
    assert quoted[0] == (1, 4)
    assert [(treatment.nodes, treatment.clients) for treatment in curves.best] == quoted
    page = sweep_page(sweep)
    assert "Run b1-nodes1-clients4;" in page
    assert "Run b1-nodes1-clients8;" not in page


def test_two_node_counts_are_compared_but_not_fitted(tmp_path):
    (curves,) = read_sweep(write_experiment(tmp_path / "e", nodes=(1, 2), clients=(8,), repetitions=2)).curves
    assert curves.over_nodes.fit is None
    assert curves.over_nodes.refusal == "only 2 distinct sizes (nodes): a scalability model needs at least 3"
    assert len(curves.speedups) == 2
    assert curves.over_clients == ()


def test_clients_that_stay_while_nodes_grow_are_a_pitfall(tmp_path):
    (curves,) = read_sweep(write_experiment(tmp_path / "e", clients=(8,), repetitions=1)).curves
    assert any(warning.rule == warnings.CLIENTS_FIXED for warning in curves.warnings)


def test_good_experiments_do_not_trigger_pitfalls(curves):
    assert curves.warnings == ()


def test_uneven_shards_and_clipped_replicas_are_pitfalls(tmp_path):
    truth = Truth(parameters={"shards": 4, "replicas": 2})
    (curves,) = read_sweep(write_experiment(tmp_path / "e", truth, clients=(4, 8), repetitions=1)).curves
    assert warnings.REPLICAS_CLIPPED(replicas=2, nodes=(1, 2)) in curves.warnings
    assert not any(warning.rule == warnings.SHARDS_UNEVEN for warning in curves.warnings)
    truth = Truth(parameters={"shards": 4, "replicas": 0})
    (curves,) = read_sweep(write_experiment(tmp_path / "f", truth, clients=(4, 8), repetitions=1)).curves
    assert warnings.SHARDS_UNEVEN(shards=4, nodes=(3,)) in curves.warnings


def test_data_that_fit_in_memory_on_some_sizes_only_are_a_pitfall(tmp_path):
    truth = Truth(reads={1: 5e7, 2: 100.0, 3: 0.0})
    (curves,) = read_sweep(write_experiment(tmp_path / "e", truth, clients=(4, 8), repetitions=1)).curves
    warning = next(warning for warning in curves.warnings if warning.rule == warnings.DATA_OUTGROWS_MEMORY)
    assert warning.figures["reading"] == (1,)


def test_a_generator_that_shares_full_cores_is_a_pitfall(tmp_path):
    truth = Truth(usable=2, busy=0.97)
    (curves,) = read_sweep(write_experiment(tmp_path / "e", truth, clients=(4, 8), repetitions=1)).curves
    assert warnings.SHARED_CORES(wanted=1.5, usable=2) in curves.warnings
    assert any(warning.rule == warnings.MACHINE_FULL for warning in curves.warnings)


def _on_another_machine(path, nodes):
    """Move the nodes of the runs to machine `db` and saturate its processors and storage."""
    for file in path.glob("runs/*/manifest.json"):
        manifest = json.loads(file.read_text())
        manifest["store"] |= {"host": "ssh", "machines": [{"name": "db", "nodes": nodes}]}
        file.write_text(json.dumps(manifest))
    for run in read_experiment(path).runs:
        for metric, value in (("cpu.busy", 0.99), ("cpu.stolen", 0.2), ("pressure.io.some", 0.7)):
            add_samples(Run(run.run.path), metric, [(float(second), "machine:db", value) for second in range(30)])


def test_machines_of_nodes_are_named_and_the_generators_machine_is_not_blamed_for_the_store(tmp_path):
    truth = Truth(node_cpu=0.1, busy=0.1, waiting=0.9, sigma=0.3)
    path = write_experiment(tmp_path / "e", truth, nodes=(2,), clients=(1, 16), repetitions=1)
    _on_another_machine(path, ["0", "1"])
    (curves,) = read_sweep(path).curves
    (bend,) = curves.bends
    assert "machine db was 99 % busy" in bend.cause
    assert "tasks on machine db waited for storage for 70 % of the time" in bend.cause
    [full] = [warning for warning in curves.warnings if warning.rule == warnings.MACHINE_FULL]
    assert "machine db was up to 99 % busy" in full.cause
    [stolen] = [warning for warning in curves.warnings if warning.rule == warnings.PROCESSORS_STOLEN]
    assert "of the processors of machine db" in stolen.cause


def test_a_full_machine_is_no_pitfall_for_its_only_node_but_for_the_generator(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(busy=0.98), nodes=(1,), clients=(1, 16), repetitions=1)
    _on_another_machine(path, ["0"])
    (curves,) = read_sweep(path).curves
    [full] = [warning for warning in curves.warnings if warning.rule == warnings.MACHINE_FULL]
    assert "the load generator's machine was up to 98 % busy" in full.cause


@pytest.mark.parametrize(
    ("store", "source"),
    [
        ({"host": "ssh", "machines": [{"name": "bench-1", "nodes": ["0"]}]}, "machine:bench-1"),
        ({"host": "ssh", "machines": [{"name": "db", "nodes": []}, {"name": "m", "nodes": ["0"]}]}, "machine:db"),
    ],
)
def test_the_generators_machine_and_machines_without_nodes_are_not_named_as_others(tmp_path, store, source):
    run = _with_store(tmp_path, store)
    add_samples(Run(run.run.path), "cpu.busy", [(float(second), source, 0.99) for second in range(30)])
    assert list(by_machine(run, "range_100", "cpu.busy")) == ["the load generator's machine"]


@pytest.mark.parametrize(
    ("hostname", "names", "others"),
    [
        ("a", ["a.x", "b.x"], ["b.x"]),
        ("a.x", ["a", "b"], ["b"]),
        ("a.x", ["a.x", "a"], ["a"]),
        ("a.x", ["a.y"], ["a.y"]),
        ("a", ["a.x", "a.y"], ["a.x", "a.y"]),
        ("a", ["ab.x"], ["ab.x"]),
    ],
)
def test_the_generators_machine_is_the_same_with_and_without_its_domain(tmp_path, hostname, names, others):
    machines = [{"name": name, "nodes": [name]} for name in names]
    run = _with_store(tmp_path, {"host": "ssh", "machines": machines}, hostname=hostname)
    for name in names:
        add_samples(Run(run.run.path), "cpu.busy", [(float(second), f"machine:{name}", 0.99) for second in range(30)])
    assert [name for name in by_machine(run, "range_100", "cpu.busy") if name.startswith("machine")] == [
        f"machine {name}" for name in others
    ]


@pytest.mark.parametrize(
    ("nodes", "shared", "alone"),
    [
        (["0"], {}, True),
        (["0", "1"], {}, False),
        (["r"], {}, False),
        (["0", "r"], {}, False),
        (["0", "r"], {"r": "0"}, True),
    ],
)
def test_a_machine_has_one_node_only_without_another_process_with_limits_of_its_own(tmp_path, nodes, shared, alone):
    machines = [{"name": "db", "nodes": nodes}]
    run = _with_store(tmp_path, {"machines": machines, "companions": {"r": "router"}, "shared": shared})
    assert machines_of_one_node(run.manifest.store) == ({"db"} if alone else set())


@pytest.mark.parametrize(
    ("store", "of_nodes"),
    [
        ({"host": None}, False),
        ({"host": "ssh", "machines": [{"name": "db", "nodes": ["0"]}]}, False),
        ({"host": "ssh", "machines": [{"name": "bench-1", "nodes": ["0"]}]}, True),
        ({"host": "ssh", "machines": [{"name": "db", "nodes": ["r"]}], "companions": {"r": "router"}}, True),
        ({"host": "ssh", "machines": [{"name": "db"}]}, True),
    ],
)
def test_the_generators_machine_counts_for_the_store_only_if_it_may_hold_nodes(tmp_path, store, of_nodes):
    run = _with_store(tmp_path, store)
    assert bool(by_machine(run, "range_100", "pressure.io.some", of_nodes=True)) == of_nodes


def _with_store(tmp_path, store, **hardware):
    """Return a run on one node, with these keys of the store and the hardware in its manifest."""
    path = write_experiment(tmp_path / "e", Truth(), nodes=(1,), clients=(1,), repetitions=1)
    (file,) = path.glob("runs/*/manifest.json")
    manifest = json.loads(file.read_text())
    manifest["store"] |= store
    manifest["hardware"] |= hardware
    file.write_text(json.dumps(manifest))
    return read_experiment(path).runs[0]


def test_a_hypervisor_that_takes_processors_is_a_pitfall(tmp_path):
    truth = Truth(stolen=0.12)
    (curves,) = read_sweep(write_experiment(tmp_path / "e", truth, clients=(4, 8), repetitions=1)).curves
    [warning] = [warning for warning in curves.warnings if warning.rule == warnings.PROCESSORS_STOLEN]
    assert warning.figures["mean"] == pytest.approx(0.12)
    assert "took 12 % of the processors of " in warning.cause


def test_a_machine_that_is_slower_beside_some_runs_is_a_pitfall(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(), nodes=(1,), clients=(4, 8), repetitions=2)
    (curves,) = read_sweep(path).curves
    assert not [warning for warning in curves.warnings if warning.rule == warnings.SPEED_VARIED]
    file = path / "runs" / "b2-nodes1-clients8" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["hardware"]["yardstick"] = [0.0021, 0.0023]
    file.write_text(json.dumps(manifest))
    (curves,) = read_sweep(path).curves
    [warning] = [warning for warning in curves.warnings if warning.rule == warnings.SPEED_VARIED]
    assert "by a factor of up to 1.3" in warning.cause
    assert warning.figures["share"] is None


@pytest.mark.parametrize(("node_sigma", "told"), [(0.1, False), (0.5, True)])
def test_requests_that_more_nodes_make_dearer_are_a_pitfall(tmp_path, node_sigma, told):
    truth = Truth(node_sigma=node_sigma, node_cpu=0.4, noise=0.0)
    path = write_experiment(tmp_path / "e", truth, nodes=(1, 3), clients=(4, 8), repetitions=2)
    (curves,) = read_sweep(path).curves
    findings = [warning for warning in curves.warnings if warning.rule == warnings.DEARER_REQUESTS]
    assert [warning.figures["nodes"] for warning in findings] == [(1, 3)] * told
    for warning in findings:
        assert warning.figures["cost"] == pytest.approx(
            (0.4 / truth.throughput(1, 8), 1.2 / truth.throughput(3, 8)), rel=0.02
        )
        assert "with 3 nodes and" in warning.cause


def test_runs_without_samples_of_cpu_do_not_make_requests_of_other_sizes_dearer(tmp_path):
    truth = Truth(node_sigma=0.1, node_cpu=0.4, noise=0.0)
    path = write_experiment(tmp_path / "e", truth, nodes=(1, 3), clients=(4, 8), repetitions=2)
    file = path / "runs" / "b2-nodes1-clients8" / "telemetry.parquet"
    table = pq.read_table(file)
    pq.write_table(table.filter(pc.not_equal(table["metric"], "process.cpu")), file)
    (curves,) = read_sweep(path).curves
    assert [point.run for point in curves.best[0].points] == ["b1-nodes1-clients8", "b2-nodes1-clients8"]
    assert not [warning for warning in curves.warnings if warning.rule == warnings.DEARER_REQUESTS]


@pytest.mark.parametrize(
    ("first", "others", "told"), [(0.49, 0.1, True), (0.49, 0.4, False), (0.49, 0.49, False), (0.3, 0.05, False)]
)
def test_one_node_without_cpu_beside_idle_ones_is_a_pitfall(tmp_path, first, others, told):
    truth = Truth(node_cpu=first, others_cpu=others)
    (curves,) = read_sweep(write_experiment(tmp_path / "e", truth, clients=(4, 8), repetitions=1)).curves
    findings = [warning for warning in curves.warnings if warning.rule == warnings.HOT_NODE]
    assert [warning.figures["nodes"] for warning in findings] == [(2, 3)] * told
    for warning in findings:
        assert "with 2 and 3 nodes one node used 98 % of its CPU limit and the others 20 %: " in warning.cause


@pytest.mark.parametrize(
    ("ages", "told"),
    [((20e3, 3600e3), True), ((20e3, 200e3), False), ((400e3, 36e6), False), ((3600e3, 3600e3), False)],
)
def test_a_fresh_node_beside_a_warm_one_is_named_by_each_kind(tmp_path, ages, told):
    """Two nodes with these ages, ms, at the start of the measured window; a third treatment has one node."""
    path = write_experiment(tmp_path / "e", Truth(), clients=(4,), nodes=(1, 2), repetitions=1)
    for run in read_experiment(path).runs:
        begin = run.phase("range_100").begin
        rows = [(begin + second, f"node:{node}", ages[node] + 1e3 * second) for node in range(run.nodes)
                for second in range(-3, 5)]  # fmt: skip
        add_samples(run.run, UPTIME, rows)
    runs = read_experiment(path).runs
    settings = {"factors": {"nodes": [1, 2], "clients": [4]}, "at": {"nodes": [1, 2]}, "measure": ["range_100"],
                "objective": "throughput", "scheme": "factorial", "hard": []}  # fmt: skip
    of_kinds = {
        "scale": warnings.warnings(runs, "range_100", ()),
        "compare": compare([Group("one", runs[:1]), Group("two", runs[1:])], intended=True).warnings,
        "settings": [finding for result in analyse(settings, runs) for finding in result.warnings],
    }
    for kind, findings in of_kinds.items():
        fresh = [finding for finding in findings if finding.rule == FRESH_NODE]
        assert len(fresh) == told, kind
        for finding in fresh:
            assert "with 2 nodes the youngest node had run for 20 s and the oldest for 1 h" in finding.cause
            assert "if a phase of prepare loads it already, lengthen that phase" in finding.remedy


def test_the_machines_share_of_the_variance_is_reported(tmp_path):
    paces = np.linspace(0.7, 1.3, 6)
    for name, lams in {"machine": 100 * paces, "own": [100, 60, 140, 130, 70, 100]}.items():
        for block, (lam, speed) in enumerate(zip(lams, paces, strict=True)):
            for clients in (4, 8):
                write_run(tmp_path / name, f"b{block}-{clients}", Truth(lam=lam, pace=speed, seconds=2, noise=0.0),
                          clients=clients, treatment={"clients": clients}, block=block)  # fmt: skip
    shares = {}
    for name in ("machine", "own"):
        (pitfall,) = [
            warning for warning in warnings.warnings(read_runs(str(tmp_path / name)), "range_100", ())
            if warning.rule == warnings.SPEED_VARIED
        ]  # fmt: skip
        shares[name] = pitfall.figures["share"]
    assert shares["machine"] == pytest.approx(1, abs=0.01)
    assert shares["own"] < 0.2


def test_nodes_on_cores_of_their_own_share_none_and_may_have_too_few(tmp_path):
    def warned(cores: tuple[int, ...] | None, cores_each: int | None) -> list:
        path = write_experiment(tmp_path / f"{cores}", Truth(usable=2), clients=(4, 8), repetitions=1)
        for manifest in path.glob("runs/*/manifest.json"):
            content = json.loads(manifest.read_text())
            content["store"]["limits"] |= {"cores": cores, "cores_each": cores_each}
            manifest.write_text(json.dumps(content))
        (curves,) = read_sweep(path).curves
        return [
            warning for warning in curves.warnings if warning.rule in (warnings.SHARED_CORES, warnings.CROWDED_CORES)
        ]

    assert warned((0,), None) == [warnings.CROWDED_CORES(wanted=1.5, cores=1)]
    assert warned((0, 1), None) == []
    assert warned(None, 1) == []


def test_an_open_load_does_not_give_a_capacity(tmp_path):
    (curves,) = read_sweep(write_experiment(tmp_path / "e", Truth(rate=50.0), clients=(4, 8), repetitions=1)).curves
    assert warnings.OPEN_LOAD(phase="range_100") in curves.warnings


def test_a_treatment_whose_requests_fail_has_a_warning_and_the_share_beside_its_figures(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(1, 2), repetitions=1)
    write_experiment(tmp_path / "f", Truth(seconds=2, failed_share=0.79), nodes=(1,), clients=(1, 2), repetitions=1)
    (path / "runs" / "b1-nodes1-clients2").rename(tmp_path / "sound")
    (tmp_path / "f" / "runs" / "b1-nodes1-clients2").rename(path / "runs" / "b1-nodes1-clients2")
    (curves,) = read_sweep(path).curves
    (warning,) = [warning for warning in curves.warnings if warning.rule is warnings.FAILING_REQUESTS]
    assert (
        "in 1 of 2 runs more than 1 % of the requests of an operation failed, at worst 79 % (1 node, 2 clients)"
        in warning.cause
    )
    _, rows = scale_words.treatment_rows(curves)
    assert [(row[-1].text, row[-1].small) for row in rows] == [("good", ""), ("good", "79 % of requests failed")]


def test_the_answer_of_an_open_load_is_its_response_time(tmp_path):
    truth = Truth(rate=50.0, noise=0.01, seconds=2)
    path = write_experiment(tmp_path / "e", truth, nodes=(1, 2, 4), clients=(8,), factors={"nodes": [1, 2, 4]})
    (curves,) = read_sweep(path).curves
    assert curves.any_offered
    assert (curves.over_nodes, curves.speedups) == (None, ())
    assert curves.best[0].response_p99 > curves.best[-1].response_p99
    words = scale_words.lead(curves)
    assert words.startswith("The offered rate was achieved at 1, 2 and 4 nodes (")
    assert "Response times of range_100 from 1 to 4 nodes: p50 " in words
    assert "; p99 is 0." in words
    assert "hroughput" not in words


def test_medians_of_response_times_contain_only_known_values_and_say_so(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(rate=50.0, seconds=2), nodes=(1,), clients=(8,), repetitions=3)
    (whole,) = read_sweep(path).curves
    assert "3 runs" not in scale_words.lead(whole)
    for run in ("b2-nodes1-clients8", "b3-nodes1-clients8"):
        file = path / "runs" / run / "summary.json"
        summary = json.loads(file.read_text())
        for figure in summary["verdict"]["figures"]:
            if figure["figure"] == "response":
                figure["state"] = "unknown"
        file.write_text(json.dumps(summary))
    (curves,) = read_sweep(path).curves
    (treatment,) = curves.treatments
    assert len(treatment.points) == 3
    assert treatment.timed == 1
    assert treatment.response_p99 == whole.points[0].response_p99
    _, [row] = scale_words.treatment_rows(curves)
    assert [row[column].small for column in (4, 5)] == ["1 of 3 runs", "1 of 3 runs"]
    assert scale_words.lead(curves).count("(1 of 3 runs)") == 2


def test_a_p99_of_few_requests_has_a_warning(tmp_path):
    few = read_sweep(write_experiment(tmp_path / "few", Truth(rate=50.0, seconds=2), nodes=(1,), clients=(8,)))
    (warning,) = [it for it in few.curves[0].warnings if it.rule is warnings.FEW_REQUESTS]
    assert warning.figures["count"] < warning.figures["needed"] == 1000
    assert "requests of range_100; p99 needs 1,000" in warning.cause


def test_the_interval_of_p99_holds_the_truth_though_it_varies_far_more_near_the_capacity(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(rate=50.0, seconds=2), nodes=(1, 2, 4, 8), clients=(8,))
    (curves,) = read_sweep(path).curves
    random, held = np.random.default_rng(0), 0
    for _ in range(200):
        times = [p99 * np.exp(noise * random.standard_normal(3))
                 for p99, noise in ((0.01, 0.5), *[(0.005, 0.05)] * 3)]  # fmt: skip
        best = []
        for at, of_runs in zip(curves.best, times, strict=True):
            points = [replace(at.points[0], response_p99=p99, response_p99_low=p99, block=block)
                      for block, p99 in enumerate(of_runs)]  # fmt: skip
            best.append(replace(at, points=tuple(points)))
        ratio = replace(curves, best=tuple(best)).p99_ratio
        held += ratio.low <= 0.5 <= ratio.high
    assert held >= 180


def test_the_change_of_p99_is_unknown_if_the_store_failed_at_one_of_the_sizes(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(rate=50.0, seconds=2), nodes=(1, 2), clients=(8,), repetitions=3)
    (whole,) = read_sweep(path).curves
    assert whole.p99_ratio is not None
    few, many = whole.best
    curves = replace(whole, best=(replace(few, failed=True), many))
    assert curves.p99_ratio is None
    said = scale_words.lead(curves)
    assert said.endswith(
        ". The store failed at 1 node: these times are of valid runs only, and the change of p99 is unknown."
    )
    assert "times that of" not in said


@pytest.mark.parametrize(
    ("failing", "low", "high", "words"),
    [
        ((2,), False, True, "The store failed at 2 nodes, so the speed-up is below "),
        ((1,), True, False, "The store failed at 1 node, so the speed-up is above "),
        ((1, 2), False, False, "The store failed at 1 and 2 nodes, so the speed-up is unknown."),
    ],
)
def test_failed_runs_open_an_end_of_the_speedup(tmp_path, failing, low, high, words):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1, 2), clients=(8,), repetitions=4)
    for nodes in failing:
        fail_store(path / "runs" / f"b1-nodes{nodes}-clients8")
    (curves,) = read_sweep(path).curves
    speedup = curves.speedups[-1].speedup
    assert (speedup.low > 0, bool(np.isfinite(speedup.high))) == (low, high)
    assert words in scale_words.lead(curves)
    cells = dict(zip((table := speedup_table(curves)).columns, table.rows[-1], strict=True))
    for name, factor, unit in (("speed-up", 1, ""), ("efficiency", 50, " %")):
        cell = cells[name]
        ends = (factor * speedup.low if low else None, factor * speedup.high if high else None)
        known = [f"{word} {end:.3g}{unit}" for word, end in zip(("above", "below"), ends, strict=True) if end]
        assert (cell.text, cell.small) == (known[0] if known else "unknown", "")
        assert (cell.number.value, cell.number.low, cell.number.high) == (None, *ends)
    document = curves_document(curves)["speedups"]
    assert document[0]["speedup"]["value"] == 1
    for key in ("speedup", "efficiency"):
        known = [end is not None for end in document[1][key].values()]
        assert known == [False, low, high]


def test_a_failed_attempt_opens_the_speedup_though_the_run_was_repeated(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1, 2), clients=(8,), repetitions=4)
    run = path / "runs" / "b1-nodes2-clients8"
    (whole,) = read_sweep(path).curves
    assert whole.speedups[-1].speedup.low > 1
    again = shutil.copytree(run, tmp_path / run.name)
    set_aside(path, fail_store(run))
    again.rename(run)
    (curves,) = read_sweep(path).curves
    speedup = curves.speedups[-1].speedup
    assert speedup.low == 0
    assert np.isfinite(speedup.high)


def test_response_times_of_survivors_are_marked(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(rate=50.0, seconds=2), nodes=(1, 2), clients=(8,), repetitions=3)
    fail_store(path / "runs" / "b1-nodes2-clients8")
    (curves,) = read_sweep(path).curves
    said = scale_words.lead(curves)
    assert said.endswith(
        "The store failed at 2 nodes: these times are of valid runs only, and the change of p99 is unknown."
    )


def test_limits_of_the_generator_are_not_called_a_lack_of_runs(tmp_path):
    saturated = [f"b{block}-nodes2-clients{clients}" for block in (1, 2) for clients in (4, 8)]
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1, 2), clients=(4, 8), saturated=saturated)
    (curves,) = read_sweep(path).curves
    assert not curves.speedups[-1].speedup.is_finite
    said = " ".join([scale_words.lead(curves), *scale_words.limits(curves)])
    assert "The load generator's own limits leave the size of the change open." in said
    assert "two valid runs" not in said
    path = write_experiment(tmp_path / "open", Truth(rate=50.0, seconds=2), nodes=(1, 2), clients=(8,))
    (curves,) = read_sweep(path).curves
    best = [replace(at, points=tuple(replace(it, response_p99_low=0.0) for it in at.points)) for at in curves.best]
    said = scale_words.lead(replace(curves, best=tuple(best)))
    assert "The load generator's own limits leave the size of the change open." in said
    assert "two valid runs" not in said


@pytest.mark.parametrize(("rate", "answer"), [(None, "between 1 and 2 nodes"), (50.0, "from 1 to 2 nodes: p50 ")])
def test_runs_of_unknown_size_do_not_prevent_the_answer_of_the_others(tmp_path, rate, answer):
    path = write_experiment(tmp_path / "e", Truth(seconds=2, rate=rate), nodes=(1, 2, 4), clients=(8,), repetitions=1)
    description = json.loads((path / "experiment.json").read_text())
    description["factors"].pop("nodes")
    for entry in description["design"]:
        entry["treatment"].pop("nodes")
    (path / "experiment.json").write_text(json.dumps(description))
    file = path / "runs" / "b1-nodes4-clients8" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["store"]["nodes"] = None
    file.write_text(json.dumps(manifest))
    sweep = read_sweep(path)
    (curves,) = sweep.curves
    assert [treatment.nodes for treatment in curves.best] == [None, 1, 2]
    assert answer in scale_words.lead(curves)
    assert answer in sweep_page(sweep)


def test_an_open_load_that_was_not_achieved_measures_the_throughput(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(rate=50.0, seconds=2), nodes=(1, 2), clients=(8,))
    for number, file in enumerate(sorted(path.glob("runs/*/summary.json"))):
        summary = json.loads(file.read_text())
        reason = {"code": "not_achieved", "cause": "in phase range_100 the load achieved only 80 %", "remedy": "wait"}
        summary["verdict"] |= {"valid": False, "reasons": [reason], "figures": []}
        file.write_text(json.dumps(summary))
        (curves,) = read_sweep(path).curves
        if number == 0:
            assert "; in at least one run it was not achieved at 1 node (" in scale_words.lead(curves)
    assert not curves.any_offered
    assert scale_words.lead(curves).startswith("Throughput ")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"experiment": "e", "factors": {}, "measure": []}'])
def test_a_folder_with_a_broken_description_is_refused(tmp_path, content):
    (tmp_path / "experiment.json").write_text(content)
    with pytest.raises(BadInput, match="not an experiment folder") as caught:
        read_sweep(tmp_path)
    assert caught.value.where == str(tmp_path / "experiment.json")


def test_a_run_that_lost_a_member_is_named(tmp_path):
    path = write_experiment(tmp_path / "e", clients=(1, 2), nodes=(1,), repetitions=1)
    (path / "runs" / "b1-nodes1-clients2" / "series.parquet").unlink()
    with pytest.raises(BadInput, match=r"series\.parquet is missing") as caught:
        read_sweep(path)
    assert caught.value.where.endswith("b1-nodes1-clients2")
