"""Time to import a generated track that is larger than the largest public one.

The largest public track, elastic/logs of elastic/rally-tracks, has 379 files over its history: some 50 challenges, 40
pipelines, hundreds of templates. The generated track has more, and 50,000 fields. CPU time is independent of other
processes.
"""

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from loadframe.base.units import format_count, format_duration, format_size
from loadframe.workload.importers.rally import import_rally

CHALLENGES, TASKS, OPERATIONS, CORPORA, DOCUMENTS, TEMPLATES, FIELDS = 50, 60, 300, 30, 12, 200, 250
#: Seconds.
AIM = 10.0


def main() -> None:
    """Generate the track, import it once with the command, and print the time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "large"
        _write(folder)
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        begin, spent = time.perf_counter(), _spent()
        lines = import_rally(folder, "challenge-0", {}).text().count("\n")
        seconds, cpu = time.perf_counter() - begin, _spent() - spent
    print(f"  {format_count(len(files))} files, {format_size(size)}, become {format_count(lines)} lines")
    print(f"  {format_duration(seconds)}, {format_duration(cpu)} of CPU; the latter to the aim: {cpu / AIM:.2f}")


def _spent() -> float:
    """Return the CPU time of this process and of its finished children, s."""
    return sum(os.times()[:4])


def _write(folder: Path) -> None:
    def file(place: str, data: Any) -> None:
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data if isinstance(data, str) else json.dumps(data, indent=2))

    fields = {f"field_{number}": {"type": "keyword", "ignore_above": 1024} for number in range(FIELDS)}
    for number in range(TEMPLATES):
        file(f"templates/t{number}.json", {"template": {"mappings": {"properties": fields}}})
    for number in range(OPERATIONS):
        query = {"bool": {"filter": [{"range": {"time": {"gte": number}}}, {"term": {"kind": f"k{number}"}}]}}
        search = {"name": f"search-{number}", "operation-type": "search", "index": "logs", "body": {"query": query}}
        file(f"operations/o{number}.json", search)
    bulk = {"name": "write", "operation-type": "bulk", "bulk-size": 1000}
    file("operations/write.json", bulk)
    for number in range(CHALLENGES):
        searches = [{"operation": f"search-{task}", "clients": 2, "iterations": 10} for task in range(TASKS)]
        make = {"operation": {"name": "make", "operation-type": "create-component-template"}}
        file(f"challenges/c{number}.json", {"name": f"challenge-{number}", "schedule": [make, "WRITE", *searches]})
        text = (folder / f"challenges/c{number}.json").read_text()
        file(
            f"challenges/c{number}.json",
            text.replace('"WRITE"', '{"operation": "write", "clients": {{ clients | default(8) }} }'),
        )
    corpora = [
        {
            "name": f"corpus-{corpus}",
            "base-url": f"https://example.org/{corpus}",
            "documents": [
                {"source-file": f"d{number}.json.bz2", "document-count": 1000, "target-index": "logs"}
                for number in range(DOCUMENTS)
            ],
        }
        for corpus in range(CORPORA)
    ]
    track = {
        "indices": [{"name": "logs"}],
        "corpora": corpora,
        "component-templates": [
            {"name": f"t{number}", "template": f"templates/t{number}.json"} for number in range(TEMPLATES)
        ],
    }
    parts = ", ".join(
        f'"{part}": [{{{{ rally.collect(parts="{part}/*.json") }}}}]' for part in ("operations", "challenges")
    )
    whole = '{% import "rally.helpers" as rally with context %}\n' + json.dumps(track)[:-1] + ", " + parts + "}"
    file("track.json", whole)
