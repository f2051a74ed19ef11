"""HTTP client for the administration of Couchbase."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import Access, first_answer
from loadframe.store.base import Unreachable
from loadframe.store.web import Answer, UnansweredError, UnsentError, Web

#: Timeout, s. Adding a node takes ten seconds, or much longer on busy machines.
_TIMEOUT = 120.0


class Administration:
    """Client for the administration of clusters, with the credentials of one user."""

    def __init__(self, access: Access) -> None:
        """Create the HTTP client, which keeps connections open for statistics every second."""
        self.scheme = access.scheme
        self._tls_remedy = access.tls_remedy
        self.user = access.auth.user or "" if access.auth else ""
        self.password = access.auth.secret if access.auth else ""
        self._web = Web(access, timeout=_TIMEOUT)

    def ask(
        self,
        addresses: Sequence[str],
        method: str,
        path: str,
        form: Mapping[str, Any] | None = None,
        *,
        known: bool = True,
    ) -> Answer:
        """Send a request to the first address that answers; BadInput if access is denied.

        Status 404 is returned; other statuses from 400 up raise LoadframeError. `known` is whether to send credentials,
        which a new node does not accept.
        """
        headers = None if known else dict[str, str]()

        def ask(address: str) -> Answer:
            return self._web.request(address, method, path, form=form, headers=headers)

        try:
            answer = first_answer(addresses, ask, UnansweredError, UnsentError, repeatable=method == "GET")
        except UnansweredError as error:
            if method != "GET" and not isinstance(error, UnsentError):
                raise StoreFailed(
                    f"{method} {path} was not answered ({error}); it may have been carried out",
                    where=error.address,
                ) from error
            raise Unreachable(
                f"the cluster does not answer ({error})",
                where=", ".join(addresses),
                remedy="check that it runs, and that the addresses name its administration port, such as host:8091"
                f"{self._tls_remedy}",
            ) from error
        if answer.status in (401, 403):
            raise BadInput(
                f"the cluster denies access: {answer.status}",
                where=answer.address,
                remedy="give --user with an account that may administer buckets",
            )
        if answer.status >= 400 and answer.status != 404:
            raise (StoreFailed if answer.status >= 500 else LoadframeError)(
                f"{method} {path} failed with status {answer.status}: {answer.text[:300]}", where=answer.address
            )
        return answer

    def read(self, addresses: Sequence[str], path: str, *, known: bool = True) -> dict[str, Any]:
        """Return the JSON object at a path."""
        content: dict[str, Any] = document(self.ask(addresses, "GET", path, known=known), dict)
        return content

    def rows(self, addresses: Sequence[str], path: str) -> list[dict[str, Any]]:
        """Return the JSON objects in the list at a path."""
        entries: list[dict[str, Any]] = document(self.ask(addresses, "GET", path), list)
        return entries


def document(answer: Answer, kind: type) -> Any:
    """Return an answer's JSON of type `kind`; LoadframeError if it is missing or of another type."""
    try:
        content = answer.json()
    except ValueError:
        content = None
    if answer.status == 404 or not isinstance(content, kind):
        raise LoadframeError(
            f"not a Couchbase cluster: unexpected answer to {answer.path}",
            where=answer.address,
            remedy="give the address of its administration, such as host:8091",
        )
    return content
