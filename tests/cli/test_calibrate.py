"""`loadframe calibrate`: the generator against a server that does nothing, on this machine."""

import json

import pytest

from commands import loadframe
from loadframe.load.calibrate import PROBES

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("LOADFRAME_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def calibrated(cache):
    done = loadframe("calibrate", "--quick", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_driver_that_a_null_server_answers_has_a_ceiling(calibrated):
    assert set(calibrated["drivers"]) == set(PROBES)
    for ceiling in calibrated["drivers"].values():
        assert ceiling["requests"] > 1000
        assert ceiling["cpu_per_request"] == pytest.approx(1 / ceiling["requests"])
        assert [lateness["rate"] for lateness in ceiling["lateness"]] == [1000, 10_000, 50_000]
        assert all(0 < lateness["p50"] <= lateness["p99"] for lateness in ceiling["lateness"])
    # The generator without a driver is the cheapest.
    assert calibrated["drivers"]["null"]["requests"] > calibrated["drivers"]["search"]["requests"]
    assert calibrated["drivers"]["search"]["documents"] > 10 * calibrated["drivers"]["search"]["requests"]


def test_the_figures_are_kept_and_a_quick_calibration_supports_no_verdict(calibrated, cache):
    (kept,) = (cache / "calibration").iterdir()
    assert str(kept) == calibrated["kept"]
    assert json.loads(kept.read_text())["drivers"] == calibrated["drivers"]
    assert calibrated["doubt"]


def test_doctor_shows_known_figures(calibrated, cache):
    checks = {check["name"]: check for check in json.loads(loadframe("doctor", "--json").stdout)}
    assert checks["calibration"]["state"] == "limited"
    assert calibrated["measured"][:10] in checks["calibration"]["finding"]
    assert "loadframe calibrate" in checks["calibration"]["remedy"]


def test_doctor_reports_missing_figures(cache, monkeypatch, tmp_path):
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path))
    checks = {check["name"]: check for check in json.loads(loadframe("doctor", "--json").stdout)}
    assert checks["calibration"]["finding"].startswith("not done: ")
