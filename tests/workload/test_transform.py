"""Steps that transform lines: their plan, and refused contradictions."""

import pytest
from workload_texts import pointed_at

WORKLOAD = """\
workload: w
collections: {{docs: {{}}}}
sources:
  log:
    stdin: true
    events:
      type: kind
      transform: [{all}]
      kinds:
        bid: {{id: id, time: time, transform: [{bid}]}}
        win: {{id: id, time: time}}
operations: {{take_in: {{take_in: {{collection: docs}}}}}}
phases: [{{name: ingest, operation: take_in, source: log, until: exhausted}}]
"""


def written(bid="", all_kinds=""):
    return WORKLOAD.format(all=all_kinds, bid=bid)


def events(load, *texts):
    resolved = load(written(*texts)).for_family("mongodb", 1)
    return resolved.phases[0].plan(seed=1, hosts=["a:1"], driver="mongodb")["sources"]["log"]["events"]


def test_a_source_without_steps_has_none_in_its_plan(load):
    fields = {"id": "/id", "time": "/time"}
    assert events(load) == {"type": "/kind", "kinds": {"bid": fields, "win": fields}}


def test_a_plan_has_one_step_per_field_in_the_order_of_the_file(load):
    planned = events(
        load,
        'rename: {z: geo.z, a: b}}, {drop: [x, y.z]}, {convert: {n: integer, at: time}}, {add: {c: 1.5, d: "no"}}, {'
        'derive: {day: {date: at, format: "%Y.%m"}, host: {part: url, split: "/", at: 2}, j: {join: [b, n], with: ""},'
        "s: {sum: [n, c]}, p: {product: [n]}}".join("{}"),
        "{rename: {type: kind}}",
    )
    assert planned["transform"] == [{"step": "rename", "field": "/type", "to": "/kind"}]
    assert "transform" not in planned["kinds"]["win"]
    assert planned["kinds"]["bid"]["transform"] == [
        {"step": "rename", "field": "/z", "to": "/geo/z"},
        {"step": "rename", "field": "/a", "to": "/b"},
        {"step": "drop", "field": "/x"},
        {"step": "drop", "field": "/y/z"},
        {"step": "convert", "field": "/n", "to": "integer"},
        {"step": "convert", "field": "/at", "to": "time"},
        {"step": "add", "field": "/c", "value": 1.5},
        {"step": "add", "field": "/d", "value": "no"},
        {"step": "derive", "field": "/day", "value": {"date": {"of": "/at", "format": "%Y.%m"}}},
        {"step": "derive", "field": "/host", "value": {"part": {"of": "/url", "split": "/", "at": 2}}},
        {"step": "derive", "field": "/j", "value": {"join": {"of": ["/b", "/n"], "with": ""}}},
        {"step": "derive", "field": "/s", "value": {"sum": ["/n", "/c"]}},
        {"step": "derive", "field": "/p", "value": {"product": ["/n"]}},
    ]


def test_a_plan_has_patterns_and_conditions(load):
    planned = events(
        load,
        '{grok: {m: "%{INT:n:int}", o.p: {match: ["a", "b"], patterns: {X: "[xy]"}}}},'
        '{drop_event: {of: level, equals: [debug, 5, null], matches: "^d"}},'
        "{drop_event: {not: {any: [{of: n, at_least: 1, below: 5.5}, {of: id, missing: true}]}}},"
        "{drop_event: {all: [{of: a, exists: true}, {of: a, equals: null}]}},"
        '{derive: {t: {date: at, from: "%d/%b/%Y", format: "%Y"}}}',
    )

    def of(field, test):
        return {"field": {"field": field, "test": test}}

    steps = planned["kinds"]["bid"]["transform"]
    assert steps[:2] == [
        {"step": "grok", "field": "/m", "patterns": ["%{INT:n:int}"]},
        {"step": "grok", "field": "/o/p", "patterns": ["a", "b"], "custom": {"X": "[xy]"}},
    ]
    bounds = {"all": [of("/n", {"at_least": 1}), of("/n", {"below": 5.5})]}
    assert [step["condition"] for step in steps[2:5]] == [
        {"all": [of("/level", {"equals": ["debug", 5, None]}), of("/level", {"matches": "^d"})]},
        {"not": {"any": [bounds, of("/id", "missing")]}},
        {"all": [of("/a", "exists"), of("/a", {"equals": [None]})]},
    ]
    assert steps[5]["value"] == {"date": {"of": "/at", "format": "%Y", "from": "%d/%b/%Y"}}


def test_patterns_may_set_a_field_that_an_earlier_step_removes(load):
    assert events(load, '{drop: [id]}, {grok: {m: "%{INT:id}"}}')["kinds"]["bid"]["transform"]


