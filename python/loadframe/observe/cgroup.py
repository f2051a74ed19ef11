"""Watches the control groups of nodes, of both versions: throttling by the CPU quota, memory, pressure."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from loadframe.observe import pressure
from loadframe.observe.sampler import Gap, Rates, Sample
from loadframe.quota import throttling


class CgroupSampler:
    """Looks at each node's control groups.

    `folders` is asked every time: node -> controller (`cpu`, `memory`) -> folder, which is one and the same in version
    2. A node without limits has none, and is left out. The files are those of the kernel's documentation (cgroup-v2;
    cgroup-v1/memory, sched-bwc).
    """

    name = "cgroup"
    waits = False

    def __init__(self, folders: Callable[[], Mapping[str, Mapping[str, Path]]]):
        self._folders = folders
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the figures of each node's groups, or a gap for groups that are gone."""
        for node, controllers in self._folders().items():
            source = f"node:{node}"
            try:
                if "memory" in controllers:
                    yield Sample(source, "cgroup.memory", _memory(controllers["memory"]))
                if (group := controllers.get("cpu")) is not None:
                    # One group for both is of version 2, and only that counts pressure.
                    stalls = pressure.of_group(group) if group == controllers.get("memory") else {}
                    yield from self._rates.of(source, now, throttling(group) | stalls)
            except OSError as error:
                yield Gap(source, f"the control group cannot be read: {error.strerror} ({error.filename})")


def _memory(folder: Path) -> float:
    """Return bytes charged to the group."""
    try:
        return int((folder / "memory.current").read_text())
    except FileNotFoundError:
        return int((folder / "memory.usage_in_bytes").read_text())
