"""What was measured, on what, and how: the facts of manifests that a reader needs to judge or repeat a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadframe.report.labels import limits_text
from loadframe.units import format_count, format_duration, format_size


@dataclass(frozen=True)
class Facts:
    """A title, and pairs of a word and its value."""

    title: str
    pairs: Sequence[tuple[str, str]]


def manifest_facts(manifest: Mapping[str, Any]) -> list[Facts]:
    """Return the facts of a run's manifest, in groups; what is unknown is left out."""
    hardware, versions = manifest.get("hardware", {}), manifest.get("versions", {})
    store, workload = manifest.get("store", {}), manifest.get("workload", {})
    return [
        Facts("Machine", _known(_machine(hardware))),
        Facts("Store", _known(_store(store))),
        Facts("Workload", _known(_workload(workload))),
        Facts("Versions", _known(_versions(versions))),
    ]


def design_facts(description: Mapping[str, Any], runs: int) -> Facts:
    """Return the facts of an experiment's design."""
    levels = {name: ", ".join(map(str, values)) for name, values in description["factors"].items()}
    return Facts(
        "Design",
        _known(
            {
                "kind": ", ".join(str(description[key]) for key in ("kind", "scaling") if description.get(key)),
                **{f"factor {name}": words for name, words in levels.items()},
                "measured": ", ".join(description["measure"]),
                "prepared by": ", ".join(description.get("prepare") or []),
                "warm-up": _duration(description.get("warmup")),
                "measured window": _duration(description.get("duration")),
                "repetitions": str(description.get("repetitions", "")),
                "runs": format_count(runs),
                "order": "randomised in blocks, one repetition each; runs of one cluster state are neighbours",
                "seed": str(description.get("seed", "")),
                "generator threads": str(description.get("threads", "")),
            }
        ),
    )


def run_facts(manifest: Mapping[str, Any]) -> Facts:
    """Return how to make the run again."""
    return Facts(
        "Run",
        _known(
            {
                "name": manifest.get("run"),
                "started": manifest.get("started"),
                "command": " ".join(manifest.get("command", [])),
                "seed": str(manifest.get("seed", "")),
            }
        ),
    )


def _machine(hardware: Mapping[str, Any]) -> dict[str, str | None]:
    cores, threads = hardware.get("cores"), hardware.get("threads")
    processors = f"{threads} logical CPUs" + (f" ({cores} cores)" if cores else "") if threads else None
    usable = hardware.get("usable")
    if processors and usable and usable != threads:
        processors += f", {usable} of them usable"
    return {
        "host": hardware.get("hostname"),
        "processor": hardware.get("cpu"),
        "processors": processors,
        "memory": format_size(hardware["memory"]) if hardware.get("memory") else None,
        "kind": ("virtual machine" if hardware["virtual"] else "no hypervisor seen") if "virtual" in hardware else None,
        "clock": hardware.get("clock"),
        "control groups": hardware.get("cgroup"),
        "load before": ", ".join(map(str, hardware.get("load", []))),
        "yardstick": ", ".join(map(format_duration, hardware.get("yardstick", []))),
    }


def _store(store: Mapping[str, Any]) -> dict[str, str | None]:
    limits = store.get("limits") or {}
    enforced = limits.get("enforced_by")
    words = limits_text(store)
    if words and enforced:
        words += f", by {enforced}" if enforced != "none" else ", NOT enforced on this machine"
    settings = {str(key): str(value) for key, value in (store.get("settings") or {}).items()}
    return {
        "store": " ".join(str(store[key]) for key in ("kind", "version") if store.get(key)),
        "origin": store.get("origin"),
        "nodes": None if store.get("nodes") is None else str(store["nodes"]),
        "host": _host(store),
        "limits": words or "none",
        "heap": _size(store.get("heap")),
        "Java": str(store["java"]) if store.get("java") else None,
        "settings": ", ".join(f"{key}: {value}" for key, value in settings.items()),
    }


def _host(store: Mapping[str, Any]) -> str | None:
    """Return where its nodes ran, and what their links did; nothing of a cluster that was only attached to."""
    links = {str(shape) for shape in (store.get("links") or {}).values()}
    words = [store.get("host"), store.get("image"), *sorted(links)]
    return ", ".join(str(word) for word in words if word) or None


def _workload(workload: Mapping[str, Any]) -> dict[str, str | None]:
    parameters = workload.get("parameters", {})
    file = workload.get("file", {})
    return {
        "workload": workload.get("name"),
        "file": f"{file.get('name')}, SHA-256 {str(file.get('sha256'))[:16]}…" if file else None,
        "parameters": ", ".join(f"{key} {value}" for key, value in parameters.items() if value != ""),
    }


def _versions(versions: Mapping[str, Any]) -> dict[str, str | None]:
    commit = versions.get("commit")
    if commit:
        commit = f"{commit[:12]}{' with changes' if versions.get('modified') else ''}"
    return {
        "loadframe": versions.get("loadframe"),
        "commit": commit,
        "Python": versions.get("python"),
        "system": versions.get("system"),
        "kernel": versions.get("kernel"),
    }


def _known(pairs: Mapping[str, str | None]) -> list[tuple[str, str]]:
    return [(word, value) for word, value in pairs.items() if value]


def _duration(seconds: float | None) -> str | None:
    return None if seconds is None else format_duration(seconds)


def _size(size: object) -> str | None:
    return format_size(size) if isinstance(size, int | float) else (str(size) if size else None)
