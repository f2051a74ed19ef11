"""Experiments on stores that the test starts with their own commands: no foreign data is lost, and nothing is left."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from commands import Running, loadframe, open_folder
from loadframe.base.errors import BadInput, StoreFailed
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.ledger import Changes, claim
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.loop import run_experiment
from loadframe.experiment.runner.session import Session
from loadframe.record import Run
from own_servers import POSTGRES, REDIS, Postgres, Redis, Server

pytestmark = [
    pytest.mark.store,
    pytest.mark.skipif(not (REDIS and POSTGRES), reason="redis-server or postgres is not installed"),
]
WORKLOAD = """\
workload: small
parameters: {documents: 200}
collections: {things: {}}
corpora: {things: {generate: nyc_taxi_trip, documents: "${documents}"}}
variables:
  id: {uniform: [1, "${documents}"]}
operations:
  fill: {bulk: {collection: things, corpus: things, size: 100}}
  look: {read: {collection: things, id: "${id}"}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 1, duration: 300ms}
"""


class Witness(Listener):
    """Records the messages to the user, and calls a function at each measured phase."""

    def __init__(self, at_look=lambda: None):
        self.heard: list[str] = []
        self._at_look = at_look

    def step(self, text):
        self.heard.append(text)

    def remark(self, text):
        self.heard.append(text)

    def phase(self, name, _seconds):
        self.heard.append(f"phase {name}")
        if name == "look":
            self._at_look()


@pytest.fixture(scope="module", params=[Redis, Postgres])
def server(request) -> Iterator[Server]:
    """A server with foreign data."""
    with open_folder("own") as folder, request.param(folder) as server:
        server.fill()
        yield server


@pytest.fixture(autouse=True)
def _state(tmp_path, monkeypatch):
    monkeypatch.setenv("LOADFRAME_STATE", str(tmp_path / "state"))


@pytest.fixture
def write(tmp_path):
    """Write an experiment on a server; return its path."""

    def write(server: Server, text: str, store: str = "", name: str = "e") -> Path:
        (tmp_path / "small.yaml").write_text(WORKLOAD)
        path = tmp_path / f"{name}.yaml"
        head = f"store: {{kind: {server.kind}, hosts: {server.address}{server.access}{store}}}"
        path.write_text(f"experiment: {name}\n{head}\nworkload: ./small.yaml\n{dedent(text)}")
        return path

    return write


def carry_out(path: Path, listener: Listener) -> list[Run]:
    """Run an experiment in this process; return its runs in the order of the design."""
    experiment = load_experiment(path)
    planned = design(experiment)
    folder = ExperimentFolder(path.with_suffix(""), describe(experiment, planned))
    run_experiment(experiment, planned, folder, listener)
    listed = json.loads((folder.path / "experiment.json").read_text())
    names = [entry["run"] for entry in (*listed["design"], *listed.get("further", ()))]
    return [Run(folder.runs_path / name) for name in names]


def ledgers() -> list[Path]:
    return list((Path(os.environ["LOADFRAME_STATE"]) / "existing").glob("*.json"))


def test_a_comparison_leaves_foreign_data_and_no_collection(server, write):
    before = server.foreign()
    held = []
    witness = Witness(lambda: held.append([name for name in server.foreign() if name not in before]))
    text = """\
    kind: compare
    variants: {few: {clients: 1}, many: {clients: 3}}
    repetitions: 2
    """
    runs = carry_out(write(server, text, ", nodes: 1"), witness)
    assert [run.summary.status for run in runs] == ["done"] * 4
    assert all(held), "the collection exists during the load"
    assert server.foreign() == before
    assert not ledgers()
    for run in runs:
        store = run.raw_manifest["store"]
        assert (store["existing"], store["origin"], store["addresses"]) == (True, "attached", [server.address])
        assert store["documents"] == {"things": 200}
        assert "password" not in json.dumps(store) and "own-server" not in json.dumps(run.raw_manifest)
    # The first block and the second one fill the collection.
    assert witness.heard.count("phase fill") == 2


def test_a_capacity_search_fills_once_over_its_states(server, write):
    text = """\
    kind: capacity
    prepare: once
    slo: {response: 5s}
    search: {start: 50, most: 100, factor: 2, precision: 50%}
    factors: {with.documents: [200]}
    repetitions: 2
    duration: 300ms
    """
    witness = Witness()
    runs = carry_out(write(server, text), witness)
    assert len(runs) >= 4 and all(run.summary.status == "done" for run in runs)
    assert witness.heard.count("phase fill") == 1
    assert any("again" in text for text in witness.heard)


SETTINGS = {
    "redis": ("hz", "10", ["20", "30"], lambda server: server.ask("CONFIG", "GET", "hz").split()[-1]),
    "postgresql": ("work_mem", "4MB", ["8MB", "16MB"], lambda server: server.ask("SHOW work_mem")),
}


def test_settings_are_in_force_during_runs_and_restored(server, write):
    name, default, levels, value = SETTINGS[server.kind]
    seen = []
    text = f"""\
    kind: settings
    prepare: once
    factors: {{store.settings.{name}: [null, {", ".join(levels)}]}}
    confirm: 0
    """
    runs = carry_out(write(server, text), Witness(lambda: seen.append(value(server))))
    assert sorted(seen) == sorted([default, *levels])
    assert value(server) == default
    told = {str(run.raw_manifest["store"]["settings"][name]) for run in runs}
    assert told == {"None", *levels}
    if server.kind == "postgresql":
        assert server.ask("SELECT count(*) FROM pg_file_settings WHERE sourcefile LIKE '%auto.conf'") == "0"


#: Settings that make loading fail, by kind of store: name, value before, levels, and how to read the value.
HOSTILE = {
    "redis": ("maxmemory", "0", "1000, 2000", lambda server: server.ask("CONFIG", "GET", "maxmemory").split()[-1]),
    "postgresql": ("search_path", '"$user", public', "absent, missing", lambda server: server.ask("SHOW search_path")),
}


def test_settings_are_restored_after_runs_that_failed(server, write):
    name, default, levels, value = HOSTILE[server.kind]
    before = server.foreign()
    witness = Witness()
    runs = carry_out(write(server, f"kind: settings\nfactors: {{store.settings.{name}: [{levels}]}}\n"), witness)
    assert {run.summary.status for run in runs} == {"failed"}
    assert f"restoring {name}" in witness.heard
    assert value(server) == default
    assert server.foreign() == before and not ledgers()


def test_foreign_data_with_the_name_of_a_collection_is_refused_and_kept(server, write):
    words = ("SET", "things", "1") if server.kind == "redis" else ("CREATE TABLE things (one int)", "loadframe")
    server.ask(*words)
    before = server.foreign()
    try:
        assert "things" in before
        with pytest.raises(BadInput, match="the cluster already has things"):
            carry_out(write(server, "kind: scale\nfactors: {clients: [1, 2]}\n", ", prefix: none"), Witness())
        assert server.foreign() == before and not ledgers()
    finally:
        server.ask(*(("DEL", "things") if server.kind == "redis" else ("DROP TABLE things", "loadframe")))


def test_data_of_another_client_outlives_a_command_that_was_killed_before_it_created_its_collection(server, write):
    before = server.foreign()
    ledger, _ = claim("names-1", Changes(server.kind, [server.address], None, "killed", collections=["things"]))
    ledger.changes.creating = True
    ledger.write()
    ledger.release()
    statement = "CREATE TABLE things AS SELECT 1 AS one"
    server.ask(*(("SET", "things:1", "1") if server.kind == "redis" else (statement, "loadframe")))
    written = server.foreign()
    try:
        witness = Witness()
        carry_out(write(server, "kind: scale\nfactors: {clients: [1, 2]}\n"), witness)
        assert "keeping things: it has documents of another client" in witness.heard
        assert server.foreign() == written != before and not ledgers()
    finally:
        server.ask(*(("DEL", "things:1") if server.kind == "redis" else ("DROP TABLE things", "loadframe")))


def test_a_preparation_that_fails_is_repeated_on_the_same_cluster_and_said_so(server, write, monkeypatch):
    error_of, errors = Session._preparation_error, [StoreFailed("12 acknowledged documents are missing")]
    monkeypatch.setattr(Session, "_preparation_error", lambda *given: errors.pop() if errors else error_of(*given))
    witness = Witness()
    carry_out(write(server, "kind: scale\nfactors: {clients: [1, 2]}\n"), witness)
    assert [said for said in witness.heard if "trying again on the same cluster" in said and "12 ack" in said]
    assert not [said for said in witness.heard if "new cluster" in said] and not ledgers()


def test_the_ledger_marks_collections_only_while_they_are_created(server, write):
    states = []

    def creating():
        (path,) = ledgers()
        return json.loads(path.read_text())["creating"]

    class Reader(Witness):
        def step(self, text):
            if text.startswith("creating "):
                states.append(creating())

    carry_out(
        write(server, "kind: scale\nprepare: once\nfactors: {clients: [1, 2]}\n"),
        Reader(lambda: states.append(creating())),
    )
    assert states == [True, False, False]


def test_variants_on_one_server_under_two_names_are_refused(server, write):
    path = write(server, "kind: compare\nvariants: {a: {store.hosts: FIRST}, b: {store.hosts: SECOND}}\nclients: 1\n")
    text = path.read_text().replace(f" hosts: {server.address}", "").replace(",,", ",").replace(",}", "}")
    path.write_text(text.replace("FIRST", f'"{server.address}"').replace("SECOND", f'"localhost:{server.port}"'))
    before = server.foreign()
    with pytest.raises(BadInput, match="name the same node"):
        carry_out(path, Witness())
    assert server.foreign() == before and not ledgers()


def test_levels_without_an_effect_of_their_own_are_refused_before_the_first_run(server, write):
    name, default, (level, _), value = SETTINGS[server.kind]
    text = f"""\
    kind: settings
    factors: {{store.settings.{name}: [null, {default}, {level}]}}
    """
    path = write(server, text)
    done = loadframe("run", path, "--output", path.with_suffix(""))
    assert done.returncode == 2
    assert f"{name} has the value" in done.stderr and "Traceback" not in done.stderr
    assert value(server) == default and not ledgers()


def test_a_killed_experiment_is_cleaned_up_by_the_next_one(server, write, tmp_path):
    name, default, (level, _), value = SETTINGS[server.kind]
    before = server.foreign()
    text = f"""\
    kind: scale
    factors: {{store.settings.{name}: [{level}], clients: [1, 2]}}
    duration: 60s
    """
    path = write(server, text)
    with Running("run", path, "--output", tmp_path / "killed", folder=tmp_path) as running:
        running.wait_for("phase look")
        assert value(server) == level
        os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()
    left = [entry for entry in server.foreign() if entry not in before]
    assert left and value(server) == level
    assert len(ledgers()) == 1
    if server.kind == "redis":
        done = loadframe("bench", path.with_name("small.yaml"), "--store", "redis", "--hosts", server.address,
                         "--set", "documents=10", "--output", tmp_path / "bench")  # fmt: skip
        assert done.returncode == 0
        assert "removing leftovers" in done.stderr
        server.ask("DEL", "loadframe:collections", *(key for key in server.foreign() if key not in before))
    else:
        witness = Witness()
        carry_out(write(server, "kind: scale\nfactors: {clients: [1, 2]}\n", name="next"), witness)
        assert any("removing leftovers" in text and "killed" in text for text in witness.heard)
    assert server.foreign() == before and value(server) == default
    assert not ledgers()


def test_an_interrupted_experiment_cleans_up_and_resumes(server, write, tmp_path):
    before = server.foreign()
    path = write(server, "kind: scale\nfactors: {clients: [1, 2]}\nduration: 2s\n")
    with Running("run", path, "--output", tmp_path / "e", folder=tmp_path) as running:
        running.wait_for("run 2 of 2", "phase look")
        status, _ = running.send(signal.SIGINT)
    assert status == 130
    assert server.foreign() == before and not ledgers()
    witness = Witness()
    runs = carry_out(path, witness)
    assert [run.summary.status for run in runs] == ["done", "done"]
    assert any("resuming: 1 of 2" in text for text in witness.heard)


def test_the_users_own_collection_is_used_and_kept(server, write, tmp_path):
    if server.kind == "redis":
        for number in range(1, 201):
            server.ask("HSET", f"things:{number}", "field", "1")
    else:
        server.ask(
            "CREATE TABLE things AS SELECT i::text AS id, '{}'::jsonb AS document FROM generate_series(1, 200) i",
            "loadframe",
        )
        server.ask("ALTER TABLE things ADD PRIMARY KEY (id)", "loadframe")
    before = server.foreign()
    text = "kind: scale\nfactors: {clients: [1, 2]}\n"
    witness = Witness()
    runs = carry_out(write(server, text, ", data: reuse"), witness)
    assert [run.raw_manifest["store"]["documents"] for run in runs] == [{"things": 200}] * 2
    assert "phase fill" not in witness.heard
    warmed = Witness()
    twice = f"{text}repetitions: 2\nprepare: [fill, look]\nmeasure: look\n"
    carry_out(write(server, twice, ", data: reuse", "warmed"), warmed)
    assert "phase fill" not in warmed.heard
    assert warmed.heard.count("phase look") == 2 * len(runs) + 1, "once before the runs of both blocks"
    assert server.foreign() == before
    # The names of the workload would collide with it.
    done = loadframe("run", write(server, text, ", prefix: none"), "--output", tmp_path / "refused")
    assert done.returncode == 2
    assert "already has things, which this experiment did not create" in done.stderr
    assert server.foreign() == before


def test_unobserved_figures_are_named_before_the_start(server, write, tmp_path):
    path = write(server, "kind: compare\nvariants: {few: {clients: 1}, many: {clients: 2}}\n")
    planned = loadframe("run", str(path), "--dry-run", cwd=tmp_path).stdout
    assert "does not observe CPU, memory, disk and limits of the nodes" in planned
    assert "Caches, also the page cache, stay warm" in planned
    witness = Witness()
    carry_out(path, witness)
    named = [index for index, words in enumerate(witness.heard) if words.startswith("existing cluster: ")]
    assert len(named) == 2
    assert max(named) < min(index for index, words in enumerate(witness.heard) if words.startswith("creating "))