@pytest.mark.parametrize(
    ("steps", "where", "what"),
    [
        ("{drop_event: {}}", "{}", "the condition tests nothing"),
        ("{drop_event: {of: a}}", "{of", "the condition tests nothing"),
        ("{drop_event: {equals: 1}}", "{equals", "the condition tests nothing"),
        ("{drop_event: {not: {of: a, exists: true}, of: b}}", "not:", "not excludes other keys"),
        ("{drop_event: {any: []}}", "[]", "at least one"),
        ("{drop_event: {of: a, below: x}}", "x}", "not a number of 64 bits"),
        ("{drop_event: {of: a, above: 9223372036854775808}}", "9223372036854775808", "not a number of 64 bits"),
        ("{drop_event: {of: a, equals: [[1]]}}", "[1]", "expected a single value"),
        ("{drop_event: {of: a, exists: false}}", "false", "false is not valid here"),
        ("{grok: {a: []}}", "[]", "at least one"),
        ("{grok: {a: {patterns: {X: y}}}}", "{patterns", "the key 'match' is missing"),
        ('{derive: {a: {date: b, format: "%Y", from: "%Q"}}}', '"%Q"', "not a format of dates to read"),
        ('{derive: {a: {sum: [b], from: "%Y"}}}', "from:", "from requires date; got sum"),
        ("{renam: {a: b}}", "renam:", "unknown key 'renam'"),
        ("{}", "{}", "the step is empty"),
        ("{drop: [a], add: {b: 1}}", "add:", "drop and add exclude each other"),
        ("{drop: []}", "[]", "at least one"),
        ("{rename: {}}", "{}}", "at least one"),
        ("{drop: [a..b]}", "a..b", "not a field of an event"),
        ('{drop: [""]}', '""', "at least 1 character"),
        ("{rename: {a/b: c}}", "a/b:", "not a field of an event"),
        ("{rename: {a: /c}}", "/c", "not a field of an event"),
        ("{convert: {a: int}}", "int}", '"int" is not valid here'),
        ("{derive: {a: {}}}", "{}}", "the expression is empty"),
        ("{derive: {a: {date: b}}}", "date:", "date requires format"),
        ('{derive: {a: {sum: [b], split: "/"}}}', "split:", "split requires part; got sum"),
        ('{derive: {a: {date: b, format: "%Q"}}}', '"%Q"', "not a format of dates"),
        ('{derive: {a: {part: b, split: "/", at: -1}}}', "-1", "at least 0"),
        ('{derive: {a: {part: b, split: "", at: 1}}}', '""', "at least 1 character"),
        ("{add: {a: [1]}}", "[1]", "expected a single value"),
        ("{add: {a: 18446744073709551616}}", "18446744073709551616", "does not fit into 64 bits"),
        ("{add: {a: 1}}, {rename: {b: a}}", "b: a", "an earlier step sets the field 'a'"),
        ("{rename: {b: a, c: a}}", "c: a", "an earlier step sets the field 'a'"),
        ("{rename: {b: b}}", "b: b", "the same field"),
        ("{drop: [a]}, {convert: {a.b: text}}", "a.b:", "an earlier step removes the field 'a.b'"),
        ("{rename: {a: b}}, {derive: {c: {sum: [b, a]}}}", "c:", "an earlier step removes the field 'a'"),
        ("{drop: [a]}, {drop: [b, a]}", "a]}]", "an earlier step removes the field 'a'"),
    ],
)
def test_steps_that_cannot_work_are_refused_with_their_place(refused, steps, where, what):
    text = written(steps)
    error = refused(text)
    assert what in error.what
    assert pointed_at(text, error).startswith(where)


@pytest.mark.parametrize(
    ("texts", "where", "field"),
    [
        (("{drop: [id]}",), "id: id", "id"),
        (("{rename: {time: at}}",), "time: time", "time"),
        (("", "{drop: [kind]}"), "type: kind", "kind"),
        (("", "{drop: [id]}"), "id: id", "id"),
    ],
)
def test_the_fields_that_are_read_after_the_steps_must_be_left(refused, texts, where, field):
    text = written(*texts)
    error = refused(text)
    assert error.what == f"the transformation removes the field {field!r}"
    assert pointed_at(text, error).startswith(where)


@pytest.mark.parametrize(
    "steps",
    [
        "{drop: [id]}, {rename: {key: id}}",
        '{drop: [id]}, {derive: {id: {join: [a, b], with: "-"}}}',
        "{rename: {a: b}}, {rename: {b: a}}",
        "{rename: {time: t.time}}, {rename: {t.time: time}}",
        "{drop: [a]}, {add: {a.b: 1}}, {convert: {a.b: text}}",
    ],
)
def test_a_field_may_be_removed_and_set_again(load, steps):
    assert events(load, steps)["kinds"]["bid"]["transform"]
