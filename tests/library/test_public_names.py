"""The public interface: its names, their types, their examples, and the cost of importing it."""

import doctest
import inspect
import subprocess
import sys

import pytest
from recorded_examples import write_examples

import loadframe
from commands import open_folder

NAMES = {
    *("BadInput", "GeneratorFailed", "LoadframeError", "NotebookProgress", "NothingUsable"),
    *(
        "Calibration",
        "Capacity",
        "Check",
        "Checks",
        "Comparison",
        "Converted",
        "DryRun",
        "Exported",
        "Fit",
        "Gate",
        "History",
        "Outline",
        "Plan",
        "Plot",
        "Progress",
        "Report",
        "Table",
    ),
    *("Imported", "Ingested", "import_mapping", "import_queries", "import_rally", "import_sample", "import_ycsb"),
    *("Cluster", "Experiment", "ExperimentPlots", "Run", "RunPlots", "StoreFailed", "Times", "Workload"),
    *(
        "bench",
        "calibrate",
        "capacity",
        "check",
        "compare",
        "convert",
        "dry_run",
        "fit",
        "gate",
        "history",
        "ingest",
        "open",
        "plan",
        "run",
        "workloads",
    ),
    "__version__",
}
#: Slow to import; `import loadframe` must not need them.
HEAVY = {"numpy", "scipy", "polars", "pandas", "pyarrow", "pydantic", "httpx", "rich", "typer", "yaml", "jinja2"}


def test_the_public_names_are_these():
    assert set(loadframe.__all__) == NAMES
    assert len(loadframe.__all__) == len(NAMES)
    assert set(dir(loadframe)) >= NAMES
    assert all(getattr(loadframe, name) is not None for name in NAMES)


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(loadframe, "opne")


def test_importing_the_package_imports_no_other_module_of_it():
    words = "import sys; before = set(sys.modules); import loadframe; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout.split()
    assert "loadframe" in loaded
    assert not {name for name in loaded if name.startswith("loadframe.")}
    assert not HEAVY & {name.partition(".")[0] for name in loaded}


@pytest.mark.parametrize("name", sorted(NAMES - {"__version__"}))
def test_every_public_member_is_documented(name):
    thing = getattr(loadframe, name)
    members = vars(thing).items() if inspect.isclass(thing) else ()
    public = [value for key, value in members if not key.startswith("_")]
    described = [value for value in public if callable(value) or isinstance(value, property)]
    assert all(inspect.getdoc(value) for value in [thing, *described])


@pytest.fixture(scope="module")
def examples():
    with open_folder("library") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADFRAME_STATE", str(folder / "state"))
        patch.chdir(folder)
        yield {"loadframe": loadframe, "workload": write_examples(folder)}


@pytest.mark.store
@pytest.mark.parametrize("name", sorted(NAMES - {"__version__"}))
def test_the_example_of_each_name_gives_the_shown_result(name, examples):
    found_tests = doctest.DocTestFinder(exclude_empty=True).find(
        getattr(loadframe, name), name, module=False, globs=examples
    )
    assert any(test.examples for test in found_tests), "the name has no example"
    lines: list[str] = []
    failed = [test.name for test in found_tests if doctest.DocTestRunner().run(test, out=lines.append).failed]
    assert not failed, "".join(lines)
