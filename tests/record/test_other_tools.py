"""Common analysis tools read a run's tables, with equal results."""

import duckdb
import pandas
import polars
import pyarrow.compute as pc
import pytest
from recordings import manifest, summary, write_phase

from loadframe.record import Run, RunWriter


@pytest.fixture
def run(tmp_path):
    with RunWriter(tmp_path, "r1") as writer:
        write_phase(writer.phase("range", 0.0, ["a:1", "b:2"]), seconds=4)
        writer.telemetry(0.5, "host", "load.1m", 0.25)
        return Run(writer.finish(manifest().as_dict(), summary()))


@pytest.mark.parametrize("table", ["series", "telemetry"])
def test_pandas_polars_and_duckdb_read_the_same_values(run, table):
    path = str(run.path / f"{table}.parquet")
    ours = getattr(run, table)
    theirs = [pandas.read_parquet(path), polars.read_parquet(path), duckdb.read_parquet(path).arrow().read_all()]
    for frame in theirs:
        assert len(frame) == ours.num_rows > 0
    names = ours.column_names
    assert list(theirs[0].columns) == theirs[1].columns == theirs[2].column_names == names


def test_a_figure_is_the_same_in_each(run):
    path = str(run.path / "series.parquet")
    ours = pc.sum(run.series["successes"]).as_py()
    assert pandas.read_parquet(path)["successes"].sum() == ours
    assert polars.read_parquet(path)["successes"].sum() == ours
    assert duckdb.sql(f"SELECT sum(successes) FROM '{path}' WHERE segment = 'measure'").fetchall() == [(ours,)]
