"""Charts of answers in workload files: the resulting plans, and refusals."""

import pytest

from loadframe.base.errors import BadInput

WORKLOAD = """\
workload: w
collections: {{trips: {{}}}}
operations:
  look:
    {request}
    chart: {chart}
phases:
  - {{name: look, operation: look, clients: 1, requests: 1}}
"""
SEARCH = "search: {collection: trips, size: 0}"
BARS = "{kind: bars, rows: /a, label: /key, value: /n}"


def test_a_plan_names_the_operations_whose_answers_are_kept_and_sends_nothing_of_the_chart(load):
    phase = load(WORKLOAD.format(request=SEARCH, chart=BARS)).for_family("elasticsearch", 1).phases[0]
    made = phase.plan(seed=1, hosts=["a:1"], driver="search")
    assert made["answers"] == ["look"]
    assert "chart" not in made["operations"]["look"]
    assert phase.charts == {"look": {"kind": "bars", "rows": "/a", "label": "/key", "value": "/n"}}


@pytest.mark.parametrize(
    ("request_", "chart", "what"),
    [
        (SEARCH, "{kind: bars, rows: /a, label: /key}", "kind: bars requires value"),
        (SEARCH, "{kind: bars, rows: a, label: /key, value: /n}", '"a" is not a JSON pointer'),
        (SEARCH, "{kind: figures, rows: /a, figures: {n: /n}}", "kind: figures does not support rows"),
        (SEARCH, "{kind: figures}", "kind: figures requires figures"),
        (
            "read: {collection: trips, id: a}",
            BARS,
            "chart requires a single answer of a search engine, MongoDB or REST interface; got read",
        ),
        (
            "scroll: {collection: trips, size: 10}",
            BARS,
            "chart requires a single answer of a search engine, MongoDB or REST interface; got scroll",
        ),
    ],
)
def test_a_chart_that_could_not_be_drawn_is_refused(load, request_, chart, what):
    with pytest.raises(BadInput, match=what):
        load(WORKLOAD.format(request=request_, chart=chart))
