"""Calibration of the load generator on this machine: measured against null servers, stored per machine.

In a measurement one worker thread runs, so figures are per core; the null server has its own thread.
"""

import csv
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import loadframe
from loadframe import _engine
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_share
from loadframe.load.phase import run_phase
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
        """Create a calibration of this machine, version and time from measured `drivers`.

        `quick`: the measurement was short. `waited_share` is the largest share of the time that a worker waited for a
        core.
        """
        measured = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(measured, loadframe.__version__, _machine(), quick, waited_share, drivers)

    @classmethod
    def load(cls, cache: Path) -> Self | None:
        """Read the calibration of this machine from Loadframe's cache folder `cache`.

        None if the file is missing or unreadable, or of another version of Loadframe.
        """
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
        """Write the calibration to the cache folder, replacing an older one of the machine, and return the path.

        Return None, without writing, for a quick calibration if the cache has a full one: verdicts use only a full one.
        BadInput if the cache cannot be written.
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
        """Return the most requests of this driver per second of CPU time of one worker.

        None for an unknown driver, and for a calibration with a `doubt`.
        """
        ceiling = self.drivers.get(driver)
        return ceiling.requests if ceiling and self.doubt is None else None

    @property
    def doubt(self) -> str | None:
        """Reason why verdicts must not use these figures; None if they may."""
        if self.waited_share > _DISTURBED:
            return f"other processes used the generator's core for up to {format_share(self.waited_share)} of the time"
        return "it was a quick calibration" if self.quick else None

    def as_dict(self) -> dict[str, Any]:
        """Return the calibration as nested dictionaries for JSON, as `from_dict` reads them."""
        return asdict(self)


def _machine() -> dict[str, Any]:
    """Return the properties of this machine's hardware that identify it: those named in `_HARDWARE`."""
    properties = hardware()
    return {key: properties[key] for key in _HARDWARE}


def _path(cache: Path, machine: Mapping[str, Any]) -> Path:
    """Return the path of a machine's calibration in the cache folder, which may not exist.

    A hash of the properties `machine` is its name.
    """
    key = hashlib.sha256(json.dumps(machine, sort_keys=True).encode()).hexdigest()[:16]
    return cache / "calibration" / f"{key}.json"


#: Offered rates, 1/s, at which lateness is measured.
RATES = (1_000, 10_000, 50_000)
#: Clients of the closed loop: enough that the worker never waits for the server, as long as the server has a core.
_CLIENTS = 32
#: Documents per bulk request, and bytes per document.
_BULK_SIZE = 5_000
_DOCUMENT = 500
#: Documents in the corpus file, and how often the plan names the file so that no measurement reaches the end.
_DOCUMENTS = 20_000
_REPEATED = 400

_SEARCH = {"search": {"collection": "nothing", "body": {"query": {"match_all": {}}}, "size": 10}}
_HTTP = {"http": {"method": "GET", "path": "/"}}
_REDIS = {"command": ["GET", "key"]}
#: From the null server's only table, where it has tables.
_READ = {"read": {"collection": "nothing", "id": "key"}}
_BULK = {"bulk": {"collection": "nothing", "corpus": "documents", "size": _BULK_SIZE}}
_KEYED_BULK = {"bulk": {**_BULK["bulk"], "id": "id"}}


@dataclass(frozen=True)
class Probe:
    """Requests that measure a driver: a small request, and a bulk request if the driver has one."""

    request: Mapping[str, Any]
    bulk: Mapping[str, Any] | None = None


#: By driver. A driver without a null server is not calibrated.
PROBES: dict[str, Probe] = {
    "couchbase": Probe(_READ, _KEYED_BULK),
    "cql": Probe(_READ, _KEYED_BULK),
    "http": Probe(_HTTP),
    "mongodb": Probe(_READ, _KEYED_BULK),
    "null": Probe({}),
    "postgresql": Probe(_READ, _KEYED_BULK),
    "redis": Probe(_REDIS, _KEYED_BULK),
    "search": Probe(_SEARCH, _BULK),
}


@dataclass(frozen=True)
class _WorkerFigures:
    """Figures of the worker in the measured window; times in s."""

    requests: int
    documents: int
    seconds: float
    cpu: float
    waited: float
    lateness_p50: float
    lateness_p99: float


def measurable() -> list[str]:
    """Return the names of the engine's drivers that have a probe in `PROBES`, in the engine's order."""
    return [driver for driver in _engine.DRIVERS if driver in PROBES]


