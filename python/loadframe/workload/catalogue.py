"""The built-in workloads: the YAML files in this package's folder `library`."""

from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.yamlfile import did_you_mean

LIBRARY = Path(__file__).parent / "library"


def names() -> list[str]:
    """Return the names of the built-in workloads."""
    return sorted(path.stem for path in LIBRARY.glob("*.yaml"))


def split(name_or_path: str) -> tuple[str, tuple[str, ...] | None]:
    """Split `NAME/PHASE[,PHASE...]` into the name and the selected phases.

    Only names of built-in workloads are split. A path is returned unchanged, with None for the phases.
    """
    name, slash, phases = name_or_path.partition("/")
    if not slash or name not in names() or name_or_path.endswith((".yaml", ".yml")):
        return name_or_path, None
    return name, tuple(phases.split(","))


def find(name_or_path: str, folder: Path, where: str | None = None) -> Path:
    """Return the path of a workload file: a path if it ends with .yaml or .yml or has a slash, else a built-in one.

    Relative paths are resolved against `folder`. BadInput, with `where` as its place, for an unknown name. A path is
    not checked for existence.
    """
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        return folder / name_or_path
    if name_or_path not in names():
        hint = f"{did_you_mean(name_or_path, names())} (the path of a workload file ends with .yaml)"
        raise BadInput(f"unknown workload {name_or_path!r}", where=where, remedy=hint)
    return LIBRARY / f"{name_or_path}.yaml"
