"""Nodes in network namespaces: addresses, shaped and cut links, and cleanup."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from commands import open_folder
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host import Command, Limits, link
from loadframe.host.link import Shape
from loadframe.host.local_process import Identity, LocalProcess
from loadframe.host.netns import NetnsHost

OBSTACLE = NetnsHost().obstacle
pytestmark = pytest.mark.skipif(OBSTACLE is not None, reason=f"no networks for nodes here: {OBSTACLE}")

PORT = 9000
#: Echo server for many clients, over TCP and UDP.
ECHO = f"""
import socket, sys, threading
def answer(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
def datagrams():
    while True:
        data, whence = loose.recvfrom(2048)
        loose.sendto(data, whence)
loose = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
loose.bind((sys.argv[1], {PORT}))
threading.Thread(target=datagrams, daemon=True).start()
server = socket.create_server((sys.argv[1], {PORT}))
print("up", flush=True)
while True:
    threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
"""
#: Starts a node, tells its pid, its guard's and its bridge, and waits to be killed.
STARTER = """
import sys, time
from pathlib import Path
from loadframe.host import Command, Limits, link
from loadframe.host.netns import NetnsHost
host, folder = NetnsHost(), Path(sys.argv[1])
address = host.address_of(0)
program = (sys.executable, "-S", "-c", "import time; time.sleep(300)")
command = Command("loadframe-test-left", program, {}, folder, folder / "node.log", address=address)
process = host.start(command, Limits())
print(process.pid, process.record()["guard"], process.link.name.partition("n")[0], flush=True)
time.sleep(300)
"""


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(scope="module", autouse=True)
def swept() -> Iterator[None]:
    """Remove the empty bridges of this process after the tests; otherwise the next start removes them."""
    yield
    for folder in Path("/sys/class/net").glob("lf*/brif"):
        ours = (folder.parent / "ifalias").read_text().startswith(f"loadframe {os.getpid()} ")
        if ours and not any(folder.iterdir()):
            subprocess.run(["ip", "link", "delete", folder.parent.name], check=True)


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[tuple[str, LocalProcess]]]:
    """Two nodes that echo, with their addresses."""
    host, running = NetnsHost(), []
    first = host.address_of(0)
    with open_folder("netns") as folder:
        try:
            for address in (first, host.address_of(1, [first])):
                log = folder / f"{address}.log"
                argv = (sys.executable, "-S", "-c", ECHO, address)
                command = Command(f"loadframe-test-{token_hex(4)}", argv, {}, folder, log, address=address)
                running.append((address, host.start(command, Limits())))
                assert within(30, lambda log=log: "up" in log.read_text())
            yield running
        finally:
            for _, process in running:
                process.stop()


@pytest.fixture
def node(nodes) -> Iterator[tuple[str, LocalProcess]]:
    """The first node, with its link unshaped before and after each test."""
    yield nodes[0]
    nodes[0][1].link.restore()
    nodes[0][1].link.shape(Shape())


def echoed(address: str, data: bytes = b"x", timeout: float = 30.0) -> bytes:
    with socket.create_connection((address, PORT), timeout) as connection:
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        got = b""
        while len(got) < len(data):
            got += connection.recv(65536)
        sender.join()
        return got


def test_each_node_has_an_address_of_its_own_and_the_same_port(nodes):
    addresses = [address for address, _ in nodes]
    assert len(set(addresses)) == 2
    assert [echoed(address) for address in addresses] == [b"x", b"x"]
    with pytest.raises(OSError, match="assign"), socket.socket() as here:
        here.bind((addresses[0], 0))


def test_nodes_reach_each_other_and_nothing_beyond(nodes):
    (_, first), (second, _) = nodes
    program = f"import socket; print(socket.create_connection(('{second}', {PORT}), 10).getpeername()[0])"
    done = subprocess.run(
        [*first.link.inside, sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == second
    beyond = "import socket; socket.create_connection(('192.0.2.77', 80), 10)"
    done = subprocess.run(
        [*first.link.inside, sys.executable, "-c", beyond], capture_output=True, text=True, check=False
    )
    assert "unreachable" in done.stderr


def test_the_network_keeps_its_hardware_address_when_a_node_joins_or_leaves(nodes):
    bridge, link = nodes[0][1].link.name.partition("n")[0], f"lft{token_hex(3)}"
    before = Path(f"/sys/class/net/{bridge}/address").read_text()
    # A bridge without an address takes the lowest address of its ports.
    pair = ("link", "add", link, "address", "00:00:00:00:00:01", "type", "veth", "peer", "name", f"{link}p")
    subprocess.run(["ip", *pair], check=True)
    try:
        subprocess.run(["ip", "link", "set", link, "master", bridge, "up"], check=True)
        assert Path(f"/sys/class/net/{bridge}/address").read_text() == before
    finally:
        subprocess.run(["ip", "link", "delete", link], check=True)


def test_a_cut_that_fails_at_one_end_is_undone_at_both(monkeypatch):
    cut = []

    def refuse_second(end, *_):
        if cut:
            raise LoadframeError("the kernel refuses")
        cut.append(end.interface)

    def undo(end, *arguments):
        if arguments[:2] == ("filter", "delete") and end.interface in cut:
            cut.remove(end.interface)

    monkeypatch.setattr(link, "_filter", refuse_second)
    monkeypatch.setattr(link, "_attempt", undo)
    with pytest.raises(LoadframeError, match="the kernel refuses"):
        link.Link("lf0", 1).cut()
    assert cut == []


def test_a_cut_link_is_silent_until_it_is_restored(node):
    address, process = node
    with socket.create_connection((address, PORT), 10) as before:
        process.link.cut()
        with pytest.raises(TimeoutError):
            echoed(address, timeout=0.5)
        before.settimeout(0.5)
        before.sendall(b"a")
        with pytest.raises(TimeoutError):
            before.recv(1)
        process.link.restore()
        before.settimeout(30)
        assert before.recv(1) == b"a", "what was sent during the cut arrives behind it"
    assert echoed(address) == b"x"


def test_traffic_above_the_rate_is_delayed(node):
    address, process = node
    process.link.shape(Shape(rate=1e6))
    began = time.monotonic()
    assert len(echoed(address, b"x" * 800_000)) == 800_000
    # No time is too long for a slow machine, but no machine gets 800 kB through 1 MB/s in half a second.
    assert time.monotonic() - began > 0.5


def test_a_share_of_packets_is_lost_each_way(node):
    address, process = node
    process.link.shape(Shape(loss=0.5))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loose:
        loose.settimeout(0.5)
        for _ in range(400):
            loose.sendto(b"x", (address, PORT))
        came = 0
        try:
            while True:
                loose.recv(10)
                came += 1
        except TimeoutError:
            pass
    # Three quarters of the round trips fail; these bounds are five standard deviations away.
    assert 50 < came < 150


def test_a_delay_lasts_both_ways_or_the_kernel_is_named_that_has_none(node):
    address, process = node
    try:
        process.link.shape(Shape(delay=0.05, loss=0.01))
    except BadInput as error:
        assert "cannot delay packets" in error.what
        assert "sch_netem" in str(error.remedy)
        shown = subprocess.check_output(["tc", "filter", "show", "dev", process.link.name, "ingress"])
        assert shown == b"", "a shape that fails leaves nothing behind"
    else:
        began = time.monotonic()
        assert echoed(address) == b"x"
        assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("wrong", [{"delay": 61.0}, {"loss": 1.0}, {"rate": 10.0}])
def test_a_shape_that_no_link_can_have_is_refused(wrong):
    with pytest.raises(BadInput):
        Shape(**wrong)


def test_a_node_that_comes_back_is_reached_at_once(nodes, tmp_path):
    host, address = NetnsHost(), NetnsHost().address_of(2, [nodes[0][0]])
    for start in ("first", "second"):
        log = tmp_path / f"{start}.log"
        command = Command(
            f"loadframe-test-{token_hex(4)}",
            (sys.executable, "-S", "-c", ECHO, address),
            {},
            tmp_path,
            log,
            address=address,
        )
        process = host.start(command, Limits())
        try:
            assert within(30, lambda log=log: "up" in log.read_text())
            # Neighbours that cached an old hardware address drop it only after 30 s or more.
            assert echoed(address, timeout=10) == b"x"
        finally:
            process.stop()


def test_the_link_of_a_restarted_node_outlives_the_supervisor_of_its_killed_process(tmp_path):
    host = NetnsHost()
    address = host.address_of(0)

    def start() -> LocalProcess:
        program = (sys.executable, "-S", "-c", "import time; time.sleep(300)")
        command = Command(f"loadframe-test-{token_hex(4)}", program, {}, tmp_path, tmp_path / "log", address=address)
        return host.start(command, Limits())

    killed = start()
    killed.kill()
    again = start()
    try:
        killed.stop()
        assert Path("/sys/class/net", again.link.name).exists()
    finally:
        again.stop()
    assert not Path("/sys/class/net", again.link.name).exists()


def test_a_start_that_fails_leaves_neither_link_nor_bridge(tmp_path):
    host = NetnsHost()
    address = host.address_of(0)
    bridge = f"lf{address.split('.')[2]}"
    assert Path("/sys/class/net", bridge).exists()
    command = Command("loadframe-test-missing", ("/missing",), {}, tmp_path, tmp_path / "log", address=address)
    with pytest.raises(LoadframeError, match="could not run /missing"):
        host.start(command, Limits())
    assert not list(Path("/sys/class/net").glob(f"{bridge}*"))


def test_a_process_that_is_found_again_has_its_link_again(nodes):
    _, process = nodes[1]
    again = NetnsHost().find(process.record())
    assert again.link == process.link


def test_a_new_cluster_gets_another_network(nodes):
    other = NetnsHost().address_of(0)
    assert other.rpartition(".")[0] != nodes[0][0].rpartition(".")[0]


@pytest.fixture
def left() -> Iterator[tuple[subprocess.Popen, Identity, Identity, Path]]:
    """Yield a process that started a node, the node, its supervisor and their bridge."""
    with open_folder("netns") as folder:
        starter = subprocess.Popen(
            [sys.executable, "-c", STARTER, str(folder)], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        pid, guard, bridge = starter.stdout.readline().split()
        node, guard = Identity.of(int(pid)), Identity.of(int(guard))
        yield starter, node, guard, Path("/sys/class/net") / bridge
        starter.kill()
        starter.wait()
        for process in (guard, node):
            if process.alive():
                os.kill(process.pid, signal.SIGKILL)


def test_killing_the_starter_leaves_neither_node_nor_network(left):
    starter, node, _, bridge = left
    assert bridge.exists()
    starter.kill()
    assert within(30, lambda: not node.alive())
    assert within(30, lambda: not bridge.exists())


def test_a_bridge_whose_guard_was_killed_goes_with_the_next_start(left):
    starter, node, guard, bridge = left
    starter.send_signal(signal.SIGSTOP)
    os.kill(guard.pid, signal.SIGKILL)
    assert within(30, lambda: not node.alive())
    assert within(30, lambda: not any((bridge / "brif").iterdir())), "its link goes with its namespace"
    starter.kill()
    starter.wait()
    assert bridge.exists()
    NetnsHost().address_of(0)
    # A concurrent start may have created the same name again; then the bridge belongs to that start.
    assert not bridge.exists() or str(os.getpid()) in (bridge / "ifalias").read_text()


def test_foreign_interfaces_are_left_alone():
    subprocess.run(["ip", "link", "add", "lf255", "type", "bridge"], check=True)
    try:
        address = NetnsHost().address_of(0)
        assert Path("/sys/class/net/lf255").exists()
        with pytest.raises(LoadframeError, match="lf255, which another program uses"):
            NetnsHost().start(
                Command("x", ("/bin/true",), {}, Path("/"), Path(os.devnull), address="198.19.255.2"), Limits()
            )
        assert not address.startswith("198.19.255.")
    finally:
        subprocess.run(["ip", "link", "delete", "lf255"], check=True)


def test_missing_permission_gives_one_message():
    program = "from loadframe.host.netns import NetnsHost; NetnsHost().require()"
    bare = ["setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-sys_admin,-net_admin"]
    done = subprocess.run([*bare, sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()
    assert any("network namespaces are not available" in line and "not permitted" in line for line in last)


def test_without_its_programs_their_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="package iproute2"):
        NetnsHost().require()
