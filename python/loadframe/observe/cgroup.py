"""Samplers of control groups: CPU throttling, memory and pressure, of nodes and of the generator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from loadframe.base.quota import own_groups, throttling
from loadframe.observe.sampler import Gap, Rates, Sample

#: Kinds of pressure of each resource. `full` is undefined for the CPU of a machine, and not useful for a group.
_KINDS = {"cpu": ("some",), "memory": ("some", "full"), "io": ("some", "full")}


def of_machine(proc: Path) -> dict[str, float]:
    """Return the pressure totals of the machine, s."""
    return _stalls({resource: proc / "pressure" / resource for resource in _KINDS})


def of_group(folder: Path) -> dict[str, float]:
    """Return the pressure totals of a control group of version 2, s."""
    return _stalls({resource: folder / f"{resource}.pressure" for resource in _KINDS})


def _stalls(files: Mapping[str, Path]) -> dict[str, float]:
    stalls = {}
    for resource, file in files.items():
        try:
            lines = file.read_text().splitlines()
        except OSError:
            # Some kernels do not count pressure.
            continue
        for line in lines:
            kind, *figures = line.split()
            if kind in _KINDS[resource]:
                microseconds = dict(figure.split("=") for figure in figures)["total"]
                stalls[f"pressure.{resource}.{kind}"] = int(microseconds) / 1e6
    return stalls


class CgroupSampler:
    """Sampler of nodes' control groups.

    `folders` is called for each sample: node -> controller (`cpu`, `memory`) -> folder (the same folder in version 2).
    Nodes without limits are left out. See the kernel's documentation (cgroup-v2; cgroup-v1/memory, sched-bwc).
    """

    name = "cgroup"
    waits = False

    def __init__(self, folders: Callable[[], Mapping[str, Mapping[str, Path]]]):
        self._folders = folders
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield the figures of each node's groups, or a gap for unreadable groups."""
        for node, controllers in self._folders().items():
            source = f"node:{node}"
            try:
                if "memory" in controllers:
                    yield Sample(source, "cgroup.memory", _memory(controllers["memory"]))
                if (group := controllers.get("cpu")) is not None:
                    # Only version 2, with one group for both controllers, counts pressure.
                    stalls = of_group(group) if group == controllers.get("memory") else {}
                    yield from self._rates.of(source, now, throttling(group) | stalls)
            except OSError as error:
                yield Gap(source, f"cannot read the control group: {error.strerror} ({error.filename})")


def _memory(folder: Path) -> float:
    """Return the memory charged to the group, bytes."""
    try:
        return int((folder / "memory.current").read_text())
    except FileNotFoundError:
        return int((folder / "memory.usage_in_bytes").read_text())


_SOURCE = "generator"


class OwnGroupSampler:
    """Sampler of this process's control groups, up to the topmost visible group: each of them may have a quota.

    The groups are determined once. Without a visible group with a CPU controller, there are no samples.
    """

    name = "own group"
    waits = False

    def __init__(self, folders: Sequence[Path] | None = None):
        self._folders = own_groups() if folders is None else folders
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield throttled periods and time, summed over all groups; a gap if a group cannot be read."""
        sums: dict[str, float] = {}
        for folder in self._folders:
            try:
                totals = throttling(folder)
            except OSError as error:
                yield Gap(_SOURCE, f"cannot read the control group: {error.strerror} ({error.filename})")
                return
            for metric, total in totals.items():
                sums[metric] = sums.get(metric, 0) + total
        yield from self._rates.of(_SOURCE, now, sums)
