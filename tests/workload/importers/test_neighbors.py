"""A workload of vectors, as OpenSearch Benchmark has one: sets of vectors, searches for neighbours, recall, models."""

from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.workload import load_workload
from loadframe.workload.importers.rally import import_rally, parameters_of

NEAREST = Path(__file__).parents[2] / "data" / "checkout" / "nearest"


def imported(procedure=None, **values):
    """Import the workload with parameters; return its data and the unsupported parts."""
    _, valid = import_rally(
        NEAREST, procedure, {}, values={"data_set_corpus": "glyphs", "query_k": 10} | values
    ).valid()
    return valid.data, [entry.removeprefix("operation ") for entry in valid.left_out]


def local(**values):
    return {"data_set_corpus": "", **values}


def test_a_corpus_of_vectors_is_indexed_and_searched_with_recall():
    parameters = parameters_of(NEAREST / "params" / "lucene.json")
    _, valid = import_rally(NEAREST, None, {}, values=parameters).valid()
    data = valid.data
    assert data["parameters"] == {
        "documents": 1_000_000,
        "file_glyphs": "https://example.org/corpora/glyphs/glyphs-1m.hdf5.bz2",
    }
    assert data["corpora"] == {
        "fill-vectors": {
            "columns": {"place": "${file_glyphs}:train"},
            "documents": 1_000_000,
            "at_most": "${documents}",
        },
        "nearest-queries": {
            "columns": {"vector": "${file_glyphs}:test", "neighbors": "${file_glyphs}:neighbors"},
            "at_most": 40,
        },
    }
    assert data["operations"]["fill"]["bulk"] == {
        "collection": "points",
        "corpus": "fill-vectors",
        "size": 50,
        "id": "id",
    }
    nearest = data["operations"]["nearest"]
    assert nearest["knn"]["vector"] == "${nearest_vector}"
    assert (nearest["knn"]["collection"], nearest["knn"]["field"], nearest["knn"]["k"]) == ("points", "place", 10)
    assert nearest["assert"] == {"recall": {"of": "${nearest_neighbors}", "k": 10}}
    assert data["phases"][-1] == {"name": "nearest", "operation": "nearest", "clients": 1, "requests": 40}
    assert "operation nearest: stored_fields of its body, because recall needs the ids of hits" in valid.left_out


def test_a_strict_mapping_admits_the_number_of_a_vector():
    data, _ = imported()
    mappings = data["collections"]["points"]["elasticsearch"]["mappings"]
    assert mappings["dynamic"] == "strict"
    assert mappings["properties"]["id"] == {"type": "long", "index": False, "doc_values": False}


def test_an_index_is_warmed_up_until_every_shard_is():
    data, _ = imported("search")
    warm_up = data["operations"]["warm-up"]
    assert warm_up["request"] == {"method": "GET", "path": "/_plugins/_knn/warmup/points"}
    assert warm_up["repeat"]["until"] == {"_shards.failed": 0}


def test_a_model_is_trained_and_waited_for():
    data, left_out = imported("train")
    train, wait = (data["operations"][name] for name in ("train-model", "train-model-2"))
    assert (train["request"]["method"], train["request"]["path"]) == ("POST", "/_plugins/_knn/models/model-1/_train")
    assert wait["repeat"]["until"] == {"state": "created"}
    assert "delete-model: delete-knn-model, because no operation creates it" in left_out
    assert "fill-nested: its vectors outer.place belong to nested documents" in left_out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "columns", "parameters"),
    [
        (
            {"data_set_path": "/data/sift.hdf5"},
            {"vector": "${file_sift}:test", "neighbors": "${file_sift}:neighbors"},
            {"file_sift": "/data/sift.hdf5"},
        ),
        (
            {
                "data_set_format": "bigann",
                "data_set_path": "base.u8bin",
                "query_data_set_path": "query.u8bin",
                "neighbors_data_set_path": "truth.bin",
                "neighbors_data_set_format": "bigann",
            },
            {"vector": "${file_query}", "neighbors": "${file_truth}"},
            {"file_base": "base.u8bin", "file_query": "query.u8bin", "file_truth": "truth.bin"},
        ),
        (
            {"data_set_path": "a/set.hdf5", "query_data_set_path": "b/set.hdf5"},
            {"vector": "${file_set_2}:test", "neighbors": "${file_set_2}:neighbors"},
            {"file_set": "a/set.hdf5", "file_set_2": "b/set.hdf5"},
        ),
    ],
    ids=["hdf5", "bigann", "two files of one name"],
)
def test_files_of_vectors_are_parameters(values, columns, parameters):
    data, _ = imported(**local(**values))
    assert data["corpora"]["nearest-queries"]["columns"] == columns
    assert {name: value for name, value in data["parameters"].items() if name != "documents"} == parameters


