"""Machines for tests, each with its own network, processes, host name, boot id and sshd.

They share this machine's kernel and files, but not its checkout, state and cache. Their links meet in a bridge, where
tests cut them. The machines and their processes end with the test.
"""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from secrets import token_bytes, token_hex

from commands import open_folder

SSHD = Path("/usr/sbin/sshd")
_REPOSITORY = Path(__file__).parents[1]
_PROGRAMS = ("ip", "unshare", "nsenter", "ssh", "ssh-keygen")
_SERVER = """
ListenAddress {address}
HostKey {root}/host_key
AuthorizedKeysFile {root}/key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
PasswordAuthentication no
"""
_CLIENT = """
Host {name}
  HostName {address}
"""
_ALL = """
Host *
  User root
  IdentityFile {root}/key
  IdentitiesOnly yes
  UserKnownHostsFile {root}/known_hosts
  StrictHostKeyChecking yes
"""
#: A machine's routes decide whether packets from loopback addresses leave it. The route is in the table of the
#: machine's own addresses, next to the route of 127.0.0.0/8, because that table is searched first.
_ADDRESS = """
echo 1 > /proc/sys/net/ipv4/conf/{link}/route_localnet
ip address add {block}.{number}/24 dev {link}
ip link set {link} up
ip route add {block}.0/24 dev {link} table local src {block}.{number}
"""
#: The machine's init process, which reaps orphans.
_BEGIN = """
set -e
hostname {name}
for place in {private}; do
  mkdir -p "{root}/{name}$place" "$place"
  mount --bind "{root}/{name}$place" "$place"
done
mount --bind {root}/{name}/boot_id /proc/sys/kernel/random/boot_id
mount --bind {root}/{name}/machine-id /etc/machine-id
mount --bind {root}/hosts /etc/hosts
for hidden in {hidden}; do mount --bind /bin/false "$hidden"; done
while [ ! -e {root}/{name}/plugged ]; do sleep 0.02; done
{sshd} -D -e -f {root}/{name}/sshd_config &
wait
"""


def obstacle() -> str | None:
    """Return why this machine cannot create test machines; None if it can."""
    if not SSHD.exists():
        return "sshd is not installed; the package openssh-server contains it"
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            return f"there is no {program}"
    command = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "true"]
    return None if subprocess.run(command, capture_output=True, check=False).returncode == 0 else "it takes root"


@dataclass
class Machines:
    """The machines by name, with their addresses."""

    root: Path
    bridge: str
    addresses: dict[str, str]
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def ssh(self) -> str:
        """The command that reaches them, as LOADFRAME_SSH has it."""
        return f"ssh -F {self.root}/ssh_config"

    def run(self, name: str, *command: str) -> str:
        """Run a command on a machine and return its output."""
        return subprocess.run(
            [*self.ssh.split(), name, *command], capture_output=True, text=True, timeout=120, check=True
        ).stdout

    def cut(self, name: str) -> None:
        """Unplug a machine: in silence nothing gets there or comes from there any more."""
        _ip("link", "set", self.link(name), "nomaster")

    def restore(self, name: str) -> None:
        """Plug it in again."""
        _ip("link", "set", self.link(name), "master", self.bridge)

    def crash(self, name: str) -> None:
        """End all that runs on a machine, as a loss of power would."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def processes(self, name: str) -> list[str]:
        """Return the command lines of the processes on a machine, except its sshd."""
        lines = (line.split(maxsplit=1) for line in self.run(name, "ps", "-eo", "pid=,args=").splitlines())
        ours = ("sshd", str(SSHD), "ps ", "sh -c")
        return [line[1] for line in lines if line[0] != "1" and not line[1].startswith(ours)]

    def link(self, name: str) -> str:
        """Return this machine's end of a machine's link."""
        return f"{self.bridge}{list(self.addresses).index(name)}"


@contextlib.contextmanager
def machines(count: int, *, shared: bool = False, python: bool = True, loading: int = 0) -> Iterator[Machines]:
    """Start machines m1, m2, ...; `shared` leaves them one state and cache, without `python` they have none.

    The last `loading` of them have this checkout and cache, so that ranks can run there. Addresses are of 127.0.0.0/8,
    though links are real ones: some servers ask more of a machine than every machine for tests grants when they listen
    elsewhere. Open MPI takes them with `btl_tcp_if_exclude` set to `lo`.
    """
    with open_folder("machines") as root, contextlib.ExitStack() as ends:
        bridge, block = f"tm{token_hex(3)}", _unused_block()
        names = [f"m{number + 1}" for number in range(count)]
        there = Machines(root, bridge, {name: f"{block}.{number + 2}" for number, name in enumerate(names)})
        for key in ("key", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", root / key], check=True)
        public = " ".join((root / "host_key.pub").read_text().split()[:2])
        lines = [f"{address} {public}\n" for address in there.addresses.values()]
        (root / "known_hosts").write_text("".join(lines))
        hosts = [_CLIENT.format(name=name, address=address) for name, address in there.addresses.items()]
        (root / "ssh_config").write_text("".join(hosts) + _ALL.format(root=root))
        known = [f"{address} {name}\n" for name, address in there.addresses.items()]
        (root / "hosts").write_text("127.0.0.1 localhost\n" + "".join(known))
        Path("/run/sshd").mkdir(exist_ok=True)
        # A fixed hardware address: otherwise it changes when a machine crashes, and connections stall.
        _ip("link", "add", bridge, "address", f"02:{token_bytes(5).hex(':')}", "type", "bridge")
        ends.callback(_ip, "link", "delete", bridge)
        _run(_ADDRESS.format(link=bridge, block=block, number=1))
        ends.callback(lambda: [there.crash(name) for name in list(there.running)])
        for number, name in enumerate(names):
            _start(there, name, root / "all" if shared else None, python, loads=number >= count - loading)
        for address in there.addresses.values():
            _await(address)
        yield there


def _unused_block() -> str:
    """Return the first three numbers of addresses that no other test's machines have."""
    routes = subprocess.run(
        ["ip", "route", "show", "table", "local"], capture_output=True, text=True, check=True
    ).stdout
    blocks = [f"127.18.{number}" for number in range(256)]
    return Random().choice([block for block in blocks if f"{block}.0/24" not in routes])


