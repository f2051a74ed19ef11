"""`loadframe doctor`: capabilities of the machine, missing ones, and remedies."""

import json
from subprocess import CompletedProcess

import pytest

from commands import loadframe
from loadframe.cluster import checks

EMBEDDED = ("cassandra", "elasticsearch", "mongodb", "opensearch")


def doctor(*words: str) -> CompletedProcess:
    return loadframe("doctor", *words)


def findings(*words: str) -> dict[str, dict]:
    return {check["name"]: check for check in json.loads(doctor("--json", *words).stdout)}


def test_it_looks_at_everything_that_a_cluster_needs():
    checks = findings()
    assert {"cores", "memory", "disk for cache", "disk for clusters", "Java", "open files", "wrk", "nginx"} <= set(
        checks
    )
    assert any(name.startswith("limits") for name in checks)
    assert {"--host netns", "--host container"} <= set(checks)
    assert "opensearch 3.8.0" in checks
    assert "package registry" not in checks, "it asks the network without being told to"
    assert {check["state"] for check in checks.values()} <= {"ok", "limited", "optional", "lacking"}


def test_a_java_that_is_not_there_is_lacking_and_gives_status_1(monkeypatch, tmp_path):
    monkeypatch.setenv("LOADFRAME_JAVA_HOME", str(tmp_path))
    answer = doctor()
    assert answer.returncode == 1
    assert "This machine cannot start embedded stores: see Java." in answer.stderr
    assert findings()["Java"]["remedy"].startswith("set LOADFRAME_JAVA_HOME")


def test_it_names_the_stores_that_let_everybody_in():
    finding = findings()["authentication"]["finding"]
    assert all(kind in finding for kind in ("opensearch", "elasticsearch", "sim"))
    assert not any(kind in finding for kind in ("postgresql", "redis", "mongodb", "cassandra", "couchbase", "http"))


@pytest.mark.parametrize("here", [True, False])
def test_a_registry_out_of_reach_matters_only_until_the_stores_are_here(monkeypatch, tmp_path, here):
    if not here:
        monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path))
    monkeypatch.setenv("LOADFRAME_MAVEN", "http://127.0.0.1:9")
    checks = findings("--network")
    installed = all(check["state"] == "ok" for name, check in checks.items() if name.startswith(EMBEDDED))
    assert checks["package registry"]["state"] == ("optional" if installed else "lacking")
    assert "could not reach" in checks["package registry"]["finding"]


def test_only_limiting_components_are_called_limits(monkeypatch, tmp_path):
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path))
    checks = findings()
    assert checks["calibration"]["state"] == "optional"
    assert checks["mongodb 6.0.5"]["state"] == "optional"
    for name, check in checks.items():
        if check["state"] == "limited":
            assert name in ("cores", "limits", "open files"), check


def test_reasons_against_limits_are_listed_once(monkeypatch):
    class Refused:
        name = "cgroup v1"

        def obstacle(self):
            return "Permission denied"

    class Works:
        name = "cgroup v2"

        def obstacle(self):
            return None

    def limits(*limiters):
        monkeypatch.setattr(checks, "limiters", lambda: limiters)
        return [check for check in checks.checks(network=False) if check.name.startswith("limits")]

    (check,) = limits(Refused(), Works())
    assert (check.name, check.state) == ("limits by cgroup v2", "ok")
    (check,) = limits(Refused())
    assert (check.name, check.state) == ("limits", "limited")
    assert "cgroup v1: Permission denied" in check.finding
