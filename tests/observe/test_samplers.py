"""Samples of real processes, control groups and this machine."""

import contextlib
import itertools
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from loadframe.observe import CgroupSampler, Gap, HostSampler, ProcessSampler, ProgramSampler, Sample, process
from loadframe.observe.observer import Rates
from loadframe.record.schema import HOST, NODES

pytestmark = pytest.mark.alone


def figures(looks, source="node:n1"):
    return {look.metric: look.value for look in looks if isinstance(look, Sample) and look.source == source}


def gaps(looks):
    return {look.source: look.cause for look in looks if isinstance(look, Gap)}


def cpu_seconds(pid):
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def test_a_rate_is_the_growth_between_two_looks():
    rates = Rates()
    assert list(rates.of("s", 1.0, {"m": 10.0})) == []
    assert list(rates.of("s", 3.0, {"m": 14.0})) == [Sample("s", "m", 2.0)]


def test_counter_resets_do_not_give_a_rate():
    rates = Rates()
    list(rates.of("s", 1.0, {"m": 10.0}))
    assert list(rates.of("s", 2.0, {"m": 3.0})) == []
    assert list(rates.of("s", 3.0, {"m": 4.0})) == [Sample("s", "m", 1.0)]


def test_a_counter_that_a_parent_takes_over_late_has_no_peak():
    rates = Rates()
    for now, total, expected in ((0, 100.0, []), (1, 40.0, []), (2, 101.0, [0.5]), (3, 102.0, [1.0])):
        assert [sample.value for sample in rates.of("a", now, {"cpu": total}, dips=3)] == expected
    # More than three lower values are a reset.
    values = [40.0, 41.0, 42.0, 43.0, 44.0]
    assert [len([*rates.of("a", 4 + at, {"cpu": value}, dips=3)]) for at, value in enumerate(values)] == [0, 0, 0, 0, 1]


def test_a_busy_process_uses_a_core_and_an_idle_one_none(spawn):
    pids = {
        "busy": spawn("import time\nwhile time.process_time() < 20: pass").pid,
        "idle": spawn("import time; time.sleep(60)").pid,
    }
    sampler = ProcessSampler(lambda: pids)
    list(sampler.sample(time.monotonic()))
    used, start = cpu_seconds(pids["busy"]), time.monotonic()
    time.sleep(0.6)
    looks = list(sampler.sample(time.monotonic()))
    expected = (cpu_seconds(pids["busy"]) - used) / (time.monotonic() - start)
    assert figures(looks, "node:busy")["process.cpu"] == pytest.approx(expected, abs=0.1)
    assert figures(looks, "node:busy")["process.cpu"] > 0
    halves = sum(figures(looks, "node:busy")[f"process.cpu_{mode}"] for mode in ("user", "system"))
    assert figures(looks, "node:busy")["process.cpu"] == pytest.approx(halves)
    assert figures(looks, "node:idle")["process.cpu"] < 0.05


def test_memory_and_threads_are_levels(spawn):
    script = (
        "import threading, time\nblock = b'x' * 50_000_000\n"
        "threads = [threading.Thread(target=time.sleep, args=(60,), daemon=True) for _ in range(3)]\n"
        "for thread in threads: thread.start()\nprint(flush=True)\ntime.sleep(60)"
    )
    child = spawn(script)
    child.stdout.readline()
    seen = figures(ProcessSampler(lambda: {"n1": child.pid}).sample(0.0))
    assert 50e6 < seen["process.resident"] < 150e6
    assert seen["process.threads"] == 4


def test_a_node_of_many_processes_is_seen_as_one(spawn):
    # Each process ends with its parent, because the pipe between them closes.
    busy = "import sys, time\nprint(flush=True)\nwhile time.process_time() < 2: pass\nsys.stdin.read()"
    above = "import subprocess, sys, time\nbelow = subprocess.Popen([sys.executable, '-c', {!r}], stdin=-1)\n{}"
    child = spawn(above.format(above.format(busy, "sys.stdin.read()"), "time.sleep(60)"))
    child.stdout.readline()
    alone, family = (ProcessSampler(lambda: {"n1": child.pid}, families=with_family) for with_family in (False, True))
    assert figures(family.sample(0.0))["process.threads"] == 3
    assert figures(alone.sample(0.0))["process.threads"] == 1
    end, looks = time.monotonic() + 60, itertools.count(1)
    while not figures(family.sample(float(next(looks)))).get("process.cpu"):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert figures(alone.sample(1.0))["process.cpu"] < 0.05


