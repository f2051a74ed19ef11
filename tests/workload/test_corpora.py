"""Corpora: generated or from files, which are found, checked and identified."""

import hashlib
import json
from pathlib import Path

import pytest

from loadframe.base import download
from loadframe.base.errors import BadInput, LoadframeError
from loadframe.workload import corpora

WORKLOAD = """\
workload: w
parameters: {file: "", limit: ~}
collections: {c: {}}
corpora:
  c: CORPUS
operations: {fill: {bulk: {collection: c, corpus: c, size: 5}}}
phases: [{name: fill, operation: fill, clients: 1, until: exhausted}]
"""
EITHER = '{generate: nyc_taxi_trip, documents: 7, file: "${file}"}'


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "d.json"
    path.parent.mkdir()
    path.write_text('{"a": 1}\n{"a": 2}\n')
    return path


def source(workload):
    return workload.for_family("elasticsearch", 1).corpora["c"]


def test_a_generated_corpus_has_its_number_of_documents(load):
    assert source(load(WORKLOAD.replace("CORPUS", EITHER))) == {"generate": "nyc_taxi_trip", "documents": 7}


def test_the_generator_of_records_takes_their_shape(load):
    corpus = "{generate: ycsb_record, documents: 5, with: {field_length: 20}}"
    options = {"field_count": 10, "field_length": 20}
    assert source(load(WORKLOAD.replace("CORPUS", corpus))) == {
        "generate": "ycsb_record",
        "documents": 5,
        "with": options,
    }


def test_a_file_takes_the_generators_place_and_is_read_in_full(load, documents):
    workload = load(WORKLOAD.replace("CORPUS", EITHER), file=str(documents))
    assert source(workload) == {"files": [str(documents)]}


def test_a_file_that_has_no_default_is_set(load, documents):
    text = WORKLOAD.replace("CORPUS", '{file: "${file}"}')
    assert source(load(text, file=str(documents))) == {"files": [str(documents)]}


def test_a_path_in_the_file_begins_at_the_files_folder(load, documents):
    workload = load(WORKLOAD.replace("CORPUS", "{files: [data/d.json, ./data/d.json], documents: 3}"))
    assert source(workload)["documents"] == 3
    assert [Path(name).samefile(documents) for name in source(workload)["files"]] == [True, True]


def test_at_most_bounds_a_corpus_of_any_source(load, documents):
    of_files = load(WORKLOAD.replace("CORPUS", "{file: data/d.json, documents: 300, at_most: 40}"))
    assert (source(of_files)["documents"], source(of_files)["at_most"]) == (300, 40)
    assert of_files.documents("c") == 40
    generated = "{generate: nyc_taxi_trip, documents: 7, at_most: 3}"
    assert source(load(WORKLOAD.replace("CORPUS", generated)))["documents"] == 3
    either = '{generate: nyc_taxi_trip, documents: 7, at_most: 1, file: "${file}"}'
    assert source(load(WORKLOAD.replace("CORPUS", either), file=str(documents))) == {
        "files": [str(documents)],
        "at_most": 1,
    }


def test_offline_a_corpus_that_is_not_in_the_cache_is_left_without_files(load):
    workload = load(WORKLOAD.replace("CORPUS", '{url: "http://127.0.0.1:9/d.json", actions: true}'))
    resolved = workload.for_family("elasticsearch", 1, offline=True)
    assert resolved.corpora["c"] == {"files": [], "actions": True}


@pytest.mark.parametrize("name", ["d.json.gz", "d.json.bz2", "D.JSON.ZST"])
def test_compressed_files_are_taken_as_they_are(load, tmp_path, name):
    (tmp_path / name).write_bytes(b"packed" * 1000)
    workload = load(WORKLOAD.replace("CORPUS", f"{{file: {name}, actions: true, broken: set_aside}}"))
    assert source(workload) == {"files": [str(tmp_path / name)], "actions": True, "broken": "set_aside"}
    assert 100 <= workload.documents("c") <= 200


@pytest.fixture
def fetched(monkeypatch, cache):
    """Replace the network by a cached file; return the list of requests."""
    asked = []

    def fetch(url, folder, report, *, otherwise, checksum=None):
        assert "file:" in otherwise
        asked.append((url, checksum))
        path = download.place(url, folder, checksum)
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"a": 1}\n' * 1000)
        return path

    monkeypatch.setattr(download, "fetch", fetch)
    return asked


