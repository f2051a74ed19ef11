"""JSON Schemas of file models, with a description of every key from a `keys.toml` file.

A `keys.toml` has a section per model, and a section `shared` for keys that mean the same in several models.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from loadframe.base.errors import LoadframeError
from loadframe.yamlfile import did_you_mean

#: Descriptions by model and key.
Keys = Mapping[str, Mapping[str, str]]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SHARED = "shared"
#: Keywords that Pydantic leaves beside a quantity, and those of JSON Schema.
_BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}


def read_keys(*paths: Path) -> dict[str, dict[str, str]]:
    """Return the descriptions of some files; a later file overrides an earlier one."""
    merged: dict[str, dict[str, str]] = {}
    for path in paths:
        for model, keys in tomllib.loads(path.read_text()).items():
            merged[model] = merged.get(model, {}) | keys
    return merged


def tidied(part: Any) -> Any:
    """Return a subschema in standard keywords, without titles and discriminators.

    `oneOf` becomes `anyOf`, because a text may be both a quantity and an expression.
    """
    if isinstance(part, list):
        return [tidied(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    # Under `properties` and `$defs`, keys are names: a field `title` is not the keyword.
    neat = {
        key: {name: tidied(entry) for name, entry in value.items()} if key in ("properties", "$defs") else tidied(value)
        for key, value in part.items()
        if key not in (*_BOUNDS, "discriminator") and not (key == "title" and isinstance(value, str))
    }
    if "oneOf" in neat:
        neat["anyOf"] = neat.pop("oneOf")
    return neat | {keyword: part[name] for name, keyword in _BOUNDS.items() if name in part}


def described(models: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
    """Return model schemas, by name, with a description of each key; LoadframeError if one is missing.

    A key without a text has the first line of the description of its value's model.
    """
    return {name: _with_descriptions(name, models, keys) for name in models}


def _with_descriptions(name: str, models: Mapping[str, Any], keys: Keys) -> Any:
    model = models[name]
    if "properties" not in model:
        return model
    referred = {key: _first_line(entry, models) for key, entry in model["properties"].items()}
    texts = {**{key: text for key, text in referred.items() if text}, **keys.get(_SHARED, {}), **keys.get(name, {})}
    missing = sorted(model["properties"].keys() - texts.keys())
    if missing:
        raise LoadframeError(f"keys.toml does not describe {', '.join(f'{name}.{key}' for key in missing)}")
    entries = {key: {"description": texts[key], **_plain(entry)} for key, entry in model["properties"].items()}
    return {**model, "properties": entries}


def _first_line(entry: Mapping[str, Any], models: Mapping[str, Any]) -> str:
    """Return the first line of the description of the model that an entry refers to; empty if it refers to none."""
    branches = [entry, *entry.get("anyOf", ())]
    names = [branch["$ref"].rpartition("/")[2] for branch in branches if "$ref" in branch]
    return str(models[names[0]].get("description", "")).splitlines()[0] if len(names) == 1 else ""


def _plain(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "description"}


def unused(models: Mapping[str, Any], keys: Keys) -> list[str]:
    """Return the descriptions that belong to no key of these models, as MODEL.KEY."""
    known = {name: set(model.get("properties", ())) for name, model in models.items()}
    everywhere = set().union(*known.values())
    return sorted(
        f"{section}.{key}"
        for section, texts in keys.items()
        for key in texts
        if key not in (everywhere if section == _SHARED else known.get(section, ()))
    )


def page(schema: Mapping[str, Any]) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def require_known(name: str, known: Iterable[str]) -> None:
    """Refuse an unknown name; LoadframeError with the most similar one."""
    names = list(known)
    if name not in names:
        raise LoadframeError(f"unknown model {name!r}", remedy=did_you_mean(name, names))
