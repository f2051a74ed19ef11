"""Charts of answers: a few rows by JSON pointers, added up by label; missing values are skipped."""

import json

from loadframe.live.feed import History
from loadframe.live.publisher import BARS, COLUMNS, LETTERS, chart_data

BARS_OF = {
    "kind": "bars",
    "rows": "/aggs/ads/buckets",
    "label": "/key",
    "value": "/n",
    "beside": {"clicks": "/c/value"},
}


def answer(buckets):
    return json.dumps({"aggs": {"ads": {"buckets": buckets}}}).encode()


def test_bars_have_the_greatest_values_first_and_the_rest_is_counted():
    buckets = [{"key": f"ad {n}", "n": n, "c": {"value": 2 * n}} for n in range(BARS + 5)]
    record = chart_data("top_ads", BARS_OF, answer(buckets))
    assert record["rows"][0] == [f"ad {BARS + 4}", BARS + 4, [2 * (BARS + 4)]]
    assert (len(record["rows"]), record["more"], record["beside"]) == (BARS, 5, ["clicks"])
    assert record["title"] == "top_ads", "without a title the operation names it"


def test_columns_keep_the_order_of_the_answer():
    chart = {"kind": "columns", "rows": "/aggs/ads/buckets", "label": "/key", "value": "/n"}
    record = chart_data("o", chart, answer([{"key": n, "n": n % 3} for n in range(COLUMNS + 1)]))
    assert [row[0] for row in record["rows"][:3]] == ["0", "1", "2"]
    assert record["more"] == 1


def test_rows_with_one_label_in_several_lists_are_added_up():
    days = [{"p": [{"k": "a", "v": 1.5}, {"k": "b", "v": 1}]}, {"p": [{"k": "a", "v": 2}]}, {"p": []}]
    chart = {"kind": "bars", "rows": "/days/*/p", "label": "/k", "value": "/v"}
    assert chart_data("o", chart, json.dumps({"days": days}).encode())["rows"] == [["a", 3.5, []], ["b", 1.0, []]]


def test_figures_are_single_values_and_unknown_where_there_are_none():
    chart = {"kind": "figures", "figures": {"clicks": "/a/0/v", "spend": "/b"}}
    assert chart_data("o", chart, b'{"a": [{"v": 3}], "b": "many"}')["figures"] == {"clicks": 3.0, "spend": None}


def test_unexpected_values_are_not_drawn():
    for wrong in (b"", b"not json", b"[]", b'{"aggs": 1}', b"[" * 100_000):
        assert chart_data("o", BARS_OF, wrong) is None
    rows = chart_data(
        "o", BARS_OF, answer([{"key": None}, {"key": {"x": 1}, "n": "1"}, 7, {"key": "x" * 500, "n": 1e999}])
    )["rows"]
    assert [row[1] for row in rows] == [None, None, None]
    assert all(len(row[0]) <= LETTERS for row in rows)


def test_of_answers_the_history_keeps_the_last_one_to_each_operation_of_a_run():
    history = History()
    history.add({"kind": "run", "run": "r1"})
    for operation, value in (("a", 1), ("b", 1), ("a", 2)):
        history.add({"kind": "answer", "operation": operation, "figures": {"x": value}})
    kept = [record for record in history.after(0)[1] if record["kind"] == "answer"]
    assert [(record["operation"], record["figures"]["x"]) for record in kept] == [("b", 1), ("a", 2)]
    history.add({"kind": "run", "run": "r2"})
    assert [record["kind"] for record in history.after(0)[1]] == ["run"]
