"""Two real Cassandra nodes: the verbs by their values, a bulk with one bad item, and a node that comes and goes."""

import csv
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadframe.cluster import Cluster, ClusterSpec
from loadframe.errors import BadInput
from loadframe.load import check_operations, run_phase

pytestmark = pytest.mark.store

DEFINITION = {
    "columns": {"name": "text", "age": "int", "at": "timestamp", "tags": "list<text>"},
    "replication": {"class": "SimpleStrategy", "replication_factor": 2},
}
DOCUMENT = {"name": "Ann", "age": 41, "at": "2015-01-31T12:00:00.000Z", "tags": ["a", "b"]}
ANN = {"collection": "people", "id": "ann"}


@pytest.fixture(scope="module")
def cluster(module_state) -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(store="cassandra", nodes=2, settings={"heap": "320m"})) as started:
        yield started


@pytest.fixture
def people(cluster: Cluster) -> Iterator[Cluster]:
    cluster.create_collection("people", DEFINITION)
    yield cluster
    cluster.drop_collection("people")


def plan(cluster: Cluster, operations: dict, **more) -> dict:
    stream = {"name": "s", "mix": [[name, 1] for name in operations], "pacing": {"closed": {"clients": 1}}}
    streams = [stream | {"stop": {"requests": 1}} | more.pop("stream", {})]
    target = {"driver": "cql", "hosts": cluster.addresses}
    return {"seed": 1, "phase": "p", "target": target, "operations": operations, "streams": streams, **more}


def asked(cluster: Cluster, operation: dict) -> dict:
    return check_operations(plan(cluster, {"a": operation}))[0]


def rows(answer: dict) -> list[dict]:
    return [json.loads(line) for line in answer["answer"].splitlines()[1:]]


def read(cluster: Cluster, **more) -> list[dict]:
    return rows(asked(cluster, {"read": ANN | more}))


def test_it_is_ready_with_the_expected_number_of_nodes(cluster):
    health = cluster.health()
    assert (health.ready, health.balanced, health.status, health.nodes) == (True, True, "normal", 2)
    assert len({address.rpartition(":")[0] for address in cluster.addresses}) == 2
    assert cluster.describe()["version"] == "5.0.9"


def test_what_is_written_is_read_back(people):
    assert asked(people, {"insert": ANN | {"document": DOCUMENT}})["error"] is None
    assert read(people) == [{"id": "ann", **DOCUMENT}]
    assert read(people, fields=["age"]) == [{"age": 41}]
    assert asked(people, {"update": ANN | {"document": {"age": 42}}})["error"] is None
    assert asked(people, {"upsert": ANN | {"document": {"tags": ["c"]}}})["error"] is None
    assert read(people) == [{"id": "ann", **DOCUMENT, "age": 42, "tags": ["c"]}]
    done = asked(people, {"read_modify_write": ANN | {"document": {"age": 43}}})
    assert (done["error"], done["documents"]) == (None, 1)
    assert read(people, fields=["age"]) == [{"age": 43}]
    assert asked(people, {"delete": ANN})["error"] is None
    gone = asked(people, {"read": ANN})
    assert (gone["error"], gone["message"]) == ("client", "not found")


def test_a_statement_of_ones_own_is_prepared_and_judged(people):
    statement = "INSERT INTO people (id, age) VALUES (?, ?) IF NOT EXISTS"
    insert = {"cql": {"statement": statement, "values": ["ann", 1], "consistency": "quorum"}}
    assert asked(people, insert)["error"] is None
    again = asked(people, insert)
    assert again["error"] == "client"
    assert "not applied" in again["message"]
    select = {"cql": {"statement": "SELECT age FROM people WHERE id = ?", "values": ["ann"]}}
    assert rows(asked(people, select)) == [{"age": 1}]


def test_rows_that_are_not_as_asserted_are_no_success(people):
    assert asked(people, {"insert": ANN | {"document": DOCUMENT}, "consistency": "all"})["error"] is None
    select = {"cql": {"statement": "SELECT age, tags FROM people WHERE id = ?", "values": ["ann"]}}
    scan = {"scan": {"collection": "people", "from": "ann", "count": 5}}
    for operation in ({"read": ANN}, select, scan):
        right = asked(people, operation | {"assert": {"fields": {"age": 41, "tags.1": "b"}}})
        assert (right["error"], right["documents"]) == (None, 1)
        wrong = asked(people, operation | {"assert": {"fields": {"age": 40}}})
        assert (wrong["error"], wrong["message"]) == ("assertion", 'the field "age" is 41, and not 40')
    few = asked(people, scan | {"assert": {"min_hits": 2}})
    assert (few["error"], few["message"]) == ("assertion", "1 hits, fewer than the 2 that are asserted")


