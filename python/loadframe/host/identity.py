"""Facts of a machine: identity, name, cores, memory and addresses."""

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
    """Return ten hexadecimal digits that are this machine's: of its name and, where it has one, its machine-id(5).

    The name alone is not enough where machines are made from one image, nor the id alone where that holds an id.
    """
    try:
        number = _MACHINE.read_text().strip()
    except OSError:
        number = ""
    return hashlib.sha256(f"{os.uname().nodename} {number}".encode()).hexdigest()[:10]


def boot() -> str:
    """Return eight digits that another boot, of this or of any machine, has not."""
    return _BOOT.read_text()[:8]


def up_since() -> float:
    """Return when this machine was booted, in s since the epoch."""
    line = next(line for line in _STAT.read_text().splitlines() if line.startswith("btime "))
    return float(line.split()[1])


_SIOCGIFADDR = 0x8915


@dataclass(frozen=True)
class Facts:
    """A machine. `addresses` are IPv4, by interface; the manifest has all but these."""

    hostname: str
    identity: str
    boot: str
    architecture: str
    cpu: str
    cores: tuple[int, ...]  #: that processes may use, by number
    memory: int  #: bytes
    kernel: str
    python: str
    maps: int  #: vm.max_map_count
    user: int
    addresses: Mapping[str, str]
    reached: str | None  #: the address that sshd was reached at


def facts() -> Facts:
    """Look at this machine."""
    told = os.environ.get("SSH_CONNECTION", "").split()
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
        reached=told[2] if len(told) == 4 else None,
    )


def has_address(address: str) -> bool:
    """Whether a process can bind this address here."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def resolved(name: str) -> str | None:
    """Return the IPv4 address of a name as this machine knows it; None if it does not."""
    try:
        return socket.gethostbyname(name)
    except OSError:
        return None


def _cpu() -> str:
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


#: The folder of clusters without a name, which end with the command that started them.
PASSING = "passing"


def passing(token: str, scratch: Path | None = None) -> Path:
    """Return the folder of a cluster without a name, below that of the state or `scratch`; it is not made.

    What a crash of this machine has left there is removed. While the machine is up, the guards of the nodes do that.
    """
    parent = (scratch or folders.state()) / PASSING
    if parent.exists():
        for left in _left(parent):
            nofollow.remove_tree(left)
    return parent / f"{machine()}-{boot()}-{token}"


def named(name: str, scratch: Path | None = None) -> Path:
    """Return the folder of a cluster with that name."""
    return (scratch or folders.state()) / "clusters" / name


def _left(parent: Path) -> Iterator[Path]:
    """Yield the folders of clusters that ran on this very machine before it was booted, and those of no other.

    Many machines may keep theirs here. One that is taken for this machine, because it has the same name and the same
    machine-id(5), still has written something since: a cluster that runs never rests.
    """
    ours, now, booted = f"{machine()}-", f"{machine()}-{boot()}-", up_since()
    for folder in parent.iterdir():
        if folder.name.startswith(ours) and not folder.name.startswith(now) and _last_written(folder) < booted:
            yield folder


def _last_written(folder: Path) -> float:
    """Return when anything in a folder was written last, in s since the epoch."""
    latest = 0.0
    for path in (folder, *folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            latest = max(latest, path.lstat().st_mtime)
    return latest
