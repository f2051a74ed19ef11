"""The JSON Schema of workload files, for editors, which `python -m loadframe.workload.jsonschema` prints.

It is made from the model, and allows a hole, `${name}`, wherever a single value may stand. It cannot check references
between the parts of a file; `load_workload` does.
"""

import json
import sys
from typing import Any

from loadframe.workload.model import WorkloadFile

_HOLE = {"$ref": "#/$defs/Hole"}
_SINGLE = ("integer", "number", "boolean")


def schema() -> dict[str, Any]:
    """Return the schema, of the draft 2020-12."""
    model = _with_holes(WorkloadFile.model_json_schema(by_alias=True))
    hole = {
        "type": "string",
        "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}",
        "description": "A parameter's value or, in operations, a variable's: ${name}",
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A workload of Loadframe"}
    return {
        **head,
        **{key: value for key, value in model.items() if key != "title"},
        "$defs": model["$defs"] | {"Hole": hole},
    }


def page() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _with_holes(part: Any) -> Any:
    """Return a part of a schema in which a hole may take the place of each value that is not a text anyway."""
    if isinstance(part, list):
        return [_with_holes(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    # The keys of `properties` are names from the model; `type` and `title` are not keywords there.
    filled = {
        key: {name: _with_holes(entry) for name, entry in value.items()}
        if key in ("properties", "$defs")
        else _with_holes(value)
        for key, value in part.items()
        if key not in ("gt", "discriminator") and not (key == "title" and isinstance(value, str))
    }
    if "oneOf" in filled:  # a hole fits more than one branch
        filled["anyOf"] = filled.pop("oneOf")
    if part.get("type") in _SINGLE or "enum" in part or "const" in part:
        beside = {key: filled.pop(key) for key in ("default", "description") if key in filled}
        return {**beside, "anyOf": [filled, _HOLE]}
    return filled


if __name__ == "__main__":
    sys.stdout.write(page())
