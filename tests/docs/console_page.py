"""Run the command blocks of a documentation page, and compare the output that the page shows.

A page is Markdown with these parts, in any order and indentation:

- A block ```console has lines `$ command`, each followed by its output. `> ` and a final backslash continue a command.
  A line `^C` in the output interrupts the command once it has printed the lines before it.
- A fenced block with `title="NAME"` is a file, which is written to the page's folder.
- `<!-- not run: REASON -->`, `<!-- exit: CODE -->` before a block: skip it; the exit code of its last command.
- `<!-- setup: COMMAND -->`, `<!-- teardown: COMMAND -->`: run a command that the page does not show.

Comparison is by words: numbers (or `unknown`), units, line breaks and rules of tables are ignored; `...` stands for any
text.
Ports of this machine that a page names are replaced by free ones, so that pages can run at the same time.
"""

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<ticks>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks)[ \t]*$", re.M | re.S
)
_NOTE = re.compile(r"<!--\s*(?P<kind>not run|exit|setup|teardown):\s*(?P<text>.*?)\s*-->", re.S)
_TITLE = re.compile(r'title="([^"]+)"')
_INTERRUPT = "^C"
#: Printed by an interactive shell for a command in the background.
_JOB = re.compile(r"\[\d+\] \d+")

_ADDRESS = re.compile(r"((?:127\.0\.0\.\d+|localhost|\[::1\]|0\.0\.0\.0):|--(?:http-)?port[ =]|\bport: )(\d{4,5})\b")

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HEX = re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}\b")
_UNIT = r"(?:ns|us|µs|ms|s|min|h|kB|KiB|MB|MiB|GB|GiB|k|M|m|%)"
_NUMBER = re.compile(rf"[+-]?\d(?:[\d.,]*\d)?(?:e[+-]?\d+)?(?:\s?{_UNIT}(?![A-Za-z]))?\*?|\bunknown\b(?!:)")
_RULE = re.compile(r"[─━═╌┄│┃|▁▂▃▄▅▆▇█▏▎▍▌▋▊▉░▒▓⠀-⣿]+|-{2,}|={2,}|\.{4,}")
_GAP = re.compile(r"\.\.\.|…")

#: Subcommands that start no node and load nothing.
_LIGHT = {"workloads", "stores", "report", "fit", "import", "doctor", "slurm"}
_SECONDS = 300


