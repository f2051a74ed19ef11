"""The wheel: its size, its installation without a compiler, and the demo from it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import PATIENCE, Running, servers, uv

pytestmark = pytest.mark.slow

#: Bytes.
LARGEST = 15_000_000
#: Programs that a machine without a compiler lacks.
COMPILERS = {"cargo", "rustc", "cc", "c++", "gcc", "g++", "clang"}


@pytest.fixture(scope="module")
def installed(wheel, constraints, tmp_path_factory) -> Path:
    """The command in an environment with only the wheel and its dependencies."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([uv(), "venv", "--quiet", "--clear", "--python", sys.executable, environment], check=True)
    subprocess.run(
        [uv(), "pip", "install", "--quiet", "--constraints", constraints, wheel],
        check=True,
        env={**os.environ, "VIRTUAL_ENV": str(environment)},
    )
    return environment / "bin" / "loadframe"


def test_the_wheel_is_small_and_serves_every_later_python(wheel):
    assert wheel.stat().st_size < LARGEST
    assert "-cp311-abi3-" in wheel.name


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Path:
    """A folder with this machine's programs, but for compilers."""
    folder = tmp_path_factory.mktemp("bin")
    for program in Path("/usr/bin").iterdir():
        if program.name not in COMPILERS:
            (folder / program.name).symlink_to(program)
    return folder


@pytest.mark.store
def test_the_demo_runs_from_the_wheel_without_a_compiler(installed, bare, state, tmp_path):
    environment = {"HOME": os.environ["HOME"], "PATH": str(bare), "LOADFRAME_STATE": str(state)}
    if "LOADFRAME_CACHE" in os.environ:
        environment["LOADFRAME_CACHE"] = os.environ["LOADFRAME_CACHE"]
    demo = tmp_path / "demo"
    with Running("demo", "--output", demo, folder=tmp_path, program=installed, environment=environment) as command:
        end = time.monotonic() + PATIENCE
        while not any(demo.glob("runs/*/summary.json")):
            assert command.process.poll() is None, command.stderr
            assert time.monotonic() < end, command.stderr
            time.sleep(0.1)
        status, _ = command.send(signal.SIGINT)
        assert status == 130, command.stderr
        assert "Traceback" not in command.stderr
    assert servers(state) == []
