"""Facts of a machine: identity, name, cores, memory and addresses; and the folders of clusters on it."""

import contextlib
import fcntl
import hashlib
import os
import platform
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loadframe.base import folders, nofollow

_MACHINE, _BOOT, _STAT = Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id"), Path("/proc/stat")


def machine() -> str:
    """Return ten hexadecimal digits that identify this machine.

    They are a hash of its name and its machine-id(5), if it has one. Neither is enough: machines cloned from one image
    can share the id, and names can repeat.
    """
    try:
        number = _MACHINE.read_text().strip()
    except OSError:
        number = ""
    return hashlib.sha256(f"{os.uname().nodename} {number}".encode()).hexdigest()[:10]


def boot() -> str:
    """Return eight hexadecimal digits that identify the current boot of this machine."""
    return _BOOT.read_text()[:8]


def up_since() -> float:
    """Return the boot time, in s since the epoch."""
    line = next(line for line in _STAT.read_text().splitlines() if line.startswith("btime "))
    return float(line.split()[1])


_SIOCGIFADDR = 0x8915


@dataclass(frozen=True)
class Facts:
    """Hardware and system facts of a machine. `addresses` are IPv4, by interface; the manifest omits them."""

    hostname: str
    identity: str
    boot: str
    architecture: str
    cpu: str
    cores: tuple[int, ...]  #: numbers of the usable cores
    memory: int  #: bytes
    kernel: str
    python: str
    maps: int  #: vm.max_map_count
    user: int
    addresses: Mapping[str, str]
    reached: str | None  #: address at which sshd was reached, or None without ssh


def facts() -> Facts:
    """Collect the facts of this machine."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    return Facts(
        hostname=platform.node(),
        identity=machine(),
        boot=boot(),
        architecture=platform.machine(),
        cpu=_cpu(),
        cores=tuple(sorted(os.sched_getaffinity(0))),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        maps=int(Path("/proc/sys/vm/max_map_count").read_text()),
        user=os.geteuid(),
        addresses=_addresses(),
        # Client's address and port, then the server's (ssh(1)).
        reached=connection[2] if len(connection) == 4 else None,
    )


def has_address(address: str) -> bool:
    """Whether a process can bind this IPv4 address on this machine."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def resolved(name: str) -> str | None:
    """Return the IPv4 address of a host name, resolved on this machine, or None if it does not resolve."""
    try:
        return socket.gethostbyname(name)
    except (OSError, UnicodeError):
        return None


def _cpu() -> str:
    """Return the model name of the processor, or the architecture if it is not known."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def _addresses() -> dict[str, str]:
    """Return the first IPv4 address of each interface that has one (netdevice(7))."""
    addresses = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue
            addresses[name] = socket.inet_ntoa(answer[20:24])
    return addresses


#: Folder of clusters without a name, which end with the command that started them.
PASSING = "passing"


def passing(token: str, scratch: Path | None = None) -> Path:
    """Return the folder for a cluster without a name, below the state folder or `scratch`. It is not created.

    `token` is the end of its name. Side effect: removes folders of such clusters that survived a crash of this machine.
    Without a crash, supervisors remove them.
    """
    parent = (scratch or folders.state()) / PASSING
    if parent.exists():
        for folder in _left_by_earlier_boots(parent):
            nofollow.remove_tree(folder)
    return parent / f"{machine()}-{boot()}-{token}"


def cluster_folder(name: str, scratch: Path | None = None) -> Path:
    """Return the folder of the cluster of that name, below `scratch` or the state folder. It may not exist."""
    return (scratch or folders.state()) / "clusters" / name


def _left_by_earlier_boots(parent: Path) -> Iterator[Path]:
    """Yield folders of clusters in `parent` that ran on this machine before its current boot.

    A folder counts as left if its name, `MACHINE-BOOT-TOKEN`, has this machine and another boot, and nothing in it was
    written since this boot. The second condition matters because two machines can have the same name and machine-id(5).
    """
    ours, now, booted = f"{machine()}-", f"{machine()}-{boot()}-", up_since()
    for folder in parent.iterdir():
        if folder.name.startswith(ours) and not folder.name.startswith(now) and _last_written(folder) < booted:
            yield folder


def _last_written(folder: Path) -> float:
    """Return the latest modification time of a folder and its content, in s since the epoch."""
    latest = 0.0
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            latest = max(latest, path.lstat().st_mtime)
    return latest