def test_an_address_takes_the_generators_place_and_a_file_the_addresss(load, fetched, documents):
    corpus = '{generate: geonames, documents: 7, url: "${url}", sha256: "${sum}", file: "${file}"}'
    text = WORKLOAD.replace("CORPUS", corpus).replace("limit: ~", 'url: "", sum: ""')
    assert source(load(text)) == {"generate": "geonames", "documents": 7}
    address, checksum = "https://data.example/all.json.gz?a=b", 64 * "0"
    workload = load(text, url=address, sum=checksum)
    # As many as would be generated: more is not known, and nothing is fetched to know it.
    assert (workload.documents("c"), workload.missing("c")) == (7, [address])
    (path,) = source(workload)["files"]
    assert Path(path).name.endswith("-all.json.gz")
    assert (workload.documents("c"), workload.missing("c")) == (9 * 1000 * 10 // 500, [])
    assert fetched == [(address, checksum)]
    assert source(load(text, url=address, file=str(documents))) == {"files": [str(documents)]}
    assert len(fetched) == 1


def test_several_addresses_are_one_corpus(load, fetched):
    workload = load(WORKLOAD.replace("CORPUS", "{urls: [http://a.example/1.gz, http://a.example/2.gz], documents: 9}"))
    taken = source(workload)
    assert taken["documents"] == 9
    assert [Path(name).name[-5:] for name in taken["files"]] == ["-1.gz", "-2.gz"]
    assert fetched == [("http://a.example/1.gz", None), ("http://a.example/2.gz", None)]


def test_a_path_that_is_set_begins_at_the_current_folder(load, documents, monkeypatch):
    workload = load(WORKLOAD.replace("CORPUS", EITHER))
    monkeypatch.chdir(documents.parent)
    assert source(workload.with_parameters({"file": "d.json"})) == {"files": [str(documents)]}


def test_a_path_that_is_set_elsewhere_begins_there(load, documents):
    workload = load(WORKLOAD.replace("CORPUS", EITHER)).with_parameters({"file": "d.json"}, folder=documents.parent)
    assert source(workload) == {"files": [str(documents)]}


def test_files_are_described_by_their_hash(load, documents):
    workload = load(WORKLOAD.replace("CORPUS", EITHER), file=str(documents)).for_family("elasticsearch", 2)
    described = json.loads(json.dumps(workload.describe()))
    digest = hashlib.sha256(documents.read_bytes()).hexdigest()
    assert described["corpora"] == {"c": {"files": [{"path": str(documents), "bytes": 18, "sha256": digest}]}}
    assert described["parameters"] == {"file": str(documents), "limit": None}
    assert (described["name"], described["family"], described["nodes"]) == ("w", "elasticsearch", 2)
    assert described["file"]["sha256"] == hashlib.sha256(Path(described["file"]["path"]).read_bytes()).hexdigest()


def test_the_lines_that_variables_are_drawn_from_are_described_by_their_hash(load, documents):
    text = WORKLOAD.replace("CORPUS", EITHER).replace(
        "phases:", "variables: {word: {lines: {file: data/d.json}}}\nphases:"
    )
    text = text.replace("operations: {", 'operations: {get: {get: {collection: c, id: "${word}"}}, ')
    text = text.replace("phases: [", "phases: [{name: get, operation: get, clients: 1, requests: 1}, ")
    described = load(text).for_family("elasticsearch", 1).describe()
    digest = hashlib.sha256(documents.read_bytes()).hexdigest()
    assert described["lines"] == [{"path": str(documents), "bytes": 18, "sha256": digest}]


def test_a_file_that_disappears_is_named(load, documents):
    workload = load(WORKLOAD.replace("CORPUS", EITHER), file=str(documents)).for_family("elasticsearch", 1)
    documents.unlink()
    with pytest.raises(LoadframeError, match="cannot read a file of the workload") as caught:
        workload.describe()
    assert caught.value.where == str(documents)


@pytest.mark.parametrize(
    ("corpus", "what"),
    [
        ("{}", "the corpus lacks a source"),
        ('{file: "${file}"}', "the corpus lacks a source"),
        ("{generate: nyc_taxi_trip}", "a generated corpus needs a number of documents"),
        ("{generate: nyc_taxi_trips, documents: 3}", "not valid here"),
        ("{generate: nyc_taxi_trip, documents: 0}", "at least 1"),
        ("{file: a, files: [b]}", "exclude each other"),
        ("{generate: nyc_taxi_trip, documents: 1, files: [b]}", "exclude each other"),
        ("{files: []}", "at least one entry"),
        ("{files: b}", "expected a list"),
        ("{generate: geonames, documents: 1, with: {field_count: 1}}", "only the generator ycsb_record"),
        (
            "{generate: ycsb_record, documents: 1, with: {field_count: 10000, field_length: 10000}}",
            "a record would exceed 64 MiB",
        ),
        ("{generate: ycsb_record, documents: 1, with: {fieldcount: 1}}", "unknown key 'fieldcount'"),
        ("{files: [b], broken: skip}", "not valid here"),
        ("{generate: nyc_taxi_trip, documents: 1, actions: true}", "requires file, files, url or urls"),
        ("{url: b}", "is not a URL"),
        ("{urls: [https://b.example/c, file:///c]}", "is not a URL"),
        ("{url: https://b.example/c, sha256: abc}", "not a SHA-256"),
        ("{file: b, sha256: abc}", "not a SHA-256"),
        (f"{{file: b, sha256: {64 * 'a'}}}", "sha256 requires url"),
        ("{url: https://b.example/c, urls: [https://b.example/c]}", "exclude each other"),
        ("{file: b, format: xml}", "not valid here"),
        ("{file: b, format: mediawiki, actions: true}", "actions requires format: ndjson; got mediawiki"),
        ("{generate: geonames, documents: 1, format: mediawiki}", "requires file, files, url or urls"),
    ],
)
def test_a_corpus_that_cannot_be_is_refused(refused, corpus, what):
    error = refused(WORKLOAD.replace("CORPUS", corpus))
    assert what in error.what
    assert str(error.where).startswith("w.yaml:5:")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("no.json", None, "does not exist"),
        (".", None, "is a folder"),
        ("empty.json", "", "is empty"),
        ("d.json.xz", "x", "has an unsupported compression"),
        ("D.JSON.ZIP", "x", "has an unsupported compression"),
        ("x" * 300, None, "cannot read"),
    ],
)
def test_a_file_that_cannot_be_a_corpus_is_refused_where_it_was_given(load, tmp_path, name, content, what):
    if content is not None:
        (tmp_path / name).write_text(content)
    workload = load(WORKLOAD.replace("CORPUS", EITHER), file=str(tmp_path / name))
    with pytest.raises(BadInput, match=what) as caught:
        workload.for_family("elasticsearch", 1)
    assert caught.value.where == "--set file"
    workload = load(WORKLOAD.replace("CORPUS", f'{{file: "{name}"}}'))
    with pytest.raises(BadInput, match=what) as caught:
        workload.for_family("elasticsearch", 1)
    assert str(caught.value.where).endswith("w.yaml:5:13")


