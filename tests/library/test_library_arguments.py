"""Arguments of the library: each wrong value is a BadInput that names the argument and a remedy; nothing starts."""

import inspect
import math

import numpy as np
import pytest
from recorded_examples import WORKLOAD

import loadframe
from loadframe import simulate
from loadframe.base.errors import before_start
from loadframe.library.arguments import checked, in_python
from loadframe.library.tables import text_of
from simulated import Truth, write_experiment, write_run

RATES = {1: 955, 2: 1878, 4: 3548, 8: 6531}
EXPERIMENT = {"experiment": "e", "kind": "scale", "store": {"kind": "sim"}, "factors": {"clients": [1, 2]}}
#: Values of wrong types, empty values, NaN, infinity, negative and huge numbers, unknown words.
NUMBERS = (3, -1, 0, 2.5, math.nan, math.inf, 10**400, True)
VALUES = (*NUMBERS, "zz", "", b"x", "\0", [], ["zz"], [None], [-1.0], {}, {1: "x"})
TEXT, FLAG, MAPPING, NONE = ("zz",), (True,), ({},), ()
SHARE = (0.5, "250%")
NUMBER, TIME = (3, 2.5), (3, 0, 2.5, math.inf)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("arguments")
    write_experiment(path / "e", Truth(seconds=2), nodes=(1, 2), clients=(1, 2), repetitions=1)
    for first, group in enumerate(("old", "new")):
        for number in range(2):
            write_run(path / group, f"run-{number}", Truth(seconds=2), seed=2 * first + number)
    return path


