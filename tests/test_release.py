"""The release: versions that agree, the source archive, the container file, and the steps of the CI templates."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import audit

import loadframe
from loadframe.record.gate_log import read_gate_log
from other_tools import Tool
from simulated import Truth, write_run

TOP = Path(__file__).parent.parent
DOCS = TOP / "docs" / "how-to" / "gate-in-ci.md"


def twine() -> str:
    """The requirement of the twine that `make dist` uses."""
    (pin,) = re.findall(r"^(twine==[\d.]+)", (TOP / "requirements-dist.lock").read_text(), re.MULTILINE)
    return pin


def test_every_file_names_the_same_version():
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]["version"]
    workspace = tomllib.loads((TOP / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    packages = tomllib.loads((TOP / "Cargo.lock").read_text())["package"]
    locked = {entry["version"] for entry in packages if entry["name"].startswith("loadframe-")}
    assert {project, workspace, loadframe.__version__} | locked == {project}
    released = re.findall(r"^## \[([\d.]+)\]", (TOP / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == project
    pages = [path.read_text() for path in (TOP / "docs").rglob("*.md")]
    assert {version for page in pages for version in re.findall(r"loadframe[-@]v?(\d+\.\d+\.\d+)", page)} == {project}


@pytest.mark.slow
def test_the_source_archive_is_complete_and_passes_twine(tmp_path):
    programs = Path(sys.executable).parent
    subprocess.run([programs / "maturin", "sdist", "--out", tmp_path], cwd=TOP, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as members:
        names = {name.partition("/")[2] for name in members.getnames()}
    tracked = subprocess.run(
        ["git", "ls-files", "crates/*/src", "python"], cwd=TOP, check=True, capture_output=True, text=True
    ).stdout.split()
    assert {"Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "PKG-INFO", *tracked} <= names
    Tool(tmp_path / "twine", twine()).run("twine", "check", "--strict", archive)


def test_the_container_file_copies_what_the_build_needs():
    text = (TOP / "Containerfile").read_text()
    copied = [path for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for path in line.split()]
    assert all((TOP / path).exists() for path in copied)
    manifests = {"Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "crates", "python"}
    assert manifests <= set(copied)


def test_the_audit_lists_vulnerabilities_and_says_what_it_did_not_check(capsys):
    report = {"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1"}]}]}
    show = [sys.executable, "-c", "import sys; print(sys.argv[1])"]
    assert audit.audit("a.lock", [*show, json.dumps(report)], audit.python_findings) == ["a 1: PYSEC-1"]
    unknown = {"dependencies": [{"name": "b", "skip_reason": "b is not in the database"}]}
    for command in ([*show, json.dumps(unknown)], [*show, "no JSON"], ["/no/such/program"]):
        capsys.readouterr()
        assert audit.audit("b.lock", command, audit.python_findings) == []
        assert "b.lock: not checked: " in capsys.readouterr().out


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project with recorded runs of three versions."""
    root = tmp_path_factory.mktemp("project")
    for seed, (name, lam, runs) in enumerate([("old", 100, 6), ("same", 100, 6), ("slow", 80, 6), ("alone", 100, 1)]):
        for number in range(runs):
            write_run(root / "results" / name, f"r{number}", Truth(lam=lam, seconds=12), seed=100 * seed + number)
    return root


def arguments(new: str) -> str:
    baseline = "results/old/r0" if new == "alone" else "results/old"
    return f"results/{new} --baseline {baseline} --bound 'p99<=10s'"


OUTCOMES = pytest.mark.parametrize(("new", "gated"), [("same", 0), ("slow", 1), ("alone", 3), ("missing", 2)])


