"""A node ends with its starter, however that ends, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from loadframe.base.errors import LoadframeError
from loadframe.host import Limits, agent, copying, local_process, supervisor
from loadframe.host.local import LocalHost
from loadframe.host.local_process import Identity, LocalProcess

SLEEPER = "import time; time.sleep(300)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(300)"
)

#: Starts a node with a scratch folder, tells its pid, and waits to be killed.
STARTER = """
import sys, time
from pathlib import Path
from loadframe.host import Command, Limits
from loadframe.host.local import LocalHost
folder = Path(sys.argv[1]) / "cluster" / "node"
folder.mkdir(parents=True)
command = Command("loadframe-test-orphan", (sys.executable, "-S", "-c", "import time; time.sleep(300)"), {}, folder,
                  folder / "node.log", scratch=(folder,))
process = LocalHost().start(command, Limits())
if len(sys.argv) > 2:
    process.keep()
print(process.pid, flush=True)
time.sleep(300)
"""


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def starter(folder: Path):
    """Start a node from another process; return that process and the node's identity."""
    started = []

    def begin(*arguments: str) -> tuple[subprocess.Popen, Identity]:
        process = subprocess.Popen(
            [sys.executable, "-c", STARTER, str(folder), *arguments], stdout=subprocess.PIPE, start_new_session=True
        )
        node = Identity.of(int(process.stdout.readline()))
        started.append((process, node))
        return process, node

    yield begin
    for process, node in started:
        process.kill()
        process.wait()
        process.stdout.close()
        if node.alive():
            os.kill(node.pid, signal.SIGKILL)


def test_a_node_ends_when_its_starter_is_killed(starter, folder):
    process, node = starter()
    os.kill(process.pid, signal.SIGKILL)
    assert within(10, lambda: not node.alive())
    assert within(10, lambda: not (folder / "cluster").exists()), "its scratch folder and the one around it are left"


def test_a_node_ends_when_the_terminal_of_its_starter_closes(starter):
    process, node = starter()
    os.killpg(process.pid, signal.SIGHUP)
    assert within(10, lambda: not node.alive())


def test_ctrl_c_at_the_terminal_does_not_reach_the_node_itself(starter):
    process, node = starter()
    supervisor = psutil.Process(node.pid).parent()
    assert os.getsid(node.pid) != os.getsid(process.pid)
    assert os.getsid(supervisor.pid) != os.getsid(process.pid)


def test_a_kept_node_outlives_its_starter(starter):
    process, node = starter("keep")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.5)
    assert node.alive()


def test_a_node_ends_when_its_guard_is_killed(start):
    process = start(SLEEPER)
    node = Identity.of(process.pid)
    os.kill(psutil.Process(process.pid).ppid(), signal.SIGKILL)
    assert within(5, lambda: not node.alive())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another user")
def test_a_node_of_another_user_ends_when_its_guard_is_killed_too(start):
    host = LocalHost()
    process = start(SLEEPER, user=host.server_user(), python="/usr/bin/python3")
    node = Identity.of(process.pid)
    assert psutil.Process(process.pid).uids().real == host.server_user()
    os.kill(psutil.Process(process.pid).ppid(), signal.SIGKILL)
    assert within(5, lambda: not node.alive())


def test_stop_lets_a_node_say_goodbye(start, folder):
    goodbye = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print(1, flush=True)"
    process = start(f"{goodbye}; time.sleep(300)")
    assert within(5, lambda: (folder / "node.log").read_text() != "")
    process.stop()
    assert process.exit_status() == 7


def test_a_node_is_asked_to_stop_by_the_signal_that_it_wants(start, folder):
    goodbye = "import signal, sys, time; signal.signal(signal.SIGINT, lambda *_: sys.exit(7)); print(1, flush=True)"
    process = start(f"{goodbye}; time.sleep(300)", stop_signal=signal.SIGINT)
    assert within(5, lambda: (folder / "node.log").read_text() != "")
    process.stop()
    assert process.exit_status() == 7


def test_stop_kills_a_node_that_does_not_listen_and_all_it_started(start, folder, monkeypatch):
    monkeypatch.setattr("loadframe.host.local.GRACE", 1.0)
    child = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', '{SLEEPER}']).pid, flush=True); "
    process = start(child + STUBBORN)
    assert within(10, lambda: "up" in (folder / "node.log").read_text())
    grandchild = Identity.of(int((folder / "node.log").read_text().split()[0]))
    process.stop()
    assert process.exit_status() == 128 + signal.SIGKILL
    assert within(5, lambda: not grandchild.alive())


