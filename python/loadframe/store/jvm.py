"""JVM options of nodes of Cassandra, Elasticsearch and OpenSearch: heap, processors and user options."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import format_size, parse_size
from loadframe.store.base import NodeSpec

#: Settings that configure the JVM rather than the server.
SETTINGS = frozenset({"heap", "jvm"})

#: Heap without a memory limit: enough for workloads on a laptop, and three nodes fit on a small machine.
_DEFAULT_HEAP = 512 * 2**20
#: With less a node spends its time in the garbage collector, or does not start.
_MIN_HEAP = 256 * 2**20
#: Above about 31 GiB a JVM loses compressed pointers and holds fewer objects.
_MAX_HEAP = 31 * 2**30

_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
#: Options that other settings control.
_OURS = re.compile(r"-Xm[sx]|-XX:ActiveProcessorCount=")


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for an invalid heap size, and for JVM options that are invalid or controlled by other settings."""
    if "heap" in settings:
        parse_size(settings["heap"])
    for option in _user_options(settings):
        if not option.startswith("-X"):
            raise BadInput(
                f"the setting jvm contains {option!r}, which is not a JVM option",
                remedy="write for example -XX:+UseZGC",
            )
        if _OURS.match(option):
            raise BadInput(
                f"the setting jvm contains {option!r}, which Loadframe controls",
                remedy="leave it out; use the setting heap, or a CPU limit",
            )


def options(node: NodeSpec, vendors: Sequence[str], *, besides: int) -> tuple[int, list[str]]:
    """Return the heap in bytes and the JVM's options. The user's options override those in `vendors`.

    `besides` is the least memory that a node needs besides its heap, in bytes.
    """
    heap = heap_size(node.settings, node.memory, besides=besides)
    user_options = _user_options(node.settings)
    if any(_COLLECTOR.match(option) for option in user_options):
        # A JVM with two collectors does not start.
        vendors = [option for option in vendors if not _COLLECTOR.match(option)]
    result = [f"-Xms{heap}", f"-Xmx{heap}", *vendors]
    if node.cpus is not None:
        result.append(f"-XX:ActiveProcessorCount={math.ceil(node.cpus)}")
    # The last of contradicting options takes effect.
    return heap, result + user_options


def _user_options(settings: Mapping[str, Any]) -> list[str]:
    """Return the JVM options in the setting `jvm`, split at spaces."""
    return str(settings.get("jvm") or "").split()


def heap_size(settings: Mapping[str, Any], memory: int | None, *, besides: int) -> int:
    """Return the heap in bytes: the setting `heap`, else half of the limit `memory`, but 256 MiB to 31 GiB.

    512 MiB without both. The other half is for the page cache. BadInput if less than `besides` bytes would remain.
    """
    if "heap" in settings:
        size = parse_size(settings["heap"])
    elif memory is not None:
        size = min(max(memory // 2, _MIN_HEAP), _MAX_HEAP)
    else:
        size = _DEFAULT_HEAP
    if memory is not None and size + besides > memory:
        raise BadInput(
            f"a heap of {format_size(size)} leaves too little memory of a node's {format_size(memory)}",
            remedy="give the node at least 512m, or twice the heap",
        )
    return size
