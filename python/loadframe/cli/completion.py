"""Candidates for shell completion. Without candidates, shells complete file names."""

import contextlib
from pathlib import Path

import typer

#: The folder of built-in workloads. Their package takes seconds to import.
_LIBRARY = Path(__file__).parents[1] / "workload" / "library"
_ENDINGS = (".yaml", ".yml")
#: The log in a history folder; importing its module takes longer than a completion should.
_GATE_LOG = "gates.jsonl"


def workloads(incomplete: str) -> list[str]:
    """Return the built-in workloads and the workload files of the current folder with this prefix.

    Shells complete paths with a slash.
    """
    files = [path.name for path in Path().iterdir() if path.suffix in _ENDINGS]
    names = [path.stem for path in _LIBRARY.glob("*.yaml")]
    return [name for name in (*sorted(names), *sorted(files)) if name.startswith(incomplete)]


def stores(incomplete: str) -> list[str]:
    """Return the kinds of store with this prefix."""
    from loadframe.store import stores as known

    return [kind for kind in known() if kind.startswith(incomplete)]


def clusters(incomplete: str) -> list[str]:
    """Return the names of clusters here that begin with `incomplete`, without clusters that run on another machine."""
    from loadframe.cluster import named

    with contextlib.suppress(OSError):
        return [name for name in named.names() if name.startswith(incomplete)]
    return []


def nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names, with this prefix, of the node folders here of the cluster that the previous argument names."""
    from loadframe.host import identity

    with contextlib.suppress(OSError):
        folders = identity.cluster_folder(ctx.params["name"]).glob("node-*")
        return sorted(folder.name for folder in folders if folder.is_dir() and folder.name.startswith(incomplete))
    return []


def histories(incomplete: str) -> list[str]:
    """Return the folders that have a log of gates and a path that starts with the typed text.

    If the result is empty, shells complete file names.
    """
    with contextlib.suppress(OSError):
        place, _, start = incomplete.rpartition("/")
        below = Path(f"{place}/" if place or incomplete.startswith("/") else ".")
        prefix = incomplete[: len(incomplete) - len(start)]
        return sorted(
            f"{prefix}{path.name}"
            for path in below.iterdir()
            if path.name.startswith(start) and (path / _GATE_LOG).is_file()
        )
    return []
