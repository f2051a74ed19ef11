"""The types of the library: mypy and pyright accept a program that uses it, and refuse a wrong one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLE = (Path(__file__).parent / "sample" / "measure.py").read_text()
MYPY = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--ignore-missing-imports"]
PYRIGHT = [sys.executable, "-m", "basedpyright", "--level", "error", "--pythonpath", sys.executable]
#: pyright's own checks, without those that basedpyright adds.
CONFIGURATION = '{"typeCheckingMode": "strict", "reportUnknownMemberType": false, "reportUnknownVariableType": false}'


def checked(command, folder):
    return subprocess.run(
        [*command, "measure.py"],
        cwd=folder,
        env={**os.environ, "MYPY_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", [MYPY, PYRIGHT], ids=["mypy", "pyright"])
def test_a_type_checker_accepts_a_program_and_finds_wrong_types(tmp_path, command):
    (tmp_path / "pyrightconfig.json").write_text(CONFIGURATION)
    (tmp_path / "measure.py").write_text(SAMPLE)
    accepted = checked(command, tmp_path)
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    (tmp_path / "measure.py").write_text(SAMPLE.replace("times.percentile(99)", 'times.percentile("99")'))
    refused = checked(command, tmp_path)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert '"float"' in refused.stdout
