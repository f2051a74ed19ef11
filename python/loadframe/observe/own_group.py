"""Watches the control groups that the generator itself is in: whether a CPU quota makes it stand still."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from loadframe.observe.cgroup import throttling
from loadframe.observe.sampler import Gap, Rates, Sample

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


def own_groups(proc: Path = Path("/proc/self")) -> list[Path]:
    """Return the folders of this process's CPU groups, its own first; empty where none can be seen (see cgroups(7))."""
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = _mount(proc, controllers)
        if mount is None:
            continue
        point, root = mount
        # A container's mount shows the tree from its own group on; a namespace calls that group "/" as well.
        below = Path(path).relative_to(root) if Path(path).is_relative_to(root) else Path(path.lstrip("/"))
        folder = point / below
        folders = [
            group
            for group in (folder, *folder.parents)
            if group.is_relative_to(point) and (group / "cpu.stat").exists()
        ]
        if folders:
            return folders
    return []


def _mount(proc: Path, controllers: str) -> tuple[Path, str] | None:
    """Return where the hierarchy with these controllers is mounted, and which of its groups is mounted there."""
    for line in (proc / "mountinfo").read_text().splitlines():
        front, _, back = line.partition(" - ")
        kind, _, options = back.split(" ", 2)
        _, _, _, root, point, *_ = front.split(" ")
        if kind == ("cgroup" if controllers else "cgroup2") and (not controllers or "cpu" in options.split(",")):
            return Path(point), root
    return None
