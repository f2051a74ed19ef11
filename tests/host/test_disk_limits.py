"""Disk limits: accepted values, kernel settings, and the limited rate of a process that syncs its writes."""

import os
import time
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.host import cgroups
from loadframe.host import limits as disk
from loadframe.host.limits import DiskLimits, Limits, choose, device_of
from loadframe.host.local import LocalHost
from loadframe.host.local_process import LocalProcess

LIMITER, _ = choose()
OBSTACLE = LIMITER.disk_obstacle(Path("/var/lib")) if LIMITER else "no way to enforce limits works here"
#: Writes half a mebibyte at a time, each to the disk before the next, and says after each how much it was.
WRITER = """
import os
file = os.open("data", os.O_WRONLY | os.O_CREAT | os.O_DSYNC, 0o600)
while True:
    os.pwrite(file, bytes(2**19), 0)
    with open("written", "ab") as told:
        told.write(b".")
"""


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"read": 100}, "read must be at least 4k/s; got 100 bytes/s"),
        ({"write_operations": 0.5}, "write_operations must be at least 1/s; got 0.5/s"),
    ],
)
def test_a_limit_that_would_stop_a_server_is_refused(asked, words):
    with pytest.raises(BadInput, match=words):
        DiskLimits(**asked)


def test_a_limit_of_the_disk_is_a_limit_and_is_lifted_with_the_quota():
    limits = Limits(memory=2**30, cpus=0.5, disk=DiskLimits(write=2**20))
    assert Limits(disk=DiskLimits(read=2**20)) and not Limits(disk=DiskLimits())
    assert limits.lifted == Limits(memory=2**30)


def test_version_1_gets_each_limit_separately_and_0_lifts_one(tmp_path):
    for name in ("read_bps", "write_bps", "read_iops", "write_iops"):
        (tmp_path / f"blkio.throttle.{name}_device").write_text("")
    cgroups.V1().set_disk({"blkio": tmp_path}, "8:0", DiskLimits(write=2**20, read_operations=100.0).by_kernel)
    told = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert told["blkio.throttle.write_bps_device"] == "8:0 1048576"
    assert told["blkio.throttle.read_iops_device"] == "8:0 100"
    assert told["blkio.throttle.read_bps_device"] == told["blkio.throttle.write_iops_device"] == "8:0 0"


def test_version_2_gets_one_line_and_max_lifts_a_limit(tmp_path):
    (tmp_path / "io.max").write_text("")
    cgroups.V2().set_disk({"io": tmp_path}, "8:0", DiskLimits(write=2**20, read_operations=100.0).by_kernel)
    assert (tmp_path / "io.max").read_text() == "8:0 rbps=max wbps=1048576 riops=100 wiops=max"


def test_a_folder_in_memory_is_on_no_disk():
    with pytest.raises(OSError, match="is not on a local disk"):
        device_of(Path("/proc/self"))


def test_a_partition_is_limited_as_the_disk_that_it_is_a_part_of(tmp_path, monkeypatch):
    number = tmp_path.stat().st_dev
    whole = tmp_path / "devices" / "vda"
    (whole / "vda1").mkdir(parents=True)
    (whole / "dev").write_text("254:0\n")
    (whole / "vda1" / "partition").write_text("1\n")
    (tmp_path / f"{os.major(number)}:{os.minor(number)}").symlink_to(whole / "vda1")
    monkeypatch.setattr(disk, "_DEVICES", tmp_path)
    assert device_of(tmp_path / "not" / "there" / "yet") == "254:0"


def test_unenforceable_disk_limits_are_reported_and_the_others_hold(monkeypatch):
    if LIMITER is None:
        pytest.skip("no way to enforce limits works here")
    how, reason = LocalHost().limited_by(Limits(cpus=0.5, disk=DiskLimits(write=2**20)), Path("/proc/self"))
    assert how == LIMITER.name
    assert reason is not None and "is not on a local disk" in reason


@pytest.mark.alone
@pytest.mark.skipif(OBSTACLE is not None, reason=f"disks cannot be limited here: {OBSTACLE}")
def test_a_process_that_syncs_its_writes_keeps_to_the_limit(start, folder):
    process = start(WRITER, Limits(disk=DiskLimits(write=2**20)))
    process.throttle(True)
    # Writes that were in flight before the limit are complete by then.
    time.sleep(0.5)
    before, begun = _written(folder), time.monotonic()
    time.sleep(3)
    rate = (_written(folder) - before) * 2**19 / (time.monotonic() - begun)
    assert 0 < rate < 1.7 * 2**20
    assert _in_force(process)
    process.throttle(False)
    assert not _in_force(process)


def _in_force(process: LocalProcess) -> bool:
    """Whether the kernel holds a limit for the process."""
    groups = process.control_groups
    file = groups["io"] / "io.max" if "io" in groups else groups["blkio"] / "blkio.throttle.write_bps_device"
    return str(2**20) in file.read_text()


def _written(folder: Path) -> int:
    """Return how many pieces were written by now."""
    try:
        return (folder / "written").stat().st_size
    except FileNotFoundError:
        return 0
