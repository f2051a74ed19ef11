"""The schemas and the tables of keys of the reference.

A page marks a table by comments; the text between them is replaced:

    <!-- keys: MODEL ... -->         keys of models, with values, defaults and descriptions
    <!-- operations: KIND ... -->    operations of a workload, with their keys
    <!-- patterns: grok -->          base patterns of grok, with the fields that they set
    <!-- end -->

Keys after a colon limit the table to these: `<!-- keys: Phase: clients think_time -->`. After `: -`, they are left out.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from docs.generate import experiment_file, workload_file
from docs.generate.json_schema import described, page, read_keys, require_known

from loadframe.yamlfile import QUANTITY

SCHEMAS = {"workload.schema.json": workload_file.schema, "experiment.schema.json": experiment_file.schema}
_BLOCK = re.compile(r"(<!-- (keys|operations|patterns): ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_BASE_PATTERNS = Path(__file__).parents[2] / "crates" / "engine" / "src" / "ingest" / "transform" / "patterns.rs"
_TYPES = {"integer": "integer", "number": "number", "string": "text", "boolean": "boolean", "object": "mapping"}
_HEAD = "| key | value | default | meaning |\n|---|---|---|---|\n"
_SECONDS = (("h", 3600), ("m", 60))
_UNITS = ((1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k"))


def models() -> dict[str, Any]:
    """Return the described models of both kinds of files; `ExperimentFile` has the keys that all kinds share."""
    common = {experiment_file.COMMON: experiment_file.common()}
    special = {name: _without_common(model) for name, model in experiment_file.models().items()}
    of_experiments = described(common | special, experiment_file.descriptions())
    return described(workload_file.models(), read_keys(workload_file.KEYS)) | of_experiments


def written(text: str, known: Mapping[str, Any]) -> str:
    """Return a page with its tables filled in; LoadframeError for an unknown model, operation or key."""

    def filled(block: re.Match[str]) -> str:
        begin, what, names, end = block.groups()
        tables = {"keys": _keys, "operations": _operations, "patterns": lambda *_: _patterns()}
        return begin + "\n" + tables[what](names, known) + "\n" + end

    return _BLOCK.sub(filled, text)


def shown(text: str, known: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the models and keys in the tables of a page."""
    pairs: set[tuple[str, str]] = set()
    for _, what, names, _ in _BLOCK.findall(text):
        if what == "keys":
            pairs |= {(model, key) for model, key in _chosen(names, known)}
        elif what == "operations":
            for kind in names.split():
                pairs.add(("Form", kind))
                pairs |= {(model, key) for model in _request_models(kind, known) for key in known[model]["properties"]}
    return pairs


def _without_common(model: dict[str, Any]) -> dict[str, Any]:
    if "experiment" not in model.get("properties", ()):
        return model
    common = experiment_file.common()["properties"].keys()
    special = {key: entry for key, entry in model["properties"].items() if key not in common}
    return {**model, "properties": special}


def _chosen(names: str, known: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return models and keys of a marker."""
    model_names, _, listed = names.partition(":")
    keys = listed.split()
    for model in model_names.split():
        require_known(model, known)
    pairs = [(model, key) for model in model_names.split() for key in known[model]["properties"]]
    if not keys:
        return pairs
    without = keys[:1] == ["-"]
    for key in keys[without:]:
        require_known(key, [key for _, key in pairs])
    if without:
        return [(model, key) for model, key in pairs if key not in keys]
    return sorted((pair for pair in pairs if pair[1] in keys), key=lambda pair: keys.index(pair[1]))


def _keys(names: str, known: Mapping[str, Any]) -> str:
    """Return a table of keys; keys of several operations have the operation before them: `shrink.to`."""
    rows = []
    chosen = _chosen(names, known)
    several = len({model for model, _ in chosen}) > 1
    kinds = {model: kind for kind in known["Form"]["properties"] for model in _request_models(kind, known)}
    for model, key in chosen:
        entry = known[model]["properties"][key]
        required = key in known[model].get("required", ())
        default = "required" if required else _default(entry)
        name = f"{kinds[model]}.{key}" if several and model in kinds else key
        rows.append(f"| `{name}` | {_value(entry, known)} | {default} | {_cell(entry['description'])} |\n")
    return _HEAD + "".join(dict.fromkeys(rows))


def _operations(names: str, known: Mapping[str, Any]) -> str:
    """Return a table of operations: required keys first, then optional ones."""
    rows = []
    for kind in names.split():
        require_known(kind, known["Form"]["properties"])
        text = known["Form"]["properties"][kind]["description"]
        keys = "; or ".join(_key_list(known[model]) for model in _request_models(kind, known))
        rows.append(f"| `{kind}` | {keys} | {_cell(text)} |\n")
    return "| operation | keys (required **bold**) | effect |\n|---|---|---|\n" + "".join(rows)


def _patterns() -> str:
    """Return a table of the base patterns that set fields, and a list of the others."""
    definitions = dict(re.findall(r'\(\s*"([A-Z0-9_]+)",\s*r#?"(.*)"#?,?\s*\)', _BASE_PATTERNS.read_text()))

    def fields(name: str) -> list[str]:
        """Return the fields of a pattern and of the patterns that it refers to, in order."""
        parts = re.findall(r"%{(\w+)(?::(\w+))?}", definitions[name])
        return [name for part, field in parts for name in ([field] if field else []) + fields(part)]

    rows = {name: ", ".join(f"`{field}`" for field in fields(name)) for name in sorted(definitions)}
    table = "".join(f"| `{name}` | {cell} |\n" for name, cell in rows.items() if cell)
    others = ", ".join(f"`{name}`" for name, cell in rows.items() if not cell)
    return f"| base pattern | fields, all texts |\n|---|---|\n{table}\nWithout fields: {textwrap.fill(others, 150)}.\n"


def _request_models(kind: str, known: Mapping[str, Any]) -> list[str]:
    return [name for name in _references(known["Form"]["properties"][kind]) if name in known]


def _key_list(model: Mapping[str, Any]) -> str:
    required = [key for key in model["properties"] if key in model.get("required", ())]
    optional = [key for key in model["properties"] if key not in required]
    return ", ".join([*(f"**`{key}`**" for key in required), *(f"`{key}`" for key in optional)])


def _references(entry: Mapping[str, Any]) -> Iterable[str]:
    if "$ref" in entry:
        yield entry["$ref"].rpartition("/")[2]
    for branch in entry.get("anyOf", ()):
        yield from _references(branch)


def _value(entry: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the values that a key takes, in words."""
    words = list(dict.fromkeys(_words(entry, known)))
    if {"integer", "number"} <= set(words):
        words.remove("integer")
    if {"text", "integer", "boolean"} & set(words) == {"text", "boolean"} or set(words) == {
        "text",
        "number",
        "boolean",
    }:
        words = ["single value"]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 2 else words)


