"""The JSON Schema of workload files separates valid workload files from invalid ones."""

import re
from pathlib import Path

import pytest
from docs.generate.workload_file import schema
from jsonschema import Draft202012Validator

from loadframe.workload.workload import LIBRARY
from loadframe.yamlfile import read

DOCS = Path(__file__).parents[2] / "docs"
INDEX = (DOCS / "reference" / "workload-file" / "index.md").read_text()
WHOLE = re.findall(r"```yaml[^\n]*\n(.*?)```", INDEX, re.DOTALL)[0]


@pytest.fixture
def judged(tmp_path):
    """Return the schema's errors for the text of a workload."""

    def judged(text: str) -> list[str]:
        path = tmp_path / "w.yaml"
        path.write_text(text)
        return [error.json_path for error in Draft202012Validator(schema()).iter_errors(read(path).data)]

    return judged


@pytest.mark.slow
def test_it_is_a_schema():
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_workload_of_the_library_fits(judged, path):
    assert judged(path.read_text()) == []


@pytest.mark.parametrize(
    ("good", "bad", "place"),
    [
        ("size: 1000", "size: many", "$.operations.load"),
        ("size: 1000", "sise: 1000", "$.operations.load"),
        ("prepares: true", "prepares: maybe", "$.phases[0].prepares"),
        ("requests: 1}", "requests: 0}", "$.phases[1].requests"),
        ("until: exhausted", "until: finished", "$.phases[0].until"),
        ("generate: nyc_taxi_trip", "generate: [nyc_taxi_trip]", "$.corpora.trips.generate"),
        ("workload: trips\n", "workload: trips\nphase: []\n", "$"),
    ],
)
def test_the_schema_finds_errors(judged, good, bad, place):
    assert judged(WHOLE) == []
    assert good in WHOLE
    assert judged(WHOLE.replace(good, bad, 1)) == [place]


@pytest.mark.parametrize(
    ("value", "hole"),
    [
        ("size: 1000", 'size: "${batch}"'),
        ("prepares: true", 'prepares: "${p}"'),
        ("requests: 1}", 'requests: "${n}"}'),
        ("until: exhausted", 'until: "${end}"'),
        ("generate: nyc_taxi_trip", 'generate: "${which}"'),
    ],
)
def test_a_hole_may_stand_for_any_single_value(judged, value, hole):
    assert value in WHOLE
    assert judged(WHOLE.replace(value, hole)) == []


def test_a_step_of_a_journey_may_be_a_name(judged):
    assert judged(WHOLE.replace("operation: range, clients", "journey: [range, {operation: refresh}], clients")) == []
