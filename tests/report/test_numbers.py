"""Numbers show as many digits as their interval vouches for."""

import math

import pytest

from loadframe.analyze.estimate import Estimate
from loadframe.base.units import format_changes
from loadframe.report.csv_table import csv_table
from loadframe.report.numbers import estimate_text, known_end_text, measured_text, percent_text, seconds_estimate
from loadframe.report.tables import Cell, Table, estimate_cell


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(583.7, 572.9, 595.1), "584 [573, 595]"),
        (Estimate(1460.2, 1431.7, 1498.8), "1,460 [1,430, 1,500]"),
        (Estimate(0.056139, 0.04739, 0.06489), "0.056 [0.047, 0.065]"),
        (Estimate(0.00163, 0.00079, 0.00246), "0.0016 [0.0008, 0.0025]"),
        (Estimate(1.7e-6, 0, 2.8e-4), "1.7e-06 [0, 0.00028]"),
        (Estimate(511.0, 21.0, 912.0), "500 [20, 900]"),
        (Estimate(24.4, 18.3, math.inf), "24.4 [18.3, ∞]"),
        (Estimate(1.0, 1.0, 1.0), "1"),
        (Estimate(0.0, 0.0, 0.004), "0 [0, 0.0040]"),
        (Estimate(378.2, 378.1999, 378.2001), "378.2 [378.2, 378.2]"),
    ],
)
def test_the_interval_decides_on_the_digits(estimate, text):
    assert estimate_text(estimate) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(8.0, 1.197, 50.0), "8 [1.2, 50]"),
        (Estimate(1.02, 1.0004, 1.9), "1.020 [1.0004, 1.9]"),
        (Estimate(0.97, 0.3, 0.9996), "0.970 [0.30, 0.9996]"),
        (Estimate(4.0, 0.6, 7.4), "4 [0.6, 7]"),
        (Estimate(1.0038, 1.0031, math.inf), "1.004 [1.003, ∞]"),
        (Estimate(2.5, 1.0, 30.0), "2.5 [1.0, 30]"),
    ],
)
def test_no_end_of_a_skewed_interval_reads_no_effect(estimate, text):
    assert estimate_text(estimate) == text


@pytest.mark.parametrize(
    ("ratio", "unit", "text"),
    [
        (Estimate(0.9, 0.0, 1.0004), "", "below 1.0004"),
        (Estimate(1.2, 0.9996, math.inf), "", "above 0.9996"),
        (Estimate(0.9, 0.0, 1.0004), "%", "below 100.04 %"),
        (Estimate(0.9, 0.0, 1.0), "", "below 1"),
        (Estimate(0.9, 0.0, 1.2345), "", "below 1.23"),
        (Estimate(0.9, 0.0, math.inf), "", "unknown"),
    ],
)
def test_the_known_end_of_a_ratio_does_not_read_no_effect(ratio, unit, text):
    assert known_end_text(ratio, unit) == text


def test_no_share_near_all_reads_all():
    assert percent_text(Estimate(0.95, 0.9, 0.9996)) == "95 % [90, 99.96]"


def test_no_end_of_a_change_reads_zero():
    assert format_changes(-0.0003, 0.02) == "[-0.03 %, +2.0 %]"


def test_an_end_that_runs_leave_open_is_unknown_and_empty_in_csv():
    throughput, share = Estimate(24.4, 18.3, math.inf), Estimate(0.81, 0.78, math.inf)
    assert measured_text(throughput) == "24.4 [18.3, unknown]"
    assert percent_text(share) == "81.0 % [78.0, unknown]"
    row = [
        Cell("a"),
        estimate_cell(measured_text(throughput), throughput),
        estimate_cell(percent_text(share), share, "%"),
    ]
    header, values = csv_table(Table(("name", "x", "y"), [row])).splitlines()
    assert header == "name,x,x low,x high,y (%),y low (%),y high (%)"
    assert values == "a,24.4,18.3,,81,78,"


def test_shares_are_percentages():
    assert percent_text(Estimate(0.836, 0.81, 0.862)) == "83.6 % [81.0, 86.2]"
    assert percent_text(Estimate(1.0, 1.0, 1.0)) == "100 %"


@pytest.mark.parametrize(
    ("estimate", "number", "duration"),
    [
        (Estimate(9.31e-3, 3.93e-13, 2.2e8), "0.00931 [unknown, unknown]", "9.31 ms [unknown, unknown]"),
        (Estimate(2.0, 1e-5, 3.0), "2.0 [unknown, 3.0]", "2 s [unknown, 3 s]"),
        (Estimate(2.0, 1.0, 5000.0), "2.00 [1.00, unknown]", "2 s [1 s, unknown]"),
        (Estimate(2.0, 0.01, 1000.0), "2.0 [0.010, 1,000]", "2 s [10 ms, 16 min 40 s]"),
    ],
)
def test_an_end_more_than_a_factor_1000_from_the_value_is_unknown(estimate, number, duration):
    assert measured_text(estimate) == number
    assert seconds_estimate(estimate) == duration
