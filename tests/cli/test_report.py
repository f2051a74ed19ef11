"""`loadframe report`: writes to the folder or to a given path, prints a summary, refuses folders that are not runs."""

import json
import shutil

import pytest

from commands import LOADFRAME, loadframe, result, within
from loadframe.base.errors import BadInput
from loadframe.record import RunWriter
from loadframe.record.schema import FORMAT
from simulated import Truth, write_experiment, write_run


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    return write_experiment(tmp_path_factory.mktemp("report") / "e", clients=(4, 8, 16), repetitions=2)


@pytest.mark.slow
def test_an_experiment_gets_its_page_and_a_brief_answer(experiment):
    done = loadframe("report", experiment)
    assert done.returncode == 0, done.stderr
    assert "Throughput grew from" in done.stdout
    assert f"report: {experiment / 'report.html'}" in done.stderr
    assert (experiment / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.slow
def test_the_command_does_not_import_pandas(experiment):
    done = loadframe("report", experiment, before=(str(LOADFRAME.with_name("python")), "-X", "importtime"))
    assert done.returncode == 0
    assert "pyarrow.lib" in done.stderr
    assert "pandas.core" not in done.stderr


def test_a_page_is_written_to_the_given_path(experiment, tmp_path):
    run = experiment / "runs" / "b1-nodes1-clients8"
    done = loadframe("report", run, "--output", tmp_path / "run.html")
    assert done.returncode == 0, done.stderr
    assert "range_100 · 8 clients" in done.stdout
    assert (tmp_path / "run.html").exists()
    assert not (run / "report.html").exists()


@pytest.mark.slow
def test_json_is_the_analysis(experiment, tmp_path):
    document = result("report", experiment, "--output", tmp_path / "e.html")
    assert document["experiment"] == "simulated"
    assert len(document["curves"][0]["treatments"]) == 9
    run = result("report", experiment / "runs" / "b1-nodes1-clients8", "--output", tmp_path / "r.html")
    assert run["status"] == "done"


def test_a_run_is_written_in_the_format_of_the_mpi_benchmarker(experiment, tmp_path):
    run = experiment / "runs" / "b1-nodes1-clients8"
    done = loadframe("report", run, "--format", "queries", "--output", tmp_path / "q.json")
    assert done.returncode == 0, done.stderr
    (step,) = json.loads((tmp_path / "q.json").read_text())
    assert step["search_results"][0]["responses"][0][0].keys() == {"latency", "docs"}


def test_strict_applies_to_exports_and_to_formats_of_other_tools(tmp_path):
    path = write_experiment(tmp_path / "e", Truth(seconds=2), nodes=(1,), clients=(1, 2), repetitions=2)
    ways = (("--export", tmp_path / "x", "--format", "csv"), ("--format", "jsonl", "--output", tmp_path / "x.jsonl"))
    assert [within("report", path, *words, "--strict")[0] for words in ways] == [0, 0]
    file = path / "runs" / "b1-nodes1-clients1" / "summary.json"
    file.write_text(json.dumps({"status": "failed", "failure": "out of memory", "fault": "generator"}))
    for words in ways:
        assert within("report", path, *words)[0] == 0
        status, _, errors = within("report", path, *words, "--strict")
        assert (status, "1 of 4 runs are invalid: b1-nodes1-clients1" in errors) == (4, True)


def test_formats_of_runs_are_refused_for_experiments(experiment, tmp_path):
    refused(experiment, "--format", "queries", "--output", tmp_path / "q.json")
    assert not (tmp_path / "q.json").exists()


def test_an_experiment_of_another_loadframes_kind_is_named(tmp_path):
    (tmp_path / "experiment.json").write_text('{"kind": "scale-and-shrink"}')
    assert "unknown kind of experiment 'scale-and-shrink'" in refused(tmp_path)


def refused(path, *words):
    done = loadframe("report", path, *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_folder_that_is_neither_is_refused(tmp_path):
    assert "this is neither a run nor an experiment" in refused(tmp_path)
    assert "no such run folder" in refused(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_runs_is_refused_with_the_name_of_a_run_in_it(tmp_path):
    write_run(tmp_path / "old", "1", Truth(seconds=2))
    for folder in (tmp_path, tmp_path / "old"):
        said = " ".join(refused(folder).split())
        assert f"name one of the folders in it, such as {tmp_path / 'old' / '1'};" in said
        assert "`loadframe compare`" in said


def test_a_folder_of_experiments_names_the_experiment_not_a_run_in_it(experiment, tmp_path):
    (tmp_path / ".unfinished").mkdir()
    (tmp_path / ".unfinished" / "manifest.json").write_text("{}")
    shutil.copytree(experiment, tmp_path / "z")
    assert f"such as {tmp_path / 'z'};" in " ".join(refused(tmp_path).split())


def test_incomplete_copies_are_refused_with_the_missing_parts(tmp_path):
    path = write_run(tmp_path, "r1", Truth()).path
    (path / "histograms.hlog").unlink()
    assert "the run's histograms.hlog is missing" in refused(path)


def test_a_run_of_a_newer_loadframe_is_refused(tmp_path):
    path = write_run(tmp_path, "r1", Truth()).path
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"format": 99}))
    assert "unsupported run format 99" in refused(path)


