"""Fingerprints of Loadframe and the machine, to detect changes between sessions of an experiment."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import loadframe
from loadframe.record import machine


def instrument() -> dict[str, str]:
    """Return the identity of this Loadframe and machine: version, commit, engine, system, hardware."""
    versions, hardware = machine.versions(), machine.hardware()
    known = {name: versions[name] for name in ("loadframe", "commit", "modified", "python", "kernel")}
    known |= {name: hardware[name] for name in ("hostname", "cpu", "threads", "usable", "memory")}
    known["engine"] = digest(sorted(Path(loadframe.__file__).parent.glob("_engine*.so")))
    return {name: str(value) for name, value in known.items()}


def digest(files: list[Path]) -> str:
    """Return a hash of the files' contents, as twelve hexadecimal digits."""
    total = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:12]


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the differences between two fingerprints, as `name: before → now`."""
    names = dict.fromkeys([*before, *now])
    return [
        f"{name}: {before.get(name, 'none')} → {now.get(name, 'none')}"
        for name in names
        if before.get(name) != now.get(name)
    ]
