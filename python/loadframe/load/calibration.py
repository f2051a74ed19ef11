"""What calibration found, kept per machine: JSON files in a cache, named by the hardware that they are about."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import loadframe
from loadframe.errors import BadInput
from loadframe.record.machine import hardware
from loadframe.units import format_share

#: What makes two machines alike: how fast a core is, and how many there are.
_HARDWARE = ("cpu", "architecture", "virtual", "threads", "usable", "clock", "governor")
#: A worker that waited longer than this share of the time for a core was not alone on the machine.
_DISTURBED = 0.05


@dataclass(frozen=True)
class Lateness:
    """How late requests of an open load were turned to: offered rate in 1/s, percentiles in s, share achieved."""

    rate: float
    p50: float
    p99: float
    achieved: float


@dataclass(frozen=True)
class DriverCeiling:
    """What one core does with a driver: requests and documents per second of CPU time, and what each costs in s.

    `reached` is what one worker sent per second of the clock, with the server's thread beside it.
    """

    requests: float
    cpu_per_request: float
    reached: float
    documents: float | None
    cpu_per_document: float | None
    lateness: tuple[Lateness, ...]


@dataclass(frozen=True)
class Calibration:
    """All drivers on one machine. `waited_share`: the greatest share of time for which the worker had no core."""

    measured: str
    version: str
    machine: dict[str, Any]
    quick: bool
    waited_share: float
    drivers: dict[str, DriverCeiling]

    @classmethod
    def now(cls, drivers: dict[str, DriverCeiling], *, quick: bool, waited_share: float) -> Self:
        """Return figures that were measured just now, on this machine, with this version."""
        measured = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(measured, loadframe.__version__, _machine(), quick, waited_share, drivers)

    @classmethod
    def load(cls, cache: Path) -> Self | None:
        """Return what is known of this machine; None if nothing is, or only of another version of Loadframe."""
        try:
            known = json.loads(_path(cache, _machine()).read_text())
            drivers = {
                name: DriverCeiling(**ceiling | {"lateness": tuple(Lateness(**each) for each in ceiling["lateness"])})
                for name, ceiling in known["drivers"].items()
            }
            calibration = cls(**known | {"drivers": drivers})
        except (OSError, ValueError, KeyError, TypeError):
            # A file that another version wrote, or that was cut off, is as good as none.
            return None
        return calibration if calibration.version == loadframe.__version__ else None

    def save(self, cache: Path) -> Path:
        """Keep the figures in place of older ones of the same machine; BadInput if the cache cannot be written."""
        path = _path(cache, self.machine)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(self.as_dict(), indent=2) + "\n")
            partial.replace(path)
        except OSError as error:
            remedy = "set LOADFRAME_CACHE to a folder that can be written"
            raise BadInput(f"the figures cannot be kept: {error.strerror}", where=str(path), remedy=remedy) from error
        return path

    def ceiling(self, driver: str) -> float | None:
        """Return the requests per second that one worker of this driver is good for; None if that is not known well."""
        known = self.drivers.get(driver)
        return known.requests if known and self.doubt is None else None

    @property
    def doubt(self) -> str | None:
        """Why no verdict rests on these figures; None if one may."""
        if self.waited_share > _DISTURBED:
            return f"other processes had the generator's core for up to {format_share(self.waited_share)} of the time"
        return "it was a quick one" if self.quick else None

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def _machine() -> dict[str, Any]:
    found = hardware()
    return {key: found[key] for key in _HARDWARE}


def _path(cache: Path, machine: Mapping[str, Any]) -> Path:
    key = hashlib.sha256(json.dumps(machine, sort_keys=True).encode()).hexdigest()[:16]
    return cache / "calibration" / f"{key}.json"
