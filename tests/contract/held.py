"""A store under the contract tests: its cluster and the operations on it."""

import os
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from subjects import subject_of

from loadframe.cluster import Cluster, ClusterSpec
from loadframe.host.local import LocalHost
from loadframe.load import check_operations
from loadframe.store.access import Access, Auth

#: Address of the first local node, and an address in a range without local nodes.
AT_HOME, AWAY = IPv4Address("127.0.0.1"), IPv4Address("127.0.64.1")


def home_of(kind: str) -> str | None:
    """Return the installation to test instead of the usual one, if one is named, such as by CONTRACT_HOME_REDIS."""
    return os.environ.get(f"CONTRACT_HOME_{kind.upper()}")


def hosts_of(kind: str) -> list[str]:
    """Return the addresses of an existing cluster to test instead, such as of CONTRACT_HOSTS_REDIS; usually none."""
    return list(filter(None, os.environ.get(f"CONTRACT_HOSTS_{kind.upper()}", "").split(",")))


def _attached(kind: str) -> Cluster:
    """Return the existing cluster, with the user of CONTRACT_USER_KIND and CONTRACT_PASSWORD_FILE_KIND."""
    auth = None
    if user := os.environ.get(f"CONTRACT_USER_{kind.upper()}"):
        password = Path(os.environ[f"CONTRACT_PASSWORD_FILE_{kind.upper()}"]).read_text().rstrip("\n")
        auth = Auth("basic", password, user)
    return Cluster.attach(hosts_of(kind), kind, Access(auth=auth))


class Held:
    """Starts a cluster of that kind of store, or attaches to an existing one, and asks it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.place = AT_HOME
        self.subject = subject_of(kind)
        #: Whether `Loaded.fill` has filled the collection of the load.
        self.filled = False
        if hosts_of(kind):
            self.cluster = _attached(kind)
            return
        settings = dict(self.subject.settings)
        self.cluster = Cluster.start(
            ClusterSpec(
                store=kind, nodes=self.subject.nodes, settings=settings, name=f"contract-{kind}", home=home_of(kind)
            )
        )

    def dwell(self, patch: pytest.MonkeyPatch) -> None:
        """Make this machine assign addresses from the range that the cluster uses."""
        place = self.place
        patch.setattr(LocalHost, "address", str(place))
        patch.setattr(LocalHost, "address_of", lambda _, number, *__: str(place + number))

    def move(self, nodes: int, place: IPv4Address, patch: pytest.MonkeyPatch) -> None:
        """Stop all nodes and start `nodes` nodes with their data at other addresses."""
        self.place = place
        self.dwell(patch)
        self.restart(nodes)

    def restart(self, nodes: int) -> None:
        """Stop all nodes and start `nodes` nodes with their data at the same addresses."""
        self.cluster.stop()
        assert self.cluster.spec
        self.cluster = Cluster.start(replace(self.cluster.spec, nodes=nodes))

    def create(self, name: str = "things") -> None:
        """Create a collection."""
        self.cluster.create_collection(name, self.subject.collection)

    def drop(self, name: str = "things") -> None:
        """Drop it."""
        self.cluster.drop_collection(name)
        self.filled = self.filled and name != "things"

    def plan(self, operations: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Return a plan that sends each operation once."""
        stream = {
            "name": "s",
            "mix": [[name, 1] for name in operations],
            "pacing": {"closed": {"clients": 1}},
            "stop": {"requests": 1},
        }
        target = {"driver": self.cluster.store.driver, "hosts": self.cluster.addresses, **self.cluster.target()}
        return {"seed": 1, "phase": "p", "target": target, "operations": operations, "streams": [stream], **more}

    def asked(self, *operations: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        """Send operations one after the other and return the result of each."""
        named = {f"{number:02}": operation for number, operation in enumerate(operations)}
        return check_operations(self.plan(named, **more))

    def errors(self, *operations: dict[str, Any], **more: Any) -> list[str | None]:
        """Send operations one after the other, and return the class of error of each."""
        return [answer["error"] for answer in self.asked(*operations, **more)]
