"""The JSON Schema of experiment files accepts every shipped experiment, and refuses broken ones."""

import re
from pathlib import Path

import pytest
from docs.generate.experiment_file import schema
from jsonschema import Draft202012Validator

from loadframe.workload.workload import LIBRARY
from loadframe.yamlfile import read

TOP = Path(__file__).parents[2]
FILES = [*sorted((TOP / "experiments").glob("*/*.yaml")), TOP / "python" / "loadframe" / "experiment" / "demo.yaml"]
PAGE = (TOP / "docs" / "reference" / "experiment-file.md").read_text()
WHOLE = re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE, re.DOTALL)[0]
VALIDATOR = Draft202012Validator(schema())


@pytest.fixture
def judged(tmp_path):
    """Return the places of the schema's errors in the text of an experiment."""

    def judged(text: str) -> list[str]:
        path = tmp_path / "e.yaml"
        path.write_text(text)
        return [error.json_path for error in VALIDATOR.iter_errors(read(path).data)]

    return judged


def test_it_is_a_schema():
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shipped_experiment_fits(path):
    assert [error.json_path for error in VALIDATOR.iter_errors(read(path).data)] == []


@pytest.mark.parametrize(
    ("good", "bad", "place"),
    [
        ("kind: scale", "kind: scales", "$.kind"),
        ("kind: scale", "", "$"),
        ("kind: scale", "kind: settings\ntrials: few", "$.trials"),
        ("kind: scale", "kind: compare", "$"),
        ("repetitions: 3", "repetitions: 0", "$.repetitions"),
        ("repetitions: 3", "repetition: 3", "$"),
        ("measure: range_100", "measure: {range_100: 1}", "$.measure"),
        ("nodes: [1, 2, 3]", "nodes: 3", "$.factors.nodes"),
        ("memory: 1g", "mem: 1g", "$.store.limits"),
        ("duration: 20s", "duration: [20s]", "$.duration"),
        ("kind: scale", "kind: scale\nobjective: requests", "$.objective"),
        ("kind: scale", "kind: scale\nclients: [4]", "$.clients"),
        ("workload: nyc_taxis", "", "$"),
    ],
)
def test_broken_experiments_are_refused(judged, good, bad, place):
    assert judged(WHOLE) == []
    assert good in WHOLE
    assert judged(WHOLE.replace(good, bad, 1)) == [place]


@pytest.mark.parametrize("value", ["4", "auto", "${10 * nodes}"])
def test_a_number_an_expression_or_auto_are_numbers_of_clients(judged, value):
    assert judged(WHOLE.replace("kind: scale", f"kind: scale\nclients: {value}")) == []


SHIPPED = [*FILES, *sorted(LIBRARY.glob("*.yaml")), *sorted((TOP / "examples").rglob("*.yaml"))]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_shipped_file_names_its_schema_for_editors(path):
    text = path.read_text()
    first = text.splitlines()[0]
    name = "experiment" if re.search("^experiment:", text, re.MULTILINE) else "workload"
    prefix = "# yaml-language-server: $schema="
    assert first.startswith(prefix)
    target = (path.parent / first.removeprefix(prefix)).resolve()
    assert target == TOP / "docs" / "reference" / f"{name}.schema.json"
    assert target.is_file()
