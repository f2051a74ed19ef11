"""Refuses lists of right answers that recall cannot be computed from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadframe.workload import vectors
from loadframe.workload.holes import names
from loadframe.workload.variables import Variable
from loadframe.yamlfile import Document


def check(
    document: Document,
    operations: Mapping[str, Mapping[str, Any]],
    variables: Mapping[str, Variable],
    sources: Mapping[str, Mapping[str, Any]],
) -> None:
    """Refuse right answers of operations that are fewer than `k` and filled up with -1.

    Each -1 would count as a document that was not found, so that recall would be too low. BadInput at the operation.
    """
    for name, form in operations.items():
        recall = form.get("assert", {}).get("recall")
        if recall is None or not isinstance(recall["of"], str):
            continue
        for file in _files(recall["of"], variables, sources):
            row = vectors.first_filled_up(file, recall["k"])
            if row is not None:
                what = (
                    f"row {row} of {file} has fewer right answers than the {recall['k']} that recall is about, and -1"
                )
                remedy = "take a smaller k, or remove recall"
                raise document.error(("operations", name), what, remedy, key=True)


def _files(of: str, variables: Mapping[str, Variable], sources: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    """Return the files of neighbours that a list of ids is drawn from."""
    files = []
    for name in names(of):
        part = variables[name].part if name in variables else None
        row = variables[part.of].document if part is not None else None
        columns = sources[row.corpus].get("columns", []) if row is not None else []
        files += [Path(column["file"]) for column in columns if part is not None and column["name"] == part.field]
    return [file for file in files if file.suffix == ".ivecs"]
