"""Durations, sizes and rates are read as people write them, and written so that they can be read again."""

import math

import pytest

from loadframe.base.errors import BadInput
from loadframe.base.units import (
    Cores,
    counted,
    duration_beside,
    format_bandwidth,
    format_change,
    format_count,
    format_duration,
    format_nodes,
    format_share,
    format_shares,
    format_size,
    parse_bandwidth,
    parse_cores,
    parse_duration,
    parse_rate,
    parse_share,
    parse_size,
    share_beside,
    written_apart,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("250ms", 0.25),
        ("350 us", 0.00035),
        ("1.5h", 5400),
        ("2m", 120),
        ("2 min", 120),
        ("1d", 86400),
        ("0", 0),
        ("7", 7),
        (7, 7),
        (0.25, 0.25),
        ("1e3", 1000),
        (" 5s ", 5),
        ("1e-3s", 0.001),
    ],
)
def test_durations_are_seconds(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512m", 512 * 2**20),
        ("1g", 2**30),
        ("1G", 2**30),
        ("1GB", 2**30),
        ("1 GiB", 2**30),
        ("1.5k", 1536),
        ("4096", 4096),
        (4096, 4096),
        ("0", 0),
        ("10b", 10),
        ("1t", 2**40),
    ],
)
def test_sizes_are_bytes_by_powers_of_1024(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "rate"),
    [("1000/s", 1000), ("30/min", 0.5), ("30/m", 0.5), ("7200/h", 2), ("12.5", 12.5), (250, 250), ("1000 / s", 1000)],
)
def test_rates_are_per_second(text, rate):
    assert parse_rate(text) == pytest.approx(rate)


HOSTILE = [
    "",
    " ",
    "s",
    "-1s",
    "+1s",
    "1 0s",
    "1s2",
    "1..5s",
    "0x10",
    "1_000",
    "١٠s",
    "１s",
    "nan",
    "inf",
    "1e999s",
    "1e999",
]
NO_VALUES = [None, True, False, [], {}, b"1s", math.nan, math.inf, -1, -0.5, 10**400, "1" * 5000]


@pytest.mark.parametrize("parse", [parse_duration, parse_size, parse_rate])
@pytest.mark.parametrize("text", [*HOSTILE, *NO_VALUES], ids=lambda text: repr(text)[:20])
def test_invalid_quantities_are_bad_input_with_a_remedy(parse, text):
    with pytest.raises(BadInput) as error:
        parse(text)
    assert error.value.remedy


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_duration, "1x"),
        (parse_duration, "1S"),
        (parse_duration, "1g"),
        (parse_duration, "1/s"),
        (parse_size, "1s"),
        (parse_size, "1kk"),
        (parse_size, "1 kibi"),
        (parse_rate, "1/d"),
        (parse_rate, "1/"),
        (parse_rate, "/s"),
    ],
)
def test_a_unit_of_another_kind_is_bad_input(parse, text):
    with pytest.raises(BadInput):
        parse(text)


@pytest.mark.parametrize("seconds", [1e-6, 3.5e-4, 9.994e-4, 9.996e-4, 0.0123, 0.9996, 1, 4.56, 59.9])
def test_a_duration_under_a_minute_is_read_back_to_three_digits(seconds):
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.005)


@pytest.mark.parametrize("count", [0, 1, 512, 1023, 1024, 1536, 2**20 - 1, 5 * 2**20, 3.7 * 2**30, 2**40])
def test_a_size_is_read_back_to_three_digits(count):
    assert parse_size(format_size(count).replace(",", "")) == pytest.approx(count, rel=0.005)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 us"),
        (0.00035, "350 us"),
        (0.0009997, "1 ms"),
        (0.0123, "12.3 ms"),
        (0.9999, "1 s"),
        (4.56, "4.56 s"),
        (59.99, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (7199, "2 h 00 min"),
        (-0.5, "-500 ms"),
        (-90, "-1 min 30 s"),
        (math.inf, "inf s"),
        (math.nan, "nan s"),
    ],
)
def test_durations_are_written_with_the_unit_that_suits_them(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1010, "1,010 B"),
        (1023.9, "1 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 1, "1 MiB"),
        (2**50, "1,024 TiB"),
        (-2048, "-2 KiB"),
    ],
)
def test_sizes_are_written_with_binary_units(count, text):
    assert format_size(count) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (12.0, "12"),
        (5.678, "5.68"),
        (99.96, "100"),
        (1234.5, "1,234"),
        (1000000.0, "1,000,000"),
        (1e-05, "1e-05"),
        (-1500.2, "-1,500"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_counts_are_written_with_three_digits_or_separators(count, text):
    assert format_count(count) == text


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100mbit", 12.5e6), ("1 Gbit/s", 125e6), ("8kbit", 1000), ("16bit", 2), (1000, 1000)],
)
def test_bandwidths_are_bytes_per_second_in_powers_of_1000(text, rate):
    assert parse_bandwidth(text) == rate


