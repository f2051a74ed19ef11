"""Per-store settings of the contract tests: start options, exemptions and their reasons.

A store that is not listed here must pass all tests with its default start options.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loadframe.store import stores


@dataclass(frozen=True)
class Subject:
    """One store. Excuses are by the name of the test that they are from."""

    nodes: int = 2
    settings: Mapping[str, Any] = field(default_factory=dict)
    collection: Mapping[str, Any] = field(default_factory=dict)
    #: Verbs that also succeed where the document exists already, or does not exist.
    blind: frozenset[str] = frozenset()
    #: Whether a scan goes on in the order of ids.
    ordered: bool = True
    #: Nodes that it has more than now after each move to other addresses. With a JVM there is one move, as it is: each
    #: node that is started is ten seconds of two cores, and that nodes come and go is tested besides.
    moves: tuple[int, ...] = (1, 0)
    #: Whether a node that joins gets its share of the requests.
    shares: bool = True
    #: A document that the store rejects, or None for stores that reject an existing id instead.
    bad: Mapping[str, Any] | None = None
    excused: Mapping[str, str] = field(default_factory=dict)
    #: Why no cluster of it can be tested.
    absent: str | None = None
    #: Whether neither a package registry nor Debian has its server. Its tests run if CONTRACT_HOME_KIND names one.
    unavailable: bool = False


_SEARCH = {
    "settings": {"number_of_shards": 6, "number_of_replicas": 0},
    "mappings": {
        "properties": {"key": {"type": "keyword"}, "name": {"type": "keyword"}, "age": {"type": "integer"}},
    },
}

#: The tests that read written documents.
_OF_DOCUMENTS = (
    "test_written_documents_are_read_back",
    "test_a_read_wants_the_fields_whose_names_are_drawn",
    "test_updates_of_one_document_at_the_same_time_all_succeed",
    "test_captured_answers_are_used_in_the_same_users_later_requests",
    "test_later_writes_are_polled_until_they_are_visible",
    "test_a_read_and_then_a_write_are_one_operation_of_two_parts",
    "test_missing_and_existing_documents_are_reported",
    "test_a_scan_begins_at_the_given_id",
    "test_a_bulk_request_counts_its_bad_item",
    "test_bulk_requests_put_change_and_remove_documents",
    "test_bulk_requests_that_meet_acknowledge_each_document_once",
    "test_a_sampled_collection_becomes_a_workload_that_runs",
    "test_a_schema_becomes_a_workload_that_runs",
    "test_every_step_of_wikipedia_is_answered_well",
    "test_every_step_of_ycsb_is_answered_well",
    "test_a_node_comes_and_goes_under_load_and_nothing_is_lost",
)

_SUBJECTS = {
    "opensearch": Subject(settings={"heap": "300m"}, collection=_SEARCH, moves=(0,)),
    "elasticsearch": Subject(settings={"heap": "300m"}, collection=_SEARCH, moves=(0,)),
    "cassandra": Subject(
        settings={"heap": "320m"},
        collection={
            "columns": {"key": "text", "name": "text", "age": "int", "tags": "list<text>"},
            "replication": {"class": "SimpleStrategy", "replication_factor": 2},
        },
        blind=frozenset({"insert", "update", "delete"}),
        moves=(0,),
        ordered=False,
        bad={"key": "p9", "age": "old"},
    ),
    # By default, one member of a replica set answers all requests.
    "mongodb": Subject(shares=False),
    # All writes go to one server, and so do reads by default.
    "postgresql": Subject(
        collection={
            "columns": {"key": "text", "name": "text", "age": "integer", "tags": "text[]"},
        },
        shares=False,
        bad={"key": "p9", "age": "old"},
        excused={"test_every_step_of_wikipedia_is_answered_well": "the workload has no form for it"},
    ),
    "couchbase": Subject(unavailable=True),
    "redis": Subject(
        excused={"test_a_scan_begins_at_the_given_id": "a cluster keeps no order of ids over its nodes"},
    ),
    "sim": Subject(excused=dict.fromkeys(_OF_DOCUMENTS, "it only counts documents, and keeps none")),
    "http": Subject(absent="a service with a REST interface has no documents, and is not started by loadframe"),
}

KINDS = sorted(stores())


def subject_of(kind: str) -> Subject:
    """Return the contract settings of a store."""
    return _SUBJECTS.get(kind, Subject())
