"""The public interface: its names, their types, their examples, and the cost of importing it."""

import subprocess
import sys

import loadframe

NAMES = {
    "BadInput",
    "Experiment",
    "GeneratorFailed",
    "LoadframeError",
    "NothingUsable",
    "Run",
    "StoreFailed",
    "Table",
    "Times",
    "__version__",
    "open",
}
#: Slow to import; `import loadframe` must not need them.
HEAVY = {"numpy", "scipy", "polars", "pandas", "pyarrow", "pydantic", "httpx", "rich", "typer", "yaml", "jinja2"}


def test_the_public_names_are_these():
    assert set(loadframe.__all__) == NAMES
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
