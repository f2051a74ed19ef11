"""Support matrix of the stores, for docs/reference/stores/index.md, from the stores' declarations and their tests.

python tests/support_matrix.py            print the tables
python tests/support_matrix.py --write    write them into the page
"""

import ast
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "contract"))

from subjects import subject_of

from loadframe.host.choice import HOSTS, SEVERAL
from loadframe.store import stores
from loadframe.store.base import Store
from loadframe.workload.forms import _without as families_without

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "reference" / "stores" / "index.md"

REAL, MOCK, UNTESTED, NO = "real", "mock", "untested", "no"

#: Test file by store, for tests of one store outside the contract.
Evidence = Mapping[str, str]


@dataclass(frozen=True)
class Capability:
    """A row of the matrix."""

    title: str
    #: Contract tests that show it; a store must pass all from which it is not excused.
    contract: tuple[str, ...] = ()
    #: Test files outside the contract that start the real server.
    real: Evidence = field(default_factory=dict)
    #: Test files that use a stand-in for the server.
    mock: Evidence = field(default_factory=dict)
    #: Whether a store has the capability at all.
    has: Callable[[Store], bool] = lambda _: True


def _started(store: Store) -> bool:
    return not store.only_elsewhere


def _overrides(method: str) -> Callable[[Store], bool]:
    return lambda store: getattr(type(store), method) is not getattr(Store, method)


def _verb(kind: str) -> Callable[[Store], bool]:
    return lambda store: store.family not in families_without(kind)


_COUCHBASE_MOCK = {"couchbase": "store/test_couchbase_mock.py"}
_COUCHBASE_SERVICE = {"couchbase": "cluster/test_couchbase_cluster.py"}
_REST_SERVICE = {"http": "cli/test_bench_http.py"}

CAPABILITIES = (
    Capability(
        "Loadframe starts its clusters",
        ("test_it_is_ready_with_the_expected_number_of_nodes",),
        mock=_COUCHBASE_SERVICE,
        has=_started,
    ),
    Capability(
        "collections: create, drop",
        ("test_a_collection_is_there_until_it_is_dropped",),
        mock={"couchbase": "store/test_couchbase.py"},
        has=_verb("read"),
    ),
    Capability(
        "insert, read, update, upsert, delete",
        (
            "test_written_documents_are_read_back",
            "test_a_read_wants_the_fields_whose_names_are_drawn",
            "test_updates_of_one_document_at_the_same_time_all_succeed",
            "test_missing_and_existing_documents_are_reported",
            "test_later_writes_are_polled_until_they_are_visible",
            "test_every_step_of_ycsb_is_answered_well",
            "test_every_step_of_wikipedia_is_answered_well",
        ),
        mock=_COUCHBASE_MOCK,
        has=_verb("read"),
    ),
    Capability(
        "scan",
        ("test_a_scan_begins_at_the_given_id",),
        real={"redis": "cluster/test_real_redis.py"},
        has=_verb("scan"),
    ),
    Capability(
        "read_modify_write",
        ("test_a_read_and_then_a_write_are_one_operation_of_two_parts",),
        mock=_COUCHBASE_MOCK,
        has=_verb("read_modify_write"),
    ),
    Capability(
        "bulk",
        (
            "test_a_bulk_request_counts_its_bad_item",
            "test_bulk_requests_put_change_and_remove_documents",
            "test_bulk_requests_that_meet_acknowledge_each_document_once",
            "test_a_thousand_documents_are_counted",
        ),
        mock=_COUCHBASE_MOCK,
        has=_verb("bulk"),
    ),
    Capability(
        "import a workload from its data",
        ("test_a_sampled_collection_becomes_a_workload_that_runs", "test_a_schema_becomes_a_workload_that_runs"),
        mock={"couchbase": "store/test_couchbase.py"},
        has=_overrides("sample"),
    ),
    Capability(
        "explore its documents",
        (
            "test_documents_are_counted_over_time_and_by_value",
            "test_missing_repeated_nested_and_approximate_values_are_noted",
        ),
        has=lambda store: store.explores,
    ),
    Capability(
        "take_in (events)",
        real=dict.fromkeys(("opensearch", "mongodb", "cassandra"), "workload/test_any_order_of_events_on_a_store.py"),
        has=_verb("take_in"),
    ),
    Capability(
        "operations of its own",
        real={
            "opensearch": "workload/test_library_on_a_store.py",
            "elasticsearch": "contract/test_only_elasticsearch.py",
            "cassandra": "contract/test_only_cassandra.py",
            "mongodb": "contract/test_only_mongodb.py",
            "postgresql": "contract/test_only_postgresql.py",
            "redis": "contract/test_only_redis.py",
            "sim": "cluster/test_real_sim.py",
        },
        mock=_REST_SERVICE | {"couchbase": "store/test_couchbase_mock.py"},
    ),
    Capability(
        "capture values of answers",
        ("test_captured_answers_are_used_in_the_same_users_later_requests",),
        mock=_COUCHBASE_MOCK | _REST_SERVICE,
    ),
    Capability(
        "grow and shrink under load",
        ("test_a_node_comes_and_goes_under_load_and_nothing_is_lost",),
        real={"sim": "cluster/test_real_sim.py"},
        mock=_COUCHBASE_SERVICE,
        has=_overrides("join"),
    ),
    Capability(
        "kill a node, start it again",
        ("test_a_node_killed_under_load_is_noticed_and_recorded_and_comes_back",),
        mock={"couchbase": "store/test_couchbase_membership.py"},
        has=_started,
    ),
    Capability(
        "start again at other addresses",
        ("test_stopped_it_comes_back_at_other_addresses_with_its_documents_and_more_nodes_or_fewer",),
        has=lambda store: _started(store) and store.keeps_addresses({}) is None,
    ),
    Capability(
        "started clusters have a password",
        (
            "test_a_client_without_the_password_is_refused_while_load_runs",
            "test_the_password_is_in_private_files_alone",
            "test_the_command_that_is_shown_connects",
            "test_servers_run_as_the_dedicated_server_user",
            "test_a_server_cannot_change_its_configuration",
        ),
        mock=_COUCHBASE_SERVICE,
        has=lambda store: bool(store.administrator),
    ),
    Capability(
        "started clusters use TLS (`--encryption`)",
        real=dict.fromkeys(
            ("elasticsearch", "cassandra", "mongodb", "postgresql", "redis"), "cluster/test_encryption.py"
        ),
        has=_overrides("require_encryption"),
    ),
    Capability(
        "existing clusters with TLS and login",
        # A proxy of the tests adds TLS and login to OpenSearch.
        mock={"opensearch": "cli/test_secured_cluster.py"},
        real={
            "cassandra": "cli/test_secured_cassandra.py",
            "mongodb": "cli/test_secured_mongodb.py",
            "postgresql": "cli/test_secured_postgresql.py",
            "redis": "cli/test_secured_redis.py",
        },
        has=lambda store: not store.only_here,
    ),
    Capability("shards behind routers", has=_overrides("companions")),
    Capability(
        "statistics of each node",
        ("test_every_node_tells_its_figures",),
        mock={"couchbase": "store/test_couchbase.py"},
        has=_started,
    ),
)

