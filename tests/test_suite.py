"""The runner of the suite: conditions for success and failure, and the second run of failed tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import suite
from suite import Stage

pytestmark = pytest.mark.slow

#: Fails the first time that it runs in this folder, and passes from then on.
ONCE = """
from pathlib import Path
def test_once():
    mark = Path(__file__).with_name("ran")
    ran, _ = mark.exists(), mark.touch()
    assert ran
def test_good(): pass
"""
#: A crate with tests that fail the first time, always, or by a crash, according to the variable CASE.
CRATE = """
#[cfg(test)]
mod tests {
    fn ran(name: &str) -> bool {
        let mark = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        let ran = mark.exists();
        std::fs::write(mark, "").unwrap();
        ran
    }
    #[test]
    fn good() {}
    #[test]
    fn once() { assert!(ran("ran") || std::env::var("CASE").as_deref() != Ok("once")); }
    #[test]
    fn never() { assert_ne!(std::env::var("CASE").as_deref(), Ok("never")); }
    #[test]
    fn crash() { if std::env::var("CASE").as_deref() == Ok("crash") { std::process::abort() } }
}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with its own pytest settings."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-q -p no:cacheprovider")
    return tmp_path


def run(project: Path, source: str, *arguments: str) -> tuple[int, Stage]:
    """Return the exit status of a suite of one module, and the result of its first run."""
    (project / "test_it.py").write_text(source)
    stage, _ = suite.run_pytest(arguments, project)
    return suite.conclude([stage], Stage(), project / "unreliable.md", project), stage


