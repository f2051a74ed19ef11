"""The documentation of the workload language: every example loads, and its tables match the code."""

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import yaml

from loadframe import _engine
from loadframe.workload import load_workload
from loadframe.workload.collections import DEFINITIONS
from loadframe.workload.forms import NATIVE, NEUTRAL
from loadframe.workload.phases import Phase
from loadframe.workload.variables import Variable

DOCS = Path(__file__).parents[2] / "docs"
LANGUAGE = (DOCS / "workloads.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", LANGUAGE, re.DOTALL)
WHOLE, *PARTS = EXAMPLES


def completed(part: str) -> str:
    """Return a whole workload in which the sections of an example replace the defaults."""
    sections: dict[str, Any] = yaml.safe_load(WHOLE)
    variables = next(yaml.safe_load(part) for part in PARTS if part.startswith("variables:"))
    operations = next(yaml.safe_load(part) for part in PARTS if part.startswith("operations:"))
    sections["variables"] |= variables["variables"]
    sections["operations"] |= operations["operations"]
    for name, content in yaml.safe_load(part).items():
        sections[name] = content if isinstance(content, list) else sections.get(name, {}) | content
    return yaml.safe_dump(sections, sort_keys=False)


def test_the_language_is_shown_by_examples():
    assert len(PARTS) >= 7


@pytest.mark.parametrize("text", [WHOLE, *(completed(part) for part in PARTS)])
def test_every_example_is_a_workload(tmp_path, text):
    path = tmp_path / "w.yaml"
    path.write_text(text)
    for name in ("sift_base.fvecs", "sift_query.fvecs", "sift_groundtruth.ivecs"):
        (tmp_path / name).write_bytes(struct.pack("<ii", 1, 0))
    resolved = load_workload(str(path)).for_family("elasticsearch", 2)
    assert resolved.phases


def test_every_operation_and_every_key_of_a_phase_is_documented():
    for kind in (*NEUTRAL, *NATIVE["elasticsearch"]):
        assert f"| `{kind}` |" in LANGUAGE
    for key in Phase.model_fields.keys() - {"name"}:
        assert re.search(rf"^\| .*`{key}[`:].* \|", LANGUAGE, re.MULTILINE)


def test_definitions_of_collections_are_documented():
    for family, model in DEFINITIONS.items():
        (row,) = re.findall(rf"^\| `{family}` \| .*`.* \|$", LANGUAGE, re.MULTILINE)
        for name, field in model.model_fields.items():
            assert f"`{field.alias or name}" in row


def test_every_way_to_draw_a_value_is_documented():
    section = LANGUAGE.split("## Variables")[1].split("## Operations")[0]
    for kind in Variable.model_fields:
        assert f"{{{kind}:" in section or f"`{kind}`" in section or f"`{kind}: " in section, kind


def test_the_engine_takes_every_variable_that_is_shown(tmp_path):
    part = next(part for part in PARTS if part.startswith("variables:"))
    variables = yaml.safe_load(part)["variables"]
    sections = yaml.safe_load(completed(part))
    holes = {name: f"${{{name}}}" for name in variables}
    sections["operations"] = {"all": {"index": {"collection": "trips", "document": holes}}}
    sections["phases"] = [{"name": "all", "operation": "all", "clients": 1, "requests": 1}]
    path = tmp_path / "w.yaml"
    path.write_text(yaml.safe_dump(sections, sort_keys=False))
    phase = load_workload(str(path)).for_family("elasticsearch", 2).phase("all")
    assert phase.variables.keys() >= variables.keys()
    _engine.validate(json.dumps(phase.plan(seed=1, hosts=["127.0.0.1:9200"], driver="search")))
