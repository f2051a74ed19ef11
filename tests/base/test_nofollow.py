"""Files in a folder that another user can write: no link, FIFO or device there misleads who reads or writes them."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from loadframe.base import nofollow
from loadframe.base.errors import BadInput
from loadframe.host import copying, files

TEXT = "the canary's own text"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices and gives files away")


@pytest.fixture
def canary(tmp_path: Path):
    """A file that must not change, in a folder that must not change."""
    aside = tmp_path / "aside"
    aside.mkdir(mode=0o755)
    file = aside / "canary"
    file.write_text(TEXT)
    file.chmod(0o640)

    def seen() -> list[object]:
        return [
            (
                path.read_text() if path.is_file() else sorted(path.iterdir()),
                path.lstat().st_mode,
                path.lstat().st_uid,
            )
            for path in (aside, file)
        ]

    before = seen()
    yield file
    assert seen() == before


def symbolic(path: Path, canary: Path) -> None:
    path.symlink_to(canary)


def hard(path: Path, canary: Path) -> None:
    path.hardlink_to(canary)
    # The folder is another user's, as a node's data folder is.
    os.chown(path.parent, 12345, 12345)


def fifo(path: Path, canary: Path) -> None:
    os.mkfifo(path)


def device(path: Path, canary: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero is endless


def unix_socket(path: Path, canary: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def directory(path: Path, canary: Path) -> None:
    path.mkdir()


Plant = Callable[[Path, Path], None]
PLANTS = [
    symbolic,
    pytest.param(hard, marks=needs_root),
    fifo,
    pytest.param(device, marks=needs_root),
    unix_socket,
    directory,
]
planted = pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)


@planted
def test_only_a_file_of_the_folders_own_is_read_or_appended_to(tmp_path: Path, canary: Path, plant: Plant):
    folder = tmp_path / "node"
    folder.mkdir()
    plant(folder / "node.log", canary)
    for read in (
        nofollow.read_text,
        lambda root, name: files.log_end(root / name),
        lambda *at: copying.read_part(*at, 0, 9),
    ):
        with pytest.raises(BadInput, match=r"node\.log: this is a"):
            read(folder, "node.log")
    with pytest.raises(BadInput, match=r"node\.log: this is a"):
        nofollow.append(folder, "node.log", b"more")
    with pytest.raises(BadInput, match=r"node\.log: this is a"), nofollow.appending(folder, "node.log"):
        pass


@planted
def test_writing_a_file_replaces_any_existing_entry(tmp_path: Path, canary: Path, plant: Plant):
    folder = tmp_path / "node"
    folder.mkdir()
    for write in (nofollow.write_text, nofollow.rewrite_text):
        plant(folder / "conf", canary)
        if plant is directory:
            with pytest.raises(BadInput, match="conf: this is a folder, where Loadframe needs a file"):
                write(folder, "conf", "new")
            (folder / "conf").rmdir()
            continue
        write(folder, "conf", "new")
        assert (folder / "conf").read_text() == "new"
        assert (folder / "conf").lstat().st_nlink == 1
        (folder / "conf").unlink()
    assert not any(folder.iterdir())


def test_no_link_to_a_folder_is_followed_on_the_way(tmp_path: Path, canary: Path):
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "config").symlink_to(canary.parent)
    with pytest.raises(BadInput, match="config: this is a symbolic link, where Loadframe needs a folder of its own"):
        nofollow.write_text(folder, "config/canary", "new")
    with pytest.raises(BadInput, match="config: this is a symbolic link"):
        nofollow.read_text(folder, "config/canary")
    with pytest.raises(BadInput, match="a path leaves its folder"):
        nofollow.append(folder, "../aside/canary", b"more")
    for path in (canary, "/" + str(canary)):
        with pytest.raises(BadInput, match="a path leaves its folder"):
            nofollow.append(folder, str(path), b"more")
    for path in ("/", "//"):
        with (
            nofollow.folder(folder) as top,
            pytest.raises(BadInput, match="a path leaves its folder"),
            nofollow.below(top, PurePosixPath(path)),
        ):
            pass
    with pytest.raises(BadInput, match="config: this is a symbolic link"):
        files.write_node(folder, ("config",), {}, None)
    with pytest.raises(BadInput, match="config: this is a symbolic link"):
        files.write_node(folder, (), {"config/canary": "new"}, None)
    nofollow.remove_tree(folder)
    assert not folder.exists()


@needs_root
def test_folders_are_reached_only_through_links_of_root(tmp_path: Path, canary: Path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "ours").symlink_to(canary.parent)
    (theirs / "link").symlink_to(canary.parent)
    os.chown(theirs, 12345, 12345)
    assert nofollow.read_text(tmp_path / "ours", "canary") == TEXT
    with pytest.raises(BadInput, match="this is a symbolic link, where Loadframe needs a folder"):
        nofollow.read_text(theirs / "link", "canary")


@needs_root
def test_a_nodes_files_are_given_away_and_nothing_else(tmp_path: Path, canary: Path):
    folder = tmp_path / "node"
    files.write_node(folder, ("data",), {"config/conf": "one", ".start": "mark"}, 12345)
    assert [(folder / name).stat().st_uid for name in ("data", "config", "config/conf")] == [12345, 0, 0]
    os.chown(folder / "config", 12345, 12345)
    (folder / "config" / "conf").unlink()
    (folder / "config" / "conf").hardlink_to(canary)
    files.write_node(folder, ("data",), {"config/conf": "two"}, 12345)
    assert (folder / "config" / "conf").read_text() == "two"


@planted
def test_a_copy_has_files_folders_and_links_and_nothing_that_was_planted(tmp_path: Path, canary: Path, plant: Plant):
    source, draft = tmp_path / "node", tmp_path / "draft"
    (source / "data").mkdir(parents=True)
    draft.mkdir()
    plant(source / "data" / "x", canary)
    if plant is hard:
        for copied in (lambda: copying.entries(source), lambda: copying.copy(source, draft)):
            with pytest.raises(BadInput, match="a hard link to another user's file"):
                copied()
        return
    copying.copy(source, draft)
    entries = {entry.path: entry for entry in copying.entries(source)}
    assert entries.keys() == ({"data", "data/x"} if plant in (symbolic, directory) else {"data"})
    if plant is symbolic:
        assert (draft / "data" / "x").readlink() == canary
    copying.settle(draft, tmp_path / "place", list(entries.values()), 12345 if os.geteuid() == 0 else None)
    if plant in (symbolic, directory):
        with pytest.raises(BadInput, match="data/x: this is a"):
            copying.append(tmp_path / "place", "data/x", copying.Piece(1, b"x"))


def test_very_deep_folders_are_removed_and_not_copied(tmp_path: Path):
    top = tmp_path / "node"
    top.mkdir()
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    with pytest.raises(BadInput, match="more than 100 levels deep"):
        copying.entries(top)
    nofollow.remove_tree(top)
    assert not any(tmp_path.iterdir())


def test_no_name_of_a_file_leaves_its_folder(tmp_path: Path, canary: Path):
    folder = tmp_path / "node"
    folder.mkdir()
    with nofollow.folder(folder) as top:
        for name in (str(canary), f"../aside/{canary.name}"):
            with pytest.raises(BadInput, match="contains `/`"):
                nofollow.open_file(top, name, os.O_RDONLY, canary)
            with pytest.raises(BadInput, match="contains `/`"), nofollow.appending(folder, name):
                pass
