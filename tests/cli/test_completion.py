"""Shell completion: candidates by the protocol of each shell, without slow imports."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import LOADFRAME
from loadframe.cli import completion
from loadframe.cli.app import SUMMARIES
from loadframe.store import stores
from loadframe.workload.workload import library_names

#: Loads the script that users install, calls its function as bash does on TAB, and prints the candidates.
ON_TAB = """\
source <(loadframe --show-completion)
function=$(complete -p loadframe | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
$function loadframe "${COMP_WORDS[$COMP_CWORD]}" "${COMP_WORDS[$COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
#: Modules that take long to import.
SLOW = ("httpx", "jgo", "jinja2", "numpy", "pyarrow", "pydantic", "requests", "scipy", "yaml", "loadframe._engine")


@pytest.fixture
def tab(tmp_path, monkeypatch, state):
    """Complete the last of some words in bash, in a folder with a workload file and a state with two clusters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{LOADFRAME.parent}{os.pathsep}{os.environ['PATH']}")
    Path("mine.yaml").touch()
    for name in ("nightly", "notes"):
        Path(name).mkdir()
    Path("nightly", "gates.jsonl").touch()
    for name, nodes in (("trial", 2), ("other", 1)):
        for number in range(nodes):
            (state / "clusters" / name / f"node-{number}").mkdir(parents=True)
        (state / "clusters" / name / "cluster.json").write_text(json.dumps({"runs_on": None}))

    def tab(*words: str) -> list[str]:
        command = ["bash", "--norc", "-c", ON_TAB, "bash", "loadframe", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    return tab


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (("",), list(SUMMARIES)),
        (("wo",), ["workloads"]),
        (("cluster", "gr"), ["grow"]),
        (("bench", "nyc"), ["nyc_taxis"]),
        (("bench", "mi"), ["mine.yaml"]),
        (("history", ""), ["nightly"]),
        (("history", "./ni"), ["./nightly"]),
        (("bench", "nyc_taxis", "--store", "e"), ["elasticsearch"]),
        (("bench", "nyc_taxis", "--cluster", ""), ["other", "trial"]),
        (("bench", "nyc_taxis", "--arr"), ["--arrivals"]),
        (("cluster", "down", "t"), ["trial"]),
        (("watch", "o"), ["other"]),
        (("cluster", "kill", "trial", ""), ["node-0", "node-1"]),
        (("run", ""), []),
    ],
    ids=" ".join,
)
def test_bash_completes(tab, words, candidates):
    assert tab(*words) == candidates


def test_workloads_and_stores_are_all_candidates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert completion.workloads("") == library_names()
    assert completion.stores("") == list(stores())


@pytest.mark.parametrize(
    "words",
    ["loadframe ", "loadframe bench n", "loadframe bench x --store ", "loadframe cluster down ", "loadframe watch t"],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_imports_nothing_slow(state, words, shell):
    program = f"""
import sys
from loadframe.cli import main
sys.argv = ["loadframe"]
try:
    main()
except SystemExit:
    pass
print("imported:", *(name for name in {SLOW!r} if name in sys.modules), file=sys.stderr)
"""
    protocol = {
        "_LOADFRAME_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | protocol,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert done.stderr == "imported:\n"
    if words in ("loadframe ", "loadframe bench n"):
        assert "demo" in done.stdout or "nyc_taxis" in done.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_other_shells_is_valid(shell, tmp_path):
    protocol = {"_LOADFRAME_COMPLETE": f"source_{shell}"}
    done = subprocess.run(
        [LOADFRAME], env=os.environ | protocol, capture_output=True, text=True, timeout=240, check=True
    )
    assert "_LOADFRAME_COMPLETE=complete_" in done.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; its script was generated")
    script = tmp_path / "script"
    script.write_text(done.stdout)
    subprocess.run([shell, "-n", script], timeout=240, check=True)
