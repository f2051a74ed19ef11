"""Workloads: built in, from files, or defined in Python."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.base.units import counted
from loadframe.library.arguments import checked
from loadframe.library.tables import html_table
from loadframe.workload import Workload as LoadedWorkload
from loadframe.workload import load_workload, workload_of
from loadframe.yamlfile import document_of

#: Type of parameter values.
Value = str | int | float | bool


class Workload:
    """A workload defined by the keys of a workload file. BadInput names the key of an error.

    A trailing underscore is removed from keyword arguments, as in `with_`. Relative paths start at the current folder.

    >>> reads = loadframe.Workload(
    ...     workload="reads",
    ...     collections={"items": {}},
    ...     operations={"read": {"search": {"collection": "items", "body": {"query": {"match_all": {}}}}}},
    ...     phases=[{"name": "read", "operation": "read", "clients": 2, "duration": "2s"}],
    ... )
    >>> reads.phases
    ['read']
    >>> loadframe.Workload.load("ycsb/c").parameters["records"] > 0
    True
    """

    @checked
    def __init__(self, keys: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Check the workload that the keys define."""
        self._loaded = workload_of(document_of(merged(keys, more), "Workload"))

    @classmethod
    @checked
    def load(cls, name: str | os.PathLike[str], **parameters: Value) -> "Workload":
        """Load and check a built-in workload by name, or a file. `parameters` set its parameters."""
        workload = cls.__new__(cls)
        workload._loaded = load_workload(os.fspath(name), parameters)
        return workload

    @property
    def name(self) -> str:
        """The name of the workload."""
        return self._loaded.name

    @property
    def parameters(self) -> dict[str, Any]:
        """The values of the parameters, for one node."""
        return dict(self._loaded.parameters)

    @property
    def phases(self) -> list[str]:
        """The names of the phases in their order."""
        return [phase.name for phase in self._loaded.file.phases]

    @property
    def keys(self) -> dict[str, Any]:
        """The keys as they were written."""
        return dict(self._loaded.document.data)

    @checked
    def with_parameters(self, **parameters: Value) -> "Workload":
        """Return a copy with other values of parameters; BadInput for an unknown parameter."""
        workload = Workload.__new__(Workload)
        workload._loaded = self._loaded.with_parameters(parameters, where=lambda name: f"parameter {name}")
        return workload

    @checked
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the keys to a workload file and return its path. Parameters keep their defaults."""
        return save_keys(self.keys, Path(path))

    def __repr__(self) -> str:
        return f"<Workload {self.name}: {counted(len(self.phases), 'phase')}>"

    def _repr_html_(self) -> str:
        """Return an HTML table for a notebook: the phases, and whether they prepare data."""
        rows = [(phase.name, "prepares" if phase.prepares else "") for phase in self._loaded.file.phases]
        return html_table((self.name, ""), rows)


def loaded_workload(
    workload: "str | os.PathLike[str] | Workload", parameters: Mapping[str, Value], *, endless: bool = False
) -> LoadedWorkload:
    """Return a workload by name, path or object, with its parameters set. `endless` accepts sources without an end.

    BadInput for an unknown workload, an invalid file, and an unknown or invalid parameter.
    """
    if not isinstance(workload, Workload):
        return load_workload(os.fspath(workload), parameters, endless=endless)
    loaded = (workload.with_parameters(**parameters) if parameters else workload)._loaded
    return replace(loaded, endless=endless)


def merged(keys: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a mapping and of keyword arguments, which override them.

    A trailing underscore is removed from keyword arguments only.
    """
    return {**(keys or {}), **{name.removesuffix("_"): value for name, value in more.items()}}


def save_keys(keys: Mapping[str, Any], path: Path) -> Path:
    """Write keys as YAML, also over an existing file, and return the path; BadInput if that fails."""
    # Imported late: only files need it.
    import yaml

    try:
        path.write_text(yaml.safe_dump(dict(keys), sort_keys=False, allow_unicode=True), encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"cannot write the file: {error.strerror}", where=str(path), remedy="name another file"
        ) from error
    return path
