"""The JSON Schema of workload files, for editors; published as docs/reference/workload.schema.json.

Derived from the models; allows a placeholder `${name}` for every scalar. `load_workload` checks references between
parts of a file, which a schema cannot express.
"""

from pathlib import Path
from typing import Any

from docs.generate.json_schema import DIALECT, described, read_keys, tidied

from loadframe import workload
from loadframe.workload.model import WorkloadFile

#: Descriptions of the keys.
KEYS = Path(workload.__file__).with_name("keys.toml")
_HOLE = {"$ref": "#/$defs/Hole"}
_SINGLE = ("integer", "number", "boolean")
_PREFIX = "loadframe__workload__"


def models() -> dict[str, Any]:
    """Return the schemas of all models of a workload file by name, without descriptions and placeholders."""
    schema = _renamed(tidied(WorkloadFile.model_json_schema(by_alias=True)))
    definitions = {_short(name): model for name, model in schema.pop("$defs").items()}
    return {"WorkloadFile": schema, **definitions}


def schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12)."""
    models_by_name = described(models(), read_keys(KEYS))
    hole = {
        "type": "string",
        "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}",
        "description": "The value of a parameter or, in operations, of a variable: ${name}",
    }
    definitions = _with_holes(models_by_name)
    head = {"$schema": DIALECT, "title": "Loadframe workload"}
    return {**head, **definitions.pop("WorkloadFile"), "$defs": definitions | {"Hole": hole}}


def _short(name: str) -> str:
    """Return a model's name; models with equal names have their module before it: `journeys.Repeat`."""
    return name.removeprefix(_PREFIX).replace("__", ".")


def _renamed(part: Any) -> Any:
    """Return a subschema whose references have short names."""
    if isinstance(part, list):
        return [_renamed(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    at = "#/$defs/"
    return {
        key: at + _short(value.removeprefix(at)) if key == "$ref" and isinstance(value, str) else _renamed(value)
        for key, value in part.items()
    }


def _with_holes(part: Any) -> Any:
    """Return a subschema that also accepts a placeholder for each number, boolean, enum and constant."""
    if isinstance(part, list):
        return [_with_holes(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    filled = {key: _with_holes(value) for key, value in part.items()}
    if part.get("type") in _SINGLE or "enum" in part or "const" in part:
        annotations = {key: filled.pop(key) for key in ("default", "description") if key in filled}
        return {**annotations, "anyOf": [filled, _HOLE]}
    return filled
