"""The reference page of experiment files: every example loads, and its hand-written tables match the code."""

import inspect
import re
from pathlib import Path

import pytest
import yaml

from loadframe.experiment import kinds
from loadframe.experiment.design.plans import design
from loadframe.experiment.file.factors import EASY, READERS
from loadframe.experiment.file.reader import load_experiment
from loadframe.store.application import Application

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "experiment-file.md").read_text()


def section(name: str) -> str:
    return PAGE.split(f"\n## {name}\n")[1].split("\n## ")[0]


def examples() -> list[dict]:
    """Return the examples as whole files: the first of the page, with the first of the section, with the example."""
    whole = yaml.safe_load(re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE, re.DOTALL)[0])
    files = [whole]
    for part in PAGE.split("\n## ")[1:]:
        base = whole
        for text in re.findall(r"```yaml[^\n]*\n(.*?)```", part, re.DOTALL):
            example = yaml.safe_load(text)
            if "kind" in example:
                base = {key: value for key, value in whole.items() if key not in ("factors", "repetitions")} | example
                files.append(base)
            else:
                files.append(base | example)
    return files


@pytest.fixture
def loaded(tmp_path):
    """Load an experiment file."""

    def loaded(content: dict):
        path = tmp_path / "e.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return load_experiment(path)

    return loaded


@pytest.mark.parametrize("content", examples())
def test_every_example_is_an_experiment(loaded, content):
    experiment = loaded(content)
    assert design(experiment).runs
    for name in experiment.measured:
        treatment = design(experiment).runs[-1].treatment
        assert experiment.resolve(treatment, "elasticsearch").phase(name).override(**experiment.overrides(treatment))


def test_there_are_examples_of_every_kind():
    assert {content["kind"] for content in examples()} == {*kinds.names()}


def test_every_factor_is_documented_with_its_cost():
    rows = dict(re.findall(r"^\| (`.*?`) \| .* \| (.*?) \|$", section("Factors"), re.MULTILINE))
    documented = {name: cost for names, cost in rows.items() for name in re.findall(r"`(.*?)`", names)}
    assert documented.keys() == {*READERS, "store.settings.NAME", "collections.NAME.KEY", "with.NAME"}
    for name in READERS:
        assert (documented[name] == "nothing") == (name in EASY)


def test_a_phase_that_is_measured_may_warm_the_store_first(loaded):
    (content,) = [file for file in examples() if isinstance(file.get("prepare"), list) and file["kind"] == "scale"]
    experiment = loaded(content)
    assert experiment.prepared[-1:] == experiment.measured
    warming = experiment.resolve(design(experiment).runs[0].treatment, "elasticsearch").phase("range_100")
    assert warming.duration == 10.0
    assert warming.override(**experiment.overrides({})).duration == 20.0


@pytest.mark.parametrize("name", [name for name in inspect.signature(Application).parameters if name != "self"])
def test_every_argument_of_an_application_is_documented(name):
    assert re.search(rf"^\| `{name}` \|", section("Applications"), re.MULTILINE)
