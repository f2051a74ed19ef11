"""Calls of the library: they do the work of the commands, silently, and name arguments and keys in errors."""

import ast
import gc
import json
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from recorded_examples import TAIL, WORKLOAD

import loadframe
from loadframe.host import slurm
from loadframe.library.calibrate import Calibration
from loadframe.load import calibrate
from simulated import Truth, write_experiment

#: An address that nothing listens on; no test connects to it.
NOWHERE = "127.0.0.1:1"
PHASE = WORKLOAD["phases"][0]
SIM = {"kind": "sim", "settings": {"service": "1ms"}}


@pytest.fixture
def here(tmp_path, monkeypatch, state):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def workload():
    return loadframe.Workload(WORKLOAD)


@pytest.fixture
def uncollected():
    """Switch the garbage collector off, so that cycles keep open files."""
    gc.disable()
    yield
    gc.enable()


def refusal(call, *arguments, **named):
    with pytest.raises(loadframe.BadInput) as caught:
        call(*arguments, **named)
    return str(caught.value)


@pytest.mark.store
def test_a_bench_prints_nothing_reports_progress_and_keeps_signal_handlers(here, workload, capfd):
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    during, reports = [], []

    def hear(report):
        reports.append(report)
        during.append(signal.getsignal(signal.SIGTERM))

    run = loadframe.bench(workload, store="sim", output="r", duration="2s", clients=3, seed=7, progress=hear)
    assert (run.status, run.path, run.manifest["seed"]) == ("done", Path("r"), 7)
    assert run.operations.to_polars()["successes"][0] == run.response_times().count > 0
    assert [report.phase for report in reports if report.event == "phase"] == ["search"]
    seconds = [report for report in reports if report.event == "second"]
    assert [report.second for report in seconds] == sorted({report.second for report in seconds})
    assert seconds[-1].throughput > 0
    assert capfd.readouterr() == ("", "")
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    assert set(during) == {handlers[signal.SIGTERM]}


@pytest.mark.store
def test_an_experiment_stops_before_its_slurm_job_ends(here, workload, monkeypatch):
    ends = time.time() + 15.5
    job = slurm.Allocation("17", ("n1",), ends)
    monkeypatch.setattr(slurm, "current", lambda: job)
    monkeypatch.setattr(slurm, "of_job", lambda number: job)
    planned = loadframe.Experiment(
        experiment="e", kind="scale", store=SIM, workload=workload, factors={"clients": [1, 2]}, duration="30s"
    )
    with pytest.raises(loadframe.LoadframeError, match="job 17 of Slurm ends soon; the unfinished run was stopped"):
        loadframe.run(planned)
    assert time.time() < ends
    assert not Path("results/e").exists()
    # The folder is unlocked, and another job resumes.
    assert loadframe.dry_run(planned).as_dict()["remaining_runs"] == 2


@pytest.mark.store
def test_a_bench_runs_outside_the_main_thread(here, workload):
    runs = []
    thread = threading.Thread(target=lambda: runs.append(loadframe.bench(workload, store="sim", output="r")))
    thread.start()
    thread.join()
    assert [run.status for run in runs] == ["done"]


@pytest.mark.store
def test_a_running_cluster_takes_several_benches_and_changes(here, workload):
    with loadframe.Cluster("sim", nodes=1) as cluster:
        first = loadframe.bench(workload, store="sim", cluster=cluster, output="one")
        assert cluster.grow() == ["node-1"]
        assert cluster.size == len(cluster.nodes) == len(cluster.addresses) == 2
        second = loadframe.bench(workload, store="sim", cluster=cluster, reuse=True, output="two")
        with pytest.raises(loadframe.LoadframeError, match="the cluster already has items"):
            loadframe.bench(workload, store="sim", cluster=cluster, output="three")
        assert not Path("three").exists()
    assert [run.manifest["store"]["nodes"] for run in (first, second)] == [1, 2]
    assert "not running" in refusal(lambda: cluster.size)


