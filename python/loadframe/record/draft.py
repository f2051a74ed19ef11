"""Manifests before they are written. The writer masks secrets."""

import hashlib
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from loadframe.base.errors import BadInput
from loadframe.record import machine
from loadframe.record.schema import FORMAT

#: Identifier of this command; all its runs belong to one session.
SESSION = uuid.uuid4().hex


@dataclass(frozen=True)
class ManifestDraft:
    """The keys of a manifest.json; `schema.manifest.Manifest` documents and reads them.

    `started` needs a time zone. `versions` and `hardware` default to this machine's, read when the draft is created:
    create it before the load, so that load averages do not include it.
    """

    run: str
    started: datetime
    treatment: Mapping[str, Any]
    workload: Mapping[str, Any]
    store: Mapping[str, Any]
    seed: int
    generator: Mapping[str, float | str | None]
    block: int | None = None
    repetition: int | None = None
    files: Sequence[Mapping[str, Any]] = ()
    session: str | None = SESSION
    command: Sequence[str] = field(default_factory=lambda: tuple(sys.argv))
    versions: Mapping[str, Any] = field(default_factory=machine.versions)
    hardware: Mapping[str, Any] = field(default_factory=machine.hardware)

    def as_dict(self) -> dict[str, Any]:
        """Return the manifest as a mapping for `RunWriter.finish`."""
        return {
            "format": FORMAT,
            "run": self.run,
            "started": self.started.isoformat(timespec="milliseconds"),
            "session": self.session,
            "command": list(self.command),
            "treatment": dict(self.treatment),
            "block": self.block,
            "repetition": self.repetition,
            "seed": self.seed,
            "workload": dict(self.workload),
            "store": dict(self.store),
            "generator": dict(self.generator),
            "files": [dict(file) for file in self.files],
            "versions": dict(self.versions),
            "hardware": dict(self.hardware),
        }


def file_record(path: Path) -> dict[str, Any]:
    """Return a file's entry for `Manifest.files`: name, bytes, sha256. BadInput if it cannot be read."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
            return {"name": str(path), "bytes": file.tell(), "sha256": digest.hexdigest()}
    except OSError as error:
        raise BadInput(
            f"cannot read the file: {error.strerror}", where=str(path), remedy="check its name and permissions"
        ) from error
