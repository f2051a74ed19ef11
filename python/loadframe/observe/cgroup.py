"""Samplers of control groups: CPU throttling, memory and pressure, of nodes and of the generator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from loadframe.base.quota import own_groups, throttling
from loadframe.observe.sampler import Gap, Rates, Sample

#: What is counted of each resource. That all tasks wait for a CPU says nothing of a machine, and little of a group.
_KINDS = {"cpu": ("some",), "memory": ("some", "full"), "io": ("some", "full")}


def of_machine(proc: Path) -> dict[str, float]:
    """Return the totals of the machine's tasks, in s."""
    return _stalls({resource: proc / "pressure" / resource for resource in _KINDS})


def of_group(folder: Path) -> dict[str, float]:
    """Return the totals of the tasks of a control group of version 2, in s."""
    return _stalls({resource: folder / f"{resource}.pressure" for resource in _KINDS})


def _stalls(files: Mapping[str, Path]) -> dict[str, float]:
    stalls = {}
    for resource, file in files.items():
        try:
            lines = file.read_text().splitlines()
        except OSError:
            # Not every kernel keeps them.
            continue
        for line in lines:
            kind, *figures = line.split()
            if kind in _KINDS[resource]:
                microseconds = dict(figure.split("=") for figure in figures)["total"]
                stalls[f"pressure.{resource}.{kind}"] = int(microseconds) / 1e6
    return stalls


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
                    stalls = of_group(group) if group == controllers.get("memory") else {}
                    yield from self._rates.of(source, now, throttling(group) | stalls)
            except OSError as error:
                yield Gap(source, f"the control group cannot be read: {error.strerror} ({error.filename})")


def _memory(folder: Path) -> float:
    """Return bytes charged to the group."""
    try:
        return int((folder / "memory.current").read_text())
    except FileNotFoundError:
        return int((folder / "memory.usage_in_bytes").read_text())


_SOURCE = "generator"


class OwnGroupSampler:
    """Looks at the groups of this process, from its own up to the top that it can see: any of them may have a quota.

    Groups do not change while it looks. Where this process sees no group with a CPU controller it yields nothing.
    """

    name = "own group"
    waits = False

    def __init__(self, folders: Sequence[Path] | None = None):
        self._folders = own_groups() if folders is None else folders
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield throttled periods and time of all groups together; a gap if this process was moved out of them."""
        sums: dict[str, float] = {}
        for folder in self._folders:
            try:
                totals = throttling(folder)
            except OSError as error:
                yield Gap(_SOURCE, f"the control group cannot be read: {error.strerror} ({error.filename})")
                return
            for metric, total in totals.items():
                sums[metric] = sums.get(metric, 0) + total
        yield from self._rates.of(_SOURCE, now, sums)