@pytest.mark.store
def test_an_experiment_of_python_objects_is_run_resumed_and_opened(here, workload, uncollected):
    planned = loadframe.Experiment(
        experiment="clients", kind="scale", store=SIM, workload=workload, factors={"clients": [1, 2]}, with_={}
    )
    assert planned.design.to_polars()["clients"].sort().to_list() == [1, 2]
    assert "no recorded runs" in refusal(lambda: planned.runs)
    recorded = loadframe.run(planned)
    assert recorded.path == Path("results/clients")
    assert set(recorded.runs.to_polars()["status"]) == {"done"}
    assert [run.status for run in recorded] == ["done", "done"]
    times = [path.stat().st_mtime_ns for path in sorted(Path("results/clients/runs").glob("*/summary.json"))]
    again = loadframe.run(planned)
    assert [path.stat().st_mtime_ns for path in sorted(Path("results/clients/runs").glob("*/summary.json"))] == times
    assert again.operations.to_polars().equals(loadframe.open("results/clients").operations.to_polars())
    assert "opened from its results" in refusal(loadframe.run, again)


def test_a_dry_run_refuses_the_settings_that_a_run_refuses_which_leaves_no_folder(here, workload):
    planned = loadframe.Experiment(
        experiment="e", kind="scale", store={"kind": "sim", "settings": {"sevrers": 2}}, workload=workload,
        factors={"clients": [1, 2]},
    )  # fmt: skip
    for call in (loadframe.dry_run, loadframe.run):
        said = refusal(call, planned, output="results/refused")
        assert "unknown setting 'sevrers' of the simulated store" in said
        assert not Path("results/refused").exists()
    assert refusal(loadframe.dry_run, planned).startswith("Experiment: store.settings.sevrers: ")


def test_a_dry_run_accepts_a_setting_that_requires_the_setting_of_a_factor(here, workload):
    planned = loadframe.Experiment(
        experiment="shards", kind="scale", store={"kind": "mongodb", "settings": {"routers": 2}}, workload=workload,
        factors={"store.settings.members": [1, 3]},
    )  # fmt: skip
    assert loadframe.dry_run(planned, output="results/shards").as_dict()["remaining_runs"] == 2


def test_a_dry_run_describes_the_runs_and_starts_nothing(here, workload):
    planned = loadframe.Experiment(
        experiment="clients", kind="scale", store=SIM, workload=workload, factors={"clients": [1, 2]}
    )
    dry = loadframe.dry_run(planned, output="results/mine")
    assert str(dry).startswith("clients: 2 runs, about ")
    assert dry.as_dict()["remaining_runs"] == len(dry.as_dict()["design"]) == 2
    assert not list(here.iterdir())


@pytest.mark.store
def test_a_conclusion_needs_one_curve_over_nodes(here):
    nodes = {"nodes": (1, 2), "clients": (4,), "repetitions": 3}
    write_experiment(Path("nodes"), Truth(), **nodes)
    assert loadframe.open("nodes").conclusion().startswith("Conclusion: more nodes answer more requests, ")
    write_experiment(Path("clients"), Truth(), nodes=(1,), clients=(1, 2), repetitions=1, factors={"clients": [1, 2]})
    assert "not a scale experiment" in refusal(loadframe.open("clients").conclusion)
    planned = loadframe.Experiment.load(Path(__file__).parents[2] / "experiments" / "tour" / "capacity.yaml")
    assert "no recorded runs" in refusal(planned.conclusion)


def test_a_calibration_keeps_the_figures_and_doubts_of_other_machines():
    figures = calibrate.Calibration.now({}, quick=True, waited_share=0.0)
    other = Calibration(replace(figures, quick=False, waited_share=0.5))
    both = Calibration(figures, Path("kept.json"), {"node2": other})
    document = both.as_dict()
    assert (document["kept"], document["machines"]["node2"]["waited_share"]) == ("kept.json", 0.5)
    assert document["machines"]["node2"]["doubt"] == other.doubt
    assert [words for words in both.warnings if words.startswith("node2: Verdicts do not use these figures")]
    assert "\nnode2\n" in str(both)