def test_a_wrong_request_is_told_in_the_stores_words(people):
    wrong = [
        ({"insert": ANN | {"document": {"age": "old"}}}, 'column "age": the text "old" does not go into .* int'),
        ({"insert": ANN | {"document": {"aeg": 1}}}, "aeg"),
        ({"read": {"collection": "nobody", "id": "1"}}, r"there is no table loadframe\.nobody"),
        ({"cql": {"statement": "SELEC 1"}}, "SELEC"),
        ({"cql": {"statement": "SELECT * FROM people WHERE id = ?", "values": []}}, "1 markers, and there are 0"),
    ]
    told = check_operations(plan(people, {str(number): operation for number, (operation, _) in enumerate(wrong)}))
    for failed, (_, words) in zip(told, wrong, strict=True):
        assert failed["error"] == "client"
        assert re.search(words, failed["message"])


def test_a_bulk_request_counts_its_bad_item(people, tmp_path):
    lines = [{"key": f"p{n}", "age": n} for n in range(9)] + [{"key": "p9", "age": "old"}]
    file = tmp_path / "people.json"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    bulk = {"bulk": {"collection": "people", "corpus": "c", "size": 10, "id": "key"}}
    answer = check_operations(plan(people, {"a": bulk}, corpora={"c": {"files": [str(file)]}}))[0]
    assert (answer["error"], answer["documents"]) == ("item", 9)
    assert 'the text "old"' in answer["message"]
    assert people.count("people") == 9


def load(cluster: Cluster, folder, documents: int, tell=lambda _: None, **stream) -> dict:
    """Write that many documents of which number n has the id n."""
    insert = {"insert": {"collection": "people", "id": "${n}", "document": {"age": "${n}"}}}
    load = {"stop": {"requests": documents}, "pacing": {"closed": {"clients": 16}}} | stream
    variables = {"n": {"sequential": {"from": 0}}}
    return run_phase(
        plan(cluster, {"a": insert}, stream=load, variables=variables),
        folder,
        tell,
        lambda: cluster.addresses,
    )


def served(folder: Path, outcome: dict) -> Counter[str]:
    """Count the requests that each node served."""
    counts: Counter[str] = Counter()
    with (folder / "nodes.csv").open() as lines:
        for row in csv.DictReader(lines):
            counts[outcome["hosts"][int(row["node"])]] += int(row["requests"])
    return counts


def test_a_thousand_documents_are_counted_and_scanned_in_their_order(people, tmp_path):
    outcome = load(people, tmp_path, 1000)
    assert outcome["operations"][0]["successes"] == 1000
    assert all(served(tmp_path, outcome)[address] > 0 for address in people.addresses)
    assert people.count("people") == 1000
    scan = {"scan": {"collection": "people", "from": "500", "count": 20}}
    found = rows(asked(people, scan))
    assert len(found) == 20
    assert found[0] == {"id": "500", "age": 500, "at": None, "name": None, "tags": None}


def test_its_figures_are_those_of_each_node(people):
    figures = people.statistics()
    assert len(figures) == 2
    assert all(node["request_completed"] > 0 and node["clients"] >= 1 for node in figures.values())


def test_a_node_comes_and_goes_under_load_and_nothing_is_lost(people, tmp_path):
    outcomes, over = [], threading.Event()

    def tell(_progress):
        if over.is_set():
            raise KeyboardInterrupt

    stream = {"pacing": {"open": {"rate": 100}}, "stop": {"duration": 900}}
    thread = threading.Thread(target=lambda: outcomes.append(load(people, tmp_path, 0, tell, **stream)))
    thread.start()
    try:
        told: list[str] = []
        joined = people.grow(tell=lambda what, state: told.append(state.unit))
        newcomer = next(node for node in people.nodes if node.name == joined[0])
        assert people.health().nodes == 3
        assert people.shrink(joined[0]) == joined
    finally:
        over.set()
        thread.join()
    outcome = outcomes[0]
    operation = outcome["operations"][0]
    assert set(told) == {"bytes"}
    assert operation["errors"] == []
    assert people.health().nodes == 2
    assert people.count("people") >= operation["successes"]
    assert served(tmp_path, outcome)[newcomer.address] > 0


def test_a_cluster_does_not_shrink_below_its_copies(people):
    with pytest.raises(BadInput, match="wants 2 copies, and 1 nodes would be left"):
        people.shrink()
