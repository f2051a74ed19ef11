"""Statistics of nodes as CSV: levels as they are, counters as rates."""

import csv
import io

import pytest

from loadframe.base.errors import BadInput
from loadframe.report.run.document import Column, statistics
from simulated import Truth, write_run


def test_counters_are_rates_and_levels_stay(tmp_path):
    truth = Truth(
        seconds=4, warmup=0, watched={"conn": (7.0, 7.0)}, totals={"inserts": lambda second: 1000.0 + 50 * second}
    )
    run = write_run(tmp_path, "r1", truth, nodes=2)
    columns = [Column("insert/s", "inserts", rate=True), Column("conn", "conn"), Column("mapped", "mapped")]
    rows = list(csv.DictReader(io.StringIO(statistics(run, columns))))
    assert list(rows[0]) == ["time", "node", "insert/s", "conn", "mapped"]
    assert {row["node"] for row in rows} == {"0", "1"}
    inserted = [row["insert/s"] for row in rows if row["node"] == "1" and row["time"] != "0.500"]
    assert inserted == ["", "50", "50", "50"], "the first sample of a counter has no rate"
    assert {row["conn"] for row in rows if row["conn"]} == {"7"} and {row["mapped"] for row in rows} == {""}


def test_a_counter_that_was_reset_has_no_rate(tmp_path):
    truth = Truth(seconds=3, warmup=0, totals={"inserts": lambda second: [900.0, 100.0, 130.0][int(second)]})
    run = write_run(tmp_path, "r1", truth)
    rows = csv.DictReader(io.StringIO(statistics(run, [Column("insert/s", "inserts", rate=True)])))
    assert [row["insert/s"] for row in rows] == ["", "", "30"]


def test_recorded_values_keep_their_digits(tmp_path):
    truth = Truth(seconds=3, warmup=0, totals={"inserts": lambda second: 123456780.0 + int(second)})
    rows = csv.DictReader(io.StringIO(statistics(write_run(tmp_path, "r1", truth), [Column("inserts", "inserts")])))
    assert [row["inserts"] for row in rows] == ["123456780", "123456781", "123456782"]


def test_a_run_without_these_statistics_is_refused(tmp_path):
    run = write_run(tmp_path, "r1", Truth(seconds=3))
    with pytest.raises(BadInput, match="the run lacks statistics of nodes"):
        statistics(run, [Column("insert/s", "inserts", rate=True)])
