"""A real pipeline: builds of the example application from commits, measured in turn, pass or fail the gate.

Every build sleeps before it answers; the slow build sleeps longer at one endpoint. Sleep dominates each response, so
the load of this machine hardly matters.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.alone, pytest.mark.store, pytest.mark.trial]

EXAMPLE = Path(__file__).parents[2] / "examples" / "selfcare_app"
#: Delay of every answer, s, and the extra delay of the slow endpoint.
PAUSE, SLOWER = 0.3, 0.9

if shutil.which("haproxy") is None and not Path("/usr/sbin/haproxy").is_file():
    pytest.skip("haproxy is not installed here", allow_module_level=True)


def git(repository: Path, *words: str) -> None:
    known = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(repository), *known, *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with the application and three builds of it: `base`, `slow`, and `other`, which is as fast."""
    top = tmp_path_factory.mktemp("builds")
    shutil.copytree(EXAMPLE, top / "app", ignore=shutil.ignore_patterns("__pycache__"))
    git(top, "init", "--quiet")
    timed = top / "app" / "timed.py"
    before = "        status = 0\n"
    assert timed.read_text().count(before) == 1
    paused = timed.read_text().replace(before, f"{before}        await asyncio.sleep({PAUSE})\n")
    timed.write_text(paused.replace("import json\n", "import asyncio\nimport json\n", 1))
    service = top / "app" / "service.py"
    text = service.read_text()
    within = '    """Return the user\'s sums."""\n'
    assert text.count(within) == 1
    changes = {
        "base": text,
        "slow": text.replace(within, f"{within}    await asyncio.sleep({SLOWER})\n"),
        "other": text.replace(within, '    """Return all sums of a user."""\n'),
    }
    for name, content in changes.items():
        service.write_text(content)
        git(top, "add", ".")
        git(top, "commit", "--quiet", "--allow-empty", "--message", name)
        git(top, "tag", name)
    return top


@pytest.mark.parametrize(("build", "status"), [("slow", 1), ("other", 0)])
def test_a_build_that_slows_an_endpoint_is_stopped_and_another_passes(repository, state, tmp_path, build, status):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [repository / "app" / "pipeline.sh", "base", build, tmp_path / "results"],
        cwd=repository,
        # On a machine that is busy with other things many runs are invalid.
        env={**os.environ, "PATH": path, "TRIES": "6"},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert (r"visit\_totals" in (tmp_path / "results" / "gate.md").read_text()) or status == 0
    assert not list(state.glob("clusters/gate-*")), "nothing is left"
