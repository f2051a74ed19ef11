"""The built-in workloads: files of this package's folder `library`, found by being there."""

from pathlib import Path

from loadframe.base.errors import BadInput
from loadframe.yamlfile import did_you_mean

LIBRARY = Path(__file__).parent / "library"


def names() -> list[str]:
    """Return the names of the built-in workloads."""
    return sorted(path.stem for path in LIBRARY.glob("*.yaml"))


def split(name_or_path: str) -> tuple[str, tuple[str, ...] | None]:
    """Return a workload's name or path, and the phases that are chosen of it: `ycsb/a` is phase a of a built-in one.

    Several are separated by commas. Only names of the library are cut, so that a path stays one.
    """
    name, slash, phases = name_or_path.partition("/")
    if not slash or name not in names() or name_or_path.endswith((".yaml", ".yml")):
        return name_or_path, None
    return name, tuple(phases.split(","))


def find(name_or_path: str, folder: Path, where: str | None = None) -> Path:
    """Return a workload's file: a path if it ends with .yaml or .yml or has a slash, else a name of the library.

    A relative path begins at `folder`. BadInput, said to be at `where`, for a name that the library does not have.
    """
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        return folder / name_or_path
    if name_or_path not in names():
        hint = f"{did_you_mean(name_or_path, names())} (the path of a file ends with .yaml)"
        raise BadInput(f"there is no workload {name_or_path!r}", where=where, remedy=hint)
    return LIBRARY / f"{name_or_path}.yaml"