def test_figures_are_stored_if_another_machine_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path))
    figures = calibrate.Calibration.now({}, quick=True, waited_share=0.0)
    monkeypatch.setattr(calibrate, "calibrate", lambda *_, **named: figures)
    failed = SimpleNamespace(receive=lambda: b"", status=lambda: 1, words=lambda: "no space left")
    monkeypatch.setattr("loadframe.library.calibrate._start_elsewhere", lambda quick: {"node2": failed})
    with pytest.raises(loadframe.LoadframeError, match="node2: calibration failed: no space left"):
        loadframe.calibrate(quick=True)
    assert len(list((tmp_path / "calibration").iterdir())) == 1


@pytest.mark.store
def test_a_check_returns_failed_operations(here):
    keys = json.loads(json.dumps(TAIL))
    keys["operations"]["read"]["assert"] = {"hits": 7}
    checked = loadframe.check(loadframe.Workload(keys), store="sim")
    assert not checked.passed
    assert {check.operation: check.error for check in checked} == {"read": "assertion", "scan": None}
    assert "assertion" in checked._repr_html_()


def test_an_offline_check_starts_nothing(here, workload):
    (check,) = loadframe.check(workload, store="sim", offline=True)
    assert (check.operation, check.answer) == ("search", None)
    assert "_search" in check.request
    assert not list(here.iterdir())


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (
            {"phases": [{"name": "a", "operation": "serch", "clients": 1, "duration": 1}]},
            "Workload: phases[0].operation",
        ),
        ({"operation": {}}, "Workload: operation"),
        ({"operations": {"search": {"search": {"sze": 1}}}}, "Workload: operations.search.search"),
        ({"variables": {"when": {"uniform": {1, 2}}}}, "a value is not JSON data"),
    ],
)
def test_errors_of_a_workload_name_the_key(change, place):
    assert place in refusal(loadframe.Workload, {**WORKLOAD, **change})


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"kind": "skale"}, "Experiment: kind"),
        ({"factors": {"client": [1]}}, "Experiment: factors"),
        ({"store": {"kind": "sim", "nods": 2}}, "Experiment: store.nods"),
        ({"with_": {"size": 1}}, "Experiment: with.size"),
        ({"workload": "ycsb/z"}, "Experiment: workload: unknown phase 'z'"),
    ],
)
def test_errors_of_an_experiment_name_the_key(workload, change, place):
    keys = {"experiment": "e", "kind": "scale", "store": SIM, "workload": workload, "factors": {"clients": [1]}}
    assert place in refusal(loadframe.Experiment, keys, **change)


def test_saved_keys_are_files_of_the_commands(here, workload):
    workload.save("w.yaml")
    assert loadframe.Workload.load("w.yaml").keys == workload.keys
    keys = {"experiment": "e", "kind": "scale", "store": SIM, "workload": "./w.yaml", "factors": {"clients": [1, 2]}}
    saved = loadframe.Experiment(keys).save("e.yaml")
    assert len(loadframe.Experiment.load(saved).design) == 2
    assert "cannot write" in refusal(workload.save, here / "missing" / "w.yaml")


@pytest.mark.store
def test_existing_clusters_have_their_addresses_in_a_list_or_a_text(here, workload):
    with loadframe.Cluster("sim", nodes=2) as cluster:
        hosts = cluster.addresses
        listed = loadframe.bench(workload, store="sim", hosts=hosts, output="listed", duration="1s", replace=True)
        written = loadframe.check(workload, store="sim", hosts=",".join(hosts))
    assert listed.response_times().count > 0
    assert written.passed


def test_a_file_with_a_secret_may_be_named_by_a_text(here, workload):
    secret = {"user": "u", "password_file": "absent"}
    message = refusal(loadframe.bench, workload, store="elasticsearch", hosts=[NOWHERE], **secret)
    assert message.startswith("absent: cannot read the secret")


