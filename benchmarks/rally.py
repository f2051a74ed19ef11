"""Rally and its fork OpenSearch Benchmark on a running cluster: writes their files and runs them."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import peers, spent

from loadframe.base.errors import LoadframeError

COLLECTION = "trips"


@dataclass(frozen=True)
class Tool:
    """Differences of the two tools: name, program, and terms for the same things."""

    name: str
    program: str
    #: The subcommand to run, and the options for workload and results.
    run: str
    workload: str
    results: str
    #: The file of the workload, and the environment variable of the data folder.
    file: str
    home: str
    #: Whether documents have a mapping type, as in Elasticsearch 6.
    typed: bool = False

    def find(self) -> Path:
        """Return the path of the program; BadInput if it is not installed."""
        return peers.find(self.program)

    def cpu(
        self,
        address: str,
        definition: Mapping[str, Any],
        corpus: Path,
        documents: int,
        tasks: Sequence[Mapping[str, Any]],
    ) -> float:
        """Recreate the collection, run tasks of the tool's workload language, and return its CPU time in s.

        BadInput if it is not installed; LoadframeError with its message if it or a request fails.
        """
        program = self.find()
        with tempfile.TemporaryDirectory(prefix="loadframe-peer-") as name:
            folder = Path(name)
            (folder / "index.json").write_text(json.dumps(definition))
            (folder / corpus.name).symlink_to(corpus)
            source = {
                "source-file": corpus.name,
                "document-count": documents,
                "uncompressed-bytes": corpus.stat().st_size,
                "target-index": COLLECTION,
            } | ({"target-type": "_doc"} if self.typed else {})
            before = [{"operation": {"operation-type": kind}} for kind in ("delete-index", "create-index")]
            workload = {
                "version": 2,
                "description": "the same load as Loadframe's",
                "indices": [{"name": COLLECTION, "body": "index.json"} | ({"types": ["_doc"]} if self.typed else {})],
                "corpora": [{"name": "corpus", "documents": [source]}],
                "schedule": [*before, *tasks],
            }
            (folder / self.file).write_text(json.dumps(workload))
            results = folder / "results.csv"
            command = [
                str(program), self.run, "--pipeline=benchmark-only", f"--{self.workload}={folder}",
                f"--target-hosts={address}", "--kill-running-processes", "--offline", "--on-error=abort",
                f"--{self.results}-format=csv", f"--{self.results}-file={results}",
            ]  # fmt: skip
            # Its data folder is temporary, too.
            ran = spent.run(command, {**os.environ, "HOME": name, self.home: name})
            if ran.status or not results.exists():
                raise LoadframeError(f"{self.name} failed: {(ran.stdout + ran.stderr)[-2000:]}")
            failed = [line for line in results.read_text().splitlines() if line.startswith("error rate")]
            if any(float(line.split(",")[2]) > 0 for line in failed):
                raise LoadframeError(f"requests of {self.name} failed: {failed}")
            return ran.cpu


OPENSEARCH_BENCHMARK = Tool(
    "OpenSearch Benchmark", "opensearch-benchmark", "run", "workload-path", "results", "workload.json", "BENCHMARK_HOME"
)
RALLY = Tool("Rally", "esrally", "race", "track-path", "report", "track.json", "RALLY_HOME", typed=True)
