"""Capacity experiments: their file keys, and a search on simulated nodes with known capacity."""

from dataclasses import replace

import pytest
from rich.console import Console

from loadframe.analyze.capacity import Kind, Outcome, read_capacities
from loadframe.analyze.capacity.criteria import Judgement
from loadframe.analyze.experiment import read_experiment
from loadframe.base.errors import BadInput
from loadframe.experiment.design.plans import describe, design
from loadframe.experiment.file.reader import load_experiment
from loadframe.experiment.kinds.capacity import _why
from loadframe.experiment.runner.folder import ExperimentFolder
from loadframe.experiment.runner.listener import Listener
from loadframe.experiment.runner.loop import run_experiment
from loadframe.library.plan import DryRun, planned_runs
from loadframe.report.kinds import read_report

HEAD = """\
    experiment: e
    store: {kind: sim, settings: {service: 20ms}}
    workload: ./small.yaml
    kind: capacity
    measure: look
"""
WORKLOAD = """\
workload: small
collections: {things: {elasticsearch: {settings: {number_of_shards: 2}}}}
corpora: {things: {generate: nyc_taxi_trip, documents: 20}}
operations:
  fill: {bulk: {collection: things, corpus: things, size: 20}}
  look: {search: {collection: things, size: 1}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 1, duration: 5s}
"""
# Requests that come and are served at a constant pace are held up to the servers' speed, and not a bit beyond.
EXPERIMENT = """\
experiment: known
store: {kind: sim, settings: {service: 10ms, distribution: constant}}
workload: ./small.yaml
kind: capacity
slo: {response: 50ms}
search: {start: 80/s, least: 5/s, most: 500/s, factor: 1.5}
demands: [60/s, {users: 500, each: 1/s}]
arrivals: constant
measure: look
warmup: 100ms
duration: 1s
"""


def test_the_first_trial_of_each_treatment_is_at_the_start(load):
    experiment = load(HEAD + "    slo: {response: 1s}\n    search: {start: 50/s}\n    factors: {nodes: [1, 2]}\n")
    runs = design(experiment).runs
    assert sorted(run.id for run in runs) == ["b1-nodes1-rate50-t1", "b1-nodes2-rate50-t1"]
    assert all(run.treatment["rate"] == 50 for run in runs)


def test_a_dry_run_prints_the_first_rate_with_its_unit(load, capsys):
    experiment = load(HEAD + "    slo: {response: 1s}\n    search: {start: 2000/s}\n")
    DryRun(planned_runs(experiment, None)).show(Console())
    header, row = (line.split() for line in capsys.readouterr().out.splitlines()[1:3])
    assert row[header.index("rate")] == "2000/s"


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ("    slo: {response: 1s}\n    factors: {rate: [1/s]}\n", "rate cannot be a factor", "rate:"),
        ("    slo: {response: 1s}\n    factors: {clients: [1]}\n", "clients cannot be a factor", "clients:"),
        (
            "    slo: {response: 1s}\n    search: {start: 1/s, least: 2/s}\n",
            "start must lie between least and most; got 1/s, which is not between 2/s and 1,000,000/s",
            "start: 1/s",
        ),
        (
            "    slo: {response: 1s}\n    search: {start: 9/s, least: 2/s}\n    demands: [{users: 6, each: 6/min}]\n",
            "the demand of 0.6/s is below search: least, 2/s",
            "{users",
        ),
        ("    slo: {response: 1s, percentile: p98}\n", "p98", "p98"),
        ("    slo: {response: 1s, of: everybody}\n", "everybody", "everybody"),
        ("    slo: {response: 1e-20s}\n", "can never hold: response times are at least 1 ns", "1e-20s"),
        (
            "    slo: {response: 1s}\n    demands: [{users: 1000000, each: 1000000/s}]\n",
            "a demand of 1000000 users with 1e+06/s each can never hold: rates are below 1e9/s",
            "users:",
        ),
        ("    slo: {response: 0s}\n", "expected a number above 0", "0s"),
        ("    slo: {}\n", "'response' is missing", ""),
        ("    slo: {operations: {look: {errors: 1%}}}\n", "'look' needs a response, because the slo has none", ""),
        ("    slo: {response: 1s, operations: {lok: {response: 2s}}}\n", "unknown operation 'lok'", "lok"),
        ("    slo: {response: 1s}\n    search: {over: users}\n", "0 streams of the phase", ""),
        (
            "    slo: {response: 1s}\n    search: {over: users, start: 1.5}\n",
            "a number of users must be whole",
            "start: 1.5",
        ),
        (
            "    slo: {response: 1s}\n    factors: {nodes: [1, 2], with.hits: [1, 2]}\n    demands: [60/s]\n",
            "demands require nodes as the only factor; found with.hits",
            "demands:",
        ),
        ("", "'slo' is missing", ""),
    ],
)
def test_a_search_that_makes_no_sense_is_refused_at_its_place(refused, text, what, place):
    error, rest = refused(HEAD + text)
    assert what in str(error)
    assert rest.startswith(place)


