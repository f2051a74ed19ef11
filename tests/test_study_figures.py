"""Study files and study pages give the published figures, which are in `tests/data/studies`."""

import csv
import io
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadframe.workload import load_workload

ROOT = Path(__file__).parents[1]
EXPERIMENTS = ROOT / "experiments"
DATA = Path(__file__).parent / "data" / "studies"
PUBLISHED = json.loads((DATA / "published.json").read_text())


@cache
def page(study: str) -> str:
    return (EXPERIMENTS / study / "README.md").read_text()


def figures(study: str, name: str) -> list[dict[str, str]]:
    lines = (EXPERIMENTS / study / name).read_text().splitlines()
    return list(csv.DictReader(io.StringIO("\n".join(line for line in lines if not line.startswith("#")))))


def experiment(study: str, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((EXPERIMENTS / study / name).read_text())
    return loaded


def table(text: str, first: str) -> list[list[str]]:
    """Return the rows of the table with the first header `first`."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip().startswith(f"| {first} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.strip().startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return rows


def number(text: str) -> float:
    return float(re.search(r"-?[\d,]+(?:\.\d+)?", text)[0].replace(",", ""))


@pytest.mark.parametrize(
    ("study", "contradiction"),
    [(study, known) for study, facts in PUBLISHED.items() for known in facts.get("contradictions", ())],
    ids=lambda value: value if isinstance(value, str) else value["about"],
)
def test_both_figures_of_a_contradiction_are_on_the_page(study, contradiction):
    assert [shown for shown in contradiction["shown"] if shown not in page(study)] == []


@pytest.mark.parametrize("study", ["mpi-benchmarker", "elasticity-paper"])
def test_the_page_states_the_versions(study):
    assert [version for version in PUBLISHED[study]["versions"] if version not in page(study)] == []


def test_ingestion_by_ranks_is_as_published():
    known = PUBLISHED["mpi-benchmarker"]["ingestion"]
    rows = figures("mpi-benchmarker", "published-ingest.csv")
    written: dict[str, dict[str, float]] = {}
    for row in rows:
        written.setdefault(row["clients"], {})[row["measure"]] = float(row["value"])
        assert "repository" in row["source"], "none of them is in the document"
    assert written == known
    columns = ("documents", "wall_time", "summed_time", "p50", "p99")
    shown = {
        row[0]: dict(zip(columns, map(number, row[1:]), strict=True)) for row in table(page("mpi-benchmarker"), "ranks")
    }
    assert shown == known
    fitted = figures("mpi-benchmarker", "fit-ingest.csv")
    assert [[float(value) for value in row.values()] for row in fitted] == [
        [float(ranks), float(of["documents"])] for ranks, of in known.items()
    ]


def test_figures_of_the_repository_are_marked():
    (marked,) = re.findall(r"\*\*From the author's repository, not from the document:\*\*(.*)", page("mpi-benchmarker"))
    assert [words for words in ("table", "10,000", "165,346,692", "second corpus") if words not in marked] == []


def test_the_master_rule_of_the_study_stands_beside_ours():
    from loadframe.store.search.membership import electors

    rows = table(page("mpi-benchmarker"), "nodes")
    for nodes, study, ours in rows:
        for count in re.findall(r"\d+", nodes):
            known = PUBLISHED["mpi-benchmarker"]["master_eligible"]
            assert (int(study), int(ours)) == (known[count], electors(int(count)))


def test_the_whole_study_runs_all_18_steps():
    steps = PUBLISHED["mpi-benchmarker"]["steps"]
    expected = [f"{kind}_{size}" for kind, sizes in steps["sizes"].items() for size in sizes]
    expected += [*(f"match_all_1000_sleep_{sleep}" for sleep in steps["sleeps"]), *steps["others"]]
    whole = experiment("mpi-benchmarker", "whole.yaml")
    assert len(expected) == 18
    assert sorted(set(whole["measure"]) - {"load", "refresh"}) == sorted(expected)
    assert (whole["with"]["warmup"], whole["with"]["duration"]) == (steps["warmup"], steps["duration"])
    assert whole["with"]["documents"] == PUBLISHED["mpi-benchmarker"]["documents"]


def test_inserts_by_shards_are_as_published():
    known = {size: PUBLISHED["sharded-mongodb"][size] for size in ("small", "medium", "large")}
    unsharded = PUBLISHED["sharded-mongodb"]["unsharded"]
    written: dict[str, dict[str, float]] = {}
    for row in figures("sharded-mongodb", "published-shards.csv"):
        written.setdefault(row["series"], {})[row["nodes"]] = float(row["value"])
    assert written == known
    shards = {"one-shard": "1", "three-shards": "3"}
    for row in figures("sharded-mongodb", "published-unsharded.csv"):
        of = known[row["series"]]
        expected = unsharded[row["series"]] if row["variant"] == "unsharded" else of[shards[row["variant"]]]
        assert float(row["value"]) == expected
    for size, of in known.items():
        rows = figures("sharded-mongodb", f"fit-{size}.csv")
        assert {shards: float(value) for shards, value in (row.values() for row in rows)} == of
    header = ["unsharded", "1", "2", "3", "5", "10", "15", "20"]
    for size, *cells in table(page("sharded-mongodb"), "machines"):
        shown = {name: number(cell) for name, cell in zip(header, cells, strict=True) if cell}
        assert shown == {"unsharded": unsharded[size], **known[size]}
    for value in PUBLISHED["sharded-mongodb"]["balancer"].values():
        assert f"{value:,}" in page("sharded-mongodb")


@pytest.mark.parametrize(("name", "suffix"), [("published-scale.csv", ""), ("published-calibrated.csv", "_operations")])
def test_changes_of_scalability_are_as_published(name, suffix):
    known = PUBLISHED["elasticity-paper"]["scalability"]
    expected = {
        (step, mix, measure, store): value
        for step, mixes in known.items()
        for mix, measures in mixes.items()
        for measure, stores in measures.items()
        for store, value in stores.items()
    }
    places = {("4", ""): "1 to 4 nodes", ("8", "40"): "4 to 8 nodes, 40", ("8", "80"): "4 to 8 nodes, 80"}
    written = {}
    for row in figures("elasticity-paper", name):
        mix = row["phase"].removesuffix("_operations")
        written[places[row["nodes"], row["clients"]], mix, row["measure"], row["series"]] = float(row["value"])
    assert written == expected


def test_the_changes_on_the_page_are_as_published():
    known = PUBLISHED["elasticity-paper"]["scalability"]
    names = {"1 to 4 nodes": "1 to 4 nodes", "4 to 8 nodes, 40 clients": "4 to 8 nodes, 40"}
    names["4 nodes with 40 to 8 nodes with 80 clients"] = "4 to 8 nodes, 80"
    rows = table(page("elasticity-paper"), "change")
    assert len(rows) == 6
    for change, *cells in rows:
        measure, _, step = change.partition(", ")
        of = known[names[step]]
        for store, cell in zip(("Couchbase", "Cassandra", "MongoDB"), cells, strict=True):
            kind = {"latency": "mean"}.get(measure, measure)
            expected = [of[mix][kind][store] for mix in ("b", "a") if store in of[mix][kind]]
            assert [number(part) for part in cell.split(", ")] == expected, (change, store)


def test_times_of_overload_are_as_published():
    known = PUBLISHED["elasticity-paper"]["overload"]
    for row in figures("elasticity-paper", "published-overload.csv"):
        assert float(row["value"]) == known[row["measure"]][row["series"]]


def test_the_mixes_of_ycsb_are_those_of_its_files():
    told = json.loads((DATA / "ycsb.json").read_text())
    phases = {phase.name: phase for phase in load_workload("ycsb").file.phases}
    for mix in ("a", "b"):
        (stream,) = phases[mix].named_streams
        total = sum(stream.weights.values())
        shares = {name.split("_")[0]: weight / total for name, weight in stream.weights.items()}
        assert shares == {name: told["workloads"][mix][name] for name in ("read", "update")}


def test_responses_by_settings_are_as_published():
    known = PUBLISHED["selfcare"]["settings"]
    shown = {}
    for row in table(page("selfcare"), "settings"):
        shown |= {key: number(value) for key, value in zip(row[::2], row[1::2], strict=True)}
    assert {_settings(name): value for name, value in shown.items()} == {
        frozenset(name.split(" + ")) - {"default"}: value for name, value in known.items()
    }
    default = {"with.shards": "5", "with.refresh": "pause", "with.routing": "none", "with.merge": "none"}
    names = {"with.shards": "shards", "with.refresh": "refresh", "with.routing": "routing", "with.merge": "merging"}
    written = {}
    for row in figures("selfcare", "published-settings.csv"):
        written[frozenset(names[key] for key, level in default.items() if row[key] != level)] = float(row["value"])
    assert written == {frozenset(name.split(" + ")) - {"default"}: value for name, value in known.items()}


def test_interactions_follow_from_the_published_table():
    known = PUBLISHED["selfcare"]
    for pair, expected in known["interactions"].items():
        first, second = pair.split(" + ")
        of = known["settings"]
        ratio = of[pair] * of["default"] / (of[first] * of[second])
        assert ratio == pytest.approx(expected, abs=5e-4)
        assert f"{expected:.3f}" in page("selfcare")


def test_posts_of_the_users_are_as_counted():
    told = json.loads((DATA / "selfcare.json").read_text())
    posts = PUBLISHED["selfcare"]["posts"]
    assert told["per_user_week"]["activity"] == posts["a_week"]
    users, weeks = posts["users"], posts["weeks"]
    assert f"{users * weeks * posts['a_week']:,}" in page("selfcare")
    assert f"{users * weeks * posts['distinct']:,}" in page("selfcare")


def test_rates_of_the_advertisers_log_are_as_published():
    known = PUBLISHED["adbids"]
    assert [f"{value:,}" for value in known["rates"].values() if f"{value:,}" not in page("adbids")] == []
    assert [str(value) for value in known["deviations"] if str(value) not in page("adbids")] == []
    told = json.loads((DATA / "adbids.json").read_text())["rates"]
    lines = 1 + told["win_per_bid"] * (1 + told["click_per_win"])
    assert lines == pytest.approx(known["lines_per_bid"], abs=5e-4)
    assert str(known["lines_per_bid"]) in page("adbids")


def test_rates_under_stress_stand_as_lines_and_as_bids():
    known = PUBLISHED["adbids"]
    phases = ("ingest_more", "queries_and_ingest", "stress")
    means = dict(zip(phases, known["rates"].values(), strict=True))
    deviations = dict(zip(phases, known["deviations"], strict=True))
    published = {"documents_mean_10s": means, "documents_deviation_10s": deviations}
    lines_per_log = {"a log is a line": 1.0, "a log is a bid": known["lines_per_bid"]}
    rows = list(figures("adbids", "published-stress.csv"))
    assert len(rows) == 12
    for row in rows:
        expected = published[row["measure"]][row["phase"]] * lines_per_log[row["series"]]
        assert float(row["value"]) == pytest.approx(expected, abs=0.06)


def _settings(text: str) -> frozenset[str]:
    """Return the changed settings of a row of the page: `fewer shards`, `refresh + shards`, `default`."""
    return frozenset(text.removeprefix("fewer ").split(" + ")) - {"default"}
