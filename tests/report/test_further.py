"""Parts that reports of every kind share: the CPU of each process, and optional latency buckets."""

import io
import json
import re

import pyarrow.compute as pc
import pytest
from pages import Page
from pyarrow import parquet
from rich.console import Console

from commands import loadframe, result
from elastic_folder import write_elastic
from loadframe.analyze.experiment import read_experiment
from loadframe.record import Run
from loadframe.report.kinds import read_report
from loadframe.report.plots.run import resources_over_time
from loadframe.report.run.document import run_document
from loadframe.report.run.page import run_page
from loadframe.report.run.terminal import print_run
from loadframe.report.sections import further
from simulated import Truth, add_samples, write_experiment, write_run, write_variants

BANDS, CPU = "Latency buckets", "CPU of each process"
BOUNDS = (0.05, 1.0)


def capacity(path):
    """Write a minimal capacity search of two trials."""
    path = write_experiment(path, Truth(rate=10.0), nodes=(1,), clients=(4,), repetitions=1)
    file = path / "experiment.json"
    known = json.loads(file.read_text())
    changed = {
        "kind": "capacity",
        "slo": {"response": 3600.0, "percentile": "p99", "errors": 0.01},
        "search": {"start": 10.0, "least": 10.0, "most": 100.0, "factor": 2.0, "precision": 0.05},
        "demands": [],
        "design": [entry | {"treatment": {"nodes": 1, "rate": 10.0}} for entry in known["design"]],
    }
    file.write_text(json.dumps(known | changed))
    return path


KINDS = {
    "scale": lambda path: write_experiment(path, nodes=(1, 2), clients=(4, 8)),
    "compare": lambda path: write_variants(path, {"old": Truth(), "new": Truth(lam=120.0)}, repetitions=2),
    "elastic": write_elastic,
    "capacity": capacity,
}


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory):
    return KINDS[request.param](tmp_path_factory.mktemp(request.param) / "e")


def printed(report):
    console = Console(file=io.StringIO(), width=160)
    report.show(console)
    return console.file.getvalue()


def test_every_kind_has_the_cpu_of_each_process_by_treatment(folder):
    report = read_report(folder)
    page = Page(report.page)
    assert CPU in page.headings
    assert BANDS not in page.headings
    assert "bands" not in report.document
    rows = report.document["cpu"]
    treatments = [run.treatment for run in read_experiment(folder).used]
    assert all(row["treatment"] in treatments for row in rows)
    assert {row["process"] for row in rows} >= {"0"}
    assert all(row["cores"]["value"] > 0 for row in rows)
    json.dumps(report.document, allow_nan=False)


def test_every_kind_has_the_bands_that_are_asked_for(folder):
    report = read_report(folder, BOUNDS)
    page = Page(report.page)
    assert BANDS in page.headings
    assert "up to 50 ms" in page.text
    assert "Share of requests by band:" in printed(report)
    for row in report.document["bands"]:
        assert row["bounds"] == BOUNDS
        assert sum(share["value"] for share in row["shares"]) + row["failed_share"]["value"] == pytest.approx(1)


def test_an_experiment_of_which_nothing_is_valid_has_neither(tmp_path):
    path = write_experiment(tmp_path / "e", nodes=(1,), clients=(4,), repetitions=2,
                            invalid=["b1-nodes1-clients4", "b2-nodes1-clients4"])  # fmt: skip
    more = further(read_experiment(path), BOUNDS)
    assert more.document == {"bands": []}


@pytest.mark.slow
def test_many_treatments_are_left_to_the_page(tmp_path):
    few, many = (
        write_experiment(tmp_path / name, nodes=(1,), clients=range(1, most), repetitions=1)
        for name, most in (("few", 5), ("many", 15))
    )
    assert "CPU of each process:" in printed(read_report(few))
    assert "CPU of each process:" not in printed(read_report(many))
    assert Page(read_report(many).page).headings.count(CPU) == 1


def test_treatments_without_enough_samples_of_processes_are_named(tmp_path):
    path = write_experiment(tmp_path / "e", nodes=(1,), clients=(4, 8), repetitions=2)
    for name in ("b1-nodes1-clients4", "b1-nodes1-clients8", "b2-nodes1-clients8"):
        file = path / "runs" / name / "telemetry.parquet"
        table = parquet.read_table(file)
        parquet.write_table(table.filter(pc.less(table["time"], 3.0)), file)
    report = read_report(path)
    rows = {row["treatment"]["clients"]: row for row in report.document["cpu"]}
    assert {clients: (row["runs"], row["of_runs"]) for clients, row in rows.items()} == {4: (1, 2)}
    gaps = [(gap["treatment"]["clients"], gap["runs"], gap["of_runs"]) for gap in report.document["cpu_missing"]]
    assert gaps == [(4, 1, 2), (8, 2, 2)]
    words = "No CPU figures of range_100, nodes 1, clients 4 (1 of 2 runs); range_100, nodes 1, clients 8 (2 of 2 runs)"
    assert words in " ".join(printed(report).split())
    section = Page(report.page).text
    assert words in section
    assert "range_100 nodes 1, clients 8 – 0 of 2 – –" in section
    assert "range_100 nodes 1, clients 4 0 1 of 2" in section


def test_a_run_names_the_measured_phase_without_enough_samples_of_processes(tmp_path):
    run = write_run(tmp_path, "r1", Truth())
    file = run.path / "telemetry.parquet"
    table = parquet.read_table(file)
    parquet.write_table(table.filter(pc.less(table["time"], 3.0)), file)
    run = Run(run.path)
    console = Console(file=io.StringIO(), width=160)
    print_run(run, console)
    for text in (console.file.getvalue(), Page(run_page(run)).text):
        assert "No CPU figures of range_100: samples are a second apart" in text
    [gap] = run_document(run)["cpu_missing"]
    assert (gap["phase"], "cpu" in run_document(run)) == ("range_100", False)


