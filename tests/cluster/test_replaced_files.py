"""The user of a server gains nothing by replacing files of the node's folder, in which root works afterwards."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commands import PATIENCE, open_folder, servers
from loadframe.host.local import LocalHost

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to lose to a server's user")

#: The command with a short time limit for the start of a server without its data.
IMPATIENT = (
    "import loadframe.cluster.launch as launch; launch._READY_WITHIN = 3.0\nfrom loadframe.cli import main; main()"
)
TEXT = "the canary's own text"


def loadframe(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, which is an exit status with a message at most."""
    done = subprocess.run(
        [sys.executable, "-c", IMPATIENT, *words], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1, 2), (words, done.stderr)
    assert done.returncode == 0 or "loadframe: " in done.stderr, words
    assert TEXT not in done.stdout + done.stderr, words
    return done


@pytest.fixture
def canary() -> Iterator[Path]:
    """A root-owned file that everybody can reach by name; it must not change."""
    with open_folder("canary") as folder:
        file = folder / "canary"
        file.write_text(TEXT)
        file.chmod(0o600)
        yield file
        status = file.lstat()
        assert (file.read_text(), status.st_uid, stat.S_IMODE(status.st_mode)) == (TEXT, 0, 0o600)
        assert [path.name for path in folder.iterdir()] == ["canary"]
        assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (0, 0o755)


def symbolic(path: Path, canary: Path) -> None:
    path.symlink_to(canary)


def hard(path: Path, canary: Path) -> None:
    path.hardlink_to(canary)


def fifo(path: Path, canary: Path) -> None:
    os.mkfifo(path)


def device(path: Path, canary: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))


def directory(path: Path, canary: Path) -> None:
    path.mkdir()


Plant = Callable[[Path, Path], None]


PLANTS: tuple[Plant, ...] = (symbolic, hard, fifo, device, directory)


def replace_files(node: Path, canary: Path, turn: int) -> int:
    """Replace each file of a node, by another kind of entry each turn, and return the number of files.

    The server's user becomes the owner of the folders.
    """
    paths = sorted(path for path in node.rglob("*") if stat.S_ISREG(path.lstat().st_mode))
    for at, path in enumerate(paths, start=turn):
        path.unlink()
        PLANTS[at % len(PLANTS)](path, canary)
    user = LocalHost().server_user()
    assert user is not None
    for path in (node, *node.rglob("*")):
        if stat.S_ISDIR(path.lstat().st_mode):
            os.chown(path, user, user)
    return len(paths)


def replace_folders(node: Path, canary: Path) -> None:
    """Replace each folder of a node by a symbolic link."""
    for path in node.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
            path.symlink_to(canary.parent)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sim", "redis", "postgresql", "mongodb"])
def test_commands_do_not_follow_replacements_of_a_nodes_files(store: str, canary: Path, state: Path, tmp_path: Path):
    up = loadframe("cluster", "up", "trial", "--store", store)
    if "could not be" in up.stderr or "cannot be had" in up.stderr or "is not installed" in up.stderr:
        pytest.skip(up.stderr)
    assert up.returncode == 0, up.stderr
    node = state / "clusters" / "trial" / "node-0"
    assert replace_files(node, canary, 0)
    bench = ["bench", "ycsb/c", "--cluster", "trial", "--set", "records=10", "--duration", "1s"]
    bench += ["--output", str(tmp_path / "run")]
    for turn, words in enumerate((["status"], ["grow"], bench, ["kill", "node-0"], ["up"], ["down"], ["up"]), start=1):
        loadframe(*words) if words is bench else loadframe("cluster", words[0], "trial", *words[1:])
        replace_files(node, canary, turn)
    replace_folders(node, canary)
    loadframe("cluster", "up", "trial")
    assert loadframe("cluster", "down", "trial", "--delete-data").returncode == 0
    assert not node.exists()
    assert not servers(state)
