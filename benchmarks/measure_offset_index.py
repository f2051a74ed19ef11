"""Speed of indexing a corpus of 500-byte documents from the page cache, by an example program of the engine."""

import tempfile
from pathlib import Path

from benchmarks.engine_example import measured

from loadframe.base.units import format_count, format_size

DOCUMENT = 500
DOCUMENTS = 2_000_000
ROUNDS = 3
#: Bytes per second.
AIM = 1.5e9


def main() -> None:
    """Write a corpus, index it several times and print the best rate, which other processes disturb least."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "documents.json"
        with corpus.open("w") as file:
            for _ in range(DOCUMENTS // 10_000):
                file.write(f'{{"text": "{"x" * (DOCUMENT - 13)}"}}\n' * 10_000)
        results = []
        for _ in range(ROUNDS):
            results += measured("offsets", str(corpus))
            corpus.with_name(f"{corpus.name}.offsets").unlink()
    best = max(results, key=lambda result: result["bytes_per_second"])
    rate = best["bytes_per_second"]
    print(f"  {format_count(best['documents'])} documents, {format_size(rate)}/s on one core")
    print(f"  ratio to the aim of {format_size(AIM)}/s: {rate / AIM:.2f}")
