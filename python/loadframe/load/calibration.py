"""The results of calibrations: one JSON file per machine in a cache, named after a hash of the hardware."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import loadframe
from loadframe.base.errors import BadInput
from loadframe.base.units import format_share
from loadframe.record.machine import hardware

#: Two machines are the same for a calibration if these agree: they determine the speed and the number of cores.
_HARDWARE = ("cpu", "architecture", "virtual", "threads", "usable", "clock", "governor")
#: If a worker waited for a core for more than this share of the time, other processes disturbed the calibration.
_DISTURBED = 0.05


@dataclass(frozen=True)
class Lateness:
    """Lateness of an open loop: offered rate in 1/s, percentiles in s, achieved share of the rate."""

    rate: float
    p50: float
    p99: float
    achieved: float


@dataclass(frozen=True)
class DriverCeiling:
    """Limits of one core with a driver: requests and documents per second of CPU time, and their CPU time in s.

    `reached` is the number of requests that one worker sent per second of wall time.
    """

    requests: float
    cpu_per_request: float
    reached: float
    documents: float | None
    cpu_per_document: float | None
    lateness: tuple[Lateness, ...]


@dataclass(frozen=True)
class Calibration:
    """All drivers on one machine. `waited_share`: the largest share of the time that a worker waited for a core."""

    measured: str
    version: str
    machine: dict[str, Any]
    quick: bool
    waited_share: float
    drivers: dict[str, DriverCeiling]

    @classmethod
    def now(cls, drivers: dict[str, DriverCeiling], *, quick: bool, waited_share: float) -> Self:
        """Create a calibration of this machine, version and time."""
        measured = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(measured, loadframe.__version__, _machine(), quick, waited_share, drivers)

    @classmethod
    def load(cls, cache: Path) -> Self | None:
        """Read the calibration of this machine; None if this version of Loadframe has none."""
        try:
            calibration = cls.from_dict(json.loads(_path(cache, _machine()).read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            # Another version wrote the file, or it is truncated: treat it as missing.
            return None
        return calibration if calibration.version == loadframe.__version__ else None

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> Self:
        """Create a calibration from the result of `as_dict`; ValueError, KeyError or TypeError for other mappings."""
        drivers = {
            name: DriverCeiling(**ceiling | {"lateness": tuple(Lateness(**values) for values in ceiling["lateness"])})
            for name, ceiling in known["drivers"].items()
        }
        return cls(**{**known, "drivers": drivers})

    def save(self, cache: Path) -> Path | None:
        """Write the calibration, replacing an older one of the machine. BadInput if the cache cannot be written.

        None, without writing, for a quick calibration if the cache has a complete one: verdicts use only that.
        """
        path = _path(cache, self.machine)
        earlier = self.load(cache) if self.quick else None
        if earlier and not earlier.quick:
            return None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(self.as_dict(), indent=2) + "\n")
            partial.replace(path)
        except OSError as error:
            remedy = "set LOADFRAME_CACHE to a writable folder"
            raise BadInput(f"cannot store the figures: {error.strerror}", where=str(path), remedy=remedy) from error
        return path

    def ceiling(self, driver: str) -> float | None:
        """Return the maximum requests per second of one worker of this driver; None without a reliable figure."""
        ceiling = self.drivers.get(driver)
        return ceiling.requests if ceiling and self.doubt is None else None

    @property
    def doubt(self) -> str | None:
        """Reason why verdicts must not use these figures; None if they may."""
        if self.waited_share > _DISTURBED:
            return f"other processes used the generator's core for up to {format_share(self.waited_share)} of the time"
        return "it was a quick calibration" if self.quick else None

    def as_dict(self) -> dict[str, Any]:
        """Return the calibration as values for JSON."""
        return asdict(self)


def _machine() -> dict[str, Any]:
    properties = hardware()
    return {key: properties[key] for key in _HARDWARE}


def _path(cache: Path, machine: Mapping[str, Any]) -> Path:
    key = hashlib.sha256(json.dumps(machine, sort_keys=True).encode()).hexdigest()[:16]
    return cache / "calibration" / f"{key}.json"
