"""Which Java runs the stores, and the error when there is none."""

from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.cluster import java


@pytest.fixture
def fake(tmp_path: Path, monkeypatch):
    """A Java home that reports a given version."""

    def make(version: str) -> Path:
        (tmp_path / "bin").mkdir()
        program = tmp_path / "bin" / "java"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        (tmp_path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        monkeypatch.setenv("LOADFRAME_JAVA_HOME", str(tmp_path))
        return tmp_path

    return make


def test_the_runtime_that_came_along_suits_the_default_store(monkeypatch):
    monkeypatch.delenv("LOADFRAME_JAVA_HOME", raising=False)
    runtime = java.find(21, None)
    assert runtime.major >= 21
    assert (runtime.home / "bin" / "java").exists()


def test_the_users_own_java_comes_first(fake):
    home = fake("23.0.1")
    assert java.find(21, None) == java.Java(home, "23.0.1")


@pytest.mark.parametrize(("version", "shown"), [("17.0.15", "17.0.15"), ("1.8.0_412", "8.0_412")])
def test_a_java_that_is_too_old_is_refused_with_its_version(fake, version, shown):
    fake(version)
    with pytest.raises(BadInput, match=f"requires Java 21 or newer, but this is {shown}"):
        java.find(21, None)


def test_a_folder_without_java_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("LOADFRAME_JAVA_HOME", str(tmp_path))
    with pytest.raises(BadInput, match="bin/java is missing"):
        java.find(21, None)


def test_a_java_that_this_machine_cannot_run_is_refused(fake):
    home = fake("21.0.1")
    (home / "release").unlink()
    (home / "bin" / "java").write_text("")
    with pytest.raises(BadInput, match="could not determine the version of this Java"):
        java.find(21, None)


def test_a_runtime_out_of_the_servers_reach_is_copied_into_the_cache(fake, tmp_path, monkeypatch, cache):
    home = fake("21.0.1")
    home.chmod(0o700)
    monkeypatch.delenv("LOADFRAME_JAVA_HOME")
    monkeypatch.setattr(java, "_bundled", lambda: home)
    runtime = java.find(21, 12345)
    assert runtime.home == cache / "java" / "21.0.1"
    assert (runtime.home / "bin" / "java").stat().st_mode & 0o005 == 0o005
    assert java.find(21, 12345) == runtime


def test_without_room_for_a_copy_there_is_one_message_and_no_half_copy(fake, monkeypatch, cache):
    home = fake("21.0.1")
    with (home / "modules").open("wb") as file:
        file.truncate(2**43)
    home.chmod(0o700)
    monkeypatch.delenv("LOADFRAME_JAVA_HOME")
    monkeypatch.setattr(java, "_bundled", lambda: home)
    with pytest.raises(BadInput, match=r"not enough disk space: a copy of Java 21\.0\.1"):
        java.find(21, 12345)
    assert not [path for path in (cache / "java").iterdir() if path.is_dir()]


def test_the_users_own_java_is_not_copied_but_asked_to_be_put_within_reach(fake, cache):
    fake("21.0.1").chmod(0o700)
    with pytest.raises(BadInput, match="user 12345, as whom root's servers run, cannot enter this folder"):
        java.find(21, 12345)


def test_a_java_of_this_machine_is_taken_where_the_newer_one_does_not_do(tmp_path, monkeypatch):
    old = tmp_path / "java-17" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\n")
    old.chmod(0o755)
    (tmp_path / "java-17" / "release").write_text('JAVA_VERSION="17.0.1"\n')
    monkeypatch.delenv("LOADFRAME_JAVA_HOME", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java-17"))
    assert java.find(11, None, 17) == java.Java(tmp_path / "java-17", "17.0.1")


def test_a_java_that_is_too_new_is_refused_with_its_version(fake):
    fake("21.0.1")
    with pytest.raises(BadInput, match=r"requires Java 11 to 17, but this is 21\.0\.1"):
        java.find(11, None, 17)
