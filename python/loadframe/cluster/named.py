"""The folders of clusters: those with a name, which can outlive a command, and the passing ones without."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

from loadframe.cluster import folders
from loadframe.errors import BadInput

_RECORD = "cluster.json"


def folder_of(name: str) -> Path:
    """Return where a named cluster is kept, or will be."""
    return folders.state() / "clusters" / name


def names() -> list[str]:
    """Return the names of all clusters, running or stopped."""
    return sorted(path.parent.name for path in (folders.state() / "clusters").glob(f"*/{_RECORD}"))


def write(name: str, record: Mapping[str, Any]) -> None:
    """Write the cluster's record, whole or not at all."""
    target = folder_of(name) / _RECORD
    draft = target.with_name(f"{_RECORD}.part")
    draft.write_text(json.dumps(record, indent=2) + "\n")
    draft.replace(target)


def read(name: str) -> dict[str, Any] | None:
    """Return the record, or None if there is no such cluster."""
    try:
        record: dict[str, Any] = json.loads((folder_of(name) / _RECORD).read_text())
    except FileNotFoundError:
        return None
    except json.JSONDecodeError as error:
        raise BadInput(
            f"the record of cluster {name} is damaged ({error})",
            where=str(folder_of(name) / _RECORD),
            remedy=f"remove it with `loadframe cluster down {name} --delete-data`",
        ) from error
    return record


def delete(name: str) -> None:
    """Delete a cluster's folder with its data; it must be stopped."""
    shutil.rmtree(folder_of(name))


def passing_folder() -> Path:
    """Return a new folder for a cluster without a name, and remove those that a crash of the machine has left behind.

    While the machine is up, the guards of the nodes remove them.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    parent = folders.make(folders.state() / "passing")
    for left in parent.iterdir():
        if not left.name.startswith(boot):
            shutil.rmtree(left, ignore_errors=True)
    return folders.make(parent / f"{boot}-{token_hex(4)}")
