"""The cost of clusters on the terminal, and in the results of capacity, settings and scale experiments."""

import json
import math
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from commands import loadframe
from loadframe.analyze.cost import Prices, cheapest, cost
from loadframe.analyze.estimate import Estimate
from loadframe.record import RunWriter
from loadframe.report.kinds import read_report
from loadframe.report.sections import cheapest_text, cost_table, within_text
from simulated import Truth, write_experiment

PRICES = {"currency": "EUR", "node_hour": 1.0, "by": None, "storage": None, "gb_month": None}
PER_HOUR = Prices.of({"prices": PRICES})
FOLDERS = Path(__file__).parent.parent / "data" / "older_folders"


def made(nodes, rate, **options):
    return cost(PER_HOUR, {"nodes": nodes}, nodes, rate, **options)


def million(entry):
    (row,) = cost_table(PER_HOUR, [entry]).rows
    return f"{row[-1].text} {row[-1].small}".strip()


def test_a_bracket_of_one_search_is_not_written_as_an_interval():
    assert million(made(1, Estimate(1000, 800, 1250))) == "0.28 [0.22, 0.35]"
    assert million(made(1, Estimate(1000, 1000, 1250), by_one_search=True)) == "0.222 to 0.278"
    assert million(made(1, Estimate(1000, 1000, math.inf), by_one_search=True)) == "at most 0.278"
    # Throughput of at most 1,000/s.
    assert million(made(1, Estimate(0, 0, 1000))) == "at least 0.278"


def test_the_sentence_says_what_the_intervals_leave_open():
    one, two = made(1, Estimate(500, 450, 550)), made(2, Estimate(1000, 900, 1100))
    assert cheapest_text(PER_HOUR, cheapest([one, two], 400)).startswith(
        "Cheapest for 400 requests/s: nodes 1 at 730.50 EUR"
    )
    assert "Undecided: nodes 1 at 730.50." in cheapest_text(PER_HOUR, cheapest([one, two], 500))
    assert cheapest_text(PER_HOUR, cheapest([one], 500)).startswith(
        "Whether a measured cluster sustains 500 requests/s is"
    )
    assert cheapest_text(PER_HOUR, cheapest([one, two], 2000)) == "No measured cluster sustains 2,000 requests/s."
    single = made(1, Estimate(500, 500, math.inf), by_one_search=True)
    assert "only an indication" in cheapest_text(PER_HOUR, cheapest([single], 400))


def test_a_configuration_with_failures_is_marked():
    failing = replace(made(1, Estimate(100, 99, 101)), failed=True)
    fine = made(2, Estimate(150, 149, 151))
    words, _ = within_text(PER_HOUR, [failing, fine])
    assert words.startswith("Cheapest configuration: nodes 2 at 3.7")
    assert words.endswith("Excluded, because the store or too many requests failed in a run: nodes 1.")
    assert [row[0].small for row in cost_table(PER_HOUR, [failing, fine]).rows] == ["with failures", ""]
    assert [entry.as_dict()["failed"] for entry in (failing, fine)] == [True, False]
    assert "Excluded" not in within_text(PER_HOUR, [fine])[0]


def unpack(name, target, **keys):
    """Extract an experiment's folder, and add keys to its description."""
    with tarfile.open(FOLDERS / f"{name}.tar.xz") as members:
        members.extractall(target)
    file = target / name / "experiment.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **keys}))


