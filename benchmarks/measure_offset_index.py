"""Speed of indexing a corpus of 500-byte documents from the page cache, by an example program of the engine."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from loadframe.base.errors import BadInput, LoadframeError
from loadframe.base.units import format_count, format_size

ROOT = Path(__file__).parents[1]
DOCUMENT = 500
DOCUMENTS = 2_000_000
ROUNDS = 3
#: Bytes per second.
AIM = 1.5e9


def main() -> None:
    """Write a corpus, index it several times and print the best rate, which other processes disturb least."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise BadInput("cargo is not installed", remedy="install Rust 1.88 or later")
    command = [cargo, "run", "--release", "--locked", "--quiet", "-p", "loadframe-engine", "--example", "offsets"]
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "documents.json"
        with corpus.open("w") as file:
            for _ in range(DOCUMENTS // 10_000):
                file.write(f'{{"text": "{"x" * (DOCUMENT - 13)}"}}\n' * 10_000)
        results = []
        for _ in range(ROUNDS):
            child = subprocess.run([*command, "--", str(corpus)], cwd=ROOT, capture_output=True, text=True, check=False)
            if child.returncode:
                raise LoadframeError(f"the index was not made: {child.stderr.strip()[-2000:]}")
            results.append(json.loads(child.stdout))
            corpus.with_name(f"{corpus.name}.offsets").unlink()
    best = max(results, key=lambda result: result["bytes_per_second"])
    rate = best["bytes_per_second"]
    print(f"  {format_count(best['documents'])} documents, {format_size(rate)}/s on one core")
    print(f"  ratio to the aim of {format_size(AIM)}/s: {rate / AIM:.2f}")
