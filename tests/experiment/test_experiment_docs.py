"""The documentation of experiments: every example loads, and its tables match the code."""

import re
from pathlib import Path

import pytest
import yaml

from loadframe.experiment import kinds
from loadframe.experiment.design.blocks import design
from loadframe.experiment.file.factors import EASY, READERS
from loadframe.experiment.file.model import ExperimentFile, LimitsEntry, StoreEntry
from loadframe.experiment.file.reader import load_experiment

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "experiments.md").read_text()
WHOLE, *PARTS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def section(name: str) -> str:
    return PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]


@pytest.fixture
def loaded(tmp_path):
    """Load a complete experiment file in which the keys of an example replace the defaults."""

    def loaded(text: str):
        path = tmp_path / "e.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(WHOLE) | yaml.safe_load(text), sort_keys=False))
        return load_experiment(path)

    return loaded


@pytest.mark.parametrize("text", [WHOLE, *PARTS])
def test_every_example_is_an_experiment(loaded, text):
    experiment = loaded(text)
    assert design(experiment).runs
    for name in experiment.measured:
        treatment = design(experiment).runs[-1].treatment
        assert experiment.resolve(treatment, "elasticsearch").phase(name).override(**experiment.overrides(treatment))


def test_every_key_is_documented():
    table = section("The file")
    assert undocumented(ExperimentFile, table) == []
    for key in (*StoreEntry.model_fields, *LimitsEntry.model_fields):
        assert f"`{key}`" in table


@pytest.mark.parametrize("kind", kinds.names())
def test_every_kind_and_its_own_keys_are_documented(kind):
    assert f"`{kind}`" in section("The file")
    missing = undocumented(kinds.find(kind).model, section(f"Kind: {kind}"))
    assert [key for key in missing if key not in {"with", *ExperimentFile.model_fields}] == []


def undocumented(model, table: str) -> list[str]:
    keys = [field.alias or name for name, field in model.model_fields.items()]
    return [key for key in keys if not re.search(rf"^\| .*`{key}`.* \|", table, re.MULTILINE)]


def test_every_factor_is_documented_with_its_cost():
    rows = dict(re.findall(r"^\| (`.*?`) \| .* \| (.*?) \|$", section("Factors"), re.MULTILINE))
    documented = {name: cost for names, cost in rows.items() for name in re.findall(r"`(.*?)`", names)}
    assert documented.keys() == {*READERS, "store.settings.NAME", "collections.NAME.KEY", "with.NAME"}
    for name in READERS:
        assert (documented[name] == "nothing") == (name in EASY)


def test_a_phase_that_is_measured_may_warm_the_store_first(loaded):
    (text,) = [part for part in PARTS if part.startswith("with:") and "prepare:" in part]
    experiment = loaded(text)
    assert experiment.prepared[-1:] == experiment.measured
    warming = experiment.resolve(design(experiment).runs[0].treatment, "elasticsearch").phase("range_100")
    assert warming.duration == 10.0
    assert warming.override(**experiment.overrides({})).duration == 20.0
