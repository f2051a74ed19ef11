"""Assertions on aggregations, and bulk requests with conflicting ids, on a real node.

The contract tests cover the verbs.
"""

import pytest

from loadframe.load import check_operations
from loadframe.workload import load_workload

pytestmark = pytest.mark.store

CONFLICTS = "collection: things, corpus: trips, size: 40, conflicts: random, on_conflict: update, recency: 0.5"
CORPORA = """
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


def test_aggregations_are_judged_by_their_values(node, asked):
    node.create_collection("things", {})
    answers = asked(
        """
  insert: {insert: {collection: things, id: a, document: {n: 3}}}
  other: {insert: {collection: things, id: b, document: {n: 5}}}
  refresh: {refresh: {collection: things}}
  sum: """
        + SUM
    )
    assert {name: error for name, (error, _) in answers.items() if error} == {}


def test_documents_with_ids_that_conflict_are_one(node, asked):
    node.create_collection("things", {})
    assert asked(f"""
  again: {{bulk: {{{CONFLICTS}}}}}""") == {"again": (None, 40)}
    assert 20 < node.count("things") < 40
