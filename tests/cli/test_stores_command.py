"""`loadframe stores`: which there are, and whether they are here."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from commands import loadframe
from loadframe.cluster.software import prepare
from loadframe.cluster.spec import ClusterSpec
from loadframe.host.local import LocalHost
from loadframe.store import find


def stores(*words: str) -> str:
    done = loadframe("stores", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_default_store_is_listed_with_its_family_and_version():
    listed = {store["kind"]: store for store in json.loads(stores("--json"))}
    opensearch = listed["opensearch"]
    assert opensearch["family"] == "elasticsearch"
    assert (opensearch["offered"], listed["mongodb"]["offered"]) == ("", "from 6.0.4")
    assert opensearch["versions"][0]["version"] == "3.8.0"
    assert 50e6 < opensearch["versions"][0]["size"] < 70e6


def test_a_store_that_no_registry_has_says_how_it_can_be_had(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    [line] = [line for line in stores().splitlines() if line.startswith("couchbase")]
    assert line.split() == ["couchbase", "couchbase", "no", "no:", "--home", "or", "--hosts"]


@pytest.fixture
def other_postgres(monkeypatch):
    """Put a fake PostgreSQL server on the PATH that reports version 9.9.9."""
    with TemporaryDirectory() as folder:
        # Servers that root starts run as another user.
        Path(folder).chmod(0o755)
        program = Path(folder) / "postgres"
        program.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 9.9.9'\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        yield Path(folder).resolve()


def test_the_postgresql_of_the_path_is_listed_as_the_default_beside_the_one_of_the_registry(other_postgres):
    first, *_, last = [line for line in stores().splitlines() if line.startswith("postgresql")]
    assert first.split() == ["postgresql", "postgresql", "9.9.9", "no", "yes,", "the", "default"]
    assert "9.9.9" not in last
    listed = {store["kind"]: store for store in json.loads(stores("--json"))}
    assert listed["postgresql"]["installed"] == {"version": "9.9.9", "folder": str(other_postgres)}
    assert listed["opensearch"]["installed"] is None
    run = prepare(find("postgresql"), ClusterSpec(store="postgresql"), LocalHost(), print)
    assert run.version == "9.9.9", "a cluster without --version runs the listed version"


def test_doctor_names_the_postgresql_of_the_path(other_postgres):
    checks = {check["name"]: check for check in json.loads(loadframe("doctor", "--json").stdout)}
    assert checks["postgresql 9.9.9"]["finding"].startswith(f"installed in {other_postgres}; nodes use it")


def test_stores_without_a_download_are_marked(tmp_path, monkeypatch):
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path))
    (opensearch,) = [store for store in json.loads(stores("--json")) if store["kind"] == "opensearch"]
    assert opensearch["versions"][0]["cached"] is False
    shown = stores()
    assert "not yet" in shown
    assert "from its vendor" in shown
