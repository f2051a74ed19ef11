"""Differences between the manifests of two groups of runs: store, load, generator, machine."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from loadframe.analyze.experiment import RecordedRun
from loadframe.record.schema.manifest import RecordedStore

#: Entries that identify a machine: containers on one machine differ in name but share processor and memory.
MACHINE = ("hardware.hostname", "hardware.cpu", "hardware.usable", "hardware.memory")
#: All recorded fields of the store; the family follows from the kind.
_STORE = tuple(f"store.{entry.name}" for entry in fields(RecordedStore) if entry.name != "family")
_LOAD = ("workload.name", "workload.file.sha256", "workload.parameters", "workload.phases", "workload.corpora")
_GENERATOR = ("generator.ranks", "generator.threads", "generator.spread", "generator.connections", "generator.samples")
_SOFTWARE = ("versions.loadframe", "versions.commit", "versions.modified", "versions.kernel")
_PARTS = (*_STORE, *_LOAD, *_GENERATOR, *_SOFTWARE, *MACHINE)


@dataclass(frozen=True)
class Difference:
    """One entry of the manifest with the values of each group."""

    key: str
    first: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def of_machine(self) -> bool:
        """Whether the entry identifies the machine."""
        return self.key in MACHINE

    @property
    def of_load(self) -> bool:
        """Whether the entry describes the load."""
        return self.key.startswith(("workload.", "generator."))

    def __str__(self) -> str:
        return f"{self.key}: {_listed(self.first)} → {_listed(self.second)}"


def differences(first: Sequence[RecordedRun], second: Sequence[RecordedRun]) -> tuple[Difference, ...]:
    """Return the entries with different values in the two groups."""
    one, other = _values(first), _values(second)
    differences = []
    for key in dict.fromkeys([*one, *other]):
        values = one.get(key, {"none": None}), other.get(key, {"none": None})
        if values[0].keys() != values[1].keys():
            differences.append(Difference(key, tuple(values[0]), tuple(values[1])))
    return tuple(differences)


def _values(runs: Sequence[RecordedRun]) -> dict[str, dict[str, None]]:
    """Return the distinct values of each entry, as text, in order."""
    values: dict[str, dict[str, None]] = {}
    for run in runs:
        for part in _PARTS:
            value: Any = run.manifest
            for key in part.split("."):
                value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
            for name, text in _flat(part, value):
                values.setdefault(name, {})[text] = None
    return values


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if is_dataclass(value):
        value = {entry.name: getattr(value, entry.name) for entry in fields(value)}
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}", inner)
    elif isinstance(value, list | tuple) and all(
        isinstance(element, Mapping) and "name" in element for element in value
    ):
        for element in value:
            yield from _flat(
                f"{name}.{element['name']}", {key: inner for key, inner in element.items() if key != "name"}
            )
    elif value is not None:
        yield name, value if isinstance(value, str) else json.dumps(value)


def _listed(values: Sequence[str]) -> str:
    shown = [value if len(value) <= 60 else f"{value[:57]}..." for value in values[:3]]
    return ", ".join(shown + ([f"and {len(values) - 3} more"] if len(values) > 3 else []))
