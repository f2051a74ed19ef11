"""The JVM that a node of Cassandra, Elasticsearch or OpenSearch runs in: its heap, its processors, its options."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import format_size, parse_size
from loadframe.store.base import NodeSpec

#: The settings of a store that are its JVM's, and none of the server's configuration.
SETTINGS = frozenset({"heap", "jvm"})

#: Without a memory limit. Enough for the workloads at laptop scale, and three nodes fit a small machine.
_DEFAULT_HEAP = 512 * 2**20
#: Under this a node spends its time in the garbage collector, or does not come up.
_LEAST_HEAP = 256 * 2**20
#: Above about 31 GiB a JVM loses compressed pointers and holds less, not more.
_GREATEST_HEAP = 31 * 2**30

_COLLECTOR = re.compile(r"-XX:\+Use\w+GC")
#: What other keys decide.
_OURS = re.compile(r"-Xm[sx]|-XX:ActiveProcessorCount=")


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise BadInput for a heap that is not a size, and for options that are invalid or decided elsewhere."""
    if "heap" in settings:
        parse_size(settings["heap"])
    for option in _asked(settings):
        if not option.startswith("-X"):
            raise BadInput(
                f"the setting jvm has {option!r}, which is not an option of a JVM", remedy="write such as -XX:+UseZGC"
            )
        if _OURS.match(option):
            raise BadInput(
                f"the setting jvm has {option!r}, which is loadframe's to decide",
                remedy="leave it out; the setting heap and the limit of CPUs say it",
            )


def options(node: NodeSpec, vendors: Sequence[str], *, besides: int) -> tuple[int, list[str]]:
    """Return the heap in bytes and the JVM's options with it: `vendors` choice, and over that the user's.

    `besides`: bytes that a node takes beside its heap at least.
    """
    heap = heap_size(node.settings, node.memory, besides=besides)
    asked = _asked(node.settings)
    if any(_COLLECTOR.match(option) for option in asked):
        # A JVM with two collectors does not start.
        vendors = [option for option in vendors if not _COLLECTOR.match(option)]
    chosen = [f"-Xms{heap}", f"-Xmx{heap}", *vendors]
    if node.cpus is not None:
        chosen.append(f"-XX:ActiveProcessorCount={math.ceil(node.cpus)}")
    # Of options that contradict each other a JVM takes the last.
    return heap, chosen + asked


def _asked(settings: Mapping[str, Any]) -> list[str]:
    return str(settings.get("jvm") or "").split()


def heap_size(settings: Mapping[str, Any], memory: int | None, *, besides: int) -> int:
    """Return the heap in bytes: that of the settings, or half of the memory limit, which leaves half to cached files.

    BadInput if it leaves less than `besides` of the limit.
    """
    if "heap" in settings:
        size = parse_size(settings["heap"])
    elif memory is not None:
        size = min(max(memory // 2, _LEAST_HEAP), _GREATEST_HEAP)
    else:
        size = _DEFAULT_HEAP
    if memory is not None and size + besides > memory:
        raise BadInput(
            f"a heap of {format_size(size)} leaves a node of {format_size(memory)} too little besides",
            remedy="give the node at least 512m, or twice the heap",
        )
    return size
