"""Run the real command as users do, wait for its output, and find its leftover processes."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Self

import psutil
import typer
from typer._click import Command
from typer.core import TyperGroup

import forks
from loadframe.cli import main

LOADFRAME = Path(sys.executable).with_name("loadframe")
#: A thousand real trips, one JSON document per line.
TRIPS = Path(__file__).parent / "data" / "nyc_taxis" / "documents-1k.json"
#: Seconds; nodes start slowly on a busy machine.
PATIENCE = 240


def uv() -> str:
    """Return the path of the uv that `make build` used."""
    return shutil.which("uv") or str(Path(__file__).parents[1] / ".tools" / "bin" / "uv")


def until(told: Callable[[], Any]) -> Any:
    """Poll `told` until it returns a true value, and return that."""
    end = time.monotonic() + PATIENCE
    while not (value := told()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


def loadframe(
    *words: object, before: tuple[str, ...] = (), env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> CompletedProcess[str]:
    """Run the command to its end; `before` is put in front of it, as `env` or a shell may be."""
    command = [*before, str(LOADFRAME), *map(str, words)]
    environment = os.environ if env is None else env
    if not before and forks.can_fork(environment):
        return forks.run(command, environment, Path(cwd or "."), PATIENCE)
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=env, cwd=cwd)


def result(*words: object, status: int = 0, **more: Any) -> Any:
    """Run a command that must end with `status` with --json, and return its result."""
    done = loadframe(*words, "--json", **more)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def within(*words: object) -> tuple[int, str, str]:
    """Run a command that starts nothing inside this process, which is faster; return status, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    # The command's consoles look for their stream when they print.
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            return int(end.code or 0), output.getvalue(), errors.getvalue()
    raise AssertionError("a command ends by an exit")


def commands_of(group: Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Command]]:
    """Yield every command below a group, by its words."""
    if not isinstance(group, TyperGroup):
        yield " ".join(words), group
        return
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from commands_of(command, (*words, name))


class Running:
    """A running command in its own process group, as at a terminal. It ends with the test."""

    def __init__(
        self, *words: object, folder: Path, program: Path = LOADFRAME, environment: dict[str, str] | None = None
    ) -> None:
        self._said = folder / "stderr.txt"
        with self._said.open("w") as said, (folder / "stdout.txt").open("w") as told:
            self.process = subprocess.Popen(
                [program, *map(str, words)],
                env=environment,
                stdout=told,
                stderr=said,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def stderr(self) -> str:
        """Return the standard error so far."""
        return self._said.read_text()

    def wait_for(self, *texts: str) -> None:
        """Wait until the command has printed these texts in this order; fail if it ends first."""
        end = time.monotonic() + PATIENCE
        order = re.compile(".*".join(map(re.escape, texts)), re.DOTALL)
        while not order.search(self.stderr):
            assert self.process.poll() is None, self.stderr
            assert time.monotonic() < end, self.stderr
            time.sleep(0.02)

    def started(self, state: Path) -> list[psutil.Process]:
        """Return the processes that the command started: its children (the supervisors of nodes) and the nodes."""
        return [*psutil.Process(self.process.pid).children(), *servers(state)]

    def watch(self) -> set[str]:
        """Return the command lines of all processes of this machine until the command ends."""
        seen: set[str] = set()
        while self.process.poll() is None:
            for process in psutil.process_iter(["cmdline"]):
                seen.add(" ".join(process.info["cmdline"] or []))
            # Without a pause, this would keep a core busy for as long as the command runs.
            time.sleep(0.02)
        return seen

    def send(self, number: signal.Signals) -> tuple[int, float]:
        """Send a signal to the group, as Ctrl-C does; return the exit status, and how many seconds it took to end."""
        began = time.monotonic()
        os.killpg(self.process.pid, number)
        status = self.process.wait(PATIENCE)
        return status, time.monotonic() - began


def connected(port: int) -> socket.socket:
    """Return a connection to the port, which opens a moment after the command reports it."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.05)


@contextlib.contextmanager
def open_folder(purpose: str) -> Iterator[Path]:
    """Give a folder that root's servers may enter too, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix=f"loadframe-{purpose}-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def servers(state: Path) -> list[psutil.Process]:
    """Return every process with this cluster folder in its command line: its nodes."""
    running = []
    for process in psutil.process_iter(["cmdline"]):
        if any(str(state) in word for word in process.info["cmdline"] or []):
            running.append(process)
    return running
