"""Experiment files and a small workload for the tests of this folder."""

from pathlib import Path
from textwrap import dedent

import pytest

from loadframe.base.errors import BadInput
from loadframe.experiment.file.reader import load_experiment

WORKLOAD = """\
workload: small
parameters: {documents: 1000, share: 0.5, hits: 10, file: "", shards: "${nodes}"}
collections: {things: {elasticsearch: {settings: {shards: "${shards}"}}}}
corpora: {things: {generate: nyc_taxi_trip, documents: "${documents}", file: "${file}"}}
operations:
  fill: {bulk: {collection: things, corpus: things, size: 100}}
  look: {search: {collection: things, size: "${hits}"}}
  settle: {refresh: {collection: things}}
phases:
  - {name: fill, prepares: true, operation: fill, clients: 4, until: exhausted}
  - {name: settle, prepares: true, operation: settle, clients: 1, requests: 1}
  - {name: look, operation: look, clients: 2, warmup: 3s, duration: 7s}
"""


@pytest.fixture
def load(tmp_path: Path):
    """Load an experiment from its text."""

    def load(text: str):
        (tmp_path / "small.yaml").write_text(WORKLOAD)
        path = tmp_path / "e.yaml"
        path.write_text(dedent(text))
        return load_experiment(path)

    return load


@pytest.fixture
def refused(load):
    """Load an experiment that is wrong; return its error and the text of the file from the error's place on."""

    def refused(text: str) -> tuple[BadInput, str]:
        with pytest.raises(BadInput) as caught:
            load(text)
        place = str(caught.value.where).rsplit("/", 1)[-1]
        assert place.startswith("e.yaml")
        _, *numbers = place.split(":")
        if not numbers:
            return caught.value, ""
        line, column = map(int, numbers)
        return caught.value, dedent(text).splitlines()[line - 1][column - 1 :]

    return refused