@dataclass(frozen=True)
class File:
    """A file that the reader creates."""

    line: int
    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command, and the output that the page shows; None if the page does not show it."""

    line: int
    text: str
    output: str | None = None
    exit_code: int | None = 0


@dataclass(frozen=True)
class Page:
    """The parts of a page that its test carries out."""

    path: Path
    steps: list[File | Command]
    teardown: list[Command] = field(default_factory=list)
    #: Commands of blocks that the page marks as not run.
    skipped: list[Command] = field(default_factory=list)

    @property
    def commands(self) -> list[Command]:
        """Return the commands, without teardown."""
        return [step for step in self.steps if isinstance(step, Command)]

    @property
    def heavy(self) -> bool:
        """Whether a command applies load or starts nodes."""
        words = " ".join(command.text for command in self.commands)
        names = re.findall(r"\bloadframe (?:-\S+ )*([a-z]+)", words)
        return any(name not in _LIGHT for name in names)


class WrongPage(AssertionError):
    """A command of a page failed, or printed other words than the page shows."""


def read_page(path: Path, text: str | None = None) -> Page:
    """Read the files and commands of a page."""
    text = path.read_text() if text is None else text
    steps: list[File | Command] = []
    teardown: list[Command] = []
    skipped: list[Command] = []
    fences = list(_FENCE.finditer(text))
    notes = [note for note in _NOTE.finditer(text) if not any(f.start() < note.start() < f.end() for f in fences)]
    before: dict[str, str] = {}
    for part in sorted([*fences, *notes], key=lambda part: part.start()):
        line = text.count("\n", 0, part.start()) + 1
        if part.re is _NOTE:
            match part["kind"]:
                case "setup":
                    steps.append(Command(line, part["text"]))
                case "teardown":
                    teardown.append(Command(line, part["text"]))
                case kind:
                    before = {**before, kind: part["text"], "end": str(part.end())}
            continue
        applies = before and not text[int(before["end"]) : part.start()].strip()
        marks, before = (before if applies else {}), {}
        body = textwrap.dedent(part["body"]) if part["indent"] else part["body"]
        if "not run" in marks:
            skipped += _commands(body, line + 1, 0)
            continue
        if part["info"].split()[:1] == ["console"]:
            steps += _commands(body, line + 1, int(marks.get("exit", 0)))
        elif title := _TITLE.search(part["info"]):
            steps.append(File(line, title[1], body))
    return Page(path, steps, teardown, skipped)


def _commands(body: str, first: int, exit_code: int) -> list[Command]:
    """Return the commands of a console block; the last one exits with `exit_code`."""
    blocks: list[tuple[int, list[str], list[str]]] = []
    continues = False
    for number, line in enumerate(body.splitlines(), first):
        if line.startswith("$ ") and not continues:
            blocks.append((number, [line[2:]], []))
        elif not blocks:
            if line.strip():
                raise WrongPage(f"line {number}: a console block begins with `$ command`")
        elif continues or (line.startswith("> ") and not blocks[-1][2]):
            blocks[-1][1].append(line.removeprefix("> "))
        elif not _JOB.fullmatch(line):
            blocks[-1][2].append(line)
        continues = bool(blocks) and not blocks[-1][2] and blocks[-1][1][-1].endswith("\\")
    commands = []
    for at, (number, words, output) in enumerate(blocks):
        # The page shows the exit code of a failure by `echo $?`.
        asked = at + 1 < len(blocks) and blocks[at + 1][1] == ["echo $?"]
        code = None if asked else exit_code if at + 1 == len(blocks) else 0
        shown = "\n".join(output).strip()
        commands.append(Command(number, "\n".join(words), shown or None, code))
    return commands


def normalised(text: str) -> str:
    """Return the words of an output, each number as `#`."""
    # The terminal may break a line between a number and its unit.
    text = " ".join(_ANSI.sub("", text).split())
    text = _NUMBER.sub("#", _HEX.sub("#", text))
    return " ".join(_RULE.sub(" ", text).split())


def pattern_of(shown: str) -> re.Pattern[str]:
    """Return the pattern that the output of a command must match, after normalisation."""
    pieces = [re.escape(normalised(piece)) for piece in _GAP.split(shown)]
    return re.compile(r"\s*" + r".*?".join(rf"\s*{piece}\s*" for piece in pieces) + r"\s*", re.S)


def difference(shown: str, output: str) -> str | None:
    """Return the first words of `shown` that the output lacks in their place, or None if it matches."""
    actual = normalised(output)
    if pattern_of(shown).fullmatch(actual):
        return None
    pieces = _GAP.split(shown)
    words: list[str] = []
    for at, piece in enumerate(pieces):
        for word in normalised(piece).split():
            tried = [*words, word]
            if not re.match(r"\s*".join(".*?" if part == "..." else re.escape(part) for part in tried), actual, re.S):
                return " ".join([*words[-6:], f">>{word}<<"])
            words.append(word)
        if at + 1 < len(pieces):
            words.append("...")
    return "the output continues after the last line of the page"


def free_ports(text: str) -> dict[str, str]:
    """Return a free port for each port of this machine that a page names; ports in a row stay in a row."""
    named = sorted({int(port) for _, port in _ADDRESS.findall(text)})
    chosen: dict[str, str] = {}
    rows: list[list[int]] = []
    for port in named:
        if rows and port - rows[-1][0] < 50:
            rows[-1].append(port)
        else:
            rows.append([port])
    for row in rows:
        base = _free_row(row[-1] - row[0] + 10)
        chosen |= {str(port): str(base + port - row[0]) for port in row}
    return chosen


def _free_row(length: int) -> int:
    """Return the first of so many free ports in a row, outside the range from which the system chooses."""
    start = 10_000 + (os.getpid() * 97 + time.monotonic_ns() // 1000) % 20_000
    for base in [*range(start, 32_000, length), *range(10_000, start, length)]:
        if all(_is_free(base + offset) for offset in range(length)):
            return base
    raise OSError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Session:
    """A shell in a folder, with its own state folder of Loadframe. Everything that it starts ends with it."""

    def __init__(self, folder: Path, ports: dict[str, str] | None = None) -> None:
        self.folder = folder / "page"
        self.state = folder / "state"
        self._logs = folder / "logs"
        for path in (self.folder, self.state, self._logs):
            path.mkdir()
        self._ports = ports or {}
        self._count = 0
        self._background: list[tuple[Command, Path]] = []
        programs = Path(sys.executable).parent
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("COLUMNS", "PYTEST_"))}
        environment |= {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "LOADFRAME_STATE": str(self.state),
            "PYTHONUNBUFFERED": "1",
            "TERM": "dumb",
        }
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        # Job control is for `kill %1` and for interrupts of one command, which the shell survives by its trap.
        assert self._shell.stdin is not None
        self._shell.stdin.write("set -m; trap : INT\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, file: File) -> None:
        """Write a file of the page."""
        path = self.folder / file.name
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise WrongPage(f"line {file.line}: {file.name} is outside the page's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._replaced(file.text))

    def run(self, command: Command) -> None:
        """Run a command; fail if its exit code or its words differ from the page."""
        self._count += 1
        out, done = self._logs / f"{self._count}.out", self._logs / f"{self._count}.exit"
        text = self._replaced(command.text)
        shown, interrupt, after = (command.output or "").partition(f"\n{_INTERRUPT}")
        if not interrupt and shown == _INTERRUPT:
            shown, interrupt = "", _INTERRUPT
        assert self._shell.stdin is not None
        # `(exit N)` gives the command the exit code of the command before it, for `echo $?`.
        script = f"(exit ${{last:-0}})\n{{\n{text}\n}} >{shlex.quote(str(out))} 2>&1 </dev/null\n"
        script += f"last=$?; echo $last >{shlex.quote(str(done))}.new; mv {shlex.quote(str(done))}{{.new,}}\n"
        self._shell.stdin.write(script)
        self._shell.stdin.flush()
        if interrupt:
            self._await(command, lambda: out.exists() and _begins(shown, out.read_text()), out)
            self._interrupt()
        self._await(command, done.exists, out)
        code, output = int(done.read_text()), out.read_text(errors="replace")
        if text.rstrip().endswith("&"):
            self._background.append((command, out))
            return
        if not interrupt and command.exit_code is not None and code != command.exit_code:
            raise self._wrong(command, f"exit code {code} instead of {command.exit_code}", output)
        whole = f"{shown}\n...\n{after}" if interrupt else command.output
        if command.text.strip() == "echo $?":
            if (command.output or "").strip() != output.strip():
                raise self._wrong(command, f"the page shows exit code {command.output}", output)
        elif whole is not None and (words := difference(whole, output)):
            raise self._wrong(command, f"the words differ at: {words}", output)

    def check_background(self, seconds: float = 20) -> None:
        """Compare the output of commands in the background, which may still be running."""
        for command, out in self._background:
            shown = command.output
            if shown is None:
                continue
            end = time.monotonic() + seconds
            while words := difference(f"{shown}\n...", out.read_text()):
                if time.monotonic() > end:
                    raise self._wrong(command, f"the words differ at: {words}", out.read_text())
                time.sleep(0.2)

    def close(self) -> None:
        """End the shell and everything that it started, clusters included."""
        with contextlib.suppress(OSError):
            assert self._shell.stdin is not None
            self._shell.stdin.close()
        for number, patience in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
            processes = self._processes()
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
            if not psutil.wait_procs(processes, timeout=patience)[1] and not self._processes():
                break
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._shell.wait(5)

    def _processes(self) -> list[psutil.Process]:
        """Return the processes of the shell's session, its descendants, and those with its state folder.

        A server that rewrites its title loses its environment and its command line, but not its session.
        """
        running: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.Error):
            shell = psutil.Process(self._shell.pid)
            running = {process.pid: process for process in [*shell.children(recursive=True), shell]}
        state = str(self.state)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = [process.environ().get("LOADFRAME_STATE", ""), *process.cmdline()]
                if process.pid != os.getpid() and any(state in word for word in words):
                    running[process.pid] = process
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(process.pid) == self._shell.pid:
                    running[process.pid] = process
        return [process for process in running.values() if _is_alive(process)]

    def _interrupt(self) -> None:
        """Send SIGINT to the command in the foreground, which is the newest job of the shell, as Ctrl-C does."""
        jobs = psutil.Process(self._shell.pid).children()
        if jobs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(max(jobs, key=lambda job: job.create_time()).pid, signal.SIGINT)

    def _await(self, command: Command, condition: Callable[[], bool], out: Path) -> None:
        end = time.monotonic() + _SECONDS
        while not condition():
            output = out.read_text(errors="replace") if out.exists() else ""
            if self._shell.poll() is not None:
                raise self._wrong(command, "the shell ended", output)
            if time.monotonic() > end:
                raise self._wrong(command, f"not finished after {_SECONDS} s", output)
            time.sleep(0.02)

    def _replaced(self, text: str) -> str:
        return _ADDRESS.sub(lambda address: address[1] + self._ports.get(address[2], address[2]), text)

    def _wrong(self, command: Command, why: str, output: str) -> WrongPage:
        shown = "" if command.output is None else f"\n--- the page shows:\n{command.output}"
        return WrongPage(f"line {command.line}: $ {command.text}\n{why}{shown}\n--- output:\n{output}")


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _begins(shown: str, output: str) -> bool:
    return difference(f"{shown}\n...", output) is None


def run_page(page: Page, folder: Path) -> None:
    """Carry out a page in a new folder."""
    texts = [step.text for step in [*page.steps, *page.teardown]]
    with Session(folder, free_ports("\n".join(texts))) as session:
        try:
            for step in page.steps:
                if isinstance(step, File):
                    session.write(step)
                else:
                    session.run(step)
            session.check_background()
        finally:
            for command in page.teardown:
                session.run(command)


def pages(top: Path) -> Iterator[Path]:
    """Yield all pages: at the top, in docs, and of experiments."""
    yield from sorted(top.glob("*.md"))
    for folder in ("docs", "experiments"):
        yield from sorted((top / folder).rglob("*.md"))