def test_a_test_that_fails_once_is_counted_and_the_suite_passes(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    status, stage = run(project, ONCE, "-n", "1")
    assert (status, stage) == (0, Stage(("test_it.py::test_once",)))
    assert "UNRELIABLE test_it.py::test_once: failed, then passed alone. Entry 1" in capfd.readouterr().out
    assert (project / "unreliable.md").read_text().count("`test_it.py::test_once`") == 1


def test_the_second_run_has_only_the_failed_tests(project: Path) -> None:
    log = "from pathlib import Path\nRAN = Path(__file__).with_name('log')\n"
    source = log + ONCE.replace("def test_good(): pass", "def test_good(): RAN.write_text(RAN.read_text() + 'x')")
    (project / "log").write_text("")
    assert run(project, source)[0] == 0
    assert (project / "log").read_text() == "x"


SKIPPED = ONCE.replace("assert ran", "import pytest\n    pytest.skip('no') if ran else pytest.fail('no')")
FIXTURE = "import pytest\n@pytest.fixture(scope='session')\ndef node():{}\n yield\n{}\ndef test_it(node): pass"


@pytest.mark.parametrize(
    ("body", "workers"),
    [
        ("def test_it(): assert False", False),
        (SKIPPED, False),
        (FIXTURE.format(" assert False", ""), True),
        (FIXTURE.format("", " assert False"), True),
        ("import os\ndef test_it(): os._exit(0)", False),
        ("import os\ndef test_it(): os._exit(0)", True),
        ("import nothing_of_that_name", True),
        ("", False),
        ("", True),
        ("def test_it(): raise KeyboardInterrupt", True),
        ("import pytest\ndef test_it(): pytest.exit('done', returncode=0)", False),
    ],
)
def test_a_suite_fails_unless_each_test_passes_in_the_end(project: Path, body: str, workers: bool) -> None:
    assert run(project, body, *(("-n", "1") if workers else ()))[0] == 1
    assert not (project / "unreliable.md").exists()


def test_a_crashed_worker_is_a_failed_test_and_loses_no_other(project: Path) -> None:
    status, stage = run(project, ONCE.replace("assert ran", "import os\n    ran or os._exit(3)"), "-n", "1")
    assert (status, stage) == (0, Stage(("test_it.py::test_once",)))


def test_tests_that_run_alone_run_in_the_second_session_however_they_are_marked(project: Path) -> None:
    (project / "marks.py").write_text("import pytest\ntimed = pytest.mark.alone\n")
    (project / "conftest.py").write_text(
        "import pytest\ndef pytest_collection_modifyitems(items):\n"
        " [item.add_marker('alone') for item in items if item.name == 'test_by_conftest']\n"
    )
    (project / "test_it.py").write_text(
        "import pytest\nfrom marks import timed\n@timed\ndef test_by_import(): pass\ndef test_beside(): pass\n"
        "@timed\n@pytest.mark.trial\ndef test_trial(): pass\n"
    )
    (project / "test_other.py").write_text("def test_by_conftest(): pass\n")
    (project / "test_more.py").write_text("def test_more(): pass\n")
    beside, passed = suite.run_beside("2", project)
    assert passed == {"test_it.py::test_beside", "test_more.py::test_more"}
    assert beside == Stage(alone=("test_it.py", "test_other.py"))
    assert suite.run_alone(beside, project)[1] == {"test_it.py::test_by_import", "test_other.py::test_by_conftest"}


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_suite_past_its_time_limit_fails_and_names_the_running_test(
    project: Path, workers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "UNTIL", 0.0)
    status, stage = run(project, "import time\ndef test_it():\n  while True: time.sleep(1)", *workers)
    assert status == 1
    assert stage.fatal
    assert "The time limit of the suite has passed. Running:\n  test_it.py::test_it\n" in capfd.readouterr().out


def test_many_failures_are_not_run_again(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    failed = Stage(tuple(f"test_it.py::test_{number}" for number in range(suite.MANY + 1)))
    assert suite.conclude([failed], Stage(), project / "unreliable.md", project) == 1
    assert "too many to run again" in capfd.readouterr().out


def test_the_third_entry_asks_for_a_repair(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for entry in (1, 2, 3):
        (project / "ran").unlink(missing_ok=True)
        assert run(project, ONCE)[0] == 0
        out = capfd.readouterr().out
        assert f"Entry {entry} " in out
        assert ("fix or delete this test before other work" in out) == (entry == 3)


def write_crate(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "Cargo.toml").write_text('[package]\nname = "it"\nedition = "2024"\n[workspace]\n')
    (project / "src").mkdir()
    (project / "src" / "lib.rs").write_text(CRATE)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(project / "target"))


def test_rust_tests_are_run_again_by_name(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """All cases of one crate in one test, so that it is compiled once."""
    write_crate(project, monkeypatch)
    makefile = "test-rust:\n\t@cargo test --offline $(ARGUMENTS)\nlint-rust:\n"
    (project / "Makefile").write_text(makefile)
    results = {}
    for case in ("none", "once", "never", "crash"):
        (project / "ran").unlink(missing_ok=True)
        monkeypatch.setenv("CASE", case)
        stage = suite.run_cargo(project)
        results[case] = suite.conclude([], stage, project / "unreliable.md", project), stage.failed, bool(stage.fatal)
    assert results == {
        "none": (0, (), False),
        "once": (0, ("tests::once",), False),
        "never": (1, ("tests::never",), False),
        "crash": (1, (), True),
    }
    assert "`tests::once`" in (project / "unreliable.md").read_text()
    (project / "Makefile").write_text(f"{makefile}\tfalse\n")
    monkeypatch.setenv("CASE", "none")
    assert suite.run_rust(project) == Stage(fatal="make lint-rust failed")
    (project / "Makefile").write_text(makefile)
    assert suite.run_rust(project) == Stage()
    (project / "src" / "lib.rs").write_text("fn")
    assert suite.run_cargo(project).fatal
    (project / "src" / "lib.rs").write_text("")
    assert suite.run_cargo(project).fatal == "cargo test ran no tests"
    (project / "src" / "lib.rs").write_text(CRATE)
    monkeypatch.setattr(suite, "UNTIL", 0.0)
    assert suite.run_cargo(project).fatal
    assert "The time limit of the suite has passed. Killed: make --silent test-rust" in capfd.readouterr().out


def test_rust_lints_compile_the_tests_and_deny_what_clippy_finds(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if subprocess.run(["cargo", "clippy", "--version"], capture_output=True, check=False).returncode:
        pytest.skip("clippy is not installed")
    write_crate(project, monkeypatch)
    source = project / "src" / "lib.rs"
    subprocess.run(["rustfmt", "--edition", "2024", source], check=False)
    subprocess.run(["cargo", "generate-lockfile", "--offline"], cwd=project, check=True)
    (project / "Makefile").symlink_to(suite.ROOT / "Makefile")
    assert suite.run_rust(project) == Stage()
    assert "Compiling" not in capfd.readouterr().out
    source.write_text(
        f"//! One lint of clippy.\n\npub fn size(all: &Vec<u8>) -> usize {{\n    all.len()\n}}\n{source.read_text()}"
    )
    assert suite.run_lints("lint-rust", project).fatal
    assert "clippy::ptr_arg" in capfd.readouterr().out.replace("-", "_")


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("store", ["test_node"]),
        ("check", ["test_unit"]),
        ("store or check or slow", ["test_node", "test_slow", "test_unit"]),
    ],
)
def test_tests_of_real_nodes_are_marked_by_their_fixtures_and_come_first(
    project: Path, marks: str, expected: list[str]
) -> None:
    unit, real = project / "test_unit.py", project / "test_real.py"
    unit.write_text("import pytest\n@pytest.mark.slow\ndef test_slow(): pass\ndef test_unit(): pass\n")
    real.write_text("def test_node(shared_node): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "--rootdir", suite.ROOT, "--collect-only", "-m", marks]
    paths = {"PYTHONPATH": f"{suite.ROOT / 'tests'}:{suite.ROOT}"}
    done = subprocess.run(
        [*command, unit, real], cwd=project, env=os.environ | paths, capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    assert [line.rsplit("::", 1)[-1] for line in lines] == expected


def test_commands_of_make_keep_compiled_python_modules() -> None:
    command = ["make", "--silent", "--eval", "show: ; @echo value=$$PYTHONDONTWRITEBYTECODE", "show"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=suite.ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "value=\n"
