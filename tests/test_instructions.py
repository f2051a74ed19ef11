"""Instruction counts: each driver stays within its stored count, and an increase is detected."""

import pytest
from benchmarks import instructions

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.load.calibrate import PROBES


@pytest.fixture(scope="module")
def comparable() -> None:
    try:
        instructions.require_real_time()
        instructions.require_same_versions()
    except BadInput as reason:
        pytest.skip(str(reason))


def test_each_driver_has_a_count():
    assert set(instructions.stored()[1]) == set(PROBES)


@pytest.mark.alone
@pytest.mark.usefixtures("comparable")
@pytest.mark.parametrize("driver", sorted(PROBES))
def test_a_request_needs_no_more_instructions_than_stored(driver):
    known = instructions.stored()[1][driver]
    count = instructions.compare(driver, known)
    assert not instructions.exceeds(count, known), f"{count} instead of {known}: {instructions.REMEDY}"


@pytest.mark.alone
@pytest.mark.usefixtures("comparable")
def test_a_larger_request_needs_more_instructions(monkeypatch):
    """A redis command with three more keys exceeds the count of the stored command."""
    known = instructions.stored()[1]["redis"]
    larger = {"command": ["GET", "key ${n} ${n} ${n}"]}
    monkeypatch.setitem(instructions.PROBES, "redis", type(PROBES["redis"])(larger))
    plan = instructions._plan
    monkeypatch.setattr(
        instructions, "_plan", lambda *given: {**plan(*given), "variables": {"n": {"uniform": [0, 9999]}}}
    )
    assert instructions.exceeds(instructions.measure("redis"), known)


def test_an_increase_fails_and_a_tolerated_one_does_not(monkeypatch, capsys):
    known = instructions.stored()[1]["null"]
    monkeypatch.setattr(instructions, "require_same_versions", lambda: None)
    monkeypatch.setattr(instructions, "require_real_time", lambda: None)
    for count, passes in ((known, True), (int(known * 1.019), True), (int(known * 1.03), False)):
        monkeypatch.setattr(instructions, "measure", lambda driver, count=count: count)
        if passes:
            assert instructions.main(["null"], update=False) == 0
        else:
            with pytest.raises(LoadframeError, match="null: more instructions"):
                instructions.main(["null"], update=False)
    assert "null" in capsys.readouterr().out


def test_counts_of_other_versions_are_not_compared(monkeypatch):
    here = instructions.stored()[0]
    monkeypatch.setattr(instructions, "versions", lambda: {**here, "rustc": "rustc 1.0.0"})
    with pytest.raises(BadInput, match=r"not comparable: rustc is .rustc 1\.0\.0."):
        instructions.require_same_versions()
    monkeypatch.undo()
    monkeypatch.setattr(instructions.shutil, "which", lambda _: None)
    with pytest.raises(BadInput, match="is not installed"):
        instructions.require_same_versions()
