"""Files of vectors in the formats of others, as the engine gets them."""

import bz2
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadframe.base.errors import BadInput
from loadframe.workload import load_workload, vectors

FLOATS = np.array([[0.5, -1, 2], [3, 4.25, 5]], "<f4")
WHOLE = np.array([[0, 1, 250], [7, 8, 9]], "<i4")


def refused(what, remedy):
    return BadInput(what, remedy=remedy)


def big_ann(rows, more=b""):
    return np.array(rows.shape, "<u4").tobytes() + rows.tobytes() + more


def read(column):
    """Read a file as the engine does: rows of a length and as many components."""
    file = Path(column["file"])
    kind = {".fvecs": "<f4", ".ivecs": "<i4", ".bvecs": "u1"}[file.suffix]
    raw, rows = file.read_bytes(), []
    while raw:
        end = 4 + int.from_bytes(raw[:4], "little") * vectors.COMPONENT[file.suffix]
        rows.append(np.frombuffer(raw[4:end], kind))
        raw = raw[end:]
    return np.array(rows)


@pytest.mark.parametrize(
    ("name", "content", "rows", "suffix"),
    [
        ("a.fbin", big_ann(FLOATS), FLOATS, ".fvecs"),
        ("a.u8bin", big_ann(WHOLE.astype("u1")), WHOLE, ".bvecs"),
        ("a.i8bin", big_ann((WHOLE % 100 - 50).astype("i1")), WHOLE % 100 - 50, ".ivecs"),
        ("a.ibin", big_ann(WHOLE), WHOLE, ".ivecs"),
        ("a.bin", big_ann(WHOLE), WHOLE, ".ivecs"),
        ("a.bin", big_ann(WHOLE, FLOATS.tobytes()), WHOLE, ".ivecs"),
        ("a.fbin.gz", gzip.compress(big_ann(FLOATS)), FLOATS, ".fvecs"),
        ("a.u8bin.bz2", bz2.compress(big_ann(WHOLE.astype("u1"))), WHOLE, ".bvecs"),
    ],
    ids=["floats", "bytes", "signed bytes", "integers", "ids", "ids and distances", "gz", "bz2"],
)
def test_files_of_the_big_ann_benchmarks_are_read(tmp_path, name, content, rows, suffix):
    (tmp_path / name).write_bytes(content)
    column = vectors.column("v", tmp_path / name, None, tmp_path / "cache", refused)
    assert Path(column["file"]).suffix == suffix
    assert np.array_equal(read(column), rows)


def test_a_packed_hdf5_file_is_read_by_its_data_sets(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train"], file["neighbors"] = FLOATS, WHOLE
    (tmp_path / "a.hdf5.bz2").write_bytes(bz2.compress((tmp_path / "a.hdf5").read_bytes()))
    source = vectors.vector_source("a.hdf5.bz2:neighbors")
    assert source == vectors.VectorSource("a.hdf5.bz2", "neighbors")
    for inside, rows in (("train", FLOATS), ("neighbors", WHOLE)):
        column = vectors.column("v", tmp_path / source.file, inside, tmp_path / "cache", refused)
        assert np.array_equal(read(column), rows)
    assert len(list((tmp_path / "cache").glob("*.hdf5"))) == 1


@pytest.mark.parametrize("number", [2**64 - 1, 2**63, 2**31])
def test_ids_beyond_32_bits_are_refused(tmp_path, number):
    pq.write_table(pa.table({"n": pa.array([[1, number]], pa.list_(pa.uint64()))}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match="does not hold numbers or vectors"):
        vectors.column("v", tmp_path / "a.parquet", "n", tmp_path / "cache", refused)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.fbin", b"", "which contradicts its header"),
        ("a.fbin", big_ann(FLOATS)[:-1], "which contradicts its header"),
        ("a.fbin", big_ann(FLOATS, FLOATS.tobytes()), "which contradicts its header"),
        ("a.fbin.gz", b"no gzip", "cannot decompress"),
    ],
    ids=["empty", "cut", "too long", "not packed"],
)
def test_a_file_that_is_damaged_is_refused(tmp_path, name, content, what):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=what):
        vectors.column("v", tmp_path / name, None, tmp_path / "cache", refused)
    assert not list(tmp_path.rglob("*.partial"))


TRUTH = """\
workload: w
collections: {c: {}}
corpora: {q: {columns: {v: q.fbin, n: n.bin}}}
variables: {row: {document: {corpus: q}}, v: {part: {of: row, field: v}}, n: {part: {of: row, field: n}}}
operations: {ask: {knn: {collection: c, field: v, vector: "${v}", k: K}, assert: {recall: {of: "${n}"}}}}
phases: [{name: p, operation: ask, clients: 1, requests: 1}]
"""


def test_right_answers_that_are_filled_up_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("LOADFRAME_CACHE", str(tmp_path / "cache"))
    (tmp_path / "q.fbin").write_bytes(big_ann(FLOATS))
    filled_up = np.array([[3, 4, 5], [6, 7, -1]], "<i4")
    (tmp_path / "n.ibin").write_bytes(big_ann(filled_up))
    for k, fits in ((2, True), (3, False)):
        (tmp_path / "w.yaml").write_text(TRUTH.replace("n.bin", "n.ibin").replace("K}", f"{k}}}"))
        workload = load_workload(str(tmp_path / "w.yaml"))
        if fits:
            workload.for_family("elasticsearch", 1)
        else:
            with pytest.raises(BadInput, match="recall at 3 needs 3 neighbours; row 1 of") as caught:
                workload.for_family("elasticsearch", 1)
            assert "w.yaml:5" in str(caught.value.where)
