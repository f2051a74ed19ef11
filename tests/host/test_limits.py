"""Limits: accepted values, and enforcement where this machine supports it."""

import os
import time
from pathlib import Path

import psutil
import pytest

from loadframe.base.errors import BadInput
from loadframe.host import cgroups
from loadframe.host.limits import PERIOD, DiskLimits, Limits, SystemdGroup, choose, limiters
from loadframe.host.local import LocalHost

pytestmark = pytest.mark.alone

BUSY = "while True: pass"


@pytest.mark.parametrize("cpus", [0, -1, float("nan"), 1e9])
def test_a_senseless_number_of_cpus_is_refused(cpus):
    with pytest.raises(BadInput, match="the CPU limit of a node must be"):
        Limits(cpus=cpus)


def test_too_little_memory_for_any_process_is_refused():
    with pytest.raises(BadInput, match="the memory limit of a node must be"):
        Limits(memory=1000)


def test_an_empty_limit_means_unlimited():
    assert not Limits()
    assert Limits(cpus=0.5)
    assert Limits(memory=2**30)


def test_unavailable_limiters_give_the_reason():
    limiter, reason = choose()
    for way in limiters():
        obstacle = way.obstacle()
        if limiter is not None and way.name == limiter.name:
            assert obstacle is None
            break
        assert obstacle
    else:
        assert reason


def test_systemd_gets_the_quota_as_a_percentage_of_one_cpu_and_no_swap():
    prefix = SystemdGroup("loadframe-x", 2**30).prefix
    assert prefix[:2] == ("systemd-run", "--user")
    assert "--property=CPUQuotaPeriodSec=100ms" in prefix
    assert "--property=MemoryMax=1073741824" in prefix
    assert "--property=MemorySwapMax=0" in prefix
    assert not any("CPUQuota=" in word for word in prefix), "a node starts without its quota"
    assert prefix[-1] == "--"


def test_version_2_writes_quota_and_memory_as_the_kernel_reads_them(tmp_path: Path):
    hierarchy, group = _imitated_hierarchy(tmp_path)
    cgroups.V2(hierarchy).set_quota(group, 0.5, PERIOD)
    assert (group["cpu"] / "cpu.max").read_text() == "50000 100000"
    cgroups.V2(hierarchy).set_quota(group, None, PERIOD)
    assert (group["cpu"] / "cpu.max").read_text().startswith("max 100000")
    cgroups.V2(hierarchy).set_memory(group, 2**30)
    assert (group["memory"] / "memory.max").read_text() == "1073741824"


