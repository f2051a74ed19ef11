"""Documents with content that is a function of their number, so that tests can compare all of it."""

import tempfile
from pathlib import Path
from typing import Any

from loadframe.cluster import Cluster
from loadframe.load import run_phase

_VARIABLES = {
    "n": {"sequential": {"from": 0}},
    "key": {"derived": "k${n}"},
    "name": {"derived": "document ${n} and no other"},
}
_CONTENT = {"key": "${key}", "name": "${name}", "age": "${n}"}


def login(cluster: Cluster) -> tuple[str, str]:
    """Return the user and the password of a cluster that Loadframe started."""
    auth = cluster.access.auth
    assert auth
    assert auth.user
    return auth.user, auth.secret


def uri(mongodb: Cluster) -> str:
    """Return the address of a cluster of MongoDB with its user and its password, as its libraries take it."""
    user, password = login(mongodb)
    return f"mongodb://{user}:{password}@{mongodb.addresses[0]}"


def write(cluster: Cluster, collection: str, count: int) -> None:
    """Insert documents 0 to `count` - 1 into an existing collection."""
    insert = {"insert": {"collection": collection, "id": "${n}", "document": _CONTENT}}
    assert _answered(cluster, insert, count) == (count, [])


def compare(cluster: Cluster, collection: str, count: int) -> None:
    """Fail unless the collection has exactly those documents: it is counted, and each is read and compared."""
    assert cluster.count(collection) == count
    read = {"read": {"collection": collection, "id": "${n}"}, "assert": {"fields": _CONTENT}}
    assert _answered(cluster, read, count) == (count, [])


def _answered(cluster: Cluster, operation: dict[str, Any], count: int) -> tuple[int, list[Any]]:
    """Send an operation for each number; return how many succeeded, and how the others failed."""
    stream = {"name": "s", "mix": [["o", 1]], "pacing": {"closed": {"clients": 4}}, "stop": {"requests": count}}
    target = {"driver": cluster.store.driver, "hosts": cluster.addresses, **cluster.target()}
    plan = {"seed": 1, "phase": "p", "target": target, "operations": {"o": operation}, "streams": [stream]}
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_phase({**plan, "variables": _VARIABLES}, Path(folder), lambda _: None)
    [answered] = outcome["operations"]
    return answered["successes"], answered["errors"]
