"""The private folder of `--ranks`: who may enter it, and when it is removed."""

import os
import socket
import subprocess
import sys

import pytest

from loadframe.ranks import launch

OTHER = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture
def base(tmp_path, monkeypatch):
    """A folder that stands for /dev/shm."""
    monkeypatch.setattr(launch, "_SHARED_MEMORY", tmp_path)
    return tmp_path


def made(base, number=1):
    path = base / f"{launch._prefix()}{number}"
    path.mkdir(mode=0o700)
    (path / "sm_segment.vm.0.1").write_bytes(b"x")
    return path


def test_unused_folders_are_removed_and_folders_in_use_are_not(base):
    left = made(base)
    # A rank or its launcher, in a separate process.
    program = "import sys; from pathlib import Path; from loadframe.ranks.launch import hold\n"
    program += "hold(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    used = made(base, 2)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(used)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        assert launch.remove_abandoned() == [left]
        assert used.exists() and not left.exists()
        holder.kill()
    assert launch.remove_abandoned() == [used]


def test_a_workspace_is_private_and_gone_at_its_end(base):
    with launch.workspace() as (path, _):
        assert path.parent == base and path.stat().st_mode & 0o777 == 0o700
        assert launch.remove_abandoned() == []
    assert list(base.iterdir()) == []


def test_a_link_is_not_followed(base, tmp_path_factory):
    victim = tmp_path_factory.mktemp("victim")
    (victim / "data").write_text("x")
    (base / f"{launch._prefix()}link").symlink_to(victim)
    assert launch.remove_abandoned() == []
    assert (victim / "data").exists()


@needs_root
def test_a_folder_of_another_user_is_left_alone(base):
    theirs = made(base)
    os.chown(theirs, OTHER, OTHER)
    assert launch.remove_abandoned() == []
    assert theirs.exists()


@needs_root
def test_a_process_of_another_user_is_not_taken_for_rank_0():
    address = f"\0loadframe-test-{os.getpid()}"
    program = "import os, socket, sys; os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))\n"
    program += "line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
    program += f"line.connect({address!r}); print(len(line.recv(16)))"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(address)
        door.listen()
        for user, ours in ((OTHER, False), (os.geteuid(), True)):
            command = [sys.executable, "-c", program, str(user)]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
                line, _ = door.accept()
                with line:
                    assert launch._is_ours(line) is ours
                assert other.stdout.read() == b"0\n"
