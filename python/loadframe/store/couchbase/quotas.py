"""The settings of a Couchbase cluster that loadframe starts: quotas of memory, and when a node is failed over."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from loadframe import nofollow
from loadframe.errors import BadInput
from loadframe.store.base import Member, NodeSpec
from loadframe.units import parse_duration, parse_size

#: Where a node's folder has the quotas that follow from its memory limit, which only its plan knows.
QUOTAS = "config/quotas.json"
_MIB = 2**20
#: Bytes: the least that the server takes for the service of that setting.
_LEAST = 256 * _MIB
#: Bytes: the least memory limit that leaves something for the processes themselves.
_NODE = 1024 * _MIB
#: Of a node's memory limit, the quota of its documents; processes and indexes have the rest.
_SHARE = 0.5
_PARAMETERS = {"ram_quota": "memoryQuota", "index_quota": "indexMemoryQuota"}
_FAIL_OVER = "auto_failover"
#: Seconds after which the server may be told to fail a node over.
_FAIL_OVER_AFTER = (5, 3600)


def check(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for any other."""
    for key, value in settings.items():
        if key in _PARAMETERS:
            if parse_size(value) < _LEAST:
                raise BadInput("a service wants 256 MiB on each node, or more", where=f"{key}: {value}")
        elif key == _FAIL_OVER:
            _fail_over(value)
        else:
            raise BadInput(
                f"couchbase has no setting {key} here", remedy=f"say {', '.join(_PARAMETERS)} or {_FAIL_OVER}"
            )


def quotas(node: NodeSpec) -> str:
    """Return the quotas, in bytes by their settings' names, that fit into the node's memory limit."""
    if node.memory is None:
        return json.dumps({})
    if node.memory < _NODE:
        raise BadInput("a node of couchbase wants 1 GiB of memory, or more", where=f"{node.name}: memory")
    return json.dumps({"ram_quota": int(node.memory * _SHARE), "index_quota": _LEAST})


def apply(tell: Callable[..., object], member: Member | None, settings: Mapping[str, Any]) -> None:
    """Tell a cluster its settings, those in its node's folder where none are said."""
    given: dict[str, Any] = _kept(member)
    given.update(settings)
    wanted = {name: parse_size(given[key]) // _MIB for key, name in _PARAMETERS.items() if key in given}
    if wanted:
        tell("/pools/default", **wanted)
    if _FAIL_OVER in given:
        after = _fail_over(given[_FAIL_OVER])
        tell("/settings/autoFailover", **({"enabled": "true", "timeout": after} if after else {"enabled": "false"}))


def _kept(member: Member | None) -> dict[str, Any]:
    """Return the settings in a node's folder; none without one."""
    text = member.call(nofollow.read_text, member.folder, QUOTAS) if member and member.folder else None
    return dict(json.loads(text or "{}"))


def _fail_over(value: Any) -> int | None:
    """Return the seconds after which a node that does not answer is failed over; None for never."""
    if value in (False, "false"):
        return None
    after = round(parse_duration(value))
    first, last = _FAIL_OVER_AFTER
    if not first <= after <= last:
        raise BadInput(f"a node is failed over after {first} s to {last} s", where=f"{_FAIL_OVER}: {value}")
    return after
