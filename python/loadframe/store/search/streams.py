"""Collections that consist of indices which the store makes one after the other: data streams, and aliases that roll
over. A template of the collection's name defines the indices."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

#: Above the templates that the products bring along (100 to 200).
_PRIORITY = 500


class Request(Protocol):
    """Asks a cluster for something, as `SearchStore.request` does."""

    def __call__(
        self, addresses: Sequence[str], method: str, path: str, body: Mapping[str, Any] | None = None, /
    ) -> Any:
        """Send a request to one of the addresses and return the JSON of the answer."""


def create(request: Request, addresses: Sequence[str], name: str, definition: Mapping[str, Any]) -> None:
    """Make a data stream with its template."""
    _put_template(request, addresses, name, [name], definition, {"data_stream": {}})
    request(addresses, "PUT", f"/_data_stream/{name}")


def create_rolling(
    request: Request, addresses: Sequence[str], name: str, definition: Mapping[str, Any], *, composed: bool
) -> None:
    """Make an index NAME-000001 with the alias NAME, to which is written, and a template for those that follow it.

    `composed` is whether the product has composable templates.
    """
    pattern = f"{name}-*"
    if composed:
        _put_template(request, addresses, name, [pattern], definition, {})
    else:
        request(addresses, "PUT", f"/_template/{name}", {**definition, "index_patterns": [pattern]})
    request(addresses, "PUT", f"/{name}-000001", {"aliases": {name: {"is_write_index": True}}})


def drop(request: Request, addresses: Sequence[str], name: str, *, composed: bool) -> bool:
    """Remove a data stream, or the indices behind an alias, with the template; return whether there was one."""
    place = "_index_template" if composed else "_template"
    has_template = name in _templates(request, addresses, place, composed=composed)
    if composed and name in names(request, addresses):
        request(addresses, "DELETE", f"/_data_stream/{name}")
    else:
        # An alias that somebody else made stays: without the template it is not a collection of ours.
        indices = behind(request, addresses, name) if has_template else []
        if not indices:
            return False
        request(addresses, "DELETE", f"/{','.join(indices)}")
    if has_template:
        request(addresses, "DELETE", f"/{place}/{name}")
    return True


def names(request: Request, addresses: Sequence[str]) -> set[str]:
    """Return the names of all data streams."""
    return {str(stream["name"]) for stream in request(addresses, "GET", "/_data_stream").get("data_streams", [])}


def behind(request: Request, addresses: Sequence[str], name: str) -> list[str]:
    """Return the indices that an alias stands for; none if the name is not an alias."""
    indices = request(addresses, "GET", f"/{name}?ignore_unavailable=true")
    return sorted(index for index, said in indices.items() if index != name and name in said.get("aliases", {}))


def _put_template(
    request: Request,
    addresses: Sequence[str],
    name: str,
    patterns: Sequence[str],
    definition: Mapping[str, Any],
    more: Mapping[str, Any],
) -> None:
    body = {"index_patterns": list(patterns), "priority": _PRIORITY, "template": dict(definition), **more}
    request(addresses, "PUT", f"/_index_template/{name}", body)


def _templates(request: Request, addresses: Sequence[str], place: str, *, composed: bool) -> set[str]:
    answer = request(addresses, "GET", f"/{place}")
    return {str(template["name"]) for template in answer["index_templates"]} if composed else set(answer)
