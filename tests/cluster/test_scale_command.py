"""Check of a scale command before the start: its program must exist and be executable."""

import pytest

from loadframe.base.errors import BadInput
from loadframe.cluster.scale_command import ScaleCommand


def test_a_program_that_is_not_executable_is_told_apart_from_a_missing_one(tmp_path):
    command = ScaleCommand("./scale.sh {nodes}", tmp_path)
    with pytest.raises(BadInput) as missing:
        command.require()
    assert (missing.value.what, str(tmp_path) in missing.value.remedy) == (
        "cannot execute ./scale.sh: no such program",
        True,
    )
    (tmp_path / "scale.sh").write_text("#!/bin/sh\n")
    with pytest.raises(BadInput) as plain:
        command.require()
    assert plain.value.what == "cannot execute ./scale.sh: it is not executable"
    assert plain.value.remedy == f"run: chmod +x {tmp_path / 'scale.sh'}"
    (tmp_path / "scale.sh").chmod(0o755)
    command.require()
