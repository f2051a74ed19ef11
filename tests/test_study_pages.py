"""Each page of a study in `experiments/` names all of its files, and only existing ones."""

import re
from pathlib import Path

import pytest

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
STUDIES = sorted(path for path in EXPERIMENTS.iterdir() if path.is_dir())


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_the_page_names_each_file_and_only_existing_ones(study):
    named = set(re.findall(r"`([\w-]+\.(?:yaml|csv))`", (study / "README.md").read_text()))
    stores = ("cassandra", "couchbase", "mongodb", "opensearch", "redis")
    named |= {name.replace("STORE", store) for name in named for store in stores if "STORE" in name}
    named = {name for name in named if "STORE" not in name}
    exist = {path.name for path in study.iterdir() if path.suffix in (".yaml", ".csv")}
    assert named == exist


@pytest.mark.parametrize("study", [study for study in STUDIES if study.name != "tour"], ids=lambda path: path.name)
def test_the_page_gives_status_and_year(study):
    text = (study / "README.md").read_text()
    assert "| item | file | status | reason |" in text
    assert re.search(r"\b20\d\d\b", text.split("```")[0])