@pytest.mark.parametrize(
    ("corpus", "what"),
    [
        (
            "{columns: {v: base.csv}}",
            "'base.csv' is not a vector file (.fvecs, .ivecs, .bvecs, .hdf5, .h5, .parquet, .fbin,",
        ),
        ("{columns: {v: base.hdf5}}", "'base.hdf5' lacks the data set or column: write FILE:NAME"),
        ("{columns: {v: base.fvecs}, file: a.ndjson}", "file and columns exclude each other"),
        ("{columns: {v: base.fvecs}, generate: nyc_taxi_trip, documents: 3}", "generate and columns exclude"),
        ("{columns: {}}", "at least one entry"),
        ("{file: a.parquet, format: parquet, actions: true}", "actions requires format: ndjson; got parquet"),
    ],
)
def test_columns_that_cannot_be_are_refused(refused, corpus, what):
    text = "workload: w\ncorpora: {c: CORPUS}\noperations: {o: {bulk: {collection: c, corpus: c, size: 1}}}\n"
    text += "collections: {c: {}}\nphases: [{name: p, operation: o, clients: 1, requests: 1}]\n"
    assert what in refused(text.replace("CORPUS", corpus)).what


def test_rows_of_parquet_are_documents(load, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path / "cache"))
    pq.write_table(pa.table({"n": [1, None], "tags": [["a"], []]}), tmp_path / "rows.parquet")
    text = "workload: w\ncorpora: {c: {file: rows.parquet, format: parquet}}\ncollections: {c: {}}\n"
    text += "operations: {o: {bulk: {collection: c, corpus: c, size: 1}}}\n"
    text += "phases: [{name: p, operation: o, clients: 1, until: exhausted}]\n"
    (file,) = load(text).for_family("elasticsearch", 1).corpora["c"]["files"]
    assert Path(file).read_text() == '{"n": 1, "tags": ["a"]}\n{"n": null, "tags": []}\n'


@pytest.mark.parametrize(
    ("files", "documents"),
    [
        ({"url": "https://nowhere.example/x.ndjson", "at_most": 1000}, 1000),
        ({"file": "missing.ndjson", "at_most": 1000}, 1000),
        ({"columns": {"v": "missing.fbin"}, "at_most": 1000}, 1000),
        ({"file": "missing.ndjson"}, 1),
        ({"generate": "geonames", "documents": 7, "file": "missing.ndjson", "at_most": 1000}, 7),
    ],
)
def test_missing_files_are_estimated_by_the_number_to_generate_or_the_limit(tmp_path, files, documents):
    assert corpora.documents(corpora.Corpus.model_validate(files), tmp_path) == documents
