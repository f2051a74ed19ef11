"""A kind of experiment from outside: declared in its own module, it is found everywhere."""

import json
import sys

import pytest
from docs.generate import experiment_file

import loadframe.report.kinds
from loadframe.experiment import kinds
from loadframe.experiment.design.plans import design
from loadframe.report.kinds import read_report

KIND = """
from loadframe.experiment.file.model import ExperimentFile, Levels
from loadframe.experiment.kinds.base import Kind

class ToyFile(ExperimentFile):
    '''File of a toy: levels of clients.'''

    crowd: Levels
    repetitions: int = 1

class Toy(Kind):
    model = ToyFile

    def factors(self, file):
        return {"clients": file.crowd}

KIND = Toy()
"""
REPORT = """
from loadframe.report.kinds import Report
from loadframe.report.page import Page

def read(path, bands):
    return Report(Page("a toy"), {"toy": path.name}, lambda console: None)
"""
EXPERIMENT = """\
experiment: playing
store: {kind: opensearch}
workload: small.yaml
kind: toy
crowd: [1, 8]
repetitions: 2
"""


@pytest.fixture
def toy_kind(tmp_path, monkeypatch):
    """Add a kind and its report as modules of folders that are searched for kinds."""
    for package, text in ((kinds, KIND), (loadframe.report.kinds, REPORT)):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / "toy.py").write_text(text)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield
    for package in (kinds, loadframe.report.kinds):
        if sys.modules.pop(f"{package.__name__}.toy", None):
            del package.toy


def test_a_kind_from_outside_is_read_designed_published_and_reported(toy_kind, load, tmp_path):
    assert "toy" in kinds.names()
    runs = design(load(EXPERIMENT)).runs
    assert sorted(run.treatment["clients"] for run in runs) == [1, 1, 8, 8]
    assert experiment_file.models()["ToyFile"]["properties"]["kind"] == {"const": "toy"}
    assert "toy" in experiment_file.common()["properties"]["kind"]["enum"]
    (tmp_path / "experiment.json").write_text(json.dumps({"kind": "toy"}))
    assert read_report(tmp_path).document == {"toy": tmp_path.name}