def _start(there: Machines, name: str, common: Path | None, python: bool, loads: bool) -> None:
    folder = there.root / name
    folder.mkdir()
    # A unique number in the kernel's format.
    number = f"{token_hex(4)}-{token_hex(2)}-{token_hex(2)}-{token_hex(2)}-{token_hex(6)}"
    (folder / "boot_id").write_text(f"{number}\n")
    (folder / "machine-id").write_text(f"{token_hex(16)}\n")
    (folder / "sshd_config").write_text(_SERVER.format(address=there.addresses[name], root=there.root))
    if common:
        (folder / "var").mkdir()
        common.mkdir(exist_ok=True)
        for part in ("lib", "cache"):
            (folder / "var" / part).mkdir()
            (common / part).mkdir(exist_ok=True)
            (folder / "var" / part / "loadframe").symlink_to(common / part)
    hidden = "" if python else " ".join(sorted(_pythons()))
    private = ["/var/lib/loadframe"]
    if not loads:
        private += ["/var/cache/loadframe", *([] if common else [str(_REPOSITORY)])]
    script = _BEGIN.format(
        name=name,
        root=there.root,
        private=" ".join(private),
        hidden=hidden,
        sshd=SSHD,
    )
    apart = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(["unshare", *apart, "/bin/sh", "-c", script], stdout=log, stderr=log)
    there.running[name] = process
    _plug(there, name, process.pid)
    (folder / "plugged").touch()


def _plug(there: Machines, name: str, pid: int) -> None:
    here = Path("/proc/self/ns/net").readlink()
    while Path(f"/proc/{pid}/ns/net").readlink() == here:
        time.sleep(0.01)
    link = there.link(name)
    _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _ip("link", "set", link, "master", there.bridge, "up")
    block, _, number = there.addresses[name].rpartition(".")
    inside = "ip link set lo up\n" + _ADDRESS.format(link="eth0", block=block, number=number)
    _run(inside, "nsenter", f"--net=/proc/{pid}/ns/net")


def _pythons() -> set[str]:
    names = ("python3", *(f"python3.{minor}" for minor in range(30)))
    places = [f"{place}/{name}" for place in ("/usr/local/bin", "/usr/bin", "/bin") for name in names]
    # A version manager's Pythons are found by the shells of the machine, even if the tests run with another.
    managed = [str(path) for path in Path.home().glob(".pyenv/versions/*/bin/python3*") if path.name in names]
    return {str(Path(place).resolve()) for place in (*places, *managed, sys.executable) if Path(place).exists()}


def _await(address: str) -> None:
    import socket

    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((address, 22), 1).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            return


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _run(script: str, *within: str) -> None:
    subprocess.run([*within, "/bin/sh", "-e", "-c", script], check=True, capture_output=True)
