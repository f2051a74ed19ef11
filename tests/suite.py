"""Run the whole test suite; run each failing test once more, alone, at the end.

A test that fails and then passes is unreliable: the summary names it, `tests/unreliable.md` counts it, and the suite
passes. The suite fails if a test fails twice. It also fails on compile and collection errors, interrupted or empty
sessions, crashed test binaries, and collected tests without a result. After a time limit it ends, fails, and names the
tests that were running.
"""

import argparse
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
UNRELIABLE = ROOT / "tests" / "unreliable.md"
CARGO = ("make", "--silent", "test-rust")
#: When the suite ends, in Unix time. CI ends `.ci/run`, which also installs packages and compiles, after 90 minutes
#: without a word about the tests.
UNTIL = time.time() + 79 * 60
#: Commands that `_printed` has started.
_COMMANDS: list[subprocess.Popen[str]] = []
#: More failures than this are a defect, not unreliable tests: none is run again.
MANY = 60
#: Entries of one test in `tests/unreliable.md` from which it has to be fixed or deleted.
ENTRIES = 3


@dataclass(frozen=True)
class Stage:
    """Result of one test command: failed tests, and an error that a second run cannot repair.

    `alone` has the modules of tests that a session left out because they run alone.
    """

    failed: tuple[str, ...] = ()
    fatal: str | None = None
    alone: tuple[str, ...] = ()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """In a worker of pytest-xdist, report left out tests to its controller. `-p suite` registers this function."""
    output = getattr(items[0].config, "workeroutput", None) if items else None
    if output is not None:
        output.setdefault("alone", []).extend(modules_alone(items))


def modules_alone(items: Iterable[pytest.Item]) -> list[str]:
    """Return the modules of tests with the mark `alone`, without trials."""
    chosen = [item for item in items if item.get_closest_marker("alone") and not item.get_closest_marker("trial")]
    return [item.nodeid.partition("::")[0] for item in chosen]