def calibrate(drivers: list[str], *, quick: bool, tell: Callable[[str, int, int], None]) -> Calibration:
    """Measure the drivers against null servers on this machine, one after another, and return the figures.

    `tell` is called before each measurement with its name, its number from 0, and the number of measurements. One
    takes about 3 s; with `quick` 1 s, which is too imprecise for a verdict. LoadframeError if a request fails.
    """
    # Whole seconds, because the worker's CPU time is recorded per second.
    warmup, duration = (0, 1) if quick else (1, 2)
    total = sum(1 + len(RATES) + (PROBES[driver].bulk is not None) for driver in drivers)
    steps = iter(range(total))
    ceilings = {}
    waited = 0.0
    with tempfile.TemporaryDirectory(prefix="loadframe-calibrate-") as folder:
        corpus = Path(folder) / "documents.json"
        corpus.write_text(_documents())

        def measure(name: str, driver: str, operation: Mapping[str, Any], pacing: Mapping[str, Any]) -> _WorkerFigures:
            """Run a phase of `operation` on a new null server, and return the worker's figures.

            Calls `tell` with `DRIVER: NAME`. `waited` becomes the share of time that this worker waited for a core, if
            that is larger. `pacing` is the load model.
            """
            nonlocal waited
            tell(f"{driver}: {name}", next(steps), total)
            # The null driver connects to no server, so any server will do.
            protocol = "http" if driver == "null" else driver
            with tempfile.TemporaryDirectory(dir=folder) as records, closing(_engine.NullServer(protocol)) as server:
                plan = _plan(driver, server.address, corpus, operation, pacing, warmup, duration)
                run_phase(plan, Path(records), lambda _: None)
                measured = _read(Path(records), warmup, duration)
            waited = max(waited, measured.waited / measured.seconds)
            return measured

        closed = {"closed": {"clients": _CLIENTS}}
        for driver in drivers:
            probe = PROBES[driver]
            most = measure("requests", driver, probe.request, closed)
            bulk = measure("documents", driver, probe.bulk, {"closed": {"clients": 4}}) if probe.bulk else None
            ceilings[driver] = DriverCeiling(
                requests=most.requests / most.cpu,
                cpu_per_request=most.cpu / most.requests,
                reached=most.requests / most.seconds,
                documents=bulk.documents / bulk.cpu if bulk else None,
                cpu_per_document=bulk.cpu / bulk.documents if bulk else None,
                lateness=tuple(
                    _lateness(rate, measure(f"lateness at {rate:,}/s", driver, probe.request, {"open": {"rate": rate}}))
                    for rate in RATES
                ),
            )
    return Calibration.now(ceilings, quick=quick, waited_share=waited)


def _lateness(rate: float, measured: _WorkerFigures) -> Lateness:
    """Return the lateness at the offered `rate`, 1/s: median and 99th percentile, s, and achieved over offered rate."""
    achieved = measured.requests / measured.seconds / rate
    return Lateness(rate, measured.lateness_p50, measured.lateness_p99, achieved)


def _documents() -> str:
    """Return the text of the corpus: 20,000 equal lines of JSON with 500 bytes each."""
    line = json.dumps({"id": "key", "text": ""})
    return f"{line[:-2]}{'x' * (_DOCUMENT - len(line))}{line[-2:]}\n" * _DOCUMENTS


def _plan(
    driver: str,
    address: str,
    corpus: Path,
    operation: Mapping[str, Any],
    pacing: Mapping[str, Any],
    warmup: int,
    duration: int,
) -> dict[str, Any]:
    """Return the engine's plan of a phase with one thread and one stream; `warmup` and `duration` in s.

    `address` is the null server's; `pacing` is the load model, such as `{"open": {"rate": 1000}}`.
    """
    return {
        "seed": 1,
        "phase": "calibrate",
        "threads": 1,
        "warmup": warmup,
        "drain": 1.0,
        "target": {"driver": driver, "hosts": [address]},
        "corpora": {"documents": {"files": [str(corpus)] * _REPEATED}} if "bulk" in operation else {},
        "operations": {"operation": operation},
        "streams": [
            {"name": "stream", "mix": [["operation", 1.0]], "pacing": pacing, "stop": {"duration": duration}},
        ],
    }


def _read(records: Path, warmup: int, duration: int) -> _WorkerFigures:
    """Read the worker's figures in the `duration` s after `warmup` s, from the folder `records` of a phase.

    Times are in s. Requests and documents are at least 1. LoadframeError if a request failed.
    """
    outcome = json.loads((records / "outcome.json").read_text())
    (operation,) = outcome["operations"]
    if operation["errors"]:
        raise LoadframeError(f"a request to the null server failed: {operation['errors'][0]['message']}")
    seconds = [row for row in _rows(records / "generator.csv") if warmup <= int(row["second"]) < warmup + duration]
    lateness = _engine.HistogramLog(records / "histograms.hlog").total("generator/lateness", warmup, warmup + duration)
    return _WorkerFigures(
        # On a busy machine no request may complete within a second.
        requests=max(operation["completed"], 1),
        documents=max(operation["completed_documents"], 1),
        seconds=duration,
        cpu=sum(float(row["cpu_seconds"]) for row in seconds),
        waited=sum(float(row["waited_seconds"]) for row in seconds),
        lateness_p50=lateness.quantile(0.5) or 0.0,
        lateness_p99=lateness.quantile(0.99) or 0.0,
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, as mappings from column to text."""
    with path.open(newline="") as lines:
        yield from csv.DictReader(lines)
