"""Loadframe's folders, and checks for space and access."""

import os
from pathlib import Path

import pytest

from loadframe.base import folders
from loadframe.base.errors import BadInput


def test_environment_variables_set_the_folders_of_cache_and_clusters(monkeypatch, tmp_path):
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path / "c"))
    monkeypatch.setenv("LOADFRAME_STATE", str(tmp_path / "s"))
    assert folders.cache() == tmp_path / "c"
    assert folders.state() == tmp_path / "s"


@pytest.mark.parametrize(
    ("user", "cache", "state"),
    [
        (0, "/var/cache/loadframe", "/var/lib/loadframe"),
        (1000, "/home/me/.cache/loadframe", "/home/me/.local/state/loadframe"),
    ],
)
def test_root_keeps_things_where_its_servers_can_reach_them(monkeypatch, user, cache, state):
    for variable in ("LOADFRAME_CACHE", "LOADFRAME_STATE", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert folders.cache() == Path(cache)
    assert folders.state() == Path(state)


@pytest.mark.parametrize(("user", "mode"), [(0, 0o711), (1000, 0o700)])
def test_only_the_owner_can_read_the_state(monkeypatch, tmp_path, user, mode):
    monkeypatch.setenv("LOADFRAME_STATE", str(tmp_path / "s"))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    before = os.umask(0o022)
    try:
        folder = folders.make(tmp_path / "s" / "clusters" / "c")
        other = folders.make(tmp_path / "cache" / "x")
        with folders.locked(folder / "lock", lambda: None):
            pass
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent, folder.parent.parent)] == [mode] * 3
    assert (folder / "lock").stat().st_mode & 0o777 == 0o600
    assert [path.stat().st_mode & 0o777 for path in (other, other.parent)] == [0o755] * 2


def test_a_folder_of_the_state_from_before_is_closed(monkeypatch, tmp_path):
    tmp_path.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid)
    folders.shut(tmp_path)
    assert tmp_path.stat().st_mode & 0o044 == 0


def test_a_folder_behind_a_private_one_is_out_of_reach(tmp_path):
    inner = tmp_path / "private" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "private").chmod(0o700)
    with pytest.raises(BadInput, match="cannot enter this folder"):
        folders.require_reachable(inner, 12345)
    folders.require_reachable(inner, None)


def test_room_that_is_not_there_is_named_with_both_sizes(tmp_path):
    with pytest.raises(BadInput, match=r"not enough disk space: a trial needs 1,024 TiB; .* are free"):
        folders.require_room(tmp_path, 2**50, "a trial")
    folders.require_room(tmp_path, 1, "a trial")


def test_a_disk_that_is_full_is_one_message():
    with pytest.raises(BadInput, match="not enough disk space for the record") as caught:  # noqa: SIM117
        with folders.writing("the record", Path("/x")):
            Path("/dev/full").write_text("x")
    assert "free space" in str(caught.value.remedy)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match="cannot write the record: No such file"):  # noqa: SIM117
        with folders.writing("the record", tmp_path):
            (tmp_path / "none" / "record").write_text("x")