class Outcomes:
    """A pytest plugin that writes the failed tests of a session, and collected tests without a result, to a file.

    `until`: Unix time from which it interrupts the session, once a test runs.
    """

    def __init__(self, file: Path, until: float) -> None:
        self.file = file
        self.until = until
        #: Standard output, which pytest captures while a test runs.
        self.terminal = os.fdopen(os.dup(1), "w")
        self.timer: threading.Timer | None = None
        self.running: dict[str, None] = {}
        self.collected: set[str] = set()
        self.finished: set[str] = set()
        self.passed: set[str] = set()
        self.failed: dict[str, None] = {}
        self.uncollected = 0
        self.alone: set[str] = set()

    def interrupt(self) -> None:
        """Name the tests that run, and end the session as Ctrl-C does; end the process if it goes on."""
        words = "\nThe time limit of the suite has passed. Running:"
        print(words, *self.running, sep="\n  ", file=self.terminal, flush=True)
        # A test that handles the first signal is followed by others.
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        os._exit(pytest.ExitCode.INTERRUPTED)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.running[nodeid] = None
        if self.timer is None:
            self.timer = threading.Timer(self.until - time.time(), self.interrupt)
            self.timer.daemon = True
            self.timer.start()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.running.pop(nodeid, None)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self.collected.update(ids)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.alone.update(modules_alone(items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # A crashed worker has no output; the others collect the same tests.
        self.alone.update(getattr(node, "workeroutput", {}).get("alone", ()))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.uncollected += report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A crashed worker reports its test as failed without a phase.
        if report.failed:
            self.failed[report.nodeid] = None
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
        if report.when == "teardown" or report.failed:
            self.finished.add(report.nodeid)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self.timer is not None:
            self.timer.cancel()
        outcomes = {
            "exit": int(exitstatus),
            "uncollected": self.uncollected,
            "collected": len(self.collected),
            "failed": list(self.failed),
            "passed": sorted(self.passed - self.failed.keys()),
            "alone": sorted(self.alone),
            "unfinished": sorted(self.collected - self.finished),
        }
        self.file.write_text(json.dumps(outcomes))


def run_pytest(arguments: Sequence[str], cwd: Path = ROOT) -> tuple[Stage, set[str]]:
    """Run pytest in a subprocess; return the result and the names of passed tests."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "outcomes.json"
        command = [sys.executable, __file__, "--outcomes", str(file), str(UNTIL), *arguments]
        status = subprocess.run(command, cwd=cwd, check=False).returncode
        if not file.exists():
            return Stage(fatal=f"pytest ended with status {status} before its session finished"), set()
        outcomes: dict[str, Any] = json.loads(file.read_text())
    return replace(_stage(status, outcomes), alone=tuple(outcomes["alone"])), set(outcomes["passed"])


def _stage(status: int, outcomes: Mapping[str, Any]) -> Stage:
    """Return the result of a pytest session that ended with an exit status and wrote these outcomes."""
    failed = tuple(outcomes["failed"])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or status != outcomes["exit"]:
        names = {int(code): code.name.lower().replace("_", " ") for code in pytest.ExitCode}
        return Stage(failed, f"pytest ended with status {status} ({names.get(status, 'killed or crashed')})")
    if outcomes["uncollected"]:
        return Stage(failed, f"pytest could not collect {outcomes['uncollected']} modules")
    if not outcomes["collected"]:
        return Stage(failed, "pytest ran no tests")
    if outcomes["unfinished"]:
        some = ", ".join(outcomes["unfinished"][:3])
        return Stage(failed, f"{len(outcomes['unfinished'])} collected tests did not report a result: {some}")
    if bool(failed) != (status == pytest.ExitCode.TESTS_FAILED):
        return Stage(failed, f"pytest ended with status {status}, but {len(failed)} tests failed")
    return Stage(failed)


def run_beside(workers: str, cwd: Path = ROOT) -> tuple[Stage, set[str]]:
    """Run the tests that may run beside other work; return as `run_pytest`."""
    return run_pytest(["-n", workers, "--dist", "loadscope", "-m", "not alone and not trial"], cwd)


def run_alone(beside: Stage, cwd: Path = ROOT) -> tuple[Stage, set[str]]:
    """Run the tests that the session `beside` left out, which measure time; return as `run_pytest`."""
    # The other modules would take a quarter of a minute to import.
    return run_pytest(["-m", "alone and not trial", *beside.alone], cwd)


def run_cargo(cwd: Path = ROOT) -> Stage:
    """Run the Rust tests to the end and return their result."""
    status, output = _printed([*CARGO, "ARGUMENTS=--no-fail-fast"], cwd)
    failed, binaries = failed_rust_tests(output), output.count("test result: FAILED")
    if status == 0:
        return Stage() if passed_rust_tests(output) else Stage(fatal="cargo test ran no tests")
    targets = re.search(r"^error: (\d+) targets? failed", output, re.MULTILINE)
    if not failed or not targets or int(targets[1]) != binaries:
        return Stage(failed, f"cargo test ended with status {status}: a compile error or a crashed test binary")
    return Stage(failed)


def run_lints(target: str, cwd: Path = ROOT) -> Stage:
    """Run a target of the Makefile that lints."""
    status, _ = _printed(["make", target], cwd)
    return Stage() if status == 0 else Stage(fatal=f"make {target} failed")


def run_rust(cwd: Path = ROOT) -> Stage:
    """Run the lints of Rust, which compile the tests, and then the tests."""
    lints, tests = run_lints("lint-rust", cwd), run_cargo(cwd)
    return Stage(tests.failed, lints.fatal or tests.fatal)


def run_cargo_again(names: Sequence[str], cwd: Path = ROOT) -> set[str]:
    """Run Rust tests by name, one after the other; return the names of passed tests."""
    passed = set()
    for name in names:
        status, output = _printed([*CARGO, f"ARGUMENTS=-- --exact {name}"], cwd)
        if status == 0 and passed_rust_tests(output):
            passed.add(name)
    return passed


def failed_rust_tests(output: str) -> tuple[str, ...]:
    """Return the names that libtest lists after its second `failures:` line, of all test binaries."""
    lists = re.findall(r"^failures:\n((?: {4}\S.*\n)+)", output, re.MULTILINE)
    return tuple(dict.fromkeys(line.strip() for block in lists for line in block.splitlines()))


def passed_rust_tests(output: str) -> int:
    """Return how many Rust tests passed, of all test binaries."""
    return sum(int(passed) for passed in re.findall(r"^test result: ok\. (\d+) passed", output, re.MULTILINE))


def _printed(command: Sequence[str], cwd: Path) -> tuple[int, str]:
    """Run a command, print its output in one piece without the tests that passed, and return its status and output."""
    # The Python tests beside it have timeouts: they come first.
    process = subprocess.Popen(
        ["nice", *command],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    _COMMANDS.append(process)
    try:
        output, _ = process.communicate(timeout=max(UNTIL - time.time(), 0))
    except subprocess.TimeoutExpired:
        _kill(process)
        output, _ = process.communicate()
        print(f"The time limit of the suite has passed. Killed: {' '.join(command)}")
    print(re.sub(r"^test .* \.\.\. (ok|ignored.*)\n", "", output, flags=re.MULTILINE), flush=True)
    return process.returncode, output


def _kill(process: subprocess.Popen[str]) -> None:
    """Kill a command and the processes that it started, unless it has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def conclude(python: Sequence[Stage], rust: Stage, unreliable: Path = UNRELIABLE, cwd: Path = ROOT) -> int:
    """Run the failed tests once more, alone; print the summary; return the exit status of the suite."""
    tests = tuple(dict.fromkeys(name for stage in python for name in stage.failed))
    reasons = [stage.fatal for stage in (*python, rust) if stage.fatal]
    count = len(tests) + len(rust.failed)
    again: set[str] = set()
    if count > MANY:
        reasons.append(f"{count} tests failed: too many to run again")
    elif count and not reasons:
        print(f"\n{count} tests failed; each runs once more, alone.", flush=True)
        again = run_cargo_again(rust.failed, cwd) if rust.failed else set()
        if tests:
            stage, passed = run_pytest(tests, cwd)
            again |= passed
            reasons += [stage.fatal] if stage.fatal else []
    recovered = [name for name in (*rust.failed, *tests) if name in again]
    broken = [name for name in (*rust.failed, *tests) if name not in again]
    for name, entries in record(recovered, unreliable).items():
        print(f"UNRELIABLE {name}: failed, then passed alone. Entry {entries} in {unreliable.name}: commit it.")
        if entries >= ENTRIES:
            print(f"  {entries} entries: fix or delete this test before other work.")
    for name in broken:
        print(f"FAILED {name}")
    for reason in reasons:
        print(f"FAILED {reason}")
    return 1 if broken or reasons else 0


def record(names: Iterable[str], file: Path) -> dict[str, int]:
    """Add one entry for each unreliable test; return how many entries each has now."""
    text = file.read_text() if file.exists() else ""
    today = datetime.datetime.now(datetime.UTC).date()
    new = [f"- {today} `{name}`\n" for name in names]
    if new:
        file.write_text(text + "".join(new))
    return {name: text.count(f" `{name}`\n") + 1 for name in names}


def main(arguments: Sequence[str]) -> int:
    """Run the suite, or one pytest session of it with `--outcomes FILE`."""
    if arguments[:1] == ["--outcomes"]:
        return int(
            pytest.main(["-p", "suite", *arguments[3:]], plugins=[Outcomes(Path(arguments[1]), float(arguments[2]))])
        )
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="5", help="processes that run tests which do not measure time")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Much of the Python tests is waiting for stores, so that compilers fit in beside them.
    with ThreadPoolExecutor() as pool:
        # Tests that start servers meanwhile do without the archives. They save time; no result depends on them.
        pool.submit(_printed, [sys.executable, str(ROOT / "tests" / "quick_java.py")], ROOT)
        lints, rust = pool.submit(run_lints, "lint-python"), pool.submit(run_rust)
        try:
            beside, _ = run_beside(options.workers)
        except KeyboardInterrupt:
            # The pool waits for its threads, and they for these.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in _COMMANDS:
                _kill(process)
            raise
    # The pool has ended, so that these tests measure time without other work beside them.
    alone, _ = run_alone(beside)
    return conclude([beside, alone, lints.result()], rust.result())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
