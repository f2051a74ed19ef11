"""User journeys: valid files, the resulting plans, and refusals."""

import pytest
from workload_texts import pointed_at

from loadframe.base.errors import BadInput
from loadframe.workload import load_workload

TEXT = """\
workload: week
variables: {now: {instant: {format: "%Y-%m-%d"}}}
operations:
  login: {http: {method: POST, path: /login, capture: {token: {json: /token}}}}
  post: {http: {method: POST, path: /posts, headers: {x-token: "${token}"}, body: {day: "${now}"}}}
  total: {http: {method: GET, path: /total, capture: {total: {json: /total}}}}
phases:
  - name: week
    users: 60
    clients: 8
    arrive_over: 2s
    clock: {from: 2018-01-01, scale: 3600}
    journey:
      - login
      - repeat:
          times: 7
          steps:
            - {operation: post, think_time: {exponential: 1s}}
            - {when: {failed: [client]}, steps: [login, post]}
            - total
            - {choose: [{weight: 3, steps: [total]}, {weight: 1}]}
            - {when: {value: {of: total, at_least: 100}}, steps: [{leave: true}], otherwise: [{think: 1s}]}
            - {pause: 1d}
    journeys: 2
"""


def plan(text, folder, family="http"):
    (folder / "w.yaml").write_text(text)
    phase = load_workload(str(folder / "w.yaml")).for_family(family, 1).phases[0]
    return phase.plan(seed=1, hosts=["127.0.0.1:1"], driver="http")


def test_a_plan_has_the_users_and_their_steps(tmp_path):
    made = plan(TEXT, tmp_path)
    (stream,) = made["streams"]
    assert stream["pacing"] == {"users": {"users": 60, "clients": 8, "think_time": 0.0, "over": 2.0}}
    assert stream["stop"] == {"journeys": 2}
    assert stream["clock"] == {"from": "2018-01-01", "scale": 3600.0}

    def ask(name, think_time=0.0):
        return {"ask": {"operation": name, "think_time": think_time}}

    assert stream["steps"] == [
        ask("login"),
        {
            "repeat": {
                "times": 7,
                "steps": [
                    ask("post", {"exponential": 1.0}),
                    {"when": {"test": {"failed": ["client"]}, "steps": [ask("login"), ask("post")], "otherwise": []}},
                    ask("total"),
                    {"choose": [{"weight": 3.0, "steps": [ask("total")]}, {"weight": 1.0, "steps": []}]},
                    {
                        "when": {
                            "test": {"value": {"of": "total", "at_least": 100.0}},
                            "steps": ["leave"],
                            "otherwise": [{"think": 1.0}],
                        }
                    },
                    {"pause": 86400.0},
                ],
            }
        },
    ]
    assert made["variables"]["token"] == {"captured": {}}
    assert made["variables"]["now"] == {"instant": {"format": "%Y-%m-%d"}}


def test_a_shared_clock_has_no_scale_and_lets_users_meet(tmp_path):
    text = TEXT.replace("scale: 3600", "shared: true").replace("    arrive_over: 2s\n", "")
    (stream,) = plan(text.replace("- {pause: 1d}", "- {pause: 1d}\n            - {together: true}"), tmp_path)[
        "streams"
    ]
    assert stream["clock"] == {"from": "2018-01-01"}
    assert stream["steps"][1]["repeat"]["steps"][-1] == "together"


@pytest.mark.parametrize(
    ("change", "cause", "place"),
    [
        (("      - login\n", ""), "'post' uses 'token', which no earlier step captures", "{operation: post"),
        (("times: 7", "until: {known: token}"), "times", "until"),
        (("operation: post", "operation: pots"), "unknown operation 'pots'", "{operation: pots"),
        (("of: total", "of: totals"), "unknown captured value 'totals'", "{when: {value"),
        (("    clock: {from: 2018-01-01, scale: 3600}\n", ""), "pause requires a simulated clock", "journey:"),
        (("pause: 1d", "think: 1d"), "a clock requires a pause in the journey", "{from: 2018"),
        (("pause: 1d", "together: true"), "together requires a shared clock", "journey:"),
        (("scale: 3600", "shared: false"), "the clock lacks a speed", "{from: 2018"),
        (
            ("      - login\n", "      - timed: {name: login, steps: [login]}\n"),
            "'login' is also the name of an operation",
            "login, steps",
        ),
        (("scale: 3600", "shared: true"), "users with a shared clock start together", "2s"),
        (("journeys: 2", "requests: 20"), "requests does not apply to users", "20"),
        (("    users: 60\n    arrive_over: 2s\n", ""), "clock requires users", "{from: 2018"),
        (("users: 60", "users: 60\n    rate: 5/s"), "users share a constant number of clients", "5/s"),
        (
            ("users: 60", "users: {from: 60, stages: [{to: 90, over: 5s}]}"),
            "the number of users is constant during a phase",
            "{from: 60",
        ),
        (("users: 60", "users: {from: 60, hold: 5s}"), "the number of users is constant during a phase", "{from: 60"),
        (
            ("{leave: true}", "{leave: true, think: 1s}"),
            "a step needs exactly one action; got think and leave",
            "{leave",
        ),
        (("failed: [client]", "failed: [clint]"), "client", "clint"),
    ],
)
def test_invalid_journeys_are_refused_with_their_place(tmp_path, change, cause, place):
    old, new = change
    text = TEXT
    if old.startswith("    users"):
        old, new = "    users: 60\n    clients: 8\n    arrive_over: 2s\n", "    clients: 8\n"
    assert old in text
    text = text.replace(old, new, 1)
    (tmp_path / "w.yaml").write_text(text)
    with pytest.raises(BadInput) as raised:
        load_workload(str(tmp_path / "w.yaml"))
    assert cause in str(raised.value)
    assert place in pointed_at(text, raised.value)


