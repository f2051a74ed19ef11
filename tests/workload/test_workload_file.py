"""Workload files as a whole: where they are found, and that no file can do worse than be refused."""

import json
from pathlib import Path

import pytest
from workload_texts import MINIMAL

from damage import damaged
from loadframe.base.errors import BadInput
from loadframe.workload import library, load_workload
from loadframe.workload.model import WorkloadFile
from loadframe.workload.workload import LIBRARY


def test_a_workload_of_the_library_is_found_by_its_name():
    assert load_workload("nyc_taxis").name == "nyc_taxis"


def test_the_files_of_the_library_are_named_like_their_workloads():
    assert {workload.document.path.stem: workload.name for workload in library()} == {
        workload.name: workload.name for workload in library()
    }
    assert all(workload.file.description for workload in library())


def test_unknown_names_get_a_suggestion():
    with pytest.raises(BadInput, match="unknown workload 'nyc_taxi'") as caught:
        load_workload("nyc_taxi")
    assert "'nyc_taxis'" in str(caught.value.remedy)


def test_a_path_ends_with_yaml_or_has_a_slash(tmp_path, monkeypatch):
    (tmp_path / "a.yml").write_text(MINIMAL)
    (tmp_path / "b").write_text(MINIMAL)
    monkeypatch.chdir(tmp_path)
    assert load_workload("a.yml").name == load_workload("./b").name == "small"
    assert load_workload("a.yml", folder=tmp_path.parent / tmp_path.name).name == "small"
    with pytest.raises(BadInput, match="no such file"):
        load_workload("nyc_taxis.yaml")
    with pytest.raises(BadInput, match="unknown workload 'b'"):
        load_workload("b")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("workload: small", "workload: a b", "is not a name"),
        ("workload: small", "workloads: small", "unknown key 'workloads'"),
        ("workload: small\n", "", "'workload' is missing"),
        ("workload: small", "experiment: small", "this is an experiment file"),
        ("phases:", "phase:", "unknown key 'phase'"),
        ("operations:\n  look:", "operations:\n  lo/ok:", "is not a name"),
        ("collections: {things: {}}", "collections: {things: {elasticsearch: {setings: {}}}}", "unknown key 'setings'"),
        ("collections: {things: {}}", "collections: [things]", "expected a mapping"),
        ("collections: {things: {}}", "collections: {things: ~}", "expected a mapping"),
    ],
)
def test_a_wrong_section_is_refused_with_its_place(refused, old, new, what):
    assert old in MINIMAL
    error = refused(MINIMAL.replace(old, new))
    assert what in error.what
    assert str(error.where).startswith("w.yaml:")


@pytest.mark.parametrize("text", ["", "workload: w\n", "[]", "3", "workload: w\noperations: {}\nphases: []\n"])
def test_files_without_a_workload_are_refused(refused, text):
    assert "w.yaml" in str(refused(text))


def test_a_form_is_documented_by_a_schema():
    schema = json.dumps(WorkloadFile.model_json_schema(by_alias=True))
    for word in ("force_merge", "think_time", "max_in_flight", "prepares", "exhausted"):
        assert word in schema


@pytest.mark.slow
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path: Path):
    """Random damage to a real workload: the result is a set of plans, or one message with a position."""
    sound = (LIBRARY / "nyc_taxis.yaml").read_text()
    # The head, three operations and three phases: enough of everything, and short enough to be hit everywhere.
    lines = sound.splitlines(keepends=True)
    kept = [line for line in lines if not line.strip().startswith(("#", "- {name: match_all", "- {name: range_1"))]
    sound = "".join(kept)
    path = tmp_path / "w.yaml"
    path.write_text(sound)
    load_workload(str(path))
    words = [
        "${nodes}",
        "${",
        "}",
        "${documents}",
        "~",
        "3",
        "-1",
        "[]",
        "{}",
        "true",
        "'x'",
        "load",
        "nyc_taxis",
        "1e99",
    ]
    refused = 0
    for text in damaged(sound, words):
        path.write_text(text)
        try:
            resolved = load_workload(str(path)).for_family("elasticsearch", 2)
            for phase in resolved.phases:
                json.dumps(phase.plan(seed=1, hosts=[], driver="null"), allow_nan=False)
        except BadInput as error:
            refused += 1
            assert "w.yaml" in str(error.where)
    assert refused > 200
