"""What commands that measure one cluster have in common: the cluster that is named, and a place for the run."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from loadframe.cli.choices import require_writable
from loadframe.errors import BadInput

if TYPE_CHECKING:
    from loadframe.cluster import Cluster


def named(name: str, asked: str, context: typer.Context) -> "Cluster":
    """Return the named cluster; BadInput if it is of another kind than a --store that was given."""
    from loadframe.cluster import Cluster
    from loadframe.store import find

    cluster = Cluster.load(name)
    source = context.get_parameter_source("store")
    if source is not None and source.name != "DEFAULT" and find(asked).kind != cluster.store.kind:
        raise BadInput(
            f"cluster {name} is {cluster.store.kind}, not {asked}",
            remedy="leave --store out: a named cluster is known by its name",
        )
    return cluster


def require_free(path: Path) -> None:
    """BadInput if a run is there already, or cannot be written there."""
    if path.exists():
        raise BadInput("it exists already", where=str(path), remedy="name another folder with --output")
    require_writable(path.parent)