def test_every_report_says_that_some_processes_lack_samples(tmp_path):
    path = write_experiment(tmp_path / "e", nodes=(2,), clients=(4,), repetitions=2)
    file = path / "runs" / "b1-nodes2-clients4" / "telemetry.parquet"
    table = parquet.read_table(file)
    parquet.write_table(table.filter(pc.not_equal(table["source"], "node:1")), file)
    run = Run(file.parent)
    console = Console(file=io.StringIO(), width=160)
    print_run(run, console)
    for text in (console.file.getvalue(), Page(run_page(run)).text):
        assert "Some processes lack samples in range_100, so shares and total are unknown." in text
    assert run_document(run)["cpu_partial"] == ["range_100"]
    report = read_report(path)
    cpu = {row["process"]: (row["runs"], row["partial"]) for row in report.document["cpu"]}
    assert cpu == {"0": (2, 1), "1": (1, 1), "all": (1, 1)}
    for text in (" ".join(printed(report).split()), Page(report.page).text):
        assert "Some processes lack samples in range_100, so the total excludes these runs." in text


def test_a_run_has_the_cpu_of_each_process(tmp_path):
    run = write_run(tmp_path, "r1", Truth(node_cpu=0.4, others_cpu=0.1), nodes=2)
    page = Page(run_page(run))
    assert CPU in page.headings
    section = page.text[page.text.index(CPU) : page.text.index("Load generator")]
    assert "0 0.4 80 %" in section
    assert "1 0.1 20 %" in section
    used = run_document(run)["cpu"]["range_100"]
    assert used["all"]["cores"] == pytest.approx(0.5)
    answered = run.summary.phases[0].operations["range_100"].successes
    assert used["all"]["per_request"] == pytest.approx(0.5 * 5 / answered)


def test_the_command_gives_an_experiment_bands_and_says_which_bounds_are_wrong(tmp_path):
    path = write_experiment(tmp_path / "e", nodes=(1,), clients=(4,), repetitions=2)
    assert result("report", path, "--bands", "50ms, 1s")["bands"][0]["bounds"] == [0.05, 1.0]
    for bounds, words in (
        ("1s,50ms", "latency bounds must be above 0 and ascending"),
        ("often", "'often' is not a duration"),
        ("", "not a duration"),
    ):
        done = loadframe("report", path, "--bands", bounds)
        assert done.returncode == 2
        assert words in done.stderr
    done = loadframe("report", path, path, "--bands", "1s")
    assert done.returncode == 2
    assert "--bands requires an HTML report on one run or experiment" in done.stderr


def longer(run, seconds, nodes=3):
    """Replace the resources of a run by samples of each second: CPU 0 to 1 cores, as the number of the second grows."""
    add = [(float(second), f"node:{node}", second / seconds) for second in range(seconds) for node in range(nodes)]
    table = run.telemetry
    parquet.write_table(table.filter(pc.not_equal(table["metric"], "process.cpu")), run.path / "telemetry.parquet")
    add_samples(Run(run.path), "process.cpu", add)
    add_samples(Run(run.path), "network.received", [(at, node, 1e6 * (value + 1)) for at, node, value in add])
    return Run(run.path)


def test_resources_over_time_are_means_of_windows_that_the_caption_names(tmp_path):
    run = longer(write_run(tmp_path, "r1", Truth(seconds=3), nodes=2), 600, nodes=2)
    whole = resources_over_time(run, "r")
    assert [len(trace.x) for trace in whole.traces] == [600] * 4
    assert "Means" not in whole.caption
    reduced = resources_over_time(run, "r", 400)
    assert [len(trace.x) for trace in reduced.traces] == [100] * 4
    assert reduced.caption.endswith(" Means of 6 s.")
    cpu = reduced.traces[0]
    assert (cpu.x[0], cpu.x[-1]) == (3.0, 597.0)
    assert cpu.y == pytest.approx([(6 * window + 2.5) / 600 for window in range(100)], rel=1e-3)
    assert resources_over_time(run, "r", 1, small=True).caption == "Means of 75 s."
    assert resources_over_time(run, "r", 2400).traces == whole.traces


def test_every_treatment_has_cpu_and_network_over_time_with_the_same_axes(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=3), nodes=(1,), clients=(1, 2, 4, 8), repetitions=2)
    longer(Run(path / "runs" / "b1-nodes1-clients4"), 60)
    page = read_report(path).page
    _, *small, _ = [figure for figure in page.figures if figure.name.startswith("resources")]
    assert [figure.caption for figure in small] == [
        f"Run b1-nodes1-clients{clients}, nodes 1, clients {clients}." for clients in (2, 4)
    ]
    assert len({figure.panels[0].y.range for figure in small}) == 1
    assert small[0].panels[0].y.range[1] > 59 / 60
    assert [len(figure.panels) for figure in small] == [1, 2]
    assert f'id="{small[0].name}"' in page.split("<summary>2 more plots</summary>")[1].split("</details>")[0]
    assert f'id="{small[0].name}-narrow' not in page
    assert 'id="resources-b1-nodes1-clients1-narrow' in page


@pytest.mark.slow
def test_a_report_of_a_hundred_runs_is_below_two_megabytes(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(3,), clients=range(1, 101), repetitions=1)
    for run in (path / "runs").iterdir():
        longer(Run(run), 600)
    page = read_report(path).page
    assert len([figure for figure in page.figures if figure.name.startswith("resources")]) == 100
    assert len(page.encode()) < 2_000_000
    assert not re.search(r"\b(src|href)=", page), "the page needs another file"