def test_a_node_of_many_processes_keeps_the_cpu_time_of_its_ended_processes(spawn):
    # As PostgreSQL does, the node ends a process for each connection and for each part of a parallel query.
    busy = "import time\nwhile time.process_time() < 0.6: pass"
    script = (
        "import subprocess, sys, time\nsys.stdin.readline()\n"
        f"subprocess.run([sys.executable, '-c', {busy!r}])\nprint(flush=True)\n"
        "while time.process_time() < 0.2: pass\nprint(flush=True)\ntime.sleep(60)"
    )
    node = spawn(script, stdin=subprocess.PIPE)
    alone, family = (ProcessSampler(lambda: {"n1": node.pid}, families=with_family) for with_family in (False, True))
    for sampler in (alone, family):
        list(sampler.sample(0.0))
    node.stdin.write(b"\n")
    node.stdin.flush()
    node.stdout.readline()
    node.stdout.readline()
    seen = figures(family.sample(1.0))
    assert seen["process.cpu"] >= 0.7
    assert seen["process.cpu"] == pytest.approx(seen["process.cpu_user"] + seen["process.cpu_system"])
    assert figures(alone.sample(1.0))["process.cpu"] < 0.5


def test_memory_that_the_processes_of_a_node_share_counts_once(spawn):
    # The children end with their parent, because the pipe between them closes.
    script = (
        "import mmap, os, time\nshared = mmap.mmap(-1, 100_000_000)\n"
        "def touch():\n    for place in range(0, len(shared), 4096): shared[place] = 1\n    print(flush=True)\n"
        "end, held = os.pipe()\ntouch()\n"
        "for _ in range(3):\n    if os.fork() == 0:\n        os.close(held)\n        touch()\n        os.read(end, 1)\n"
        "        os._exit(0)\ntime.sleep(60)"
    )
    node = spawn(script)
    for _ in range(4):
        node.stdout.readline()
    seen = figures(ProcessSampler(lambda: {"n1": node.pid}, families=True).sample(0.0))
    assert seen["process.threads"] == 4
    assert 100e6 < seen["process.resident"] < 200e6


def test_storage_writes_of_a_process_are_a_rate_in_bytes(spawn, tmp_path):
    file = tmp_path / "out"
    child = spawn(
        f"import os, sys, time\ntime.sleep(0.3)\nwith open({str(file)!r}, 'wb') as f:\n"
        "    f.write(b'x' * 4_000_000); f.flush(); os.fsync(f.fileno())\nprint(flush=True)\ntime.sleep(60)"
    )
    sampler = ProcessSampler(lambda: {"n1": child.pid})
    list(sampler.sample(10.0))
    child.stdout.readline()
    assert figures(sampler.sample(12.0))["process.written"] == pytest.approx(2e6, rel=0.05)


@pytest.mark.parametrize("reaped", [True, False])
def test_a_process_that_ended_is_a_gap_and_the_others_are_seen(spawn, reaped):
    ended, alive = spawn("import time; time.sleep(60)"), spawn("import time; time.sleep(60)")
    sampler = ProcessSampler(lambda: {"n1": ended.pid, "n2": alive.pid})
    list(sampler.sample(0.0))
    ended.kill()
    if reaped:
        ended.wait()
    else:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    looks = list(sampler.sample(1.0))
    assert gaps(looks) == {"node:n1": f"process {ended.pid} is gone"}
    assert "process.cpu" in figures(looks, "node:n2")


def test_a_node_that_was_restarted_counts_from_zero(spawn):
    pids = {"n1": spawn("import time\nwhile time.process_time() < 0.3: pass\ntime.sleep(60)").pid}
    sampler = ProcessSampler(lambda: dict(pids))
    list(sampler.sample(0.0))
    pids["n1"] = spawn("import time\nwhile time.process_time() < 20: pass").pid
    assert "process.cpu" not in figures(sampler.sample(1.0)), "there is no rate across a restart"
    time.sleep(0.3)
    assert figures(sampler.sample(2.0))["process.cpu"] > 0


def test_nodes_that_join_are_seen_from_the_next_look_on(spawn):
    pids: dict[str, int] = {}
    sampler = ProcessSampler(lambda: dict(pids))
    assert list(sampler.sample(0.0)) == []
    pids["n1"] = spawn("import time; time.sleep(60)").pid
    assert figures(sampler.sample(1.0))["process.threads"] == 1


