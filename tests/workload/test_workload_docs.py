"""The reference pages of workload files: every example loads, and hand-written tables match the code."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadframe import _engine
from loadframe.workload import load_workload
from loadframe.workload.forms import NATIVE, NEUTRAL

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("index", "collections", "values", "operations", "journeys", "phases")
PAGES = {name: (DOCS / "reference" / "workload-file" / f"{name}.md").read_text() for name in NAMES}
EXAMPLES = {name: re.findall(r"```yaml[^\n]*\n(.*?)```", text, re.DOTALL) for name, text in PAGES.items()}
WHOLE = EXAMPLES["index"].pop(0)
PARTS = [(name, part) for name, parts in EXAMPLES.items() for part in parts]
VARIABLES, OPERATIONS = EXAMPLES["values"][0], EXAMPLES["operations"][0]


class Loader(yaml.SafeLoader):
    """A loader that reads `on` as text, as YAML 1.2 and Loadframe do."""


Loader.yaml_implicit_resolvers = {
    first: [entry for entry in entries if first in "tTfF" or entry[0] != "tag:yaml.org,2002:bool"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def completed(part: str) -> str:
    """Return a whole workload in which the sections of an example replace the defaults."""
    sections: dict[str, Any] = yaml.safe_load(WHOLE)
    sections["variables"] |= yaml.safe_load(VARIABLES)["variables"]
    sections["operations"] |= yaml.safe_load(OPERATIONS)["operations"]
    for name, content in yaml.load(part, Loader).items():
        sections[name] = content if isinstance(content, list) else sections.get(name, {}) | content
    return yaml.safe_dump(sections, sort_keys=False)


def test_every_page_has_examples():
    assert all(EXAMPLES.values())


@pytest.mark.parametrize(("name", "part"), [("index", ""), *PARTS])
def test_every_example_is_a_workload(tmp_path, name, part):
    path = tmp_path / "w.yaml"
    path.write_text(completed(part) if part else WHOLE)
    for vectors in ("sift_base.fvecs", "sift_query.fvecs", "sift_groundtruth.ivecs"):
        (tmp_path / vectors).write_bytes(struct.pack("<ii", 1, 0))
    resolved = load_workload(str(path)).for_family("elasticsearch", 2)
    assert resolved.phases


@pytest.mark.parametrize("kind", [kind for kind in (*NEUTRAL, *NATIVE["elasticsearch"]) if kind != "sql"])
def test_every_operation_is_documented(kind):
    assert f"| `{kind}` | " in PAGES["operations"]


@pytest.mark.slow
def test_the_engine_takes_every_variable_that_is_shown(tmp_path):
    variables = yaml.safe_load(VARIABLES)["variables"]
    sections = yaml.safe_load(completed(VARIABLES))
    holes = {name: f"${{{name}}}" for name in variables}
    sections["operations"] = {"all": {"index": {"collection": "trips", "document": holes}}}
    sections["phases"] = [{"name": "all", "operation": "all", "clients": 1, "requests": 1}]
    path = tmp_path / "w.yaml"
    path.write_text(yaml.safe_dump(sections, sort_keys=False))
    phase = load_workload(str(path)).for_family("elasticsearch", 2).phase("all")
    assert phase.variables.keys() >= variables.keys()
    _engine.validate(json.dumps(phase.plan(seed=1, hosts=["127.0.0.1:9200"], driver="search")))
