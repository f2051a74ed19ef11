"""Modules that commands import: help and refusals import no library that takes long to import."""

import subprocess
import sys

import pytest

from loadframe.cli.app import SUMMARIES

#: Libraries for numbers, tables, pages, downloads and stores.
HEAVY = (
    *("numpy", "pyarrow", "scipy", "pandas", "polars", "h5py", "jinja2", "vl_convert", "httpx", "requests", "jgo"),
    *("pymongo", "pg8000", "psutil", "rich.progress"),
)
#: Files are read with these.
FILES = ("pydantic", "yaml")
#: A refused file needs neither the engine nor nodes nor analyses.
ENGINE = ("loadframe._engine", "loadframe.load", "loadframe.cluster", "loadframe.analyze", "loadframe.record")

WORKLOAD = """\
workload: small
collections: {trips: {}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 2000}}
operations:
  fill: {bulk: {collection: trips, corpus: trips, size: 1000}}
  look: {search: {collection: trips, body: {query: {match_all: {}}}}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 1, until: exhausted}
  - {name: look, operation: look, clients: 1, requests: 5}
"""
EXPERIMENT = """\
experiment: small
kind: KIND
workload: w.yaml
store: {kind: sim}
"""
_PROGRAM = """\
import sys
from loadframe.cli import main
sys.argv = ["loadframe", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    print("\\nended:", end.code, *sys.modules)
"""


def run(folder, *words):
    """Run a command; return its exit code, the modules that it has imported, and its messages."""
    command = [sys.executable, "-c", _PROGRAM, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=True)
    code, *modules = done.stdout.splitlines()[-1].removeprefix("ended: ").split()
    return int(code), set(modules), done.stderr


@pytest.mark.parametrize("words", [["--version"], ["--help"], *([name, "--help"] for name in SUMMARIES)], ids=" ".join)
def test_help_imports_no_heavy_library(tmp_path, words):
    code, modules, messages = run(tmp_path, *words)
    assert (code, messages) == (0, "")
    assert not modules & {*HEAVY, *FILES, "loadframe._engine"}


@pytest.mark.parametrize(
    "words",
    [["check", "w.yaml"], ["check", "w.yaml", "--offline"], ["bench", "w.yaml"]],
    ids=" ".join,
)
def test_a_refused_workload_imports_neither_heavy_libraries_nor_the_engine(tmp_path, words):
    (tmp_path / "w.yaml").write_text(WORKLOAD.replace("search:", "serch:"))
    code, modules, messages = run(tmp_path, *words)
    assert code == 2
    assert "w.yaml:6:10: unknown key 'serch'" in messages
    assert not modules & {*HEAVY, *ENGINE}


def test_a_check_without_a_store_imports_the_engine_and_no_heavy_library(tmp_path):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    code, modules, messages = run(tmp_path, "check", "w.yaml", "--offline", "--json")
    assert (code, messages) == (0, "")
    assert "loadframe._engine" in modules
    assert not modules & ({*HEAVY, "loadframe.cluster", "loadframe.analyze"} - {"rich.progress"})


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize("kind", ["scale", "compare", "settings"])
def test_a_refused_experiment_imports_no_heavy_library(tmp_path, command, kind):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    (tmp_path / "e.yaml").write_text(f"{EXPERIMENT.replace('KIND', kind)}sed: 1\n")
    code, modules, messages = run(tmp_path, command, "e.yaml")
    assert code == 2
    assert "e.yaml:5:1: unknown key 'sed'" in messages
    assert not modules & {*HEAVY}
