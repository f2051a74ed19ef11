"""Machines behind real sshds: processes there, refused connections and cut links."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.host import Command, Limits, choice, files, identity
from loadframe.host.agent_client import MachineLost
from loadframe.host.limits import choose
from loadframe.host.placement import Placement
from loadframe.host.remote import RemoteMachine
from loadframe.host.ssh import SshHost
from machines import Machines, machines, obstacle

OBSTACLE = obstacle()
pytestmark = pytest.mark.skipif(OBSTACLE is not None, reason=f"no machines here: {OBSTACLE}")

#: Writes an increasing counter to its log until it is killed.
COUNTER = "i=0; while true; do i=$((i + 1)); echo $i; sleep 0.05; done"


@pytest.fixture(scope="module")
def there() -> Iterator[Machines]:
    """Two machines for all tests of this module."""
    with machines(2) as both:
        yield both


@pytest.fixture
def host(there: Machines, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshHost]:
    """The two as a host."""
    monkeypatch.setenv("LOADFRAME_SSH", there.ssh)
    host = SshHost(("m1", "m2"), Placement())
    yield host
    host.close()


def command(machine: RemoteMachine, name: str, script: str = COUNTER) -> Command:
    folder = machine.folder(Path("/x/passing/us-0-abcd")) / name
    machine.call(files.write_node, folder, [], {}, None)
    log = folder / "node.log"
    return Command(
        f"loadframe-test-{name}", ("/bin/sh", "-c", script), {"PATH": "/bin"}, folder, log, scratch=(folder,)
    )


def until(condition) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_process_on_another_machine_is_started_limited_paused_and_stopped(host, there):
    machine = host.machine("m2")
    how, _ = machine.limited_by(Limits(memory=2**28), Path.cwd())
    process = machine.start(command(machine, "steps"), Limits(memory=2**28))
    assert process.alive()
    assert process.pid < 10_000, "it is numbered as on its machine"
    assert bool(process.control_groups) == how.startswith("cgroup")
    assert process.limit_differences(True) == []
    if process.control_groups:
        choose()[0].version.set_memory(process.control_groups, 2**29)
        (difference,) = process.limit_differences(True)
        assert (difference.what, difference.actual, difference.expected) == ("memory limit", "512 MiB", "256 MiB")
    assert any("echo $i" in line for line in there.processes("m2"))
    assert not any("echo $i" in line for line in there.processes("m1"))
    log = machine.folder(Path("/x/passing/us-0-abcd")) / "steps" / "node.log"
    until(lambda: machine.call(files.log_end, log))
    process.pause()
    assert process.paused()
    process.resume()
    assert not process.paused()
    process.stop()
    assert not process.alive()
    assert process.exit_status() == 143
    assert not machine.call(files.exists, log.parent), "its scratch folder still exists"


def test_the_end_of_a_process_is_reported_without_polling(host):
    machine = host.machine("m1")
    process = machine.start(command(machine, "brief", "exit 7"), Limits())
    until(lambda: not process.alive())
    assert process.exit_status() == 7
    process.stop()


def test_nodes_end_with_the_agent_unless_they_are_kept(there, monkeypatch):
    monkeypatch.setenv("LOADFRAME_SSH", there.ssh)
    host = SshHost(("m1",), Placement())
    [machine] = host.machines
    ending = machine.start(command(machine, "ending"), Limits())
    kept = machine.start(command(machine, "kept", f"true kept; {COUNTER}"), Limits())
    assert ending.alive()
    kept.keep()
    record = kept.record()
    host.close()
    left = [line for line in there.processes("m1") if "echo $i" in line]
    # Before it executes `sleep`, a child of the shell has the same command line.
    assert left
    assert all("kept" in line for line in left)
    again = SshHost(("m1",), Placement())
    process = again.machines[0].find(record)
    assert process is not None
    assert process.alive()
    process.stop()
    assert again.machines[0].find(record) is None
    again.close()


@pytest.mark.slow
def test_a_cut_link_is_known_within_seconds_and_a_restored_one_serves_again(host, there):
    machine = host.machine("m2")
    process = machine.start(command(machine, "behind"), Limits())
    there.cut("m2")
    try:
        with pytest.raises(MachineLost, match=r"m2: the machine has not answered for"):
            machine.call_within(2.0, identity.machine)
        until(machine.trouble)
        assert process.alive(), "nothing else is known"
    finally:
        there.restore("m2")
    until(lambda: machine.trouble() is None)
    assert machine.call(identity.machine) == machine.facts.identity
    process.stop()
    assert not process.alive()


def test_a_machine_that_crashes_takes_its_processes_along(monkeypatch):
    with machines(1) as one:
        monkeypatch.setenv("LOADFRAME_SSH", one.ssh)
        host = SshHost(("m1",), Placement())
        process = host.machines[0].start(command(host.machines[0], "lost"), Limits())
        one.crash("m1")
        until(lambda: not process.alive())
        assert host.lost
        assert "m1 has ended" in str(host.machines[0].trouble())
        process.stop()
        host.close()


def test_errors_over_there_are_raised_here_with_the_machine_s_name(host):
    machine = host.machine("m1")
    with pytest.raises(BadInput, match=r"m1: .*folder: cannot create the folder"):
        machine.call(files.make_room, Path("/proc/no/folder"), None, 1, "nothing")


@pytest.mark.parametrize(("folder", "size"), [("/proc/no/folder", 1), ("/tmp", 2**70)])
def test_errors_about_folders_over_there_do_not_name_variables_of_this_machine(host, folder, size):
    with pytest.raises(BadInput) as refused:
        host.machine("m1").call(files.make_room, Path(folder), None, size, "a node", "use --scratch")
    assert refused.value.remedy == "use --scratch"


@pytest.mark.parametrize(
    ("machine", "what"),
    [
        ("nowhere.invalid", "its name does not resolve"),
        ("127.0.0.1", "its host key is unknown|it does not answer"),
    ],
)
def test_machines_that_cannot_be_reached_are_named_with_the_reason(machine, what, there, monkeypatch):
    monkeypatch.setenv("LOADFRAME_SSH", there.ssh)
    with pytest.raises(BadInput, match=rf"{machine}: could not connect: {what}"):
        SshHost((machine,), Placement()).require()


def test_a_host_key_that_is_not_known_is_refused(there, monkeypatch, tmp_path):
    config = (there.root / "ssh_config").read_text().replace(f"{there.root}/known_hosts", f"{tmp_path}/none")
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("LOADFRAME_SSH", f"ssh -F {tmp_path}/config")
    with pytest.raises(BadInput, match="m1: could not connect: its host key is unknown") as caught:
        SshHost(("m1",), Placement()).require()
    assert "verify the key" in str(caught.value.remedy)


def test_a_key_that_does_not_fit_is_refused_on_either_side(there, monkeypatch, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    config = (there.root / "ssh_config").read_text()
    (tmp_path / "config").write_text(config.replace(f"{there.root}/key", str(key)))
    monkeypatch.setenv("LOADFRAME_SSH", f"ssh -F {tmp_path}/config")
    with pytest.raises(BadInput, match="m1: could not connect: authentication without a password failed"):
        SshHost(("m1",), Placement()).require()
    (tmp_path / "known").write_text(f"{there.addresses['m1']} {key.with_suffix('.pub').read_text()}")
    (tmp_path / "config").write_text(config.replace(f"{there.root}/known_hosts", f"{tmp_path}/known"))
    with pytest.raises(BadInput, match="m1: could not connect: its host key differs from the known one"):
        SshHost(("m1",), Placement()).require()


def test_two_names_of_one_machine_are_refused(there, monkeypatch, tmp_path):
    config = (there.root / "ssh_config").read_text()
    (tmp_path / "config").write_text(f"Host again\n  HostName {there.addresses['m1']}\n{config}")
    monkeypatch.setenv("LOADFRAME_SSH", f"ssh -F {tmp_path}/config")
    host = SshHost(("m1", "again"), Placement())
    with pytest.raises(BadInput, match="m1 and again are the same machine"):
        host.require()
    host.close()


def test_a_machine_without_python_is_refused(monkeypatch):
    with machines(1, python=False) as bare:
        monkeypatch.setenv("LOADFRAME_SSH", bare.ssh)
        with pytest.raises(BadInput, match=r"m1: Python 3\.11 or newer is not installed on the machine"):
            SshHost(("m1",), Placement()).require()


@pytest.mark.slow
def test_nodes_bind_the_network_that_is_asked_for(there, monkeypatch):
    monkeypatch.setenv("LOADFRAME_SSH", there.ssh)
    address = there.addresses["m1"]
    for network in (None, "eth0", f"{address}/24", f"{address[:-2]}.0/28"):
        host = SshHost(("m1",), Placement(network=network))
        assert host.machines[0].address == address
        host.close()
    for network, what in (
        ("ib0", "'ib0' is neither an interface nor a network"),
        ("10.9.0.0/16", r"its addresses are outside 10\.9"),
    ):
        host = SshHost(("m1",), Placement(network=network))
        with pytest.raises(BadInput, match=rf"m1: cannot choose an address for nodes: {what}"):
            _ = host.machines[0].address
        host.close()


def test_each_node_goes_where_the_fewest_are():
    host = SshHost(("m1", "m2:2"), Placement())
    taken: list[str] = []
    for _ in range(3):
        taken.append(host.place(taken).hostname)
    assert taken == ["m1", "m2", "m2"]
    with pytest.raises(BadInput, match="the machines have slots for only 3 nodes: m1 1, m2 2"):
        host.place(taken)
    with pytest.raises(BadInput, match="machine m1 is named twice"):
        SshHost(("m1", "m1"), Placement())
    with pytest.raises(BadInput, match="--host ssh requires machines"):
        SshHost((), Placement())
    with pytest.raises(BadInput, match="machines, placement and scratch folders require a host of several machines"):
        choice.find("local", machines=("m1",))


def test_machines_that_share_a_state_folder_leave_each_other_s_clusters_alone(monkeypatch):
    with machines(2, shared=True) as both:
        monkeypatch.setenv("LOADFRAME_SSH", both.ssh)
        host = SshHost(("m1", "m2"), Placement())
        first, second = host.machines
        theirs = second.folder(Path("/x/passing/us-0-5ec0"))
        process = second.start(command(second, "other"), Limits())
        second.call(files.write_node, theirs, [], {"data": "precious"}, None)
        # The age of a folder that was last written before the other machine booted.
        both.run("m2", "touch", "-d", "2001-01-01", str(theirs), str(theirs / "data"))
        ours = first.folder(Path("/x/passing/us-0-0075"))
        assert ours.parent == theirs.parent
        assert second.call(files.read, theirs / "data") == "precious"
        assert process.alive()
        process.stop()
        host.close()


def test_leftovers_of_a_machine_crash_are_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("LOADFRAME_STATE", str(tmp_path))
    parent = tmp_path / "passing"
    ours = parent / f"{identity.machine()}-0ddba11d-1234"
    written_since = parent / f"{identity.machine()}-0ddba11d-5678"
    other, older = parent / "0123456789-0ddba11d-1234", parent / "0ddba11d-1234"
    for folder in (ours, written_since, other, older):
        (folder / "node-0").mkdir(parents=True)
        if folder != written_since:
            os.utime(folder / "node-0", (1e9, 1e9))
            os.utime(folder, (1e9, 1e9))
    folder = identity.passing("9abc")
    assert sorted(parent.iterdir()) == sorted((written_since, other, older))
    assert folder.parent == parent
