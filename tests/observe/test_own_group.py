"""Whether the generator's own control groups are found, and its standing still seen."""

import os
import subprocess
import sys

import pytest

from loadframe.base.procfs import own_groups
from loadframe.host.cgroups import V1, V2, remove
from loadframe.observe import OwnGroupSampler, Sample
from loadframe.record.schema import OWN_GROUP

pytestmark = pytest.mark.alone


def write(proc, groups, *mounts):
    (proc / "cgroup").write_text("\n".join(groups) + "\n")
    (proc / "mountinfo").write_text("\n".join(mounts) + "\n")


def make(folder):
    folder.mkdir(parents=True)
    (folder / "cpu.stat").write_text("nr_periods 5\nnr_throttled 2\nthrottled_usec 3\n")
    return folder


def test_in_version_2_all_groups_up_to_the_top_count(tmp_path):
    top = make(tmp_path / "top")
    group = make(top / "job" / "step")
    (top / "job" / "cpu.stat").write_text("")
    write(tmp_path, ["0::/job/step"], f"41 31 0:38 / {top} rw - cgroup2 cgroup2 rw")
    assert own_groups(tmp_path) == [group, group.parent, top]


def test_in_version_1_the_cpu_hierarchy_counts(tmp_path):
    group = make(tmp_path / "cpu" / "job")
    write(
        tmp_path,
        ["5:memory:/other", "2:cpu,cpuacct:/job", "0::/elsewhere"],
        f"34 31 0:31 / {tmp_path / 'memory'} rw - cgroup cgroup rw,memory",
        f"35 31 0:32 / {tmp_path / 'cpu'} rw - cgroup cgroup rw,cpu,cpuacct",
    )
    assert own_groups(tmp_path) == [group]


def test_in_a_container_the_mount_begins_at_its_own_group(tmp_path):
    top = make(tmp_path / "cpu")
    write(tmp_path, ["2:cpu:/docker/abc"], f"35 31 0:32 /docker/abc {top} ro - cgroup cgroup rw,cpu")
    assert own_groups(tmp_path) == [top]


def test_a_process_that_sees_no_control_group_is_not_watched(tmp_path):
    write(tmp_path, ["0::/job"], "30 1 0:5 / /proc rw - proc proc rw")
    assert own_groups(tmp_path) == []
    assert list(OwnGroupSampler([]).sample(0.0)) == []


def test_throttling_of_all_groups_is_added_up(tmp_path):
    groups = [make(tmp_path / "a"), make(tmp_path / "a" / "b")]
    sampler = OwnGroupSampler(groups)
    list(sampler.sample(1.0))
    (groups[0] / "cpu.stat").write_text("nr_periods 9\nnr_throttled 4\nthrottled_usec 1000003\n")
    (groups[1] / "cpu.stat").write_text("nr_periods 9\nnr_throttled 3\nthrottled_usec 500003\n")
    looks = list(sampler.sample(3.0))
    assert looks == [
        Sample("generator", "cgroup.throttled", 1.5),
        Sample("generator", "cgroup.throttled_time", pytest.approx(0.75)),
    ]
    assert {look.metric for look in looks} == {field.name for field in OWN_GROUP}


def test_a_group_that_this_process_was_moved_out_of_is_a_gap(tmp_path):
    (gap,) = OwnGroupSampler([tmp_path / "gone"]).sample(0.0)
    assert gap.source == "generator"
    assert "No such file" in gap.cause


def test_a_real_quota_is_seen_from_inside():
    for version in (V1(), V2()):
        try:
            folders = version.make(f"loadframe-test-own-{os.getpid()}")
            break
        except OSError:
            continue
    else:
        pytest.skip("needs permission to make a control group with a CPU quota")
    script = """
import sys, time
from loadframe.observe import OwnGroupSampler
open(sys.argv[1], "w").write("0")
sampler = OwnGroupSampler()
list(sampler.sample(time.monotonic()))
end = time.monotonic() + 1
while time.monotonic() < end: pass
print({look.metric: look.value for look in sampler.sample(time.monotonic())}["cgroup.throttled"])
"""
    try:
        version.set_quota(folders, 0.2, 0.1)
        command = [sys.executable, "-c", script, folders["cpu"] / "cgroup.procs"]
        seen = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    finally:
        remove(folders)
    assert 2 < float(seen.stdout) <= 11, "one period is 100 ms"