@pytest.mark.parametrize("text", ["100", "100mb", "100mbps", "-1mbit", "", True])
def test_invalid_bandwidths_are_refused(text):
    with pytest.raises(BadInput):
        parse_bandwidth(text)


@pytest.mark.parametrize("rate", ["8 bit/s", "100 Mbit/s", "2.5 Gbit/s", "64 kbit/s"])
def test_bandwidths_are_written_so_that_they_can_be_read_again(rate):
    assert format_bandwidth(parse_bandwidth(rate)) == rate


@pytest.mark.parametrize(("text", "share"), [("1%", 0.01), ("0.1 %", 0.001), ("100%", 1), (0.25, 0.25), ("0", 0)])
def test_shares_are_parts_of_one(text, share):
    assert parse_share(text) == share


@pytest.mark.parametrize("text", ["101%", "1.5", "-1%", "x", "", True])
def test_invalid_shares_are_refused(text):
    with pytest.raises(BadInput):
        parse_share(text)


@pytest.mark.parametrize(
    ("text", "cores"), [("0", (0,)), (3, (3,)), ("0-2", (0, 1, 2)), ("4, 0-1,1", (0, 1, 4)), ("2-2", (2,))]
)
def test_cores_are_numbers_and_ranges(text, cores):
    assert parse_cores(text) == Cores(cores)


@pytest.mark.parametrize(
    ("text", "cores"),
    [("1 each", Cores(None, 1)), (" 2 each ", Cores(None, 2)), ("2 each of 0-1,4-5", Cores((0, 1, 4, 5), 2))],
)
def test_each_node_may_get_cores_of_its_own(text, cores):
    assert parse_cores(text) == cores


@pytest.mark.parametrize("text", ["0 each", "each", "1 each of", "1 each of some", "-1 each"])
def test_core_counts_that_leave_nodes_without_cores_are_refused(text):
    with pytest.raises(BadInput, match="core"):
        parse_cores(text)


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "0;1", "99999", "1.5", True])
def test_core_lists_without_cores_are_refused(text):
    with pytest.raises(BadInput, match="does not name cores"):
        parse_cores(text)


@pytest.mark.parametrize(
    ("counts", "words"),
    [((1,), "1 node"), ((2,), "2 nodes"), ((1, 2), "1 and 2 nodes"), ((1, 2, 4), "1, 2 and 4 nodes")],
)
def test_numbers_of_nodes_are_formatted_in_words(counts, words):
    assert format_nodes(*counts) == words


@pytest.mark.parametrize(("change", "text"), [(0.031, "+3.1 %"), (-0.12, "-12 %"), (371.96, "+37,196 %")])
def test_changes_have_a_sign(change, text):
    assert format_change(change) == text


def test_shares_are_percentages():
    assert (format_share(0.1234), format_share(0.1234, 1)) == ("12 %", "12.3 %")
    assert (format_shares(0.09, 0.23), format_shares(0.2, 0.204)) == ("9 to 23 %", "20 %")
    assert format_shares(0.196, 0.904, (0.2, 0.9)) == "19.6 to 90.4 %"


def test_a_count_is_written_with_its_noun():
    assert [counted(count, "request") for count in (0, 1, 1200)] == ["0 requests", "1 request", "1,200 requests"]
    assert [counted(count, "copy of data", "copies of data") for count in (1, 2)] == [
        "1 copy of data",
        "2 copies of data",
    ]


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (0.196, 0.2, "+19.6 %"),
        (0.19996, 0.2, "+19.996 %"),
        (0.2004, 0.2, "+20.04 %"),
        (0.2, 0.2, "+20 %"),
        (0.1, 0.2, "+10 %"),
        (0.0996, 0.1, "+9.96 %"),
    ],
)
def test_a_change_that_rounds_to_a_limit_gets_more_digits(value, limit, text):
    assert written_apart(value, limit, format_change) == text


def test_a_quantity_that_rounds_to_a_limit_gets_more_digits():
    assert written_apart(0.04998, 0.05, lambda it, more: format_duration(it, 3 + more)) == "49.98 ms"
    assert written_apart(1234.4, 1234, lambda it, more: format_count(it, 3 + more)) == "1,234.4"
    assert written_apart(1e3, 1234, lambda it, more: format_count(it, 3 + more)) == "1,000"
    assert (duration_beside(60.3, 60), duration_beside(7200.4, 7200)) == ("60.3 s", "7,200.4 s")
    assert (share_beside(0.2004, 0.2), share_beside(0.98996, 0.99, 1)) == ("20.04 %", "98.996 %")