def run_step(script: str, folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step as the shell of a runner does, with the `loadframe` of these tests."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    environment = {**os.environ, **variables, "PATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def action_steps(project: Path, given: dict[str, str], temporary: Path) -> list[subprocess.CompletedProcess[str]]:
    """Run the action's steps in order, without those with a false condition; stop after a failure."""
    action = yaml.safe_load((TOP / "action.yml").read_text())
    inputs = {name: given.get(name, entry.get("default")) for name, entry in action["inputs"].items()}
    assert None not in inputs.values()
    runner = {name: str(temporary / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    ended = []
    for step in action["runs"]["steps"]:
        condition = re.fullmatch(r"inputs\.(\w+) != ''", step["if"]) if "if" in step else None
        if condition and not inputs[condition[1]]:
            continue
        filled = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: inputs[match[1]], text)
            for name, text in step.get("env", {}).items()
        }
        ended.append(run_step(step["run"], project, {**runner, **filled}))
        if ended[-1].returncode:
            break
    return ended


@pytest.mark.slow
def test_the_action_measures_and_fails_if_asked_to(project, tmp_path):
    given = {"measure": "echo measured > measured", "gate": arguments("alone"), "inconclusive": "fail"}
    *before, gate = action_steps(project, given, tmp_path)
    assert [step.returncode for step in before] == [0]
    assert (project / "measured").read_text() == "measured\n"
    assert gate.returncode == 3, gate.stderr
    assert "::warning::" not in gate.stdout


def test_the_action_stops_if_the_measurement_fails(project, tmp_path):
    steps = action_steps(project, {"measure": "false; true", "gate": arguments("same")}, tmp_path)
    assert [step.returncode for step in steps] == [1]


def gitlab() -> dict[str, Any]:
    job: dict[str, Any] = yaml.safe_load((TOP / "tools" / "ci" / "gate.gitlab-ci.yml").read_text())[".loadframe-gate"]
    return job


@pytest.mark.slow
@OUTCOMES
@pytest.mark.parametrize("template", ["action", "gitlab"])
def test_both_templates_end_as_the_gate_and_record_it(project, tmp_path, monkeypatch, new, gated, template):
    history = tmp_path / "srv" / "history"
    gate = f"{arguments(new)} --record {history}"
    commit = "1f3870be274f6c49b3e31a0c6728957f1f3870be"
    if template == "action":
        monkeypatch.setenv("GITHUB_SHA", commit)
        (step,) = action_steps(project, {"gate": gate, "inconclusive": "warn"}, tmp_path)
        assert step.returncode == (0 if gated == 3 else gated), step.stderr
        assert ("::warning::" in step.stdout) == (gated == 3)
        assert (tmp_path / "github_output").read_text() == f"exit-code={gated}\n"
        summary = tmp_path / "github_step_summary"
        assert ("| check |" in summary.read_text() if summary.exists() else False) == (gated != 2)
    else:
        monkeypatch.delenv("GITHUB_SHA", raising=False)
        monkeypatch.setenv("CI_COMMIT_SHA", commit)
        job = gitlab()
        done = run_step("\n".join(job["script"]), project, {**job["variables"], "MEASURE": "true", "GATE": gate})
        assert done.returncode == gated
        assert job["allow_failure"] == {"exit_codes": 3}
    outcomes = {0: ["passed"], 1: ["regression"], 2: [], 3: ["inconclusive"]}
    log = read_gate_log(history)
    assert [entry.outcome for entry in log.gates] == outcomes[gated]
    for entry in log.gates:
        assert entry.commit == commit
        recorded = sorted(path.name for path in (history / entry.folder).iterdir())
        assert recorded == sorted(path.name for path in (project / "results" / new).iterdir())


def test_the_page_uses_the_action_and_the_template():
    blocks = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    read = [yaml.safe_load(block) for block in blocks]
    (workflow,) = [block for block in read if "jobs" in block]
    (step,) = [step for step in workflow["jobs"]["gate"]["steps"] if "/loadframe@" in step.get("uses", "")]
    assert set(step["with"]) <= set(yaml.safe_load((TOP / "action.yml").read_text())["inputs"])
    (job,) = [block["performance"] for block in read if "performance" in block]
    assert job["extends"] == ".loadframe-gate"
    assert set(job["variables"]) <= set(gitlab()["variables"])
    assert {step["with"]["measure"], job["variables"]["MEASURE"]} == {"sh measure.sh"}
    assert step["with"]["gate"] == job["variables"]["GATE"]
