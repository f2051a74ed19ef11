"""The JSON Schema of experiment files, for editors; published as docs/reference/experiment.schema.json.

`kind` selects the model. `load_experiment` also checks names of phases, factors and parameters, which a schema cannot
express.
"""

from pathlib import Path
from typing import Any

from docs.generate import workload_file
from docs.generate.json_schema import DIALECT, described, read_keys, tidied

from loadframe.experiment import file, kinds
from loadframe.experiment.file.model import ExperimentFile

#: Descriptions of the keys.
KEYS = Path(file.__file__).with_name("keys.toml")
#: Name of the model with the keys of all kinds.
COMMON = ExperimentFile.__name__


def descriptions() -> dict[str, dict[str, str]]:
    """Return the descriptions of keys by model; automatic lengths share theirs with workload files."""
    return {**read_keys(workload_file.KEYS), **read_keys(KEYS)}


def models() -> dict[str, Any]:
    """Return the schemas of all models of an experiment file by name, without descriptions."""
    schemas: dict[str, Any] = {}
    for kind in kinds.names():
        model = kinds.find(kind).model
        schema = tidied(model.model_json_schema(by_alias=True))
        schemas |= schema.pop("$defs")
        schema["properties"]["kind"] = {"const": kind}
        schemas[model.__name__] = schema
    return schemas


def common() -> dict[str, Any]:
    """Return the schema of the keys that all kinds share, without its definitions."""
    schema = tidied(ExperimentFile.model_json_schema(by_alias=True))
    properties = {**schema["properties"], "kind": {"enum": kinds.names()}}
    return {key: value for key, value in schema.items() if key != "$defs"} | {"properties": properties}


def schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12)."""
    keys = descriptions()
    head = {"$schema": DIALECT, "title": "Loadframe experiment", "type": "object", "required": ["kind"]}
    cases = [
        {
            "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
            "then": {"$ref": f"#/$defs/{kinds.find(kind).model.__name__}"},
        }
        for kind in kinds.names()
    ]
    kind = {"description": keys["shared"]["kind"], "enum": kinds.names()}
    return {**head, "properties": {"kind": kind}, "allOf": cases, "$defs": described(models(), keys)}
