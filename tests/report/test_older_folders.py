"""Experiment folders of an earlier version: all analyses give the results that they gave then.

`tests/data/older_folders/KIND.tar.xz` holds the folder of a small experiment on the simulated store, and the JSON of
`report` (of `gate --baseline scale` for `gate`) by the version that recorded it. Change the expectation only together
with a deliberate change of a method.
"""

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import loadframe

FOLDERS = Path(__file__).parent.parent / "data" / "older_folders"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all experiments."""
    path = tmp_path_factory.mktemp("older")
    for archive in FOLDERS.glob("*.tar.xz"):
        with tarfile.open(archive) as members:
            members.extractall(path)
    return path


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Yield the places where a value of `before` is missing or another one in `now`; sentences may change."""
    match before, now:
        case dict(), dict():
            for key, value in before.items():
                if key in now:
                    yield from differences(value, now[key], f"{place}/{key}")
                else:
                    yield f"{place}/{key} is missing"
        case list(), list() if len(before) == len(now):
            for number, (old, new) in enumerate(zip(before, now, strict=True)):
                yield from differences(old, new, f"{place}/{number}")
        case str(), str() if " " in before and " " in now:
            pass
        case (int() | float(), int() | float()) if before == pytest.approx(now, rel=1e-6):
            pass
        case _ if before != now:
            yield f"{place}: {before!r}, now {now!r}"


def test_differences_are_found():
    before = {"a": [1.0, "three words here"], "b": {"code": "late"}, "c": 1}
    now = {"a": [1.0 + 1e-9, "other words here"], "b": {"code": "late", "new": 1}, "c": 1}
    assert list(differences(before, now)) == []
    assert list(differences(before, {"a": [1.1, "x y"], "b": {}})) == [
        "/a/0: 1.0, now 1.1",
        "/b/code is missing",
        "/c is missing",
    ]
    assert list(differences([1], [1, 2])) == [": [1], now [1, 2]"]


@pytest.mark.parametrize("kind", ["scale", "compare", "settings", "capacity"])
def test_the_report_gives_the_same_results(folders: Path, kind: str):
    done = loadframe("report", kind, "--json", cwd=folders)
    assert done.returncode == 0, done.stderr
    expected = json.loads((folders / kind / "expected.json").read_text())
    assert not list(differences(expected, json.loads(done.stdout)))


def test_the_gate_gives_the_same_results(folders: Path):
    done = loadframe("gate", "gate", "--baseline", "scale", "--json", cwd=folders)
    assert done.returncode == 3, done.stderr
    expected = json.loads((folders / "gate" / "expected.json").read_text())
    assert not list(differences(expected, json.loads(done.stdout)))
