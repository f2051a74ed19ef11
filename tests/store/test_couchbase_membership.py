"""Start, growth, shrinking and recovery of a Couchbase cluster, against nodes that behave as documented."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from couchbase_service import STEPS, VBUCKETS, CouchbaseService
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.store import Balancing, Member, find
from loadframe.store.access import Access, Auth
from loadframe.store.couchbase import Couchbase

REPLICATED = {"name": "people", "replicaNumber": 1}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[CouchbaseService]:
    monkeypatch.setattr("loadframe.store.couchbase.membership._POLL", 0.001)
    with CouchbaseService() as running:
        yield running


@pytest.fixture
def store() -> Couchbase:
    return find("couchbase").with_access(Access(auth=Auth("basic", "secret", user="Administrator")))


class RecordedWatch(list[Balancing]):
    """Records progress reports; raises at a report of the given state."""

    def __init__(self, patience: str = "never over") -> None:
        super().__init__()
        self.patience = patience

    def __call__(self, balancing: Balancing) -> None:
        self.append(balancing)
        if self.patience in balancing.state:
            raise LoadframeError("it took too long")


def member(address: str, number: int = 0) -> Member:
    return Member(f"node-{number}", address)


def formed(service: CouchbaseService, store: Couchbase, nodes: int, **settings: object) -> list[str]:
    """Return the addresses of a cluster of that many nodes."""
    addresses = [service.node() for _ in range(nodes)]
    store.form([member(address, number) for number, address in enumerate(addresses)], settings, RecordedWatch())
    return addresses


def even(service: CouchbaseService, *addresses: str) -> bool:
    """Whether these are the members, and each has its share of all documents."""
    shares = service.shares
    return set(shares) == set(addresses) and sum(shares.values()) == VBUCKETS and min(shares.values()) > 0


def requests(service: CouchbaseService, path: str) -> list[dict[str, str]]:
    return [form for method, asked, form in service.asked if (method, asked) == ("POST", path)]


def test_the_first_node_is_set_up_and_each_other_one_gets_its_share(service, store):
    addresses = formed(service, store, 3, ram_quota="1g", index_quota="512m", auto_failover="30s")
    assert service.nodes[addresses[0]].told == {
        "/pools/default": {"memoryQuota": "1024", "indexMemoryQuota": "512"},
        "/settings/autoFailover": {"enabled": "true", "timeout": "30"},
        "/node/controller/setupServices": {"services": "index,kv,n1ql"},
        "/settings/indexes": {"storageMode": "plasma"},
        "/settings/web": {"username": "Administrator", "password": "secret", "port": "SAME"},
    }
    assert even(service, *addresses)
    health = store.health(addresses[2:])
    assert (health.ready, health.status, health.nodes, health.moving) == (True, "healthy", 3, 0)


def test_a_single_node_does_not_rebalance(service, store):
    [address] = formed(service, store, 1)
    assert even(service, address)
    assert requests(service, "/controller/rebalance") == []


def test_nodes_of_the_community_are_added_in_the_clear(store, service):
    service.enterprise = False
    first, second = formed(service, store, 2)
    assert requests(service, "/controller/addNode")[0]["hostname"] == f"http://{second}"
    assert service.nodes[first].told["/settings/indexes"] == {"storageMode": "forestdb"}


def test_joining_nodes_are_empty_before_the_rebalance(service, store):
    addresses = formed(service, store, 1)
    newcomer = service.node()
    store.join(addresses, member(newcomer, 1), RecordedWatch())
    assert service.shares == {addresses[0]: VBUCKETS, newcomer: 0}
    health = store.health(addresses)
    assert (health.ready, health.nodes, health.balanced) == (True, 2, False)
    store.join(addresses, member(newcomer, 1), RecordedWatch())
    assert len(requests(service, "/controller/addNode")) == 1, "it was added twice"
    told = RecordedWatch()
    store.balance(addresses, told)
    assert even(service, *addresses, newcomer)
    assert store.health(addresses).balanced
    assert [round(step.left) for step in told if step.state.startswith("done")] == [100, 67, 33]
    assert told[-1] == Balancing(0, "percent", "balanced")
    assert f"n_{newcomer.rpartition(':')[2]}@127.0.0.1 33 %" in told[1].state


def test_balanced_clusters_are_not_rebalanced(service, store):
    addresses = formed(service, store, 2)
    told = RecordedWatch()
    store.balance(addresses, told)
    assert len(requests(service, "/controller/rebalance")) == 1
    assert told == [Balancing(0, "percent", "balanced")]


def test_a_rebalance_that_runs_already_is_waited_for(service, store):
    addresses = formed(service, store, 1)
    store.join(addresses, member(service.node(), 1), RecordedWatch())
    with pytest.raises(LoadframeError, match="too long"):
        store.balance(addresses, RecordedWatch("33 %"))
    store.balance(addresses, RecordedWatch())
    assert len(requests(service, "/controller/rebalance")) == 1
    assert even(service, *service.nodes)


def test_failed_rebalances_are_quoted_and_can_be_retried(service, store):
    addresses = formed(service, store, 1)
    store.join(addresses, member(service.node(), 1), RecordedWatch())
    service.failure = "Rebalance exited with reason {mover_crashed,people}"
    with pytest.raises(LoadframeError, match=r"the rebalance failed: Rebalance exited with reason {mover_crashed"):
        store.balance(addresses, RecordedWatch())
    # It reports the previous rebalance until it notices the next.
    service.late = 2
    store.balance(addresses, RecordedWatch())
    assert even(service, *service.nodes)


def test_a_node_that_dies_while_the_data_moves_fails_the_rebalance(service, store):
    addresses = formed(service, store, 1)
    newcomer = service.node()
    store.join(addresses, member(newcomer, 1), RecordedWatch())

    def watch(balancing: Balancing) -> None:
        if "33 %" in balancing.state and service.nodes[newcomer].up:
            service.kill(newcomer)

    with pytest.raises(LoadframeError, match=r"the rebalance failed: .*shutdown_wait_failed"):
        store.balance(addresses, watch)
    assert store.health(addresses).nodes == 2


def test_a_node_that_leaves_gives_its_data_away_first(service, store):
    service.buckets = [REPLICATED]
    addresses = formed(service, store, 3)
    told = RecordedWatch()
    store.leave(addresses[:2], member(addresses[2], 2), told)
    assert even(service, *addresses[:2])
    assert sum(step.state.startswith("done") for step in told) == STEPS
    store.leave(addresses[:2], member(addresses[2], 2), told)
    store.forget(addresses[:2], member(addresses[2], 2))
    assert store.health(addresses[:2]).nodes == 2


def test_a_node_without_which_the_copies_have_no_place_stays(service, store):
    service.buckets = [{"name": "hits", "replicaNumber": 0}, REPLICATED]
    addresses = formed(service, store, 2)
    with pytest.raises(BadInput, match="bucket people has 2 copies of its documents, and 1 node would remain"):
        store.leave(addresses[:1], member(addresses[1], 1), RecordedWatch())
    assert even(service, *addresses)


def test_the_last_node_stays(service, store):
    [address] = formed(service, store, 1)
    with pytest.raises(BadInput, match="node-0 is the last node that holds data"):
        store.leave([address], member(address), RecordedWatch())


def test_leaving_that_is_broken_off_is_stopped_and_the_node_stays(service, store):
    addresses = formed(service, store, 2)
    with pytest.raises(LoadframeError, match="too long"):
        store.leave(addresses[:1], member(addresses[1], 1), RecordedWatch("33 %"))
    assert store.health(addresses).moving == 1
    store.stay(addresses[:1], member(addresses[1], 1))
    assert even(service, *addresses)
    assert store.health(addresses).balanced


def test_a_node_that_was_only_added_is_forgotten_without_a_rebalance(service, store):
    addresses = formed(service, store, 2)
    newcomer = service.node()
    store.join(addresses, member(newcomer, 2), RecordedWatch())
    service.kill(newcomer)
    store.forget(addresses, member(newcomer, 2))
    assert even(service, *addresses)


def test_a_dead_node_that_has_documents_is_not_forgotten(service, store):
    addresses = formed(service, store, 3)
    service.kill(addresses[2])
    health = store.health(addresses)
    assert (health.ready, health.status, health.missing) == (False, "unhealthy", 1)
    with pytest.raises(LoadframeError, match="Cannot remove active server"):
        store.forget(addresses[:2], member(addresses[2], 2))
    assert len(service.members) == 3


def test_a_node_that_was_failed_over_while_it_was_away_is_taken_back(service, store):
    addresses = formed(service, store, 3)
    service.kill(addresses[1])
    service.fail_over(addresses[1])
    assert store.health(addresses).status == "failed over"
    service.start_again(addresses[1])
    store.reunite([member(address, number) for number, address in enumerate(addresses)], RecordedWatch())
    assert even(service, *addresses)
    assert store.health(addresses).ready


def test_nodes_that_do_not_answer_yet_are_waited_for(service, store):
    addresses = formed(service, store, 2)
    service.kill(addresses[1])
    told = RecordedWatch()

    def watch(balancing: Balancing) -> None:
        told(balancing)
        if len(told) == 2:
            service.start_again(addresses[1])

    store.reunite([member(address) for address in addresses], watch)
    assert told[0] == Balancing(1, "nodes", "starting")


def test_a_wrong_password_is_reported_before_any_change(service, store):
    addresses = formed(service, store, 2)
    stranger = find("couchbase").with_access(Access(auth=Auth("basic", "guess", user="Administrator")))
    with pytest.raises(BadInput, match="denies access: 401") as caught:
        stranger.balance(addresses, RecordedWatch())
    assert "guess" not in str(caught.value)
    assert "refused the given credentials: check --user Administrator" in str(caught.value.remedy)
    with suppress(BadInput):
        stranger.leave(addresses[:1], member(addresses[1], 1), RecordedWatch())
    assert even(service, *addresses)


def test_settings_are_changed_while_it_runs(service, store):
    addresses = formed(service, store, 1)
    store.configure(addresses, {"ram_quota": "512m", "auto_failover": False})
    assert requests(service, "/pools/default")[-1] == {"memoryQuota": "512"}
    assert requests(service, "/settings/autoFailover")[-1] == {"enabled": "false"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ram_quota": "100m"}, "a quota must be at least 256 MiB"),
        ({"auto_failover": "2h"}, "must be false, or 5 s to 3600 s"),
        ({"num_vbuckets": 64}, "unknown setting num_vbuckets"),
    ],
)
def test_settings_that_there_are_not_are_refused(store, settings, words):
    with pytest.raises(BadInput, match=words):
        store.check_settings(settings)
