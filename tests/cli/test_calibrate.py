"""`loadframe calibrate`: the generator against a server that does nothing, on this machine."""

import json

import pytest

from commands import loadframe
from loadframe import _engine

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("LOADFRAME_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def found(cache):
    done = loadframe("calibrate", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_driver_that_a_null_server_answers_has_a_ceiling(found):
    assert list(found["drivers"]) == list(_engine.DRIVERS)
    for ceiling in found["drivers"].values():
        assert ceiling["requests"] > 1000
        assert ceiling["cpu_per_request"] == pytest.approx(1 / ceiling["requests"])
        assert [each["rate"] for each in ceiling["lateness"]] == [1000, 10_000, 50_000]
        assert all(0 < each["p50"] <= each["p99"] for each in ceiling["lateness"])
    # Nothing but the generator itself is cheaper than anything that is sent.
    assert found["drivers"]["null"]["requests"] > found["drivers"]["search"]["requests"]
    assert found["drivers"]["search"]["documents"] > 10 * found["drivers"]["search"]["requests"]


def test_the_figures_are_kept_and_a_quick_calibration_supports_no_verdict(found, cache):
    (kept,) = (cache / "calibration").iterdir()
    assert str(kept) == found["kept"]
    assert json.loads(kept.read_text())["drivers"] == found["drivers"]
    assert found["doubt"]


def test_doctor_shows_what_is_known(found, cache):
    checks = {check["name"]: check for check in json.loads(loadframe("doctor", "--json").stdout)}
    assert checks["calibration"]["state"] == "limited"
    assert found["measured"][:10] in checks["calibration"]["finding"]
    assert "loadframe calibrate" in checks["calibration"]["remedy"]


def test_doctor_says_that_nothing_is_known(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path))
    checks = {check["name"]: check for check in json.loads(loadframe("doctor", "--json").stdout)}
    assert checks["calibration"]["finding"] == "none of this machine"
