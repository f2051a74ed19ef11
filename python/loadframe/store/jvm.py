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
_OURS = re.compile(r"-Xm[sx]|-XX:(?:Initial|Max|Min)HeapSize=|-XX:ActiveProcessorCount=")


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for an invalid size `heap`, and for options in `jvm` that lack the prefix `-X` or are Loadframe's.

    Loadframe controls the size of the heap, such as -Xmx, and -XX:ActiveProcessorCount.
    """
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
    """Return the heap in bytes and all JVM options: heap, `vendors`, processors (the CPU limit rounded up), the user's.

    The user's options override the others; a user's garbage collector replaces the one in `vendors`. BadInput if the
    heap leaves less than `besides` bytes of the node's memory limit.
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
    """Return the JVM options in the setting `jvm`, split at spaces; empty without the setting."""
    return str(settings.get("jvm") or "").split()


def heap_size(settings: Mapping[str, Any], memory: int | None, *, besides: int) -> int:
    """Return the heap in bytes: the setting `heap`, or half of the limit `memory`, raised to 256 MiB or cut to 31 GiB.

    512 MiB without both; the setting is neither raised nor cut. The other half is for the page cache. BadInput if less
    than `besides` bytes of the limit would remain.
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