@pytest.fixture(params=["v1", "v2"])
def group(request, tmp_path):
    """Files as the kernel writes them: a function that sets throttled periods and seconds, and the memory."""

    def write(periods: int, seconds: float, memory: int) -> dict[str, Path]:
        if request.param == "v2":
            stat = f"usage_usec 5\nnr_periods 9\nnr_throttled {periods}\nthrottled_usec {int(seconds * 1e6)}\n"
            (tmp_path / "cpu.stat").write_text(stat)
            (tmp_path / "memory.current").write_text(f"{memory}\n")
            return {"cpu": tmp_path, "memory": tmp_path}
        for controller in ("cpu", "memory"):
            (tmp_path / controller).mkdir(exist_ok=True)
        stat = f"nr_periods 9\nnr_throttled {periods}\nthrottled_time {int(seconds * 1e9)}\n"
        (tmp_path / "cpu" / "cpu.stat").write_text(stat)
        (tmp_path / "memory" / "memory.usage_in_bytes").write_text(f"{memory}\n")
        return {"cpu": tmp_path / "cpu", "memory": tmp_path / "memory"}

    return write


def test_throttling_is_a_rate_and_memory_a_level_in_both_versions(group):
    sampler = CgroupSampler(lambda: {"n1": folders})
    folders = group(10, 1.5, 1000)
    assert figures(sampler.sample(1.0)) == {"cgroup.memory": 1000}
    group(16, 2.5, 2000)
    assert figures(sampler.sample(3.0)) == {
        "cgroup.memory": 2000,
        "cgroup.throttled": 3.0,
        "cgroup.throttled_time": pytest.approx(0.5),
    }


def test_pressure_of_a_node_is_that_of_its_group_of_version_2(tmp_path):
    def write(seconds: float) -> None:
        (tmp_path / "cpu.stat").write_text("nr_throttled 0\nthrottled_usec 0\n")
        (tmp_path / "memory.current").write_text("1\n")
        for resource in ("cpu", "memory", "io"):
            line = f"avg10=0.00 avg60=0.00 avg300=0.00 total={int(seconds * 1e6)}"
            (tmp_path / f"{resource}.pressure").write_text(f"some {line}\nfull {line}\n")

    sampler = CgroupSampler(lambda: {"n1": {"cpu": tmp_path, "memory": tmp_path}})
    write(1.0)
    list(sampler.sample(1.0))
    write(1.25)
    seen = {name: value for name, value in figures(sampler.sample(2.0)).items() if name.startswith("pressure.")}
    assert seen == dict.fromkeys([field.name for field in NODES if field.name.startswith("pressure.")], 0.25)


def test_the_group_of_a_restarted_node_counts_from_zero(tmp_path):
    def group(name: str, seconds: int) -> dict[str, Path]:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "cpu.stat").write_text(f"nr_throttled {seconds}\nthrottled_usec {seconds * 1_000_000}\n")
        return {"cpu": folder}

    groups = {"n1": group("first", 2)}
    sampler = CgroupSampler(lambda: groups)
    list(sampler.sample(1.0))
    groups["n1"] = group("second", 5)
    assert figures(sampler.sample(2.0)) == {}, "there is no rate across a restart"
    group("second", 6)
    assert figures(sampler.sample(3.0))["cgroup.throttled_time"] == 1.0


def test_nodes_without_limits_do_not_have_control_groups(tmp_path):
    assert list(CgroupSampler(lambda: {"n1": {}}).sample(0.0)) == []


def test_a_group_that_is_gone_is_a_gap(tmp_path):
    looks = list(CgroupSampler(lambda: {"n1": {"cpu": tmp_path / "gone"}}).sample(0.0))
    assert "No such file" in gaps(looks)["node:n1"]


def test_a_real_group_under_a_quota_is_seen_to_be_throttled(spawn):
    folder = Path("/sys/fs/cgroup/cpu") / f"loadframe-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "cpu.cfs_quota_us").write_text("20000")
    except OSError:
        pytest.skip("needs permission to make a control group of version 1")
    try:
        child = spawn("import time\nwhile time.process_time() < 20: pass")
        (folder / "cgroup.procs").write_text(str(child.pid))
        sampler = CgroupSampler(lambda: {"n1": {"cpu": folder}})
        list(sampler.sample(time.monotonic()))
        time.sleep(0.6)
        seen = figures(sampler.sample(time.monotonic()))
        assert 2 < seen["cgroup.throttled"] <= 11, "one period is 100 ms"
        assert seen["cgroup.throttled_time"] > 0.2
        child.kill()
        child.wait()
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    for pid in (folder / "cgroup.procs").read_text().split():
        subprocess.run(["kill", "-9", pid], check=False)
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(0.02)