def test_a_loop_is_counted_by_a_variable(tmp_path):
    counted = TEXT.replace('{format: "%Y-%m-%d"}}', '{format: "%Y-%m-%d"}}, day: {loop: {from: 1}}')
    text = counted.replace("times: 7", "times: 7\n          count: day")
    made = plan(text, tmp_path)
    assert made["streams"][0]["steps"][1]["repeat"]["count"] == "day"
    assert made["variables"]["day"] == {"loop": {"from": 1}}
    for count, cause in (
        ("days", "unknown variable 'days'"),
        ("now", "count must name a loop variable; 'now' is not one"),
    ):
        wrong_text = text.replace("count: day", f"count: {count}")
        with pytest.raises(BadInput, match=cause) as raised:
            plan(wrong_text, tmp_path)
        assert pointed_at(wrong_text, raised.value).startswith(count)
    outside = text.replace('body: {day: "${now}"}', 'body: {day: "${day}"}').replace(
        "count: day", "until: {known: total}"
    )
    with pytest.raises(BadInput, match="'post' uses the loop variable 'day' outside its loop") as raised:
        plan(outside, tmp_path)
    assert pointed_at(outside, raised.value).startswith("{operation: post")


def test_a_step_may_do_without_a_value_or_ask_whether_it_is_known(tmp_path):
    without = TEXT.replace("      - login\n", "", 1)
    for kept in (
        "{operation: post, missing: skip, think",
        "{when: {known: token}, steps: [post]}\n            - {think",
    ):
        old = "{operation: post, think_time: {exponential: 1s}}"
        new = kept + "_time: {exponential: 1s}}" if "missing" in kept else kept + ": 1s}"
        plan(without.replace(old, new), tmp_path)


@pytest.mark.parametrize(
    ("family", "source", "fits"),
    [
        ("mongodb", "field: a.b, otherwise: 0", True),
        ("cassandra", "field: a", True),
        ("postgresql", "json: /a", True),
        ("couchbase", "json: /a", True),
        ("redis", "field: a", True),
        ("elasticsearch", "field: a", True),
        ("elasticsearch", "header: etag", True),
        ("mongodb", "header: etag", False),
        ("elasticsearch", "reply: true", False),
    ],
)
def test_a_value_is_taken_from_where_the_family_has_it(tmp_path, family, source, fits):
    text = f"""\
workload: takes
collections: {{c: {{}}}}
operations:
  take: {{{family}: {{read: {{collection: c, id: a}}, capture: {{total: {{{source}}}}}}}}}
  keep: {{{family}: {{insert: {{collection: c, id: b, document: {{n: "${{total}}"}}}}}}}}
phases:
  - {{name: walk, users: 3, journey: [take, keep], journeys: 1}}
"""
    if fits:
        assert plan(text, tmp_path, family)["variables"] == {"total": {"captured": {}}}
        return
    with pytest.raises(BadInput, match=f"{family} does not support capturing from {source.split(':')[0]}"):
        plan(text, tmp_path, family)


def test_values_come_from_the_search_family_too(tmp_path):
    text = """\
workload: sums
collections: {steps: {}}
operations:
  sum:
    search: {collection: steps, size: 0, body: {aggs: {total: {sum: {field: steps}}}}}
    capture: {total: {json: /aggregations/total/value}}
  keep: {index: {collection: steps, id: sum, document: {total: "${total}"}}}
phases:
  - {name: walk, users: 3, journey: [sum, keep], journeys: 1}
"""
    made = plan(text, tmp_path, "elasticsearch")
    assert made["variables"] == {"total": {"captured": {}}}
    assert made["operations"]["sum"]["capture"] == {"total": {"json": "/aggregations/total/value"}}


def test_timed_steps_are_recorded_with_the_requests_in_them(tmp_path):
    text = TEXT.replace("            - total\n", "            - {timed: {name: whole, steps: [post, total]}}\n")
    (tmp_path / "w.yaml").write_text(text)
    (phase,) = load_workload(str(tmp_path / "w.yaml")).file.phases
    assert phase.recorded == ("login", "post", "total", "whole")