@pytest.mark.slow
def test_a_page_that_cannot_be_written_is_refused(experiment, tmp_path):
    assert "cannot be written" in refused(experiment, "--output", tmp_path / "none" / "e.html")


@pytest.mark.slow
def test_an_experiment_can_be_reported_where_it_was_copied_to(experiment, tmp_path):
    copy = shutil.copytree(experiment, tmp_path / "copy")
    assert loadframe("report", copy).returncode == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("report.html", ()),
        ("statistics.csv", ("--format", "statistics")),
        ("queries.json", ("--format", "queries")),
        ("query-results.json", ("--format", "query-results")),
    ],
)
def test_a_default_file_does_not_replace_the_target_of_a_link(tmp_path, name, words):
    path = write_run(tmp_path, "r1", Truth()).path
    target = tmp_path / "precious"
    target.write_text("kept")
    (path / name).symlink_to(target)
    status, output, errors = within("report", path, *words)
    assert (status, output, "is a symbolic link" in errors, target.read_text()) == (2, "", True, "kept")
    if name != "statistics.csv":  # The run is without statistics of nodes.
        assert within("report", path, *words, "--output", tmp_path / "chosen")[0] == 0


def test_two_experiments_do_not_replace_the_target_of_a_link(experiment, tmp_path):
    strong = shutil.copytree(experiment, tmp_path / "strong")
    weak = shutil.copytree(experiment, tmp_path / "weak")
    description = json.loads((weak / "experiment.json").read_text())
    (weak / "experiment.json").write_text(json.dumps(description | {"scaling": "weak"}))
    target = tmp_path / "precious"
    target.write_text("kept")
    (strong / "strong-and-weak.html").symlink_to(target)
    status, _, errors = within("report", strong, weak)
    assert (status, "is a symbolic link" in errors, target.read_text()) == (2, True, "kept"), errors


def test_texts_that_the_output_cannot_encode_are_escaped(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        path = writer.finish({"format": FORMAT}, {"status": "failed", "failure": "no réponse"})
    done = loadframe("report", path, "--format", "markdown", before=("env", "PYTHONIOENCODING=ascii"))
    assert (done.returncode, done.stderr) == (0, "")
    assert r"no r\xe9ponse" in done.stdout


def test_a_folder_whose_name_is_not_utf8_is_refused(tmp_path):
    path = write_run(tmp_path, "r1", Truth()).path.rename(tmp_path / "r\udcff")
    assert r"r\udcff: the path of a run must be UTF-8" in refused(path)
    with pytest.raises(BadInput, match="the path of a run must be UTF-8"):
        RunWriter(tmp_path, "new\udcff")
    assert {entry.name for entry in tmp_path.iterdir()} == {"r\udcff"}


@pytest.mark.parametrize("words", [("report",), ("report", "--format", "jsonl"), ("history",), ("explore",)])
def test_a_name_that_is_too_long_is_one_message(tmp_path, words):
    command, *options = words
    status, output, errors = within(command, tmp_path / ("x" * 300), *options)
    assert (status, output) == (2, "")
    assert errors.splitlines()[0].endswith("File name too long")


def test_a_run_without_operations_has_a_page(tmp_path):
    path = write_run(tmp_path, "r1", Truth()).path
    document = json.loads((path / "summary.json").read_text())
    for phase in document["phases"]:
        phase["operations"] = {}
    (path / "summary.json").write_text(json.dumps(document))
    status, _, errors = within("report", path)
    assert status == 0, errors
