"""The library and the commands give the same: each command with a result prints the values of a call of the library."""

import json
from pathlib import Path

import pytest
from recorded_examples import write_examples

import loadframe
from commands import open_folder, within
from loadframe import simulate
from simulated import Truth, write_experiment

EXPERIMENT = """\
experiment: small
kind: scale
store: {kind: sim}
workload: nyc_taxis
factors: {nodes: [1, 2, 4]}
measure: range_100
duration: 10s
"""


@pytest.fixture(scope="module", autouse=True)
def examples():
    with open_folder("library") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADFRAME_STATE", str(folder / "state"))
        patch.setattr(simulate, "TRIALS", 4)
        patch.chdir(folder)
        write_examples(folder)
        nodes = {"nodes": (1, 2, 4), "clients": (8,), "repetitions": 2}
        write_experiment(Path("results/strong"), Truth(node_sigma=0.1), experiment="same", **nodes)
        grown = {"experiment": "grown", "scaling": "weak", "grows": "documents", "with": {"documents": 10000}}
        write_experiment(Path("results/weak"), Truth(node_serial=0.1), **nodes, **grown)
        Path("e.yaml").write_text(EXPERIMENT)
        Path("n.csv").write_text("n,throughput\n1,100\n2,190\n4,350\n1,101\n2,188\n4,355\n")
        yield folder


def opened(name):
    return loadframe.open(f"results/{name}")


def text_of(name, to):
    return json.loads(loadframe.convert(f"results/{name}", to).text)


#: Calls of the library by the words of the command.
CALLS = {
    "report results/tail": lambda: opened("tail").report().as_dict(),
    "report results/tail --bands 1ms,1s": lambda: opened("tail").report(bands=[0.001, 1]).as_dict(),
    "report results/nodes": lambda: opened("nodes").report().as_dict(),
    "report results/capacity": lambda: loadframe.capacity("results/capacity").as_dict(),
    "report results/strong results/weak": lambda: opened("strong").report(beside=opened("weak")).as_dict(),
    "report results/weak results/strong": lambda: opened("weak").report(beside="results/strong").as_dict(),
    "report results/tail --format queries": lambda: text_of("tail", "queries"),
    "report results/tail --format query-results": lambda: text_of("tail", "query-results"),
    "report results/nodes --export x --format csv": lambda: opened("nodes").export("x", formats="csv").as_dict(),
    "report results/tail --export x": lambda: opened("tail").export("x").as_dict(),
    "compare results/old results/new": lambda: loadframe.compare("results/old", "results/new").as_dict(),
    "gate results/new --bound p99<=10s": lambda: loadframe.gate("results/new", bounds="p99<=10s").as_dict(),
    "gate results/new --baseline results/old --least 7% --catch p99=60%": lambda: loadframe.gate(
        "results/new", baseline="results/old", least="7%", catch={"p99": "60%"}
    ).as_dict(),
    "history results/nightly": lambda: loadframe.history("results/nightly").as_dict(),
    "plan results/nodes": lambda: loadframe.plan(opened("nodes")).as_dict(),
    "plan e.yaml --noise 0.05 --budget 9": lambda: loadframe.plan("e.yaml", noise=0.05, budget=9).as_dict(),
    "run e.yaml --dry-run": lambda: loadframe.dry_run("e.yaml").as_dict(),
    "run e.yaml --dry-run --samples --output fresh": lambda: loadframe.dry_run(
        "e.yaml", output="fresh", samples=True
    ).as_dict(),
    "workloads nyc_taxis": lambda: loadframe.Workload.load("nyc_taxis").outline().as_dict(),
    "workloads log.yaml": lambda: loadframe.Workload.load("log.yaml").outline().as_dict(),
    "workloads": lambda: [{"name": it.name, "description": it.description} for it in loadframe.workloads()],
    "fit n.csv": lambda: loadframe.fit("n.csv").as_dict(),
}


@pytest.mark.store
@pytest.mark.parametrize("words", CALLS)
def test_a_command_prints_the_values_of_the_call(words):
    status, output, errors = within(*words.split(), "--json")
    assert status == 0, errors
    assert json.loads(output) == json.loads(json.dumps(CALLS[words]()))


@pytest.mark.store
@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("run e.yaml --dry-run", lambda: loadframe.dry_run("e.yaml")),
        ("workloads ycsb", lambda: loadframe.Workload.load("ycsb").outline()),
    ],
)
def test_a_command_prints_the_words_of_the_result(words, call):
    assert within(*words.split())[1].split() == str(call()).split()


@pytest.mark.store
@pytest.mark.parametrize("to", ["rally", "k6", "ycsb", "hdr", "jsonl", "junit", "markdown", "otava"])
def test_a_command_prints_the_text_of_the_call(to):
    assert within("report", "results/tail", "--format", to)[1] == loadframe.convert(opened("tail"), to).text


@pytest.mark.store
@pytest.mark.parametrize("name", ["nodes", "tail"])
def test_a_command_writes_the_files_of_the_call(name):
    opened(name).export(f"{name}-call", formats=["csv", "latex"])
    assert within("report", f"results/{name}", "--export", f"{name}-command", "--format", "csv,latex")[0] == 0
    by_call, by_command = (
        {file.name: file.read_bytes() for file in Path(f"{name}-{way}").iterdir()} for way in ("call", "command")
    )
    assert len(by_call) > 2
    assert by_call == by_command
