"""Facts from manifests that a reader needs to judge or repeat a run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from loadframe.analyze.experiment import RecordedExperiment, RecordedRun
from loadframe.base.errors import BadInput
from loadframe.base.units import counted, format_count, format_duration, format_size
from loadframe.record import Manifest, Run
from loadframe.record.schema import MANIFEST_FILE
from loadframe.record.schema.manifest import GeneratorSetup, Hardware, RecordedStore, RecordedWorkload, Versions
from loadframe.report.labels import cluster_text, limits_text

_KINDS = {True: "virtual machine", False: "no hypervisor seen"}


@dataclass(frozen=True)
class Facts:
    """A group of facts: a title, and pairs of a name and a value."""

    title: str
    pairs: Sequence[tuple[str, str]]


#: Distinct facts of stores that a page lists.
_LISTED = 4


def manifest_facts(manifest: Manifest, stores: Sequence[RecordedStore] = ()) -> list[Facts]:
    """Return the known facts of a run's manifest in four groups: Machine, Store, Workload and Versions.

    With `stores`, the second group has the facts of all of them instead of the manifest's store.
    """
    return [
        Facts("Machine", _without_empty(_machine(manifest.hardware))),
        Facts("Store", _distinct([_store(store) for store in stores or [manifest.store]])),
        Facts("Workload", _without_empty(_workload(manifest.workload))),
        Facts("Versions", _without_empty(_versions(manifest.versions))),
    ]


def design_facts(description: Mapping[str, Any], runs: int) -> Facts:
    """Return the facts of an experiment's design. `runs` is the number of its runs.

    `description` is the content of experiment.json, and must have `factors` and `measure`. Unknown facts are left out.
    """
    levels = {name: ", ".join(map(str, values)) for name, values in description["factors"].items()}
    return Facts(
        "Design",
        _without_empty(
            {
                "kind": ", ".join(str(description[key]) for key in ("kind", "scaling") if description.get(key)),
                **{f"factor {name}": words for name, words in levels.items()},
                "measured": ", ".join(description["measure"]),
                "prepared by": ", ".join(description.get("prepare") or []),
                "warm-up": _duration(description.get("warmup")),
                "measured window": _duration(description.get("duration")),
                "repetitions": str(description.get("repetitions", "")),
                "runs": format_count(runs),
                "order": "randomised in blocks of one repetition; runs with the same cluster state are adjacent",
                "seed": str(description.get("seed", "")),
                "generator threads": str(description.get("threads", "")),
            }
        ),
    )


def experiment_facts(folder: RecordedExperiment, example: Run | None) -> list[Facts]:
    """Return the facts of an experiment in five groups: Design, Machine, Store, Workload and Versions.

    Store has the stores of all runs; Machine, Workload and Versions describe the run `example`. Without it, return
    only Design.
    """
    return [
        design_facts(folder.description, len(folder.runs)),
        *(manifest_facts(example.manifest, stores_of(folder.runs)) if example else ()),
    ]


def stores_of(runs: Iterable[RecordedRun]) -> list[RecordedStore]:
    """Return the requested store of each run that is there, in the order of the runs, with duplicates."""
    return [run.run.manifest.store for run in runs if run.run]


def clusters_text(stores: Iterable[RecordedStore]) -> str:
    """Write each distinct cluster without its number of nodes, joined by semicolons; empty without stores.

    Of more than four clusters, the first three and the number of the others.
    """
    return _listed(cluster_text(replace(store, nodes=None)) for store in stores)


def _listed(texts: Iterable[str | None]) -> str:
    """Join the distinct texts with semicolons; if more than four, the first three and the number of the others.

    None and empty texts are left out.
    """
    listed = list(dict.fromkeys(filter(None, texts)))
    shown = listed if len(listed) <= _LISTED else [*listed[: _LISTED - 1], f"{len(listed) - _LISTED + 1} more"]
    return "; ".join(shown)


def _distinct(facts: Sequence[Mapping[str, str | None]]) -> list[tuple[str, str]]:
    """Return the facts of several stores as (name, texts), the distinct texts joined; empty facts are left out."""
    words = dict.fromkeys(word for of_store in facts for word in of_store)
    return _without_empty({word: _listed(of_store.get(word) for of_store in facts) for word in words})


def run_facts(manifest: Manifest) -> Facts:
    """Return the facts needed to repeat a run: name, start, command, seed, ranks and round trips.

    Unknown facts are left out.
    """
    return Facts(
        "Run",
        _without_empty(
            {
                "name": manifest.run,
                "started": manifest.started,
                "command": " ".join(manifest.command),
                "seed": "" if manifest.seed is None else str(manifest.seed),
                "ranks": _ranks(manifest.generator),
                "round trips": _round_trips(manifest.generator),
            }
        ),
    )


def _ranks(generator: GeneratorSetup) -> str:
    """Write the number of ranks on each machine, `4 on host1, 4 on host2`; empty for a single process."""
    machines = Counter(str(member.machine) for member in generator.members)
    return ", ".join(f"{count} on {machine}" for machine, count in machines.items())


def loaded_by_text(generator: GeneratorSetup) -> str:
    """Write `load by 4 ranks on 2 machines`; empty for a single process."""
    if (generator.ranks or 1) < 2:
        return ""
    machines = len({member.machine for member in generator.members if member.machine})
    return f"load by {generator.ranks} ranks" + (f" on {counted(machines, 'machine')}" if machines else "")


def _round_trips(generator: GeneratorSetup) -> str:
    """Write, for each phase, the mean round trip of clients to their nearest nodes, and the mean with round robin.

    Empty if the generator measured none.
    """
    return "; ".join(
        f"{phase}: mean {format_duration(seen['mean_round_trip'])} to the nearest node,"
        f" {format_duration(seen['mean_round_trip_in_turn'])} with round robin"
        for phase, seen in generator.nearest.items()
    )


def _machine(hardware: Hardware) -> dict[str, str | None]:
    """Return the facts of a machine by name; None if unknown."""
    cores, threads, usable = hardware.cores, hardware.threads, hardware.usable
    processors = (
        counted(threads, "logical CPU") + (f" ({counted(cores, 'core')})" if cores else "") if threads else None
    )
    if processors and usable and usable != threads:
        processors += f", {usable} of them usable"
    return {
        "host": hardware.hostname,
        "processor": hardware.cpu,
        "processors": processors,
        "memory": format_size(hardware.memory) if hardware.memory else None,
        "kind": None if hardware.virtual is None else _KINDS[hardware.virtual],
        "clock": hardware.clock,
        "control groups": hardware.cgroup,
        "load before": ", ".join(map(str, hardware.load)),
        "CPU reference": ", ".join(map(format_duration, hardware.yardstick)),
    }


def _store(store: RecordedStore) -> dict[str, str | None]:
    """Return the facts of a store as texts, by the names in the report; unknown ones are None.

    They are kind and version, origin, nodes, host, machines, limits, heap, Java, settings, durability and allowed
    state.
    """
    limits = store.limits
    words = limits_text(limits)
    if words and limits.enforced_by:
        words += f", by {limits.enforced_by}" if limits.in_force else ", NOT enforced on this machine"
    return {
        "store": " ".join(filter(None, (store.kind, store.version))),
        "origin": store.origin,
        "nodes": None if store.nodes is None else str(store.nodes),
        "host": _host(store),
        "machines": _machines(store),
        "limits": words or ("none" if store.host else "unknown (not started by Loadframe)"),
        "heap": _size(store.heap),
        "Java": str(store.java) if store.java else None,
        "settings": ", ".join(f"{key}: {value}" for key, value in store.settings.items()),
        "durability": store.durability,
        "allowed state": None if store.allowed is None else "; ".join(store.allowed) or "any; it was never bad",
    }


def _host(store: RecordedStore) -> str | None:
    """Write the host, image and link shaping of the nodes, or None for an attached cluster."""
    links = {str(shape) for shape in store.links.values()}
    words = [store.host, store.image, *sorted(links)]
    return ", ".join(word for word in words if word) or None


def _machines(store: RecordedStore) -> str | None:
    """Write the machines of the nodes other than the generator's, each with its nodes at the start of the run.

    Return None if there are no other machines.
    """
    texts = []
    for machine in store.machines:
        known = ""
        if "nodes" in machine:
            nodes = ", ".join(machine["nodes"]) or "no node at first"
            known = f" ({nodes}; {machine['threads']} CPUs, {format_size(machine['memory'])})"
        texts.append(f"{machine['name']}{known}")
    return ", ".join(texts) or None


def _workload(workload: RecordedWorkload) -> dict[str, str | None]:
    """Return the name, file (with the first 16 digits of its SHA-256) and parameters of a workload.

    Unknown ones are None.
    """
    file = workload.file
    return {
        "workload": workload.name,
        "file": f"{file.path}, SHA-256 {(file.sha256 or '')[:16]}…" if file else None,
        "parameters": ", ".join(f"{key} {value}" for key, value in workload.parameters.items() if value != ""),
    }


def _versions(versions: Versions) -> dict[str, str | None]:
    """Return the versions of Loadframe, Python and the system by name; None if unknown. The commit has 12 digits."""
    commit = versions.commit
    if commit:
        commit = f"{commit[:12]}{' with changes' if versions.modified else ''}"
    return {
        "loadframe": versions.loadframe,
        "commit": commit,
        "Python": versions.python,
        "system": versions.system,
        "kernel": versions.kernel,
    }


def _without_empty(pairs: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Return the (name, text) pairs in the given order, without those with None or an empty text."""
    return [(word, value) for word, value in pairs.items() if value]


def _duration(seconds: float | None) -> str | None:
    """Write a duration, s; None if unknown."""
    return None if seconds is None else format_duration(seconds)


def _size(size: object) -> str | None:
    """Write a size given as a number of bytes, such as `1 GiB`; a text stays as it is.

    Return None for None, and for an empty text.
    """
    return format_size(size) if isinstance(size, int | float) else (str(size) if size else None)


def started(run: Run) -> datetime:
    """Return the start time of a run, in UTC. BadInput if its manifest lacks it, or has another text there.

    A time without a zone counts as local time.
    """
    written, where = run.manifest.started, str(run.path / MANIFEST_FILE)
    if not written:
        remedy = "restore the manifest from its origin, or use another --format"
        raise BadInput("started is missing, which this format requires", where=where, remedy=remedy)
    try:
        return datetime.fromisoformat(written).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(f"started is not a time: {written!r}", where=where, remedy="measure again") from None
