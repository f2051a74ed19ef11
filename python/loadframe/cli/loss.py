"""Asks before data of somebody else's cluster is dropped."""

import sys
from typing import TYPE_CHECKING

import typer

from loadframe.cli.output import tell
from loadframe.errors import BadInput
from loadframe.units import format_count

if TYPE_CHECKING:
    from loadframe.experiment.session import Loss


def confirm(loss: "Loss") -> None:
    """Name what will be lost and ask; BadInput if the answer is no, or if there is nobody to ask."""
    said = ", ".join(f"{name} ({_size(documents)})" for name, documents in loss.documents.items())
    what = f"--replace drops {said} of {loss.product}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(
            f"{what}, which loadframe did not start",
            where=", ".join(loss.addresses),
            remedy="give --yes if that is what you want; --reuse keeps the data",
        )
    tell(f"{what} at {', '.join(loss.addresses)}.")
    if not typer.confirm("Drop it, with all its documents?", err=True):
        raise BadInput("nothing was dropped", remedy="--reuse keeps the data and skips the phases that prepare it")


def _size(documents: int | None) -> str:
    if documents is None:
        return "not counted"
    return "1 document" if documents == 1 else f"{format_count(documents)} documents"