def test_the_machines_processors_are_seen_at_work(spawn):
    sampler = HostSampler()
    list(sampler.sample(0.0))
    spawn("import time\nwhile time.process_time() < 20: pass")
    time.sleep(0.5)
    seen = figures(sampler.sample(0.5), "host")
    assert 0.3 / (os.cpu_count() or 1) < seen["cpu.busy"] <= 1
    assert 0 <= seen["cpu.stolen"] < 1
    assert 0 < seen["memory.available"] < psutil.virtual_memory().total


def test_a_busy_program_of_others_is_named_and_an_own_one_is_not(tmp_path):
    # An orphan belongs to no command of Loadframe.
    programs = {name: tmp_path / f"{name}-{os.getpid()}" for name in ("others", "child")}
    for program in programs.values():
        program.symlink_to("/bin/sh")
    loop = "ulimit -t 60; while :; do :; done"
    started = subprocess.run(
        ["/bin/sh", "-c", f"{programs['others']} -c '{loop}' >/dev/null 2>&1 & echo $!"],
        capture_output=True,
        check=True,
    )
    child = subprocess.Popen([programs["child"], "-c", loop])
    try:
        sampler, end, seen = ProgramSampler(lambda: {"n1": os.getpid()}), time.monotonic() + 60, {}
        # Also beside busier programs, and on a machine with many processors.
        sampler.MOST, sampler.LEAST = 1000, 1e-9
        metric = f"cpu.program:{programs['others'].name}"
        while metric not in seen:
            assert time.monotonic() < end
            time.sleep(0.05)
            seen = figures(sampler.sample(time.monotonic()), "host")
        assert 0 < seen[metric] <= seen["cpu.programs"]
        assert f"cpu.program:{programs['child'].name}" not in seen
    finally:
        child.kill()
        child.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(started.stdout), signal.SIGKILL)


def test_without_nodes_other_programs_are_not_searched():
    sampler = ProgramSampler(dict)
    assert [*sampler.sample(0.0), *sampler.sample(1.0), *sampler.sample(2.0)] == []


def processes(**programs):
    """Return made-up processes by id, from NAME=(id, parent, CPU time in ticks, flags).

    A fifth number is the CPU time of ended children, in ticks. Names that end in `_new` have just started.
    """
    return {
        pid: (
            name.removesuffix("_new").rstrip("0123456789"),
            [
                *("S", str(parent), *"0000", str(flags), *"0000", str(ticks), "0", str(sum(inherited)), *"00000"),
                "99999999999" if name.endswith("_new") else "77",
            ],
        )
        for name, (pid, parent, ticks, flags, *inherited) in programs.items()
    }


def looking(monkeypatch, *looks):
    """Return the other programs that a sampler finds in made-up processes, a second apart, on four processors.

    The first two looks are searches, the third reads busy programs only.
    """
    present = {}

    def named_stat(pid):
        if pid not in present:
            raise ProcessLookupError(pid)
        return present[pid]

    monkeypatch.setattr(process, "_all_processes", lambda _: present.items())
    monkeypatch.setattr(process, "_process_ids", lambda: set(present))
    monkeypatch.setattr(process, "named_stat", named_stat)
    monkeypatch.setattr(os, "getpid", lambda: 50)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    sampler = ProgramSampler(lambda: {"n1": 60})
    samples = []
    for now, look in enumerate(looks):
        present.clear()
        present.update(look)
        samples.append(list(sampler.sample(float(now))))
    assert samples[0] == []
    return figures(samples[-1], "host")


def test_ranks_of_a_command_that_forks_are_not_other_programs(monkeypatch):
    tick = os.sysconf("SC_CLK_TCK")
    # mpirun has started the ranks 45 and 46; the command runs in a child of 45.
    ranks = {"mpirun": (40, 1, 0, 0), "loadframe1": (45, 40, 0, 0), "loadframe2": (50, 45, 0, 0)}
    ranks |= {"java": (60, 1, 0, 0)}
    first = processes(**ranks, loadframe3=(46, 40, 0, 0), rustc=(70, 1, 0, 0))
    then = processes(**ranks, loadframe3=(46, 40, tick, 0), rustc=(70, 1, tick, 0))
    assert looking(monkeypatch, first, then) == {"cpu.programs": 0.25, "cpu.program:rustc": 0.25}


