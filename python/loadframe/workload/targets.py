"""Additional targets besides the store under test, such as an application in front of it. Models only."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from loadframe.workload.forms import Family
from loadframe.yamlfile import NOT_EMPTY, Model, wrong

#: The target of operations that name none: the store under test.
MAIN = "store"
#: Drivers whose name differs from their family.
_DRIVERS = {"elasticsearch": "search", "cassandra": "cql"}


def _address(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not (host and colon and port.isdigit() and 0 < int(port) < 65536):
        raise wrong(f"{value!r} is not an address", "write host:port, such as 127.0.0.1:8080")
    return value


class Target(Model):
    """A running service: its family, which decides the supported requests, and its addresses."""

    family: Family
    hosts: Annotated[list[Annotated[str, AfterValidator(_address)]], NOT_EMPTY]

    def plan(self) -> dict[str, Any]:
        """Return the target for the plan."""
        return {"driver": _DRIVERS.get(self.family, self.family), "hosts": list(self.hosts)}


def combined_target(
    main: Mapping[str, Any], others: Mapping[str, dict[str, Any]], operations: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the target section of a plan: the main target and the others that operations use."""
    used = sorted({form["target"] for form in operations.values() if "target" in form})
    if not used:
        return dict(main)
    hosts: Sequence[str] = [host for name in used for host in others[name]["hosts"]]
    targets = {MAIN: dict(main), **{name: others[name] for name in used}}
    return {"driver": "several", "hosts": [*main["hosts"], *hosts], "targets": targets}