def _words(entry: Mapping[str, Any], known: Mapping[str, Any]) -> Iterable[str]:
    if QUANTITY in entry:
        yield str(entry[QUANTITY])
    elif "anyOf" in entry:
        for branch in entry["anyOf"]:
            yield from _words(branch, known)
    elif "$ref" in entry:
        yield "mapping"
    elif "enum" in entry:
        yield ", ".join(f"`{value}`" for value in entry["enum"])
    elif "const" in entry:
        yield "`true`" if entry["const"] is True else f"`{entry['const']}`"
    elif entry.get("type") == "array":
        yield _list(entry, known)
    elif entry.get("type") in _TYPES:
        yield _TYPES[entry["type"]] + _range(entry)
    elif entry.get("type") != "null":
        yield "any"


def _list(entry: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    if "prefixItems" in entry:
        return "two values"
    inner = list(dict.fromkeys(_words(entry.get("items", {}), known)))
    return (
        "list"
        if len(inner) > 1 or inner == ["any"]
        else f"list of {inner[0]}" + ("s" if inner[0] in ("text", "mapping") else "")
    )


def _range(entry: Mapping[str, Any]) -> str:
    low, high = entry.get("minimum"), entry.get("maximum")
    if low is not None and high is not None and high <= 10_000:
        return f" {low:g} to {high:g}"
    if low:
        return f" from {low:g}"
    return " above 0" if entry.get("exclusiveMinimum") == 0 else ""


def _default(entry: Mapping[str, Any]) -> str:
    value = entry.get("default")
    if value is None or value in ("", {}, [], ()) or isinstance(value, dict):
        return ""
    kind = next((kind for kind in _quantities(entry)), None)
    return f"`{_amount(value, kind)}`"


def _quantities(entry: Mapping[str, Any]) -> Iterable[str]:
    if QUANTITY in entry:
        yield entry[QUANTITY]
    for branch in entry.get("anyOf", ()):
        yield from _quantities(branch)


def _amount(value: Any, kind: str | None) -> str:
    """Write a default as a file has it: `500ms`, `64m`, `true`."""
    if isinstance(value, bool):
        return str(value).lower()
    if kind == "size":
        return next((f"{value // unit}{name}" for unit, name in _UNITS if value >= unit), str(value))
    if kind == "duration":
        unit, seconds = next((unit for unit in _SECONDS if value >= unit[1] and value % unit[1] == 0), ("s", 1))
        return f"{value * 1000:g}ms" if 0 < value < 1 else f"{value / seconds:g}{unit}"
    if kind == "share":
        return f"{100 * value:g}%"
    if kind == "rate":
        return f"{value:.0f}/s"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def write(folder: Path) -> None:
    """Write the schemas and the tables of all pages in a folder."""
    for name, schema in SCHEMAS.items():
        (folder / name).write_text(page(schema()))
    known = models()
    for path in sorted(folder.rglob("*.md")):
        text = path.read_text()
        if (filled := written(text, known)) != text:
            path.write_text(filled)
