"""Facts from /proc: states of processes; CPU groups, their throttling and unread input of this process."""

import fcntl
import os
import struct
import termios
from ipaddress import ip_address
from pathlib import Path

#: Bytes to read of /proc/PID/stat. Its 52 fields are shorter.
_MOST_STAT = 4096


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third (the state) on, as texts; OSError if the process does not run.

    Zombies count as ended.
    """
    return named_stat(pid)[1]


def named_stat(pid: int) -> tuple[str, list[str]]:
    """Return the name of a process, at most 15 bytes, and its `stat_fields`; OSError if it does not run."""
    # Samplers read this file of all processes. `Path.read_text` takes three times as long.
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(file, _MOST_STAT).decode(errors="replace")
    finally:
        os.close(file)
    # The name may contain spaces and parentheses.
    front, _, back = text.rpartition(")")
    fields = back.split()
    if fields[0] in ("Z", "X"):
        raise ProcessLookupError(pid)
    return front.partition("(")[2], fields


def is_running(pid: int) -> bool:
    """Return whether a process runs. Zombies count as ended."""
    try:
        stat_fields(pid)
    except OSError:
        return False
    return True


def own_groups(proc: Path = Path("/proc/self")) -> list[Path]:
    """Return the folders of a process's CPU control group and its parents, its own first; empty if none is visible.

    `proc` is the process's folder in /proc. Only folders with a `cpu.stat` count. See cgroups(7).
    """
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = _mount(proc, controllers)
        if mount is None:
            continue
        point, root = mount
        # A container's mount starts at its group; within a cgroup namespace the group's path is "/".
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
    """Return the mount point of the hierarchy with these controllers, and the mounted group; None if it is not mounted.

    `controllers` is the text in /proc/PID/cgroup, empty for version 2.
    """
    for line in (proc / "mountinfo").read_text().splitlines():
        front, _, back = line.partition(" - ")
        kind, _, options = back.split(" ", 2)
        _, _, _, root, point, *_ = front.split(" ")
        if kind == ("cgroup" if controllers else "cgroup2") and (not controllers or "cpu" in options.split(",")):
            return Path(point), root
    return None


def throttling(folder: Path) -> dict[str, float]:
    """Return a CPU group's throttling totals: `cgroup.throttled` (count) and `cgroup.throttled_time` (s).

    They count since the group was created. Empty without a CPU controller. `folder` is the group's.
    """
    stat = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    if "nr_throttled" not in stat:
        return {}
    # Version 2 counts microseconds, version 1 nanoseconds.
    microseconds = stat.get("throttled_usec")
    seconds = int(microseconds) / 1e6 if microseconds is not None else int(stat["throttled_time"]) / 1e9
    return {"cgroup.throttled": int(stat["nr_throttled"]), "cgroup.throttled_time": seconds}


def cpu_quota(folder: Path) -> float | None:
    """Return the CPU quota, in cores, of the control group with this folder; None without one. Ignores parents."""
    if (limit := folder / "cpu.max").exists():
        quota, period = limit.read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    if (limit := folder / "cpu.cfs_quota_us").exists():
        quota, period = limit.read_text(), (folder / "cpu.cfs_period_us").read_text()
        return None if int(quota) < 0 else int(quota) / int(period)
    return None


#: TCP_ESTABLISHED, and TCP_CLOSE_WAIT, in which the sender has closed (include/net/tcp_states.h).
_OPEN = ("01", "08")


def unread_of_port(address: str, proc: Path = Path("/proc/self")) -> int | None:
    """Return the largest receive queue, B, of the open connections to a listening address; 0 without connections.

    `address` is IP:PORT; ValueError for a host name. None if `proc` (a process's folder) has no table of connections.
    """
    host, _, port = address.rpartition(":")
    listens = ip_address(host.strip("[]"))
    tables = [table for table in (proc / "net" / "tcp", proc / "net" / "tcp6") if table.is_file()]
    queues = [0]
    for _, local, _, state, queue, *_ in (
        row.split() for table in tables for row in table.read_text().splitlines()[1:]
    ):
        place, _, number = local.partition(":")
        if state in _OPEN and int(number, 16) == int(port):
            # The kernel prints an address as words in the order of its bytes.
            words = [int(place[at : at + 8], 16) for at in range(0, len(place), 8)]
            here = ip_address(struct.pack(f"={len(words)}I", *words))
            if listens.is_unspecified or listens in (here, getattr(here, "ipv4_mapped", None)):
                queues.append(int(queue.partition(":")[2], 16))
    return max(queues) if tables else None


def unread_of_pipe(descriptor: int) -> int | None:
    """Return the number of unread bytes in the pipe of a descriptor of this process, or None for other files."""
    if not Path(f"/proc/self/fd/{descriptor}").is_fifo():
        return None
    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0])