@pytest.mark.slow
def test_without_true_neighbours_recall_is_absent():
    _, left_out = imported(**local(data_set_format="bigann", data_set_path="base.fbin"))
    assert "nearest: its recall, because the ground truth is missing" in left_out
    data, left_out = imported(calculate_recall=False)
    assert "assert" not in data["operations"]["nearest"]
    assert not any("recall" in entry for entry in left_out)


FILTER = {"term": {"colour": "red"}}


@pytest.mark.parametrize(
    ("values", "body"),
    [
        (
            {"filter_type": "post_filter"},
            {"post_filter": FILTER, "query": {"knn": {"place": {"vector": "${nearest_vector}", "k": 10}}}},
        ),
        (
            {"filter_type": "boolean"},
            {
                "query": {
                    "bool": {"filter": FILTER, "must": [{"knn": {"place": {"vector": "${nearest_vector}", "k": 10}}}]}
                }
            },
        ),
        (
            {"field": "outer.place", "filter_body": {}, "query_body": {"min_score": 0.5}},
            {
                "min_score": 0.5,
                "query": {
                    "nested": {
                        "path": "outer",
                        "query": {"knn": {"outer.place": {"vector": "${nearest_vector}", "k": 10}}},
                    }
                },
            },
        ),
    ],
    ids=["post_filter", "boolean", "nested"],
)
def test_other_searches_for_neighbours_have_their_whole_body(values, body):
    data, _ = imported("search", **{"filter_body": FILTER} | values)
    search = data["operations"]["nearest"]
    assert search["search"]["body"] == {"size": 10, "_source": False, **body}
    assert search["assert"]["recall"] == {"of": "${nearest_neighbors}", "k": 10}


def test_a_script_scores_the_filtered_documents():
    data, _ = imported("search", filter_type="script", filter_body=FILTER)
    scored = data["operations"]["nearest"]["search"]["body"]["query"]["script_score"]
    assert scored["query"] == {"bool": {"filter": FILTER}}
    assert scored["script"]["params"]["query_value"] == "${nearest_vector}"


def test_an_efficient_filter_is_the_form_s_own():
    data, _ = imported("search", filter_type="efficient", filter_body=FILTER)
    assert data["operations"]["nearest"]["knn"]["filter"] == FILTER


def test_recall_is_absent_for_searches_within_a_distance():
    values = {"data_set_corpus": "glyphs", "max_distance": 3.5}
    _, valid = import_rally(NEAREST, "search", {}, values=values).valid()
    near = valid.data["operations"]["nearest"]["search"]["body"]["query"]["knn"]["place"]
    assert near == {"vector": "${nearest_vector}", "max_distance": 3.5}
    assert any("padded with -1" in entry for entry in valid.left_out)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"data_set_corpus": ""}, "the vector data set is missing"),
        ({"data_set_corpus": "glyph"}, "unknown corpus glyph"),
        ({"data_set_path": "a.hdf5"}, "data_set_corpus exclude each other"),
        (local(data_set_path="a.csv"), "'a.csv:train' is not a vector file"),
        (local(data_set_path="a.hdf5", data_set_format="npy"), "unknown format npy"),
        ({"bulk_size": 0}, "must be at least 1"),
    ],
)
def test_errors_of_a_set_are_named_with_their_lines(values, what):
    try:
        _, left_out = imported(**values)
    except BadInput as error:
        left_out = [str(error.remedy), error.what]
    (entry, *_) = [entry for entry in left_out if what in entry]
    assert f"{NEAREST}/test_procedures/common/fill.json" in entry


def test_searches_that_filter_by_lost_attributes_are_reported():
    _, left_out = imported(attributes=["colour", "age"])
    assert "fill: the attributes colour, age of its documents; searches that filter by them find nothing" in left_out


def test_an_imported_workload_shows_its_requests_without_its_vectors(tmp_path):
    text, _ = import_rally(NEAREST, None, {}, values={"data_set_corpus": "glyphs", "query_k": 10}).valid()
    (tmp_path / "w.yaml").write_text(text)
    resolved = load_workload(str(tmp_path / "w.yaml")).for_family("elasticsearch", 1, offline=True)
    assert resolved.corpora["fill-vectors"]["columns"] == []


def test_parameters_come_from_a_file_and_from_the_command_line(tmp_path):
    _, valid = import_rally(
        NEAREST, None, {"query_count": "7"}, values={"query_count": 3, "query_k": 2, "data_set_corpus": "glyphs"}
    ).valid()
    assert valid.data["phases"][-1]["requests"] == 7
    (tmp_path / "p.json").write_text("[1]")
    with pytest.raises(BadInput, match="expected an object of parameters"):
        parameters_of(tmp_path / "p.json")
