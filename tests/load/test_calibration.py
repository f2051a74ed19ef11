"""Calibration of a machine's generator: stored, and used only where it applies."""

from dataclasses import replace

import pytest

import loadframe
from loadframe import _engine
from loadframe.base.errors import BadInput
from loadframe.load import Calibration, calibrate
from loadframe.load.calibrate import PROBES, DriverCeiling, Lateness

SEARCH = DriverCeiling(
    requests=100_000.0,
    cpu_per_request=1e-5,
    reached=90_000.0,
    documents=1e6,
    cpu_per_document=1e-6,
    lateness=(Lateness(rate=1000.0, p50=5e-5, p99=9e-5, achieved=1.0),),
)


def measured(**parts):
    return replace(Calibration.now({"search": SEARCH}, quick=False, waited_share=0.01), **parts)


def test_measured_figures_are_found_again(tmp_path):
    known = measured()
    path = known.save(tmp_path)
    assert path.is_relative_to(tmp_path / "calibration")
    assert Calibration.load(tmp_path) == known
    measured(waited_share=0.02).save(tmp_path)
    assert Calibration.load(tmp_path).waited_share == 0.02
    assert list(path.parent.iterdir()) == [path], "nothing half-written is left"


def test_a_quick_calibration_does_not_replace_a_complete_one(tmp_path):
    quick = measured(quick=True)
    assert quick.save(tmp_path)
    assert Calibration.load(tmp_path) == quick
    complete = measured()
    complete.save(tmp_path)
    assert quick.save(tmp_path) is None
    assert Calibration.load(tmp_path) == complete


def test_figures_of_other_hardware_are_not_this_machines(tmp_path, monkeypatch):
    measured().save(tmp_path)
    hardware = calibrate.hardware()
    monkeypatch.setattr(calibrate, "hardware", lambda: hardware | {"cpu": "another"})
    assert Calibration.load(tmp_path) is None


def test_another_version_has_to_be_measured_again(tmp_path, monkeypatch):
    measured().save(tmp_path)
    monkeypatch.setattr(loadframe, "__version__", "99")
    assert Calibration.load(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"drivers": {}}', '{"drivers": {"search": {"lateness": 3}}}'])
def test_a_damaged_file_is_as_good_as_none(tmp_path, text):
    path = measured().save(tmp_path)
    path.write_text(text)
    assert Calibration.load(tmp_path) is None


def test_a_ceiling_comes_from_a_whole_and_undisturbed_calibration_only():
    assert measured().ceiling("search") == 100_000.0
    assert measured().ceiling("another") is None
    assert measured(quick=True).ceiling("search") is None
    assert measured(waited_share=0.2).ceiling("search") is None
    assert "20 %" in measured(waited_share=0.2).doubt


def test_a_cache_that_cannot_be_written_is_bad_input(tmp_path):
    (tmp_path / "calibration").write_text("a file where the folder should be")
    with pytest.raises(BadInput, match="cannot store the figures"):
        measured().save(tmp_path)


def test_every_driver_can_be_calibrated():
    # The driver `several` uses the probes of its targets' drivers.
    assert set(_engine.DRIVERS) - {"several"} == set(PROBES)


def test_a_protocol_that_no_null_server_speaks_is_refused():
    with pytest.raises(OSError, match="telnet"):
        _engine.NullServer("telnet")
