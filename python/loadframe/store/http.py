"""Any HTTP service, such as an application in front of a store.

Loadframe neither starts it nor knows its data or statistics, only whether it answers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.store.access import OPEN, Access, first_answer
from loadframe.store.base import Health, Installation, NodePlan, NodeSpec, Store, Unreachable
from loadframe.store.distribution import Distribution
from loadframe.store.web import Answer, UnansweredError, Web

#: Seconds.
_TIMEOUT = 10.0


class Http(Store):
    """An HTTP service."""

    kind = "http"
    only_elsewhere = True
    speaks_http = True
    family = "http"
    driver = "http"

    def __init__(self, access: Access = OPEN) -> None:
        """Create the service. Its HTTP client uses `access`, and keeps connections open between requests."""
        self._silence_hint = access.silence_hint
        self._web = Web(access, timeout=_TIMEOUT)

    def with_access(self, access: Access) -> Self:
        """Return the service with TLS, credentials, compression and proxies as in `access`."""
        return self if access == OPEN else type(self)(access)

    def distribution(self, version: str) -> Distribution:
        """Raise BadInput: an HTTP service cannot be downloaded."""
        raise _not_ours()

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Raise BadInput: Loadframe does not start HTTP services."""
        raise _not_ours()

    def plan(self, node: NodeSpec, installation: Installation) -> NodePlan:
        """Raise BadInput: Loadframe does not start HTTP services."""
        raise _not_ours()

    def version(self, addresses: Sequence[str]) -> str:
        """Return the `Server` header of the first address that answers, or `unknown` if the answer has none.

        Unreachable if no address answers.
        """
        try:
            answer = first_answer(addresses, self._ask, UnansweredError)
        except UnansweredError as error:
            raise Unreachable(
                f"the service does not answer ({error})",
                where=", ".join(addresses),
                remedy=f"check that it runs, and that the addresses are right{self._silence_hint}",
            ) from error
        return answer.headers.get("server", "unknown")

    def health(self, addresses: Sequence[str]) -> Health:
        """Return the service's health: ready if all addresses answer, with any status.

        Addresses that answer count as nodes.
        """
        there = sum(self._answers(address) for address in addresses)
        ready = there == len(addresses)
        return Health(ready=ready, status="answering" if ready else "partly silent", nodes=there, moving=0, missing=0)

    def create_collection(self, addresses: Sequence[str], name: str, definition: Mapping[str, Any], nodes: int) -> None:
        """Do nothing: an HTTP service does not have collections."""

    def has_collection(self, addresses: Sequence[str], name: str) -> bool:
        """Return False: an HTTP service does not have collections."""
        return False

    def drop_collection(self, addresses: Sequence[str], name: str) -> None:
        """Do nothing: an HTTP service does not have collections."""

    def count(self, addresses: Sequence[str], name: str) -> int:
        """Raise LoadframeError: an HTTP service does not have collections."""
        raise LoadframeError(f"cannot count {name}: an HTTP service does not have collections")

    def statistics(self, addresses: Sequence[str]) -> dict[str, dict[str, float]]:
        """Return an empty dict: an HTTP service does not have statistics."""
        return {}

    def _ask(self, address: str) -> Answer:
        """Return the answer to `GET /`, with any status; UnansweredError without an answer."""
        return self._web.request(address, "GET", "/")

    def _answers(self, address: str) -> bool:
        """Return whether `GET /` gets an answer, with any status."""
        try:
            self._ask(address)
        except UnansweredError:
            return False
        return True


def _not_ours() -> BadInput:
    """Return the BadInput for an attempt to start an HTTP service."""
    return BadInput("Loadframe does not start HTTP services", remedy="name it with --hosts")


STORE = Http()
