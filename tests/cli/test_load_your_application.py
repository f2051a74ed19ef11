"""The tutorial, followed to the letter: its files are written and its commands run, in their order."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from commands import LOADFRAME, loadframe

pytestmark = pytest.mark.store

PAGE = (Path(__file__).parents[2] / "docs" / "load-your-application.md").read_text()
FILE = re.compile(
    r"`([\w/.-]+)`(?:,)?(?: says how)?:\n\n```\w+\n(.*?)```|[Tt]his is `([\w/.-]+)`:\n\n```\w+\n(.*?)```", re.S
)

for program in ("haproxy", "redis-server"):
    if shutil.which(program, path="/usr/sbin:/usr/bin:/usr/local/bin:/bin") is None:
        pytest.skip(f"{program} is not installed here", allow_module_level=True)


def test_following_the_tutorial_gives_its_results(state, tmp_path):
    files = dict(match[:2] if match[0] else match[2:] for match in FILE.findall(PAGE))
    assert set(files) == {"steps/service.py", "steps/under_test.py", "day.yaml", "instances.yaml"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    commands = re.findall(r"^    loadframe (.*)$", PAGE, re.M)
    assert [command.split()[0] for command in commands] == ["check", "bench", "report", "run"]
    for command in commands:
        done = loadframe(*shlex.split(command), cwd=tmp_path)
        assert done.returncode == 0, f"{LOADFRAME} {command}\n{done.stdout}{done.stderr}"
        if command.startswith("bench"):
            assert "· store" in done.stdout
            assert "delayed acknowledgements" not in " ".join(done.stdout.split())
    (phase,) = json.loads((tmp_path / "results" / "first" / "summary.json").read_text())["phases"]
    walk = phase["operations"]["walk"]
    assert walk["successes"] == walk["requests"] > 0
    assert walk["parts"]["store"]["requests"] == walk["requests"]
    assert walk["parts"]["store"]["service"]["mean"] < walk["service"]["mean"]
    assert phase["operations"]["total"]["requests"] > 0
    assert (tmp_path / "first.html").is_file()
    assert len(list((tmp_path / "results" / "instances" / "runs").iterdir())) == 2
