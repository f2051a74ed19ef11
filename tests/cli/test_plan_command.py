"""`loadframe plan`: of a file by what is supposed, of a folder by what its runs say; starts nothing."""

import json

import pytest

from commands import run
from loadframe.simulate import outlook
from simulated import Truth, write_experiment

FILE = """\
experiment: e
store: {kind: sim}
workload: nyc_taxis
kind: scale
factors: {nodes: [1, 2, 4]}
measure: range_100
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(outlook, "TRIALS", 4)
