"""Documents of 500 bytes per second into a null search server, by bulk requests of 5,000, from one worker thread.

The corpus is a file of 20,000 documents that is read repeatedly, so it stays in the page cache. The server's thread
runs on the other core.
"""

import json
import tempfile
from pathlib import Path

from benchmarks import engine_run
from benchmarks.machine import cores, null_server

from loadframe.base.units import format_count, format_duration, format_size

DOCUMENT = 500
DOCUMENTS = 20_000
REPEATED = 1500
SIZE = 5_000
CLIENTS = 4
SECONDS = 5
#: Documents per second in one process tree on two cores.
AIM = 600_000


def main() -> None:
    """Measure and print the rate."""
    server_core, client_core = cores()
    with tempfile.TemporaryDirectory() as folder, null_server(server_core) as address:
        corpus = Path(folder) / "documents.json"
        line = json.dumps({"text": ""})
        corpus.write_text(f"{line[:-2]}{'x' * (DOCUMENT - len(line))}{line[-2:]}\n" * DOCUMENTS)
        plan = engine_run.phase(
            {"driver": "search", "hosts": [address]},
            {"bulk": {"collection": "null", "corpus": "documents", "size": SIZE}},
            {"closed": {"clients": CLIENTS}},
            {"duration": SECONDS},
            corpora={"documents": {"files": [str(corpus)] * REPEATED}},
        )
        measured = engine_run.measure(plan, client_core)
    documents = measured.documents_rate
    # The whole phase with its warm-up, like its CPU time.
    cost = measured.cpu / (measured.requests * SIZE)
    print(
        f"  {format_count(documents)} documents/s, {format_size(documents * DOCUMENT)}/s;"
        f" {format_duration(cost)} of CPU a document, {format_count(1 / cost)} per second of CPU time"
    )
    print(f"  ratio to the aim of {format_count(AIM)}: {documents / AIM:.2f}")
