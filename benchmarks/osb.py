"""OpenSearch Benchmark on a cluster that runs already: writes the workload that it needs, and runs it."""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers, spent

from loadframe.errors import LoadframeError

COLLECTION = "osb"


def find() -> Path:
    """Return the program; BadInput if it is not here."""
    return peers.find("opensearch-benchmark")


def cpu(
    address: str,
    definition: Mapping[str, Any],
    corpus: Path,
    documents: int,
    tasks: Sequence[Mapping[str, Any]],
) -> float:
    """Make the collection anew, run tasks of its workload language on it, and return its CPU time in s.

    BadInput if it is not here; LoadframeError with its own words if it fails, or if a request does.
    """
    program = find()
    with tempfile.TemporaryDirectory(prefix="loadframe-osb-") as name:
        folder = Path(name)
        (folder / "index.json").write_text(json.dumps(definition))
        (folder / corpus.name).symlink_to(corpus)
        source = {
            "source-file": corpus.name,
            "document-count": documents,
            "uncompressed-bytes": corpus.stat().st_size,
            "target-index": COLLECTION,
        }
        before = [{"operation": {"operation-type": kind}} for kind in ("delete-index", "create-index")]
        workload = {
            "version": 2,
            "description": "the same load as Loadframe's",
            "indices": [{"name": COLLECTION, "body": "index.json"}],
            "corpora": [{"name": "corpus", "documents": [source]}],
            "schedule": [*before, *tasks],
        }
        (folder / "workload.json").write_text(json.dumps(workload))
        command = [
            str(program), "run", "--pipeline=benchmark-only", f"--workload-path={folder}", f"--target-hosts={address}",
            "--kill-running-processes", "--offline", "--on-error=abort", "--results-format=csv",
            f"--results-file={folder / 'results.csv'}",
        ]  # fmt: skip
        # Its own files, too, go where they are thrown away.
        ran = spent.run(command, {**os.environ, "HOME": name, "BENCHMARK_HOME": name})
        if ran.status or not (folder / "results.csv").exists():
            raise LoadframeError(f"OpenSearch Benchmark failed: {(ran.stdout + ran.stderr)[-2000:]}")
        failed = [line for line in (folder / "results.csv").read_text().splitlines() if line.startswith("error rate")]
        if any(float(line.split(",")[2]) > 0 for line in failed):
            raise LoadframeError(f"requests of OpenSearch Benchmark failed: {failed}")
        return ran.cpu