@pytest.mark.parametrize("demand", ["400/s", "{users: 500, each: 1/s}", "1.5"])
def test_a_search_over_users_takes_demands_in_users(load, tmp_path, demand):
    (tmp_path / "users.yaml").write_text(WORKLOAD.replace("operation: look, clients: 1", "journey: [look], users: 1"))
    text = HEAD.replace("small", "users") + "    slo: {response: 1s}\n    search: {over: users}\n    demands: [500%s]\n"
    load(text % "")
    with pytest.raises(BadInput, match=r"compares numbers of users; got a demand of .* requests/s"):
        load(text % f", {demand}")


def test_a_phase_that_sends_groups_is_refused_because_its_rate_is_not_of_requests(load, tmp_path):
    group = "mix: {look: 2}, order: together, rate: 5/s"
    (tmp_path / "grouped.yaml").write_text(WORKLOAD.replace("operation: look, clients: 1", group))
    with pytest.raises(BadInput, match="the phase 'look' sends groups of requests"):
        load(HEAD.replace("small", "grouped") + "    slo: {response: 1s}\n")


def test_a_phase_that_sends_journeys_is_refused_because_its_rate_is_not_of_requests(load, tmp_path):
    text = HEAD.replace("small", "journeys") + "    slo: {response: 1s}\n"
    for steps, fits in (("look", True), ("look, look", False)):
        journey = WORKLOAD.replace("operation: look, clients: 1", f"journey: [{steps}], clients: 1")
        (tmp_path / "journeys.yaml").write_text(journey)
        if fits:
            load(text)
        else:
            with pytest.raises(BadInput, match="the phase 'look' sends journeys of several requests"):
                load(text)


@pytest.mark.parametrize(
    ("phase", "key", "arrivals"),
    [
        ("clients: 1", "", "poisson"),
        ("clients: 1", "arrivals: constant", "constant"),
        ("rate: 5/s", "", "poisson"),
        ("rate: 5/s, arrivals: constant", "", "constant"),
        ("rate: 5/s, arrivals: constant", "arrivals: poisson", "poisson"),
    ],
)
def test_trials_are_poisson_by_default(load, tmp_path, phase, key, arrivals):
    (tmp_path / "paced.yaml").write_text(WORKLOAD.replace("look, clients: 1", f"look, {phase}"))
    experiment = load(HEAD.replace("small", "paced") + f"    slo: {{response: 1s}}\n    {key}\n")
    assert experiment.describe()["arrivals"] == [arrivals]
    treatment = {"rate": 50.0}
    (phase,) = experiment.kind.phases(experiment, experiment.resolve(treatment, "elasticsearch"), treatment)
    assert phase.describe()["streams"][0]["pacing"] == {"open": {"rate": 50.0, "arrivals": arrivals}}


class Witness(Listener):
    def __init__(self):
        self.runs, self.numbers, self.remarks = [], [], []

    def run(self, index, runs, run_id):
        self.runs.append(run_id)
        self.numbers.append((index, runs))

    def remark(self, text):
        self.remarks.append(text)


@pytest.mark.store
def test_a_known_capacity_is_found_and_reported(tmp_path, state):
    (tmp_path / "small.yaml").write_text(WORKLOAD)
    text = EXPERIMENT.replace("factor: 1.5", "factor: 1.5, precision: 25%") + "repetitions: 2\n"
    (tmp_path / "e.yaml").write_text(text)
    experiment = load_experiment(tmp_path / "e.yaml")
    planned = design(experiment)
    folder = ExperimentFolder(tmp_path / "results", describe(experiment, planned))
    first = Witness()
    run_experiment(experiment, planned, folder, first)

    recorded = read_experiment(folder.path).runs
    assert sorted(run.id for run in recorded) == sorted(first.runs)
    for block in (1, 2):
        seeds = [run.run.raw_manifest["seed"] for run in recorded if run.block == block]
        assert len(set(seeds)) == len(seeds), "no two trials of a search send the same requests at the same instants"
    assert len({tuple(run.run.raw_manifest["store"]["addresses"]) for run in recorded}) == 2, (
        "one cluster for all trials of a search"
    )

    # The stopped experiment continues with only the missing trial.
    folder.set_aside(first.runs[-1])
    again = Witness()
    run_experiment(experiment, planned, folder, again)
    assert again.runs == first.runs[-1:]
    assert again.numbers == first.numbers[-1:], "the same search of two"
    assert any(remark.startswith("resuming: 1 of 2 searches finished, with ") for remark in again.remarks)
    done = Witness()
    run_experiment(experiment, planned, folder, done)
    assert done.remarks == ["all 2 searches are already finished"]

    [capacity] = read_capacities(folder.path).capacities
    report = read_report(folder.path)
    console = Console(record=True, width=100)
    report.show(console)
    assert "constant arrivals" in " ".join(console.export_text(clear=False).split())
    assert (report.document["arrivals"], "constant arrivals" in report.page) == (["constant"], True)
    assert "<h1>How much load does known sustain?</h1>" in report.page
    assert "Capacity against nodes" not in report.page, "one number of nodes makes no curve"
    if capacity.kind is Kind.UNKNOWN:
        pytest.skip("others use this machine so much that the generator was the limit throughout")
    assert capacity.rate.low <= 100 <= capacity.rate.high, "the store holds 100/s"
    if capacity.kind is Kind.BRACKETED:
        assert "above that p99 was" in " ".join(console.export_text().split())
    [answer] = report.document["capacities"]
    assert answer["rate"]["value"] == capacity.rate.value
    nearby, far = report.document["demands"]
    # On a busy machine the generator is the limit below 60/s.
    sustained = capacity.sustained >= 60
    assert (nearby["nodes"], nearby["measured"]) == ((1, True) if sustained else (None, False))
    assert far["nodes"] is None