def test_child_processes_pause_and_end_with_the_node(start, folder):
    below = "import os, sys, time; os.setsid(); print(os.getpid(), flush=True); sys.stdin.read()"
    command = f"[sys.executable, '-S', '-c', {below!r}]"
    above = f"import subprocess, sys, time; below = subprocess.Popen({command}, stdin=-1); time.sleep(300)"
    process = start(above)
    assert within(20, lambda: (folder / "node.log").read_text().endswith("\n"))
    child = psutil.Process(int((folder / "node.log").read_text()))
    process.pause()
    assert within(20, lambda: child.status() == psutil.STATUS_STOPPED)
    process.resume()
    assert within(20, lambda: child.status() == psutil.STATUS_SLEEPING)
    process.kill()
    assert within(20, lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_node_that_ends_by_itself_tells_its_status_and_leaves_its_log(start, folder):
    process = start("print('no room'); raise SystemExit(3)", scratch=(folder / "scratch",))
    assert within(5, lambda: not process.alive())
    assert process.exit_status() == 3
    assert (folder / "node.log").read_text() == "no room\n"


def test_a_command_that_cannot_be_executed_is_one_clear_error(start):
    with pytest.raises(LoadframeError, match=r"could not run .*: No such file or directory"):
        start("", python="/nowhere/java")


def test_a_kept_node_is_found_again_by_its_record_and_can_be_stopped(start):
    process = start(SLEEPER)
    process.keep()
    again = LocalHost().find(process.record())
    assert again is not None
    assert again.pid == process.pid
    assert again.alive()
    again.stop()
    assert not process.alive()
    assert LocalHost().find(process.record()) is None


def test_a_reused_process_number_is_not_mistaken_for_the_node(start):
    process = start(SLEEPER)
    process.keep()
    record = process.record()
    other = record | {"guard": os.getpid()}
    assert LocalHost().find(other) is None


#: Starts a process in a new session, prints its pid, and exits.
LEAVES_ONE = (
    "import os, subprocess, sys; "
    f"left = subprocess.Popen([sys.executable, '-S', '-c', '{SLEEPER}'], start_new_session=True); "
    "print(left.pid, flush=True)"
)


@pytest.mark.parametrize("limits", [Limits(), Limits(memory=2**30)], ids=["free", "limited"])
def test_child_processes_of_a_node_that_exits_are_ended(start, folder, limits):
    process = start(f"{LEAVES_ONE}; sys.exit(4)", limits)
    assert within(20, lambda: (folder / "node.log").read_text().endswith("\n"))
    left = int((folder / "node.log").read_text())
    assert within(20, lambda: not psutil.pid_exists(left))
    assert process.exit_status() == 4
    groups = process.control_groups.values()
    process.stop()
    assert not any(group.exists() for group in groups)


def test_a_folder_in_which_its_node_runs_again_outlives_the_supervisor_of_the_killed_node(start, folder):
    scratch = folder / "scratch"
    scratch.mkdir()
    (scratch / copying.MARK).write_text("first")
    killed = start(SLEEPER, scratch=(scratch,), mark="first")
    killed.kill()
    (scratch / copying.MARK).write_text("second")
    again = start(SLEEPER, scratch=(scratch,), mark="second")
    killed.stop()
    assert again.alive()
    assert scratch.exists()
    again.stop()
    assert not scratch.exists()


def test_a_kill_waits_for_the_descendants_of_the_process(start, monkeypatch):
    node, conditions = start(SLEEPER), []
    with subprocess.Popen(["sleep", "300"]) as below:
        try:
            send = local_process._send
            monkeypatch.setattr(local_process, "_descendants", lambda _: [Identity.of(below.pid)])
            monkeypatch.setattr(local_process, "_send", lambda to, sent: to.pid == node.pid and send(to, sent))
            monkeypatch.setattr(LocalProcess, "_await", staticmethod(conditions.append))
            node.kill()
            (ended,) = conditions
            assert within(30, lambda: not node.alive())
            assert not ended()
        finally:
            below.kill()
        below.wait()
        assert ended()


def test_an_agent_reports_a_process_that_ended_before_it_was_kept_as_ended(start):
    process = start(SLEEPER)
    number = agent._register(process).number
    try:
        process.kill()
        assert not agent.act(number, "keep").alive
    finally:
        del agent._HELD[number]


def test_a_guard_that_cleans_up_for_long_is_left_to_it(start, folder, monkeypatch):
    monkeypatch.setattr("loadframe.host.local_process.GRACE", 0.05)
    scratch = folder / "scratch"
    scratch.mkdir()
    slow = (sys.executable, "-S", "-c", "import time; time.sleep(0.5)")
    process = start(SLEEPER, scratch=(scratch,), undo=(slow,))
    process.stop()
    assert not process.alive()
    assert not scratch.exists()


def test_a_control_group_is_killed_at_once_where_the_kernel_can(tmp_path):
    (tmp_path / "cgroup.kill").write_text("")
    supervisor._kill_group(tmp_path)
    assert (tmp_path / "cgroup.kill").read_text() == "1"


def test_a_control_group_without_that_is_killed_process_by_process(tmp_path):
    sleeper = subprocess.Popen([sys.executable, "-S", "-c", SLEEPER])
    (tmp_path / "cgroup.procs").write_text(f"{sleeper.pid}\n")
    # The kernel takes a process that has ended off the list.
    threading.Thread(target=lambda: (sleeper.wait(), (tmp_path / "cgroup.procs").write_text(""))).start()
    supervisor._kill_group(tmp_path)
    assert sleeper.wait() == -signal.SIGKILL
