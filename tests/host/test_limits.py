"""Limits: accepted values, and enforcement where this machine supports it."""

import os
import time
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.host import cgroups
from loadframe.host.limits import PERIOD, Limits, SystemdGroup, choose, limiters

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