#: The last lines of the phase and of the search, and the resulting values.
RATES = ("operation: look, clients: 1", "{response: 2s}", "{start: 100/s, most: 200/s}", "rate", ["poisson"])
USERS = (
    "users: 5, clients: 8, journey: [{operation: look, think_time: 500ms}]",
    "{operations: {look: {response: 2s}}}",
    "{over: users, start: 10, most: 20}",
    "users",
    [],
)


class Trials(Listener):
    """Trials by their number and load, and their outcomes."""

    def __init__(self):
        self.begun, self.ended = [], []

    def trial(self, number, load, percentile, limit):
        self.begun.append((number, load))

    def judged(self, run_id, text, outcome):
        self.ended.append((text, outcome))


def test_a_trial_that_did_not_pass_has_all_its_reasons():
    invalid = Judgement(Outcome.INVALID, ("late by 3 ms", "2 nodes left"), None, None, None, None)
    assert _why(invalid) == " (late by 3 ms; 2 nodes left)"
    assert _why(replace(invalid, outcome=Outcome.PASSED)) == ""


@pytest.mark.store
@pytest.mark.parametrize(("load", "slo", "search", "over", "arrivals"), [RATES, USERS])
def test_a_real_store_that_holds_all_that_may_be_tried_ends_at_the_bound(
    tmp_path, state, load, slo, search, over, arrivals
):
    (tmp_path / "keys.yaml").write_text(
        f"""\
workload: keys
collections: {{things: {{redis: {{}}}}}}
operations:
  write: {{upsert: {{collection: things, id: "a", document: {{n: 1}}}}}}
  look: {{read: {{collection: things, id: "a"}}}}
phases:
  - {{name: write, prepares: true, operation: write, clients: 1, requests: 1}}
  - {{name: look, {load}, duration: 5s}}
"""
    )
    (tmp_path / "e.yaml").write_text(
        f"""\
experiment: keys
store: {{kind: redis}}
workload: ./keys.yaml
kind: capacity
slo: {slo}
search: {search}
warmup: 100ms
duration: 1s
"""
    )
    experiment = load_experiment(tmp_path / "e.yaml")
    planned = design(experiment)
    folder = ExperimentFolder(tmp_path / "results", describe(experiment, planned))
    trials = Trials()
    run_experiment(experiment, planned, folder, trials)
    assert [number for number, _ in trials.begun] == list(range(1, len(trials.begun) + 1))
    assert [text.partition(",")[0] for text, _ in trials.ended] == [f"trial {n}: {load}" for n, load in trials.begun]
    assert all("(SLO " in text and outcome in text for text, outcome in trials.ended)
    report = read_report(folder.path)
    assert report.document["arrivals"] == arrivals
    assert ("Poisson arrivals" in report.page) == bool(arrivals), "the usual ones"
    assert report.document["over"] == over
    [capacity] = read_capacities(folder.path).capacities
    for attempt in capacity.searches[0].attempts:
        assert attempt.duration == pytest.approx(1, abs=0.1)
        # The requests of one second are the rate that it offered.
        assert attempt.offered == (pytest.approx(attempt.judgement.counts[0].due, rel=0.1) if over == "rate" else None)
    codes = {warning["code"] for warning in report.document["warnings"]}
    assert codes == ({"few_requests", "offered_rate"} if over == "rate" else {"few_requests"})
    assert capacity.kind in (Kind.AT_MOST, Kind.LOWER_BOUND, Kind.UNKNOWN), "200 reads a second are nothing to it"
    assert all(over in attempt.run for attempt in capacity.searches[0].attempts)
    if capacity.kind is Kind.AT_MOST:
        assert capacity.rate.value == (200 if over == "rate" else 20)
        assert len(capacity.searches[0].attempts) == 4
        assert "Raise search: most" in report.page
