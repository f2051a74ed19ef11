"""The manifest has all data for repeating a run, and the machine that made it."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from recordings import manifest

import loadframe
from loadframe.base.errors import BadInput
from loadframe.record import file_record
from loadframe.record.machine import cgroup_kind, hardware, versions


def test_the_machine_is_described():
    machine = hardware()
    assert machine["threads"] == os.cpu_count()
    assert 1 <= machine["usable"] <= machine["threads"]
    assert machine["memory"] > 2**28
    assert machine["cpu"]
    assert machine["cgroup"] in {"v1", "v2", "hybrid", "none"}
    assert len(machine["load"]) == 3


def test_versions_name_the_commit_of_a_checkout():
    result = versions()
    root = Path(loadframe.__file__).parent
    git = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    assert result["loadframe"] == loadframe.__version__
    assert result["commit"] == (git.stdout.strip() or None)
    assert result["python"].endswith(".".join(map(str, sys.version_info[:3])))


def test_a_package_inside_a_foreign_checkout_does_not_have_a_commit(tmp_path):
    from loadframe.record.machine import _checkout

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    package = tmp_path / "site-packages" / "loadframe"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    assert _checkout(package) == (None, None)


@pytest.mark.parametrize(
    ("mounts", "kind"),
    [
        ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "v2"),
        ("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n", "v1"),
        ("cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", "hybrid"),
        ("proc /proc proc rw 0 0\n\n", "none"),
    ],
)
def test_control_group_versions_are_detected_by_their_mounts(mounts, kind):
    assert cgroup_kind(mounts) == kind


def test_a_file_is_recorded_by_its_hash(tmp_path):
    path = tmp_path / "corpus.json"
    path.write_bytes(b"{}\n" * 1000)
    digest = hashlib.sha256(b"{}\n" * 1000).hexdigest()
    assert file_record(path) == {"name": str(path), "bytes": 3000, "sha256": digest}


def test_a_file_that_cannot_be_read_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        file_record(tmp_path / "missing.json")


def test_a_manifest_states_the_instant_with_its_zone():
    assert manifest().as_dict()["started"] == "2026-01-02T03:04:05.000+00:00"
