"""The neutral verbs, bulk requests and assertions on a real node: what is asked is what the store then holds."""

import pytest

from loadframe.load import check_operations
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

BULK = "collection: things, corpus: records, size: 20, id: key"
CONFLICTS = "collection: things, corpus: trips, size: 40, conflicts: random, on_conflict: update, recency: 0.5"
CORPORA = """
  records: {generate: ycsb_record, documents: 20, with: {field_count: 1}}
  trips: {generate: nyc_taxi_trip, documents: 40}"""
SUM = (
    "{search: {collection: things, body: {aggs: {s: {sum: {field: n}}}}}, assert: {fields: {aggregations.s.value: 8}}}"
)


@pytest.fixture
def asked(node, tmp_path):
    """Send operations once, one after the other; return the outcome of each by its name."""

    def asked(operations: str) -> dict[str, tuple[str | None, int]]:
        names = [line.split(":")[0].strip() for line in operations.strip().splitlines()]
        phases = "".join(f"  - {{name: {name}, operation: {name}, clients: 1, requests: 1}}\n" for name in names)
        head = f"workload: w\ncollections: {{things: {{}}}}\ncorpora:{CORPORA}\n"
        (tmp_path / "w.yaml").write_text(f"{head}operations:{operations}\nphases:\n{phases}")
        resolved = load_workload(str(tmp_path / "w.yaml")).for_family("elasticsearch", 1)
        answers = {}
        for phase in resolved.phases:
            plan = phase.plan(seed=1, hosts=node.addresses, driver=node.store.driver, target=node.target())
            (answer,) = check_operations(plan)
            answers[phase.name] = (answer["error"], answer["documents"])
        return answers

    return asked


def test_every_verb_does_what_it_says(node, asked):
    node.create_collection("things", {"mappings": {"properties": {"key": {"type": "keyword"}}}})
    answers = asked(
        """
  insert: {insert: {collection: things, id: a, document: {key: a, n: 1, in: {x: 1}}}}
  again: {insert: {collection: things, id: a, document: {key: a, n: 2}}}
  inserted: {read: {collection: things, id: a}, assert: {fields: {n: 1, in.x: 1, key: a}}}
  one_field: {read: {collection: things, id: a, fields: [n]}, assert: {fields: {key: a}}}
  update: {update: {collection: things, id: a, document: {n: 3}}}
  updated: {read: {collection: things, id: a}, assert: {fields: {n: 3, key: a}}}
  update_none: {update: {collection: things, id: b, document: {n: 3}}}
  upsert: {upsert: {collection: things, id: b, document: {key: b, n: 4}}}
  upserted: {read: {collection: things, id: b}, assert: {fields: {n: 4}}}
  change: {read_modify_write: {collection: things, id: b, document: {n: 5}}, assert: {fields: {n: 4}}}
  changed: {read: {collection: things, id: b}, assert: {fields: {n: 5, key: b}}}
  change_none: {read_modify_write: {collection: things, id: c, document: {n: 5}}}
  refresh: {refresh: {collection: things}}
  scan: {scan: {collection: things, from: a, count: 10, by: key}, assert: {hits: 2, fields: {key: a}}}
  scan_one: {scan: {collection: things, from: b, count: 1, by: key}, assert: {fields: {key: b}}}
  scan_none: {scan: {collection: things, from: c, count: 1, by: key}, assert: {min_hits: 1}}
  sum: """
        + SUM
        + """
  delete: {delete: {collection: things, id: a}}
  delete_none: {delete: {collection: things, id: a}}
  deleted: {read: {collection: things, id: a}}"""
    )
    failed = {name: error for name, (error, _) in answers.items() if error}
    assert failed == {
        "again": "client",
        "one_field": "assertion",
        "update_none": "client",
        "change_none": "client",
        "scan_none": "assertion",
        "delete_none": "client",
        "deleted": "client",
    }
    assert [answers[name][1] for name in ("insert", "inserted", "scan", "scan_one")] == [1, 1, 2, 1]
    assert answers["change"] == (None, 2)
    assert node.count("things") == 1


def test_bulk_requests_put_change_and_remove_documents(node, asked):
    node.create_collection("things", {})
    answers = asked(f"""
  none_there: {{bulk: {{{BULK}, action: update}}}}
  upsert: {{bulk: {{{BULK}, action: upsert}}}}
  create: {{bulk: {{{BULK}, action: create}}}}
  index: {{bulk: {{{BULK}}}}}
  update: {{bulk: {{{BULK}, action: update}}}}
  refresh: {{refresh: {{collection: things}}}}
  all: {{search: {{collection: things}}, assert: {{hits: 20}}}}
  delete: {{bulk: {{{BULK}, action: delete}}}}
  again: {{bulk: {{{CONFLICTS}}}}}""")
    assert {name: error for name, (error, _) in answers.items() if error} == {"none_there": "item", "create": "item"}
    assert answers["index"] == answers["upsert"] == answers["update"] == answers["delete"] == (None, 20)
    assert answers["again"] == (None, 40)
    assert 20 < node.count("things") < 40, "documents with ids that conflict are one"
