"""Run the command blocks of a documentation page, and compare the output that the page shows.

A page is Markdown with these parts, in any order and indentation:

- A block ```console has lines `$ command`, each followed by its output. `> ` and a final backslash continue a command.
  A line `^C` in the output interrupts the command once it has printed the lines before it.
- A fenced block with `title="NAME"` is a file, which is written to the page's folder.
- Notes before a block apply to that block:
  - `<!-- not run: REASON -->`: skip it.
  - `<!-- trial: REASON -->`: run it in `make trials` only.
  - `<!-- exit: CODE -->`, or `<!-- exit: CODE or CODE -->`: the exit code of its last command.
  - `<!-- small: TEXT => OTHER -->`: replace a text in its commands and output, to run it at small scale. The text must
    occur. In an output, `$NAME` in the other text stands for a variable of a service.
  - `<!-- needs: SERVICE -->`: start a service of `page_services.py`, and export its variables. Without the programs or
    rights that the service requires, skip the block.
  - `<!-- setup: COMMAND -->`, `<!-- teardown: COMMAND -->`: run a command that the page does not show, also without a
    block.

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import psutil

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<ticks>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks)[ \t]*$", re.M | re.S
)
_NOTE = re.compile(r"<!--\s*(?P<kind>not run|trial|exit|small|needs|setup|teardown):\s*(?P<text>.*?)\s*-->", re.S)
_TITLE = re.compile(r'title="([^"]+)"')
_INTERRUPT = "^C"
#: Printed by an interactive shell for a command in the background.
_JOB = re.compile(r"\[\d+\] \d+")

_ADDRESS = re.compile(
    r"((?:127\.0\.0\.\d+|localhost|\[::1\]|0\.0\.0\.0):|--(?:http-)?port[ =]|\bhttp\.server |\bport: |"
    r"\b(?:Slurmctld)?Port=)(\d{4,5})\b"
)

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
    #: Allowed exit codes; none if every code is allowed.
    exit_codes: tuple[int, ...] = (0,)
    #: Services that run meanwhile.
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """The parts of a page that its test carries out."""

    path: Path
    steps: list[File | Command]
    teardown: list[Command] = field(default_factory=list)
    #: Commands of blocks that the page marks as not run, or as trials if the page is read without trials.
    skipped: list[Command] = field(default_factory=list)
    #: Whether blocks are marked as trials.
    has_trials: bool = False

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


@dataclass(frozen=True)
class _Note:
    line: int
    kind: str
    text: str


def read_page(path: Path, text: str | None = None, trials: bool = False) -> Page:
    """Read the files and commands of a page; `trials` includes blocks that are trials."""
    text = path.read_text() if text is None else text
    page = Page(path, [])
    fences = list(_FENCE.finditer(text))
    notes = [note for note in _NOTE.finditer(text) if not any(f.start() < note.start() < f.end() for f in fences)]
    #: Notes that belong together, as only blank lines separate them, and where the last one ends.
    group: list[_Note] = []
    end = 0
    for part in sorted([*fences, *notes], key=lambda part: part.start()):
        line = text.count("\n", 0, part.start()) + 1
        if group and text[end : part.start()].strip():
            _run_notes(page, group, trials)
            group = []
        if part.re is _NOTE:
            group.append(_Note(line, part["kind"], part["text"]))
            end = part.end()
            continue
        body = textwrap.dedent(part["body"]) if part["indent"] else part["body"]
        if not _run_notes(page, group, trials):
            page.skipped.extend(_commands(body, line + 1, []))
        elif part["info"].split()[:1] == ["console"]:
            page.steps.extend(_commands(body, line + 1, group))
        elif title := _TITLE.search(part["info"]):
            page.steps.append(File(line, title[1], body))
        group = []
    _run_notes(page, group, trials)
    return replace(page, has_trials=any(note["kind"] == "trial" for note in notes))


def _run_notes(page: Page, notes: list[_Note], trials: bool) -> bool:
    """Add the setup and teardown of notes to the page; return whether the block after the notes runs."""
    kinds = {note.kind for note in notes}
    if "not run" in kinds or ("trial" in kinds and not trials):
        return False
    needs = _needs(notes)
    page.steps.extend(Command(note.line, note.text, needs=needs) for note in notes if note.kind == "setup")
    page.teardown.extend(Command(note.line, note.text, needs=needs) for note in notes if note.kind == "teardown")
    return True


def _needs(notes: list[_Note]) -> tuple[str, ...]:
    return tuple(word for note in notes if note.kind == "needs" for word in note.text.split())


def _commands(body: str, first: int, notes: list[_Note]) -> list[Command]:
    """Return the commands of a console block, as its notes change them."""
    exit_codes = (0,)
    for note in notes:
        if note.kind == "exit":
            exit_codes = tuple(int(code) for code in note.text.split(" or "))
        elif note.kind == "small":
            before, _, after = note.text.partition("=>")
            shown, small = before.removesuffix(" "), after.removeprefix(" ")
            if shown not in body:
                raise WrongPage(f"line {note.line}: the block does not contain {shown!r}")
            body = body.replace(shown, small)
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
        codes = () if asked else exit_codes if at + 1 == len(blocks) else (0,)
        shown = "\n".join(output).strip()
        commands.append(Command(number, "\n".join(words), shown or None, codes, _needs(notes)))
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

    def __init__(self, folder: Path, ports: dict[str, str] | None = None, patience: float = _SECONDS) -> None:
        self._patience = patience
        self.folder = folder / "page"
        self.state = folder / "state"
        self._logs = folder / "logs"
        for path in (self.folder, self.state, self._logs):
            path.mkdir()
        self._ports = ports or {}
        #: Variables of services.
        self._variables: dict[str, str] = {}
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

    def export(self, variables: dict[str, str]) -> None:
        """Export variables to later commands; outputs that a page shows may contain them."""
        self._variables |= variables
        words = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"export {' '.join(words)}\n" if words else "")

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
        command = replace(command, output=self._filled(command.output))
        shown, interrupt, after = (command.output or "").partition(f"\n{_INTERRUPT}")
        if not interrupt and shown == _INTERRUPT:
            shown, interrupt = "", _INTERRUPT
        assert self._shell.stdin is not None
        # `(builtin exit N)` gives the command the exit code of the command before it, for `echo $?`.
        script = f"(builtin exit ${{last:-0}})\n{{\n{text}\n}} >{shlex.quote(str(out))} 2>&1 </dev/null\n"
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
        if not interrupt and command.exit_codes and code not in command.exit_codes:
            allowed = " or ".join(map(str, command.exit_codes))
            raise self._wrong(command, f"exit code {code} instead of {allowed}", output)
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
        end = time.monotonic() + self._patience
        while not condition():
            output = out.read_text(errors="replace") if out.exists() else ""
            if self._shell.poll() is not None:
                raise self._wrong(command, "the shell ended", output)
            if time.monotonic() > end:
                raise self._wrong(command, f"not finished after {self._patience:g} s", output)
            time.sleep(0.02)

    def _filled(self, output: str | None) -> str | None:
        """Return an output with the values of variables."""
        if output is not None:
            for name, value in self._variables.items():
                output = output.replace(f"${name}", value)
        return output

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


#: Starts a service by name: a context manager with its variables. Raises `Missing` if it cannot run here.
Start = Callable[[str], contextlib.AbstractContextManager[dict[str, str]]]


class Missing(Exception):
    """Why a service cannot run on this machine."""


def run_page(page: Page, folder: Path, start: Start | None = None, patience: float = _SECONDS) -> dict[str, str]:
    """Carry out a page in a new folder; return why services were missing, for each service with skipped blocks.

    `patience`: seconds for each command.
    """
    texts = [step.text for step in (*page.steps, *page.teardown)]
    missing: dict[str, str] = {}
    started: set[str] = set()
    # The session's processes use the services, so it ends first.
    with contextlib.ExitStack() as services, Session(folder, free_ports("\n".join(texts)), patience) as session:
        try:
            for step in page.steps:
                if isinstance(step, File):
                    session.write(step)
                    continue
                for name in step.needs:
                    if name in started:
                        continue
                    assert start is not None, f"line {step.line}: no services"
                    started.add(name)
                    try:
                        session.export(services.enter_context(start(name)))
                    except Missing as missed:
                        missing[name] = str(missed)
                if not missing.keys() & set(step.needs):
                    session.run(step)
            session.check_background()
        finally:
            # After a failure, its message is more useful than those of commands that depend on it.
            failed = sys.exc_info()[0] is not None
            for command in page.teardown:
                with contextlib.suppress(*([WrongPage] if failed else [])):
                    if not missing.keys() & set(command.needs):
                        session.run(command)
    return missing


def pages(top: Path) -> Iterator[Path]:
    """Yield all pages: at the top, in docs, and of experiments."""
    yield from sorted(top.glob("*.md"))
    for folder in ("docs", "experiments"):
        yield from sorted((top / folder).rglob("*.md"))