@pytest.fixture
def calls(folder, tmp_path, monkeypatch):
    """Return the public calls by name, with valid arguments."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LOADFRAME_STATE", str(tmp_path / "state"))
    run, experiment, workload = loadframe.open("old/run-0"), loadframe.open("e"), loadframe.Workload(WORKLOAD)
    times, planned = run.response_times(), loadframe.Experiment(EXPERIMENT, workload=workload)

    def bench(workload=workload, **named):
        # The folder exists, so nothing starts.
        return loadframe.bench(workload, **{"store": "sim", "output": "e", **named})

    return {
        "bench": bench,
        "check": lambda workload=workload, **named: loadframe.check(
            workload, **{"store": "sim", "offline": True, **named}
        ),
        "history": lambda folder="old", **named: loadframe.history(folder, **named),
        "run": lambda experiment=None, **named: loadframe.run(planned if experiment is None else experiment, **named),
        "fit": lambda data=RATES, **named: loadframe.fit(data, **named),
        "compare": lambda group="old", **named: loadframe.compare(group, "new", **named),
        "gate": lambda new="new", **named: loadframe.gate(new, **{"bounds": ["p99<=5s"], **named}),
        "capacity": loadframe.capacity,
        "open": loadframe.open,
        "Run.response_times": run.response_times,
        "Run.report": run.report,
        "RunPlots.percentiles": run.plot.percentiles,
        "RunPlots.__getitem__": run.plot.__getitem__,
        "Experiment.response_times": experiment.response_times,
        "Experiment.service_times": experiment.service_times,
        "Experiment.failure_times": experiment.failure_times,
        "Experiment.report": experiment.report,
        "Experiment.export": lambda **named: experiment.export(tmp_path / "x", **named),
        "Experiment.__getitem__": experiment.__getitem__,
        "ExperimentPlots.__getitem__": experiment.plot.__getitem__,
        "Times.percentile": times.percentile,
        "Times.percentiles": times.percentiles,
        "Times.share_above": times.share_above,
        "Plot.save": run.plot.percentiles().save,
        "Report.save": lambda path: run.report().save(tmp_path / path if path == "zz" else path),
        "Fit.predict": loadframe.fit(RATES).predict,
        "Workload": lambda **keys: loadframe.Workload({**WORKLOAD, **keys}),
        "Workload.load": loadframe.Workload.load,
        "Workload.with_parameters": loadframe.Workload.load("ycsb/c").with_parameters,
        "Experiment": lambda **keys: loadframe.Experiment({"workload": workload, **EXPERIMENT, **keys}),
        "Experiment.load": loadframe.Experiment.load,
        "Cluster": lambda **named: loadframe.Cluster(**{"store": "sim", **named}),
        "Table": lambda name: loadframe.Table(name, dict),
    }


#: Arguments of each call, and the values among VALUES that are valid.
ARGUMENTS = [
    ("bench", "workload store version nodes cpus memory cores home host encryption settings hosts user", NONE),
    ("bench", "password_file ca cluster replace reuse parameters only clients rate arrivals warmup duration", NONE),
    ("bench", "at seed threads samples spin kernel_timestamps allow_bad progress", NONE),
    ("bench", "api_key_file token_file aws_service aws_region aws_profile cert key insecure compress precision", NONE),
    ("check", "workload store progress", NONE),
    ("check", "user password_file api_key_file token_file aws_service aws_region aws_profile", NONE),
    ("check", "ca cert key insecure compress", NONE),
    ("check", "offline", FLAG),
    ("check", "parameters", MAPPING),
    ("run", "experiment", NONE),
    ("fit", "data residuals scaling", NONE),
    ("compare", "group level", NONE),
    ("compare", "measures", NONE),
    ("compare", "least session_spread", SHARE),
    ("gate", "new baseline history measures bounds", NONE),
    ("gate", "watch", ([],)),
    ("gate", "across_treatments", FLAG),
    ("gate", "session_spread", SHARE),
    ("gate", "least catch", (*SHARE, {})),
    ("capacity", "experiment", NONE),
    ("open", "path", NONE),
    ("Run.response_times", "operation phase", NONE),
    ("Run.response_times", "start end", TIME),
    ("Run.report", "bands", ([],)),
    ("RunPlots.percentiles", "operations", ([],)),
    ("RunPlots.__getitem__", "name", NONE),
    *((f"Experiment.{kind}_times", "operation phase", NONE) for kind in ("response", "service", "failure")),
    ("Experiment.response_times", "start end", TIME),
    ("Experiment.response_times", "where", MAPPING),
    ("Experiment.response_times", "runs", ([],)),
    ("Experiment.report", "bands", ([],)),
    ("Experiment.__getitem__", "name", NONE),
    ("ExperimentPlots.__getitem__", "name", NONE),
    ("Times.percentile", "percent", (3, 0, 2.5)),
    ("Times.percentiles", "percents", ([],)),
    ("Times.share_above", "seconds", TIME),
    ("Plot.save", "path", NONE),
    ("Report.save", "path", TEXT),
    ("Fit.predict", "n", NUMBER),
    ("Workload", "collections operations phases", NONE),
    ("Workload", "workload", TEXT),
    ("Workload.load", "name", NONE),
    ("Workload.with_parameters", "records", (3,)),
    ("Experiment", "experiment", TEXT),
    ("Experiment", "kind store workload factors", NONE),
    ("Experiment.load", "path", NONE),
    ("Cluster", "store version home host name", TEXT),
    ("Cluster", "nodes", (3,)),
    ("Cluster", "cpus", NUMBER),
    ("Cluster", "memory cores encryption progress", NONE),
    ("Cluster", "settings", MAPPING),
    ("Table", "name", TEXT),
]
CASES = [(call, name, valid) for call, names, valid in ARGUMENTS for name in names.split()]


def is_among(value, values):
    """Return whether a value is in a list, by type and value."""
    return any(type(value) is type(it) and value == it for it in values)


@pytest.mark.parametrize(("call", "name", "valid"), CASES, ids=[f"{call}-{name}" for call, name, _ in CASES])
def test_wrong_values_are_bad_input_with_a_remedy(calls, call, name, valid):
    for value in VALUES:
        if is_among(value, valid):
            continue
        with pytest.raises(loadframe.BadInput) as caught:
            calls[call](**{name: value})
        assert caught.value.what, repr(value)


@pytest.mark.parametrize(("call", "name", "valid"), CASES, ids=[f"{call}-{name}" for call, name, _ in CASES])
def test_valid_values_are_accepted(calls, call, name, valid):
    for value in valid:
        calls[call](**{name: value})


@pytest.mark.parametrize(
    ("call", "arguments", "words"),
    [
        ("fit", {"scaling": "weka"}, "scaling must be 'strong' or 'weak'; got 'weka'\n  did you mean 'weak'?"),
        ("fit", {"residuals": "zz"}, "residuals must be 'relative' or 'absolute'; got 'zz'"),
        ("fit", {"data": {1: "a"}}, "data[1] must be a number; got 'a'"),
        ("fit", {"data": [(1, 955.0), (2, None)]}, "data[1][1] must be a number; got None"),
        ("fit", {"data": [(1, 2, 3)]}, "data[0] must be 2 values; got [1, 2, 3]"),
        ("bench", {"nodes": "two"}, "nodes must be a whole number from 1 to 1000; got 'two'\n  give another value"),
        ("bench", {"nodes": True}, "nodes must be a whole number from 1 to 1000; got True"),
        ("bench", {"cpus": "0.5"}, "cpus must be a number above 0 and finite; got '0.5'"),
        ("bench", {"clients": 0}, "clients must be a whole number of at least 1; got 0"),
        ("bench", {"hosts": []}, "hosts is empty"),
        ("bench", {"duration": "soon"}, "duration: 'soon' is not a duration"),
        ("Cluster", {"memory": "much"}, "memory: 'much' is not a size"),
        ("Cluster", {"name": ""}, "name is an empty text\n  give another value, or leave name out"),
        ("Run.report", {"bands": [-1]}, "bands[0] must be a number above 0 and finite; got -1"),
        ("Run.report", {"bands": [1, 0.1]}, "latency bounds must be above 0 and ascending; got 1 s, 100 ms"),
        ("Experiment.report", {"bands": [1, 1]}, "latency bounds must be above 0 and ascending; got 1 s, 1 s"),
        ("Experiment.report", {"beside": 3}, "beside must be a text or a path or an Experiment; got 3"),
        ("Experiment.export", {"formats": []}, "formats is empty"),
        ("Run.response_times", {"start": math.nan}, "start must be a number of at least 0; got nan"),
        ("Experiment.response_times", {"where": {1: 2}}, "where key must be a text; got 1"),
        ("compare", {"measures": "p98"}, "measures: unknown measure 'p98'\n  did you mean 'p99'?"),
        ("compare", {"baseline": "nwe"}, "baseline: no group is named 'nwe'\n  did you mean 'new'?"),
        ("gate", {"bounds": "p98<=1s"}, "bounds: unknown measure 'p98'"),
        ("gate", {"least": {"p98": 0.1}}, "least: unknown measure 'p98'"),
        ("bench", {"output": "fresh", "store": "smi"}, "store: unknown store 'smi'\n  did you mean sim?"),
        ("bench", {"stor": "sim"}, "bench has no parameter 'stor'\n  did you mean 'store'?"),
        ("bench", {"passwordfile": "p"}, "bench has no parameter 'passwordfile'\n  did you mean 'password_file'?"),
        ("compare", {"levl": 0.1}, "compare has no parameter 'levl'\n  did you mean 'level'?"),
        ("Cluster", {"node": 2}, "Cluster has no parameter 'node'\n  did you mean 'nodes'?"),
        ("Experiment.response_times", {"were": {}}, "Experiment.response_times has no parameter 'were'"),
        ("bench", {"output": "fresh", "at": "5s=zz"}, "at 5s=zz: unknown action 'zz'"),
        ("bench", {"output": "fresh", "at": "zz=grow"}, "at zz=grow: 'zz' is not a duration"),
        (
            "bench",
            {"output": "fresh", "at": "1h=grow"},
            "at 1 h 00 min is after the end of the load at 1 s",
        ),
        ("bench", {"output": "fresh", "at": "0s=kill:node-9"}, "at: unknown node 'node-9'"),
        ("gate", {"bounds": []}, "the runs have neither a baseline nor bounds\n  give baseline, history or bounds"),
        ("gate", {"new": "nowhere", "bounds": []}, "nowhere: this folder does not exist"),
        ("gate", {"baseline": "new"}, "new: the new runs and baseline are the same folder"),
        ("gate", {"watch": "zz"}, "watch zz: no run of new measured this operation"),
        ("gate", {"least": {"p90": 0.1}}, "least names p90, which is not in measures\n  add it to measures"),
        ("history", {"measures": "errors"}, "change points do not support measures errors: "),
        ("run", {"output": "e"}, "e: the folder holds an experiment with other values of `"),
    ],
)
def test_messages_name_the_argument_and_the_expected_value(calls, call, arguments, words):
    with pytest.raises(loadframe.BadInput) as caught:
        calls[call](**arguments)
    assert str(caught.value).startswith(words)
    assert caught.value.remedy
    # Options are those of commands.
    assert "--" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: loadframe.gate(bounds=["p99<=1s"]), "gate: missing a required argument: 'new'"),
        (lambda: loadframe.fit(RATES, "absolute"), "fit: too many positional arguments"),
        (lambda: loadframe.Outline("nyc_taxs"), "unknown workload 'nyc_taxs'"),
        (lambda: loadframe.Fit(RATES), "fit must be a ScalabilityFit; got {1: 955"),
        (lambda: loadframe.Capacity("nowhere"), "nowhere/experiment.json: this is not an experiment folder"),
    ],
)
def test_a_call_that_does_not_fit_its_parameters_is_bad_input(call, words):
    with pytest.raises(loadframe.BadInput) as caught:
        call()
    assert str(caught.value).startswith(words)
    assert caught.value.remedy


def test_an_invalid_setting_names_the_parameter_of_settings():
    with pytest.raises(loadframe.BadInput) as caught, loadframe.Cluster("sim", settings={"sevrers": 2}):
        pass
    assert str(caught.value).startswith(
        "settings: unknown setting 'sevrers' of the simulated store\n  use one of servers, "
    )


def test_an_outline_is_that_of_a_name_or_a_workload():
    assert str(loadframe.Outline("nyc_taxis")) == str(loadframe.Workload.load("nyc_taxis").outline())


def test_an_unknown_format_names_that_in_other_capitals_or_all_formats(folder):
    run = loadframe.open(folder / "old" / "run-0")
    for given, remedy in (
        ("K6", "did you mean 'k6'?"),
        (
            "zz",
            "valid here: hdr, jsonl, junit, k6, markdown, osb, otava, queries, query-results, rally, statistics, ycsb",
        ),
    ):
        with pytest.raises(loadframe.BadInput, match=f"got '{given}'") as caught:
            loadframe.convert(run, given)
        assert caught.value.remedy == remedy


def test_a_command_in_a_message_keeps_its_options():
    @checked
    def call(output, *, aws_service=None):
        raise loadframe.BadInput(
            "--aws-service es-2 and --store",
            where="--output",
            remedy="try `loadframe run --output x` or `srun --output`",
        )

    with pytest.raises(loadframe.BadInput) as caught:
        call("x")
    assert str(caught.value) == (
        "output: aws_service es-2 and --store\n  try `loadframe run --output x` or `srun --output`"
    )
    assert caught.value.args == ("aws_service es-2 and --store",)


def test_printed_results_name_parameters_and_keep_the_columns_of_tables(monkeypatch):
    monkeypatch.setattr(simulate, "TRIALS", 4)
    assert in_python("set `--session-spread`; `loadframe run --output x` and --strict-mode stay") == (
        "set `session_spread`; `loadframe run --output x` and --strict-mode stay"
    )
    assert in_python("p99, with --across-treatments  3    4\nnone  --json\n") == (
        "p99, with across_treatments    3    4\nnone  as_dict()\n"
    )
    nodes = loadframe.Experiment(EXPERIMENT, workload=loadframe.Workload(WORKLOAD), factors={"nodes": [1, 2, 4]})
    plan = loadframe.plan(nodes, budget=9)
    assert "set your own with sigma and kappa" in " ".join(str(plan).split())
    assert "set your own with --sigma and --kappa" in " ".join(text_of(plan.show).split())


def test_words_of_a_store_or_a_program_keep_their_options(tmp_path):
    @checked
    def call(answer, *, host=None):
        with before_start():
            raise answer

    words = "node-1 exited; the end of its log:\n    unrecognized arguments: --host 127.0.0.1"
    for answer in (loadframe.StoreFailed(words, remedy="give --host"), loadframe.BadInput("it said '--host' 1")):
        with pytest.raises(loadframe.BadInput) as caught:
            call(answer)
        assert caught.value.what == answer.what
        assert caught.value.remedy in {"give host", None}
    server = tmp_path / "redis-server"
    server.write_text('#!/bin/sh\necho "unknown option --version"\n')
    server.chmod(0o755)
    with pytest.raises(loadframe.BadInput) as caught, loadframe.Cluster("redis", home=str(tmp_path)):
        pass
    assert caught.value.what == 'it does not print its version: "unknown option --version"'


def test_a_cluster_that_cannot_start_names_its_arguments(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(loadframe.BadInput) as caught, loadframe.Cluster("couchbase"):
        pass
    assert "installation with home" in caught.value.remedy


def test_a_text_is_one_word_of_a_list(calls):
    assert set(calls["compare"](measures="throughput").contrasts.to_polars()["measure"]) == {"throughput"}
    assert len(calls["gate"](bounds="p99<=5s").checks) == 1
    (name,) = [run.name for run in loadframe.open("e")][:1]
    times = calls["Experiment.response_times"]
    assert times(runs=name).count == times(runs=[name]).count == times(runs=iter([name])).count > 0


def test_numbers_of_numpy_are_numbers(calls):
    assert calls["Fit.predict"](np.int64(4)) == calls["Fit.predict"](4)
    assert calls["Times.percentiles"]([50, np.float64(99)]).keys() == {50, 99}
    assert calls["fit"](np.array(list(RATES.items()))).as_dict() == calls["fit"](RATES).as_dict()


def test_every_public_function_checks_its_arguments():
    functions = [value for name in loadframe.__all__ if inspect.isfunction(value := getattr(loadframe, name))]
    assert len(functions) == 20
    for function in functions:
        assert inspect.getclosurevars(function).nonlocals.keys() >= {"hints"}, function.__name__


def test_the_plots_of_a_run_list_the_methods_that_return_them():
    public = {name for name in vars(loadframe.RunPlots) if not name.startswith("_")}
    # Listing reads nothing of the run.
    assert set(loadframe.RunPlots.__new__(loadframe.RunPlots)) == public


def test_plots_of_runs_and_of_experiments_are_mappings_by_name(tmp_path):
    experiment = loadframe.open(write_experiment(tmp_path / "e", nodes=(1, 2), clients=(4, 8), repetitions=1))
    run = loadframe.open(write_run(tmp_path, "r", Truth(seconds=3)).path)
    for plots in (run.plot, experiment.plot):
        assert [plot.svg[:4] for plot in plots.values()] == ["<svg"] * len(plots)
        assert all(name in plots for name in plots) and "capacity" not in plots and 3 not in plots
        assert repr(plots) == f"<Plots: {', '.join(plots)}>"
        assert plots._repr_html_().count("<svg") == len(plots) > 1
        with pytest.raises(loadframe.BadInput, match="unknown plot"):
            plots["no such plot"]
    assert run.plot["over_time"].svg == run.plot.over_time().svg
    starts = [run.plot.over_time().save(tmp_path / f"plot.{kind}").read_bytes()[:4] for kind in ("svg", "pdf", "png")]
    assert starts == [b"<svg", b"%PDF", b"\x89PNG"]
    with pytest.raises(loadframe.BadInput, match=r"not \.jpg"):
        run.plot.over_time().save(tmp_path / "plot.jpg")