def test_limits_in_force_are_read_from_the_files_of_both_versions(tmp_path: Path):
    hierarchy, group = _imitated_hierarchy(tmp_path)
    (group["cpu"] / "io.max").write_text("8:0 rbps=max wbps=1048576 riops=max wiops=max\n8:16 rbps=1 wbps=2\n")
    version = cgroups.V2(hierarchy)
    version.set_quota(group, 0.5, PERIOD)
    version.set_memory(group, 2**30)
    asked = Limits(cpus=0.5, memory=2**30, disk=DiskLimits(write=2**20))
    folders = {**group, "io": group["cpu"]}
    assert list(asked.differences(version.read(folders, "8:0"))) == []
    version.set_quota(group, None, PERIOD)
    (group["memory"] / "memory.max").write_text("max\n")
    words = [(it.what, it.actual, it.expected) for it in asked.differences(version.read(folders, "8:16"))]
    assert words == [
        ("CPU limit", "none", "0.5 cores"),
        ("memory limit", "none", "1 GiB"),
        ("disk limit", "rbps=1, wbps=2", "wbps=1048576"),
    ]

    older = {name: tmp_path / name for name in ("cpu", "memory", "blkio")}
    for name, text in {
        "cpu/cpu.cfs_period_us": "100000\n",
        "cpu/cpu.cfs_quota_us": "-1\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "blkio/blkio.throttle.read_bps_device": "",
        "blkio/blkio.throttle.write_bps_device": "8:0 1048576\n",
        "blkio/blkio.throttle.read_iops_device": "",
        "blkio/blkio.throttle.write_iops_device": "8:16 7\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cgroups.V1().read(older, "8:0") == cgroups.InForce(None, 100_000, None, {"wbps": 2**20})


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_a_process_on_other_cores_is_found(start):
    core, *others = sorted(os.sched_getaffinity(0))
    process = start("import time; time.sleep(600)", Limits(cores=(core,)))
    assert process.limit_differences(True) == []
    os.sched_setaffinity(process.pid, {core, others[0]})
    (difference,) = LocalHost().find(process.record()).limit_differences(True)
    assert (difference.actual, difference.expected) == (f"{core}, {others[0]}", f"{core}")


def test_version_2_passes_both_controllers_on_to_the_group(tmp_path: Path):
    hierarchy, _ = _imitated_hierarchy(tmp_path)
    made = cgroups.V2(hierarchy).make("another")
    assert (hierarchy / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (hierarchy / "loadframe" / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert made["cpu"] == hierarchy / "loadframe" / "another"


def test_version_2_names_the_missing_controller(tmp_path: Path):
    (tmp_path / "cgroup.controllers").write_text("pids memory\n")
    with pytest.raises(OSError, match="controllers that this hierarchy lacks: cpu"):
        cgroups.V2(tmp_path).make("x")


def test_version_1_makes_nothing_when_one_hierarchy_is_missing(tmp_path: Path):
    (tmp_path / "cpu").mkdir()
    with pytest.raises(OSError, match="no memory hierarchy is mounted"):
        cgroups.V1({"cpu": tmp_path / "cpu"}).make("x")
    assert list((tmp_path / "cpu").iterdir()) == []


def test_a_process_stays_on_its_cores(start):
    core = max(os.sched_getaffinity(0))
    process = start("import time; time.sleep(60)", Limits(cores=(core,)))
    assert os.sched_getaffinity(process.pid) == {core}
    assert os.sched_getaffinity(start("import time; time.sleep(60)").pid) == os.sched_getaffinity(0)


can_write = pytest.mark.skipif(not getattr(choose()[0], "shares", False), reason="control groups cannot be made here")


@pytest.mark.skipif(choose()[0] is None, reason="no way to enforce limits works on this machine")
class TestEnforced:
    def test_a_process_starts_without_its_quota_gets_it_and_loses_it_again(self, start):
        process = start(BUSY, Limits(cpus=0.1))
        assert _waits(process) == 0
        process.throttle(True)
        assert _waits(process) > 0
        process.throttle(False)
        assert _waits(process) == 0

    def test_memory_over_the_limit_ends_the_process(self, start):
        process = start(
            "x = [b'x' * 2**20 for _ in range(200)]; import time; time.sleep(60)", Limits(memory=64 * 2**20)
        )
        end = time.monotonic() + 20
        while process.alive() and time.monotonic() < end:
            time.sleep(0.05)
        assert process.exit_status() == 137

    @can_write
    def test_limits_that_another_program_changed_are_read_back(self, start):
        process = start("import time; time.sleep(600)", Limits(cpus=0.5, memory=2**28))
        process.throttle(True)
        assert process.limit_differences(True) == []
        assert [it.what for it in process.limit_differences(False)] == ["CPU limit"]
        version = process._group.version
        version.set_quota(process.control_groups, 2.0, PERIOD)
        version.set_memory(process.control_groups, 2**29)
        differences = LocalHost().find(process.record()).limit_differences(True)
        assert differences == process.limit_differences(True)
        assert [(it.what, it.actual, it.expected) for it in differences] == [
            ("CPU limit", "2 cores", "0.5 cores"),
            ("memory limit", "512 MiB", "256 MiB"),
        ]
        version.set_quota(process.control_groups, 0.5, 4 * PERIOD)
        version.set_memory(process.control_groups, 2**28)
        assert [it.actual for it in process.limit_differences(True)] == ["0.5 cores per 400 ms"]
        version.set_quota(process.control_groups, None, PERIOD)
        assert [it.actual for it in process.limit_differences(True)] == ["none"]

    @can_write
    @pytest.mark.parametrize("mover", ["node", "child"])
    def test_a_process_in_another_control_group_is_found(self, start, mover):
        fork = "import os, time; os.fork(); time.sleep(600)"
        process = start(fork, Limits(cpus=0.5, memory=2**28))
        process.throttle(True)
        end = time.monotonic() + 20
        while not (children := psutil.Process(process.pid).children()) and time.monotonic() < end:
            time.sleep(0.01)
        assert process.limit_differences(True) == []
        moved = process.pid if mover == "node" else children[0].pid
        (process.control_groups["cpu"].parent / "cgroup.procs").write_text(str(moved))
        (difference,) = process.limit_differences(True)
        assert difference.what == "control group"
        assert f"(process {moved})" in difference.actual
        assert difference.expected.startswith(process.name)

    def test_control_groups_go_with_the_process(self, start):
        process = start("import time; time.sleep(60)", Limits(cpus=0.5, memory=2**28))
        folders = list(process.control_groups.values())
        assert all(folder.is_dir() for folder in folders)
        process.stop()
        assert not any(folder.exists() for folder in folders)


def _waits(process) -> int:
    """Periods within half a second in which the process had used up its quota."""
    time.sleep(0.2)
    before = _throttled(process.control_groups["cpu"])
    time.sleep(0.5)
    return _throttled(process.control_groups["cpu"]) - before


def _throttled(folder: Path) -> int:
    lines = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
    return int(lines["nr_throttled"])


def _imitated_hierarchy(parent: Path) -> tuple[Path, dict[str, Path]]:
    """Write the files of a version 2 hierarchy into a plain folder, for machines with version 1 controllers."""
    folder = parent / "loadframe" / "node"
    folder.mkdir(parents=True)
    (parent / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    for group in (parent, parent / "loadframe"):
        (group / "cgroup.subtree_control").write_text("")
    for name in ("cpu.max", "memory.max", "memory.swap.max"):
        (folder / name).write_text("")
    return parent, {"cpu": folder, "memory": folder}
