"""Whatever answers HTTP: an application in front of a store, or any other service. Its users feel it, not the store.

It has no collections, no nodes that loadframe could start, and no figures of its own; what can be known of it is
whether it answers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.store.access import OPEN, Access
from loadframe.store.base import Health, Installation, NodePlan, NodeSpec, Store, Unreachable
from loadframe.store.distribution import Distribution
from loadframe.store.first_answer import first_answer
from loadframe.store.web import Answer, UnansweredError, Web

#: Seconds.
_TIMEOUT = 10.0


class Http(Store):
    """A service with a REST interface."""

    kind = "http"
    only_elsewhere = True
    family = "http"
    driver = "http"

    def __init__(self, access: Access = OPEN) -> None:
        """Keep connections between requests."""
        self._tls_remedy = access.tls_remedy
        self._web = Web(access, timeout=_TIMEOUT)

    def with_access(self, access: Access) -> Self:
        """Return the service as it is asked with TLS, with credentials, or both."""
        return self if access == OPEN else type(self)(access)

    def distribution(self, version: str) -> Distribution:
        """Refuse: it cannot be fetched."""
        raise _not_ours()

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Refuse: it is not started here."""
        raise _not_ours()

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Refuse: it is not started here."""
        raise _not_ours()

    def version(self, addresses: Sequence[str]) -> str:
        """Return what the service calls itself in its `Server` header, or `unknown`."""
        try:
            answer = first_answer(addresses, self._ask, UnansweredError)
        except UnansweredError as error:
            raise Unreachable(
                f"the service does not answer ({error})",
                where=", ".join(addresses),
                remedy=f"check that it runs, and that the addresses are right{self._tls_remedy}",
            ) from error
        return answer.headers.get("server", "unknown")

    def health(self, addresses: Sequence[str]) -> Health:
        """Ready is that every address answers, with any status."""
        there = sum(self._answers(address) for address in addresses)
        ready = there == len(addresses)
        return Health(ready=ready, status="answering" if ready else "silent in part", nodes=there, moving=0, missing=0)

    def settled(self, addresses: Sequence[str]) -> bool:
        """Nothing is known of its background work."""
        return True

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Do nothing: what it keeps is its own business."""

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """There are none."""
        return False

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """There are none."""

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Refuse: it cannot be told."""
        raise LoadframeError(f"a REST interface has no collection {name} to count")

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return nothing: it has no figures that are known."""
        return {}

    def _ask(self, address: str) -> Answer:
        return self._web.request(address, "GET", "/")

    def _answers(self, address: str) -> bool:
        try:
            self._ask(address)
        except UnansweredError:
            return False
        return True


def _not_ours() -> BadInput:
    return BadInput("a service with a REST interface is not started by loadframe", remedy="name it with --hosts")


STORE = Http()
