"""CPU quotas of control groups: which groups this process is in, and for how long they made their threads wait."""

from pathlib import Path


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


def throttling(folder: Path) -> dict[str, float]:
    """Return the totals since the group was made; empty when it has no CPU controller."""
    stat = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    if "nr_throttled" not in stat:
        return {}
    # Version 2 counts microseconds, version 1 nanoseconds.
    microseconds = stat.get("throttled_usec")
    seconds = int(microseconds) / 1e6 if microseconds is not None else int(stat["throttled_time"]) / 1e9
    return {"cgroup.throttled": int(stat["nr_throttled"]), "cgroup.throttled_time": seconds}
