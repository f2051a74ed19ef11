"""The JSON Schema of workload files, for editors; `python -m loadframe.workload.jsonschema` prints it.

Derived from the models; allows a placeholder `${name}` for every scalar. `load_workload` checks references between
parts of a file, which a schema cannot express.
"""

import json
import sys
from typing import Any

from loadframe.workload.model import WorkloadFile

_HOLE = {"$ref": "#/$defs/Hole"}
_SINGLE = ("integer", "number", "boolean")


def schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12)."""
    model = _with_holes(WorkloadFile.model_json_schema(by_alias=True))
    hole = {
        "type": "string",
        "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}",
        "description": "The value of a parameter or, in operations, of a variable: ${name}",
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Loadframe workload"}
    return {
        **head,
        **{key: value for key, value in model.items() if key != "title"},
        "$defs": model["$defs"] | {"Hole": hole},
    }


def page() -> str:
    """Return the schema as JSON text."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _with_holes(part: Any) -> Any:
    """Return a subschema that also accepts a placeholder for each number, boolean, enum and constant."""
    if isinstance(part, list):
        return [_with_holes(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    # Under `properties`, keys are field names: a field `title` is not the keyword.
    filled = {
        key: {name: _with_holes(entry) for name, entry in value.items()}
        if key in ("properties", "$defs")
        else _with_holes(value)
        for key, value in part.items()
        if key not in ("gt", "discriminator") and not (key == "title" and isinstance(value, str))
    }
    if "oneOf" in filled:  # a placeholder matches several branches
        filled["anyOf"] = filled.pop("oneOf")
    if part.get("type") in _SINGLE or "enum" in part or "const" in part:
        annotations = {key: filled.pop(key) for key in ("default", "description") if key in filled}
        return {**annotations, "anyOf": [filled, _HOLE]}
    return filled


if __name__ == "__main__":
    sys.stdout.write(page())
