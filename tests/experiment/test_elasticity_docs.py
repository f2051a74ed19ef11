"""The documentation of elastic experiments: its examples load, and its tables match the code."""

import re
from pathlib import Path

import pytest
import yaml

from loadframe.analyze.elastic import MEASURES
from loadframe.experiment.design.plans import design
from loadframe.experiment.file.elastic import CHANGES, TRIGGERS, PolicyEntry
from loadframe.experiment.file.reader import load_experiment

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation" / "elasticity.md").read_text()
REFERENCE = (DOCS / "reference" / "experiment-file.md").read_text()
WHOLE, *PARTS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", [WHOLE, *PARTS])
def test_every_example_is_an_experiment(text, tmp_path):
    path = tmp_path / "e.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(WHOLE) | yaml.safe_load(text), sort_keys=False))
    experiment = load_experiment(path)
    treatment = design(experiment).runs[-1].treatment
    assert experiment.kind.phases(experiment, experiment.resolve(treatment, "elasticsearch"), treatment)


@pytest.mark.parametrize("key", [*TRIGGERS, *CHANGES, *PolicyEntry.model_fields])
def test_every_trigger_change_and_key_of_a_policy_is_in_the_reference(key):
    assert re.search(rf"^\| `{key}` \|", REFERENCE, re.MULTILINE)


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_documented(name):
    assert re.search(rf"^\|.*{MEASURES[name].title}.*\|", PAGE, re.MULTILINE)
