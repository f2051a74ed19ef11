"""The administration of Couchbase, asked by HTTP at the first of several addresses that answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.base.errors import BadInput, LoadframeError, StoreFailed
from loadframe.store.access import Access
from loadframe.store.base import Unreachable
from loadframe.store.first_answer import first_answer
from loadframe.store.web import Answer, UnansweredError, UnsentError, Web

#: Seconds. Adding a node takes ten or more, when machines are busy many more.
_TIMEOUT = 120.0


class Administration:
    """Connections to the administration of one cluster or of several, as one user."""

    def __init__(self, access: Access) -> None:
        """Keep connections between requests, since statistics are asked for every second."""
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
        """Ask the first address that answers; BadInput when access is denied, LoadframeError for another 400 or more.

        404 is an answer. A node that has no administrator yet is asked by nobody in particular: not `known`.
        """
        headers = None if known else dict[str, str]()

        def ask(address: str) -> Answer:
            return self._web.request(address, method, path, form=form, headers=headers)

        try:
            answer = first_answer(addresses, ask, UnansweredError, UnsentError, repeatable=method == "GET")
        except UnansweredError as error:
            if method != "GET" and not isinstance(error, UnsentError):
                raise StoreFailed(
                    f"{method} {path} was not answered ({error}); whether it was carried out is not known",
                    where=error.address,
                ) from error
            raise Unreachable(
                f"the cluster does not answer ({error})",
                where=", ".join(addresses),
                remedy="check that it runs, and that the addresses are those of its administration, such as host:8091"
                f"{self._tls_remedy}",
            ) from error
        if answer.status in (401, 403):
            raise BadInput(
                f"the cluster denies access: {answer.status}",
                where=answer.address,
                remedy="say who asks by --user: one who may administer buckets",
            )
        if answer.status >= 400 and answer.status != 404:
            raise (StoreFailed if answer.status >= 500 else LoadframeError)(
                f"{method} {path} was answered with {answer.status}: {answer.text[:300]}", where=answer.address
            )
        return answer

    def read(self, addresses: Sequence[str], path: str, *, known: bool = True) -> dict[str, Any]:
        """Return the object that is told at a path."""
        content: dict[str, Any] = document(self.ask(addresses, "GET", path, known=known), dict)
        return content

    def rows(self, addresses: Sequence[str], path: str) -> list[dict[str, Any]]:
        """Return the objects of the list that is told at a path."""
        entries: list[dict[str, Any]] = document(self.ask(addresses, "GET", path), list)
        return entries


def document(answer: Answer, kind: type) -> Any:
    """Return what was answered; LoadframeError for what no Couchbase cluster would say there."""
    try:
        content = answer.json()
    except ValueError:
        content = None
    if answer.status == 404 or not isinstance(content, kind):
        raise LoadframeError(
            f"what answers to {answer.path} is not a Couchbase cluster",
            where=answer.address,
            remedy="give the address of its administration, such as host:8091",
        )
    return content