#: Tests that start clusters on each kind of host.
ON_HOSTS: Mapping[str, Evidence] = {
    "netns": dict.fromkeys(("redis", "postgresql", "mongodb", "cassandra"), "cluster/test_real_recovery.py"),
    "container": {"redis": "host/test_container.py"},
    "ssh": {"redis": "cluster/test_machines.py"},
    "slurm": {"redis": "cluster/test_slurm_machines.py"},
    "mpi": {"redis": "cluster/test_mpi_machines.py"},
}


def cell(capability: Capability, store: Store) -> str:
    """Return how well a store's capability is tested."""
    if not capability.has(store):
        return NO
    subject = subject_of(store.kind)
    excused = [test for test in capability.contract if test in subject.excused]
    runs = not (subject.absent or subject.unavailable) and len(excused) < len(capability.contract)
    if runs or store.kind in capability.real:
        return REAL
    if store.kind in capability.mock:
        return MOCK
    return NO if excused else UNTESTED


def on_host(host: str, store: Store) -> str:
    """Return how well a store is tested on a kind of host."""
    if store.only_elsewhere or (store.only_here and host not in HOSTS):
        return NO
    if host == "local":
        return cell(CAPABILITIES[0], store)
    return REAL if store.kind in ON_HOSTS[host] else UNTESTED


@cache
def names_of_tests(file: Path) -> frozenset[str]:
    """Return the names of the test functions in a file."""
    tree = ast.parse(file.read_text())
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:5] == "test_")


def tables() -> dict[str, str]:
    """Return the tables in Markdown, by name."""
    kinds = stores()
    hosts = ("local", *(name for name in HOSTS if name != "local"), *SEVERAL)
    rows = {row.title: [cell(row, store) for store in kinds.values()] for row in CAPABILITIES}
    places = {f"`--host {host}`": [on_host(host, store) for store in kinds.values()] for host in hosts}
    return {"capabilities": _table("", list(kinds), rows), "hosts": _table("", list(kinds), places)}


def _table(corner: str, heads: list[str], rows: Mapping[str, list[str]]) -> str:
    lines = [[corner, *heads], ["---"] * (len(heads) + 1), *([title, *cells] for title, cells in rows.items())]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def with_tables(page: str) -> str:
    """Return the page with each table between its comments `<!-- NAME: ... -->` and `<!-- end -->`."""
    for name, table in tables().items():
        before, start, rest = page.partition(f"<!-- {name}: generated by tests/support_matrix.py -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert start and end, f"the page lacks a place for the table {name}"
        page = f"{before}{start}\n{table}\n\n{end}{after}"
    return page


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(with_tables(PAGE.read_text()))
    else:
        print("\n\n".join(tables().values()))
