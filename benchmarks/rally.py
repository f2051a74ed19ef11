"""Rally and OpenSearch Benchmark, its descendant, on a cluster that runs: writes what they need, and runs them."""

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
    """How one of the two is called: its name, its program, and its words for the same things."""

    name: str
    program: str
    #: The subcommand that runs, and the options for what to run and where its results go.
    run: str
    workload: str
    results: str
    #: The file that says what to run, and the variable that names the folder of its own files.
    file: str
    home: str
    #: Whether documents are of a type, as they were for Elasticsearch 6.
    typed: bool = False

    def find(self) -> Path:
        """Return the program; BadInput if it is not here."""
        return peers.find(self.program)

    def cpu(
        self,
        address: str,
        definition: Mapping[str, Any],
        corpus: Path,
        documents: int,
        tasks: Sequence[Mapping[str, Any]],
    ) -> float:
        """Make the collection anew, run tasks of its workload language on it, and return its CPU time in s.

        BadInput if it is not here; LoadframeError with Rally's message if it fails, or if a request does.
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
            # Its own files, too, go where they are thrown away.
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
