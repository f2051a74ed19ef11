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


@pytest.mark.slow
@pytest.mark.parametrize("command", [MYPY, PYRIGHT], ids=["mypy", "pyright"])
def test_a_type_checker_accepts_a_program_and_finds_wrong_types(tmp_path, command):
    (tmp_path / "pyrightconfig.json").write_text(CONFIGURATION)
    (tmp_path / "measure.py").write_text(SAMPLE)
    (tmp_path / "wrong.py").write_text(SAMPLE.replace("times.percentile(99)", 'times.percentile("99")'))
    # Both at once, because a checker reads the library again in each run.
    done = subprocess.run(
        [*command, "measure.py", "wrong.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert '"float"' in done.stdout
    assert "wrong.py:" in done.stdout
    assert "measure.py" not in done.stdout + done.stderr