def test_short_lived_programs_count_for_their_parent_and_long_lived_ones_once(monkeypatch):
    tick = os.sysconf("SC_CLK_TCK")
    first = processes(make=(80, 1, 0, 0, 5), rustc=(81, 80, 8 * tick, 0), java=(60, 1, 0, 0))
    # make has waited for rustc, which was seen, and for a compiler of half a second, which was not.
    then = processes(make=(80, 1, 0, 0, 5 + 8 * tick + tick // 2), java=(60, 1, 0, 0))
    assert looking(monkeypatch, first, then) == {"cpu.programs": 0.125, "cpu.program:make": 0.125}


def test_the_life_of_an_older_process_is_not_the_use_of_a_second(monkeypatch):
    tick = os.sysconf("SC_CLK_TCK")
    # It was a child of a node, which has ended.
    first = processes(java=(60, 1, 0, 0), helper=(61, 60, 600 * tick, 0))
    then = processes(java=(60, 1, 0, 0), helper=(61, 1, 600 * tick, 0))
    assert looking(monkeypatch, first, then) == {"cpu.programs": 0.0}


def test_programs_are_listed_by_use_and_those_of_loadframe_and_the_kernel_are_not(monkeypatch):
    ours = {"loadframe": (50, 40, 0, 0), "mpirun": (40, 1, 0, 0), "java": (60, 1, 0, 0)}
    tick, core = os.sysconf("SC_CLK_TCK"), 1 / 4
    first = processes(**ours, rustc=(70, 1, 0, 0), python=(71, 1, 0, 0))
    then = processes(
        **ours | {"java": (60, 1, tick, 0)},
        gc_new=(61, 60, tick, 0),
        rustc=(70, 1, tick, 0),
        python=(71, 1, tick // 2, 0),
        kswapd=(72, 2, tick, 0x00200000),
        cc_new=(73, 71, tick // 4, 0),
    )
    assert [*looking(monkeypatch, first, then).items()] == [
        ("cpu.programs", pytest.approx(1.75 * core)),
        ("cpu.program:rustc", pytest.approx(core)),
        ("cpu.program:python", pytest.approx(core / 2)),
        ("cpu.program:cc", pytest.approx(core / 4)),
    ]


def test_between_searches_only_busy_programs_are_read(monkeypatch):
    tick = os.sysconf("SC_CLK_TCK")
    looks = [
        processes(rustc=(70, 1, busy * tick, 0), cat=(71, 1, idle * tick, 0)) for busy, idle in ((0, 0), (1, 0), (2, 1))
    ]
    assert looking(monkeypatch, *looks) == {"cpu.programs": 0.25, "cpu.program:rustc": 0.25}


def test_the_life_of_a_chain_of_ended_programs_is_not_the_use_of_a_second(monkeypatch):
    tick = os.sysconf("SC_CLK_TCK")
    # sh waits for make, which has waited for rustc: all of it was counted before, but for half a second.
    first = processes(sh=(79, 1, 0, 0, 5), make=(80, 79, tick, 0), rustc=(81, 80, 800 * tick, 0))
    then = processes(sh=(79, 1, 0, 0, 5 + 801 * tick + tick // 2))
    assert looking(monkeypatch, first, then) == {"cpu.programs": 0.125, "cpu.program:sh": 0.125}


def test_a_program_that_was_idle_at_the_search_counts_once_when_it_ends(monkeypatch):
    tick = os.sysconf("SC_CLK_TCK")
    idle = {"rustc": (81, 80, 800 * tick, 0)}
    looks = [processes(make=(80, 1, 0, 0), **idle), processes(make=(80, 1, tick, 0), **idle)]
    looks.append(processes(make=(80, 1, 2 * tick, 0, 800 * tick)))
    assert looking(monkeypatch, *looks) == {"cpu.programs": 0.25, "cpu.program:make": 0.25}


def test_a_parent_that_has_not_yet_waited_counts_its_child_once(monkeypatch):
    tick = os.sysconf("SC_CLK_TCK")
    looks = [
        processes(make=(80, 1, 0, 0), rustc=(81, 80, 800 * tick, 0)),
        processes(make=(80, 1, tick, 0)),
        processes(make=(80, 1, 2 * tick, 0, 800 * tick)),
    ]
    assert looking(monkeypatch, *looks) == {"cpu.programs": 0.25, "cpu.program:make": 0.25}


def test_other_programs_use_at_most_the_whole_machine(monkeypatch):
    tick = os.sysconf("SC_CLK_TCK")
    # make waits for compilers that started after the search before, and took longer than a second.
    looks = [processes(make=(80, 1, spent * tick, 0, waited * tick)) for spent, waited in ((0, 0), (1, 0), (2, 30))]
    assert looking(monkeypatch, *looks) == {"cpu.programs": 1.0, "cpu.program:make": 1.0}


def test_loopback_bytes_count_once():
    sampler = HostSampler()
    list(sampler.sample(0.0))
    _send_over_loopback(10_000_000)
    seen = figures(sampler.sample(1.0), "host")
    assert 10e6 < seen["loopback.bytes"] < 18e6, "10 MB, headers and other traffic"


def _send_over_loopback(size: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        with peer:
            for _ in range(size // 50_000):
                client.sendall(b"x" * 50_000)
                received = 0
                while received < 50_000:
                    received += len(peer.recv(65_536))


@pytest.fixture
def proc(tmp_path):
    """A proc file system without pressure, of a machine with one disk."""
    files = {
        "stat": "cpu 100 0 100 700 0 0 0 100 0 0\n",
        "loadavg": "7.25 6.00 5.00 1/100 4242\n",
        "meminfo": "MemTotal: 4096 kB\nMemAvailable: 1024 kB\n",
        "net/dev": "Inter-|\n face |\n  eth9: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n",
        "diskstats": "8 0 sdz 1 0 10 0 1 0 20 0 0 0 0\n8 1 sdz1 1 0 10 0 1 0 20 0 0 0 0\n",
    }
    for name, content in files.items():
        file = tmp_path / "proc" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return tmp_path / "proc"


def test_all_figures_of_a_machine_are_read_below_the_given_mount_points(proc, tmp_path):
    sys = tmp_path / "sys"
    (sys / "block" / "sdz").mkdir(parents=True)
    (sys / "class" / "net" / "eth9").mkdir(parents=True)
    (sys / "class" / "net" / "eth9" / "speed").write_text("8\n")
    sampler = HostSampler(proc=proc, sys=sys)
    list(sampler.sample(0.0))
    (proc / "stat").write_text("cpu 150 0 100 725 0 0 0 125 0 0\n")
    (proc / "net" / "dev").write_text("\n\n  eth9: 101000 1 0 0 0 0 0 0 502000 1 0 0 0 0 0 0\n")
    (proc / "diskstats").write_text("8 0 sdz 1 0 30 0 1 0 60 0 0 0 0\n8 1 sdz1 1 0 30 0 1 0 60 0 0 0 0\n")
    assert figures(sampler.sample(1.0), "host") == {
        "cpu.busy": 0.5,
        "cpu.stolen": 0.25,
        "load.1m": 7.25,
        "memory.available": 1024 * 1024,
        "network.received": 100_000,
        "network.sent": 500_000,
        "network.share": 0.5,
        "disk.read": 20 * 512,
        "disk.written": 40 * 512,
    }


def test_bytes_of_devices_on_other_disks_count_once(proc, tmp_path):
    # An encrypted volume on a partition, a RAID device on the volume, and a loop device on a file.
    blocks = tmp_path / "sys" / "block"
    for name, below in (("sdz", None), ("dm-0", "slaves/sdz1"), ("md0", "slaves/dm-0"), ("loop0", "loop/backing_file")):
        (blocks / name / "slaves").mkdir(parents=True)
        if below:
            (blocks / name / below).parent.mkdir(exist_ok=True)
            (blocks / name / below).touch()
    devices = ("sdz", "sdz1", "dm-0", "md0", "loop0")
    sampler = HostSampler(proc=proc, sys=tmp_path / "sys")
    for now in range(2):
        rows = [f"8 0 {name} 1 0 {20 * now} 0 1 0 {40 * now} 0 0 0 0\n" for name in devices]
        (proc / "diskstats").write_text("".join(rows))
        seen = figures(sampler.sample(float(now)), "host")
    assert (seen["disk.read"], seen["disk.written"]) == (20 * 512, 40 * 512)


def test_a_kernel_without_pressure_stalls_leaves_them_out(proc):
    sampler = HostSampler(proc=proc)
    list(sampler.sample(0.0))
    seen = figures(sampler.sample(1.0), "host")
    assert not [metric for metric in seen if metric.startswith("pressure.")]


def test_pressure_is_the_share_of_time_in_which_tasks_waited(proc):
    def write(total: int) -> None:
        line = f"avg10=0.00 avg60=0.00 avg300=0.00 total={total}"
        (proc / "pressure").mkdir(exist_ok=True)
        for resource in ("cpu", "memory", "io"):
            (proc / "pressure" / resource).write_text(f"some {line}\nfull {line}\n")

    sampler = HostSampler(proc=proc)
    write(1_000_000)
    list(sampler.sample(1.0))
    write(1_500_000)
    seen = figures(sampler.sample(2.0), "host")
    pressure = {metric: value for metric, value in seen.items() if metric.startswith("pressure.")}
    assert pressure == dict.fromkeys([field.name for field in HOST if field.name.startswith("pressure.")], 0.5)


@pytest.fixture
def sys_with_speeds(tmp_path):
    """A sysfs in which the loopback interface, which carries the tests' bytes, has a speed."""

    def write(megabits: str) -> Path:
        folder = tmp_path / "sys" / "class" / "net" / "lo"
        folder.mkdir(parents=True)
        (folder / "speed").write_text(f"{megabits}\n")
        return tmp_path / "sys"

    return write


def test_the_busiest_interface_is_a_share_of_its_speed(sys_with_speeds):
    sampler = HostSampler(sys=sys_with_speeds("800"))
    before = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
    list(sampler.sample(0.0))
    _send_over_loopback(10_000_000)
    seen = figures(sampler.sample(1.0), "host")
    carried = psutil.net_io_counters(pernic=True)["lo"].bytes_sent - before
    assert 0.1 <= seen["network.share"] <= carried / 100e6


def test_traffic_between_local_nodes_is_not_network_traffic_of_the_machine(sys_with_speeds):
    sys = sys_with_speeds("800")
    (sys / "class" / "net" / "lo" / "ifalias").write_text("loadframe 1 2\n")
    sampler = HostSampler(sys=sys)
    list(sampler.sample(0.0))
    _send_over_loopback(100_000)
    assert not {"network.share", "loopback.bytes"} & set(figures(sampler.sample(1.0), "host"))


@pytest.mark.parametrize("speed", ["-1", "", "unknown"])
def test_interfaces_of_unknown_speed_do_not_have_a_share(sys_with_speeds, speed):
    sampler = HostSampler(sys=sys_with_speeds(speed))
    list(sampler.sample(0.0))
    assert "network.share" not in figures(sampler.sample(1.0), "host")


def test_every_metric_is_documented(spawn, group, sys_with_speeds):
    folders = group(1, 0.0, 1)
    documented = {field.name for field in (*NODES, *HOST)}
    for sampler in (
        ProcessSampler(lambda: {"n1": os.getpid()}),
        CgroupSampler(lambda: {"n1": folders}),
        HostSampler(sys=sys_with_speeds("1000")),
        ProgramSampler(lambda: {"n1": os.getpid()}),
    ):
        list(sampler.sample(0.0))
        time.sleep(0.05)
        looks = [look for look in sampler.sample(1.0) if isinstance(look, Sample)]
        metrics = {re.sub(":.*", ":NAME", look.metric) for look in looks}
        assert metrics <= documented
        documented -= metrics
    optional = {"process.read", "process.written", "jvm.gc", "cpu.program:NAME"} | {
        m for m in documented if m.startswith(("pressure.", "disk."))
    }
    assert documented <= optional, "a metric is documented that no sampler gives"


def test_processes_are_hidden_in_a_namespace_and_by_the_mount_of_proc(monkeypatch):
    here = Path("/proc/self/ns/pid").stat().st_ino
    monkeypatch.setattr(process, "_FIRST_NAMESPACE", here + 1)
    assert "namespace" in process.hidden_processes()
    monkeypatch.setattr(process, "_FIRST_NAMESPACE", here)
    monkeypatch.setattr(Path, "read_text", lambda *_: "1 (init) S")
    assert process.hidden_processes() is None
    monkeypatch.setattr(Path, "read_text", lambda *_: Path("/proc/no-such-process").stat())
    assert "hidepid" in process.hidden_processes()
