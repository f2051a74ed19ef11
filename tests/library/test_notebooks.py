"""The notebooks of examples/ run from the first cell to the last, and show their plots and answers."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from commands import open_folder

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"
#: A word in the last printed answer, and the number of plots.
SHOWN = {
    "adbids.ipynb": ("events/s indexed", 0),
    "compare-releases.ipynb": ("search throughput", 0),
    "elasticity-paper.ipynb": ("nodes, simulated", 1),
    "mpi-benchmarker.ipynb": ("12 ranks: wall", 1),
    "selfcare.ipynb": ("8 users, activity: mean", 0),
    "sharded-mongodb.ipynb": ("3 shards: published 1.38", 1),
    "size-a-cluster.ipynb": ("250/s", 1),
    "slow-tail.ipynb": ("calm seconds", 2),
}

#: The others take a minute each.
SHORT = {"adbids.ipynb", "sharded-mongodb.ipynb", "slow-tail.ipynb"}


def test_every_notebook_is_listed_and_holds_no_output():
    assert {path.name for path in NOTEBOOKS.glob("*.ipynb")} == set(SHOWN)
    for name in SHOWN:
        cells = nbformat.read(NOTEBOOKS / name, as_version=4).cells
        assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")], name


#: A cell that measures with a display of progress.
MEASURE = """\
import loadframe
workload = loadframe.Workload(
    workload="w",
    collections={"items": {}},
    operations={"search": {"search": {"collection": "items", "size": 1}}},
    phases=[{"name": "search", "operation": "search", "clients": 2, "duration": "3s"}],
)
loadframe.bench(workload, store="sim", output="run", progress=loadframe.NotebookProgress()).status
"""


@pytest.mark.store
def test_progress_is_one_output_that_is_updated_in_place(monkeypatch):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(MEASURE)])
    with open_folder("notebook") as folder:
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        NotebookClient(
            notebook, timeout=500, startup_timeout=300, resources={"metadata": {"path": str(folder)}}
        ).execute()
    *others, status = notebook.cells[0].outputs
    assert [output["output_type"] for output in others] == ["display_data"]
    page = others[0]["data"]["text/html"]
    assert "phase search" in page
    assert " requests/s" in page
    assert status["data"]["text/plain"] == "'done'"


@pytest.mark.store
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in SHORT else [pytest.mark.trial]) for name in sorted(SHOWN)]
)
def test_the_notebook_runs(name, monkeypatch):
    words, plots = SHOWN[name]
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    with open_folder("notebook") as folder:
        monkeypatch.setenv("LOADFRAME_STATE", str(folder / "state"))
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        NotebookClient(
            notebook, timeout=500, startup_timeout=300, resources={"metadata": {"path": str(folder)}}
        ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    texts = [output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs]
    assert any(words in text for text in texts), texts
    # Text that rich displays itself would be a separate output.
    assert len([output for output in outputs if output["output_type"] == "display_data"]) == 0
    pages = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert sum("<svg" in page and "<iframe" not in page for page in pages) == plots