def test_a_capacity_experiment_with_prices_names_the_cheapest_cluster(tmp_path):
    unpack("capacity", tmp_path, prices=PRICES, demands=[10.0, 1e6])
    done = loadframe("report", "capacity", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    costs = json.loads(done.stdout)["cost"]
    (treatment,) = costs["treatments"]
    assert (treatment["per_month"], treatment["by_one_search"]) == (730.5, True)
    assert [answer["cheapest"] for answer in costs["demands"]] == [{"nodes": 1}, None]
    assert "Cheapest for 10 requests/s" in " ".join(loadframe("report", "capacity", cwd=tmp_path).stdout.split())


def test_a_settings_experiment_names_the_cheapest_configuration_within_the_slo(tmp_path):
    unpack("settings", tmp_path, prices={**PRICES, "slo": {"p99": 0.05}})
    done = loadframe("report", "settings", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    costs = json.loads(done.stdout)["cost"]
    per_million = {
        (entry["treatment"]["clients"], entry["treatment"]["nodes"]): entry["per_million_requests"]
        for entry in costs["treatments"]
    }
    assert per_million.keys() == {(2, 1), (2, 2), (4, 1), (4, 2)}
    assert all(cost["low"] < cost["value"] < cost["high"] for cost in per_million.values())
    # Four clients on one node are as cheap, but their p99 may exceed 50 ms.
    assert costs["within"] == {
        "slo": "p99 within 50 ms, errors below 0.01",
        "cheapest": {"clients": 2, "nodes": 1},
        "perhaps_cheaper": [{"clients": 4, "nodes": 2}],
        "undecided": [{"clients": 4, "nodes": 1}],
    }
    slo = "the SLO (p99 within 50 ms, fewer than 1 % errors)"
    sentence = f"Cheapest configuration within {slo}: clients 2, nodes 1 at 1.420 [1.32, 1.447] EUR"
    assert sentence in " ".join(loadframe("report", "settings", cwd=tmp_path).stdout.split())
    assert sentence in (tmp_path / "settings" / "report.html").read_text()


def test_a_scale_experiment_names_the_cheapest_configuration(tmp_path):
    unpack("scale", tmp_path, prices=PRICES)
    done = loadframe("report", "scale", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    costs = json.loads(done.stdout)["cost"]
    cheapest = min(costs["treatments"], key=lambda entry: entry["per_million_requests"]["value"])
    assert costs["within"]["cheapest"] == cheapest["treatment"]


def test_each_size_of_the_data_has_its_own_cheapest_configuration(tmp_path):
    """With weak scaling the data grow with the nodes, so one node is cheap for little data only."""
    path = write_experiment(
        tmp_path / "e", Truth(seconds=2, noise=0.0), nodes=(1, 2), clients=(1, 4), prices=PRICES, scaling="weak"
    )
    report = read_report(path)
    assert [(answer["at"], answer["cheapest"]) for answer in report.document["cost"]["within_at"]] == [
        ({"nodes": nodes}, {"nodes": nodes, "clients": 4}) for nodes in (1, 2)
    ]
    assert "nodes 2: Cheapest configuration: nodes 2, clients 4 at" in report.page


@pytest.mark.parametrize("repeated", [True, False])
def test_a_configuration_whose_store_crashed_is_not_the_cheapest(tmp_path, repeated):
    """Whether the crashed run was repeated or not, the runs that survived do not clear the configuration."""
    path = write_experiment(
        tmp_path / "e", Truth(seconds=2, noise=0.0), nodes=(1,), clients=(1, 4), prices=PRICES, scaling="strong"
    )
    name = "b1-nodes1-clients4"

    def cheapest_of():
        return read_report(path).document["cost"]["within"]["cheapest"]

    assert cheapest_of() == {"nodes": 1, "clients": 4}
    crash = {"status": "failed", "failure": "node-0 ended", "fault": "store"}
    if repeated:
        with RunWriter(path / "attempts", f"{name}.1") as writer:
            manifest = {"format": 1, "run": name, "treatment": {"nodes": 1, "clients": 4}, "block": 1}
            writer.finish(manifest, crash)
    else:
        (path / "runs" / name / "summary.json").write_text(json.dumps(crash))
    assert cheapest_of() == {"nodes": 1, "clients": 1}


def test_costs_of_an_experiment_on_documents_are_per_document(tmp_path):
    """A simulated request returns 100 documents."""

    def costs_of(name, **keys):
        path = write_experiment(
            tmp_path / name, Truth(seconds=2, noise=0.0), nodes=(1,), clients=(1, 4), prices=PRICES, **keys
        )
        report = read_report(path)
        return report.document["cost"], report.page

    requests, page = costs_of("requests")
    assert "EUR per million requests" in page
    documents, page = costs_of("documents", objective="documents")
    assert "EUR per million documents" in page
    assert "EUR per million requests" not in page
    assert documents["within"] == requests["within"]
    for one, other in zip(documents["treatments"], requests["treatments"], strict=True):
        per_document, per_request = one["per_million_documents"], other["per_million_requests"]
        assert per_document["value"] == pytest.approx(per_request["value"] / 100, rel=1e-3)
    unpack("settings", tmp_path, prices=PRICES, objective="documents")
    settings = read_report(tmp_path / "settings")
    assert all("per_million_documents" in entry for entry in settings.document["cost"]["treatments"])
