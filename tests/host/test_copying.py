"""A folder that is copied in pieces, as it goes from one machine to another."""

from pathlib import Path

import pytest

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.host import copying

MIB = 2**20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "data" / "empty").mkdir(parents=True)
    (folder / "data" / "log").write_bytes(b"begin" + bytes(3 * MIB) + b"end")
    (folder / "data" / "room").write_bytes(bytes(2 * MIB))
    (folder / "nothing").touch(mode=0o600)
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o700)
    (folder / "link").symlink_to("data/log")
    return folder


def send(source: Path, place: Path) -> list[copying.Entry]:
    entries = copying.entries(source)
    draft = copying.begin(place, 6 * MIB, "it")
    for entry in entries:
        if not entry.folder and entry.link is None:
            for start in range(0, max(entry.size, 1), MIB):
                copying.append(draft, entry.path, copying.read_part(source, entry.path, start, MIB))
    copying.settle(draft, place, entries, None)
    return entries


def test_files_arrive_unchanged_and_stay_sparse(source, tmp_path):
    place = tmp_path / "there" / "node-0"
    copying.sign(source, "a token")
    entries = send(source, place)
    assert copying.entries(place) == entries
    assert (place / "data" / "log").read_bytes() == (source / "data" / "log").read_bytes()
    assert (place / "data" / "room").stat().st_blocks == 0
    assert copying.signed(source, "a token")
    assert not copying.signed(place, "a token")
    copying.unsign(source)
    assert not copying.signed(source, "a token")
    with pytest.raises(BadInput, match="an older copy of it"):
        copying.begin(place, 1, "it")


def test_what_has_changed_on_the_way_gets_no_name(source, tmp_path):
    place = tmp_path / "there" / "node-0"
    entries = copying.entries(source)
    draft = copying.begin(place, 1, "it")
    copying.copy(source, draft)
    (draft / "data" / "log").write_bytes(b"begin" + bytes(3 * MIB) + b"eMd")
    with pytest.raises(LoadframeError, match="data/log differs from the original"):
        copying.settle(draft, place, entries, None)
    assert not place.parent.exists()