@pytest.mark.parametrize("call", [loadframe.bench, loadframe.check])
@pytest.mark.parametrize("name", ["api_key_file", "token_file"])
def test_bench_and_check_read_keys_and_tokens(here, workload, call, name):
    message = refusal(call, workload, store="elasticsearch", hosts=[NOWHERE], **{name: "absent"})
    assert message.startswith("absent: cannot read the secret")
    message = refusal(call, workload, store="elasticsearch", **{name: "absent"})
    assert message.startswith(f"{name} requires an existing cluster")


@pytest.mark.parametrize("call", [loadframe.bench, loadframe.check])
def test_bench_and_check_sign_requests(here, workload, call, monkeypatch):
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(here / "credentials"))
    (here / "credentials").write_text("[other]\naws_access_key_id = a\naws_secret_access_key = b\n")
    signed = {"aws_service": "es", "aws_region": "eu-west-1", "aws_profile": "absent"}
    assert "absent" in refusal(call, workload, hosts=["https://127.0.0.1:1"], **signed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"hosts": NOWHERE, "cluster": "c"}, "hosts and cluster contradict"),
        ({"clients": 1, "rate": "5/s"}, "clients and rate contradict"),
        ({"hosts": NOWHERE, "nodes": 2}, "hosts and nodes contradict"),
        ({"hosts": NOWHERE, "settings": {"service": "1ms"}}, "hosts and settings contradict"),
        ({"replace": True}, "replace requires an existing cluster"),
        ({"duration": 0}, "duration 0 measures nothing"),
        ({"precision": "5%"}, "precision requires duration auto"),
        ({"precision": "200%", "duration": "auto"}, "precision must be at least 0.1% and below 100%"),
        ({"user": "ann"}, "user requires an existing cluster"),
        ({"arrivals": "poisson"}, "arrivals requires an open loop"),
        ({"only": ["serch"]}, "unknown phase 'serch'"),
        ({"parameters": {"size": 1}}, "size"),
        ({"encryption": "tls"}, "encryption 'tls' is not valid"),
        ({"store": "simm"}, "simm"),
        ({"output": "."}, "it exists already"),
    ],
)
def test_refused_arguments_are_named_and_nothing_starts(here, workload, arguments, words):
    assert words in refusal(loadframe.bench, workload, **{"store": "sim", **arguments})
    assert not list(here.iterdir())


def test_fits_predict_and_name_bad_data(tmp_path):
    rates = {n: 1000 * n / (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1)) for n in (1, 2, 4, 8, 16, 32)}
    fit = loadframe.fit(rates)
    assert fit.best == "usl"
    assert fit.predict(64) == pytest.approx(1000 * 64 / (1 + 0.05 * 63 + 0.001 * 64 * 63), rel=0.05)
    assert fit.as_dict()["models"]["usl"]
    assert str(fit).splitlines()[0] in repr(fit)
    (tmp_path / "n.csv").write_text("n,throughput\n1,0\n")
    assert f"{tmp_path / 'n.csv'}:2" in refusal(loadframe.fit, tmp_path / "n.csv")


def test_judgements_of_other_folders_name_their_arguments(here):
    assert "a: this folder does not exist" in refusal(loadframe.compare, "a", "b")
    assert "measures is empty" in refusal(loadframe.compare, "a", "b", measures=[])
    assert "level must be" in refusal(loadframe.compare, "a", "b", level=2)
    assert "bounds 'p99>=1s'" in refusal(loadframe.gate, "a", bounds=["p99>=1s"])
    assert "a: this folder does not exist" in refusal(loadframe.gate, "a")
    assert "least names max, which is not in measures" in refusal(loadframe.gate, "a", baseline="b", least={"max": 0.1})


def test_the_library_never_prints_or_exits():
    folder = Path(loadframe.__file__).parent / "library"
    trees = [ast.parse(path.read_text()) for path in folder.glob("*.py")]
    calls = {ast.unparse(node.func) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert "Table" in calls
    assert not calls & {"print", "sys.exit", "exit", "os._exit", "signal.signal"}
