"""What a machine is, as it says itself: its name, cores, memory and addresses."""

import fcntl
import os
import platform
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loadframe.host import identity

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
        identity=identity.machine(),
        boot=identity.boot(),
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
