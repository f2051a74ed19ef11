"""Variables: the kinds of draws in workload files, and their form in plans."""

from textwrap import indent

import pytest
from workload_texts import pointed_at

WORKLOAD = """\
workload: w
parameters: {keys: 100, prefix: user, file: names.txt}
collections: {c: {}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 10}}
variables:
  number: {sequential: {}}
  share: {uniform: [0.0, 1.0]}
  word: {text: {length: 3}}
VARIABLES
operations: {one: {get: {collection: c, id: "${v}"}}}
phases: [{name: one, operation: one, clients: 1, requests: 1}]
"""


def with_variables(text):
    return WORKLOAD.replace("VARIABLES", indent(text, "  "))


def plan(load, text, **parameters):
    phase = load(with_variables(text), **parameters).for_family("elasticsearch", 1).phase("one")
    return dict(phase.variables)


@pytest.mark.parametrize(
    ("form", "engine"),
    [
        ("{sequential: {}}", {"sequential": {"from": 0}}),
        ('{zipfian: {items: "${keys}"}}', {"zipfian": {"items": 100}}),
        (
            "{zipfian: {items: 5, form: ycsb, scrambled: true}}",
            {"zipfian": {"items": 5, "form": "ycsb", "scrambled": True}},
        ),
        ("{latest: {items: 5, growth: 0.05, from: 1}}", {"latest": {"items": 5, "growth": 0.05, "from": 1}}),
        ("{hotspot: {items: 5, hot_share: 0.9}}", {"hotspot": {"items": 5, "hot_share": 0.9}}),
        ("{exponential: {mean: 2.5}}", {"exponential": {"mean": 2.5}}),
        ("{exponential: {mean: 25, items: 100}}", {"exponential": {"mean": 25.0, "items": 100}}),
        ("{normal: {mean: 100, deviation: 15}}", {"normal": {"mean": 100.0, "deviation": 15.0}}),
        ("{text: {length: [1, 8]}}", {"text": {"length": [1, 8]}}),
        (
            "{date: {from: 2015-01-01, to: 2016-01-01, format: '%Y-%m-%d'}}",
            {"date": {"from": "2015-01-01", "to": "2016-01-01", "format": "%Y-%m-%d"}},
        ),
        ("{field: {corpus: trips, field: a.b}}", {"field": {"corpus": "trips", "field": "a.b"}}),
        ("{constant: 7, per: user}", {"constant": 7, "per": "user"}),
        ("{uniform: [1, 2], per: request}", {"uniform": [1, 2]}),
    ],
)
def test_a_plan_has_the_values_of_the_file(load, form, engine):
    assert plan(load, f"v: {form}") == {"v": engine}


def test_derived_variables_include_their_inputs(load):
    text = 'v: {derived: "${prefix}-${h}"}\nh: {hash: {of: l}}\nl: {linear: {of: number, times: 2}}\n'
    assert plan(load, text) == {
        "number": {"sequential": {"from": 0}},
        "v": {"derived": "user-${h}"},
        "h": {"hash": {"of": "l"}},
        "l": {"linear": {"of": "number", "times": 2}},
    }


def test_a_field_brings_along_its_corpus(load):
    phase = load(with_variables("v: {field: {corpus: trips, field: total_amount}}")).for_family("elasticsearch", 1)
    assert phase.phase("one").corpora == {"trips": {"generate": "nyc_taxi_trip", "documents": 10}}


def test_a_file_of_lines_begins_where_its_path_was_written(load, tmp_path, monkeypatch):
    text = 'v: {lines: {file: "${file}", order: sequential}}'
    lines = {"file": str(tmp_path / "names.txt"), "order": "sequential"}
    assert plan(load, text) == {"v": {"lines": lines}}
    monkeypatch.chdir("/")
    assert plan(load, text, file="other.txt") == {"v": {"lines": lines | {"file": "/other.txt"}}}


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ("v: {zipfian: {items: 0}}", "at least 1", "0}}"),
        ("v: {zipfian: {item: 5}}", "unknown key 'item'", "item:"),
        ("v: {zipfian: {items: 5, form: ycsb, exponent: 1.0}}", "an exponent below 1", "exponent: 1.0"),
        (
            "v: {zipfian: {items: 5, form: ycsb, exponent: 0.5, scrambled: true}}",
            "form: ycsb with scrambled requires an exponent of 0.99; got 0.5",
            "exponent: 0.5",
        ),
        ("v: {hotspot: {items: 5, hot_items: 2}}", "at most 1", "2}}"),
        ("v: {exponential: {mean: 5, from: 1}}", "from requires items", "from:"),
        ("v: {text: {length: [5, 1]}}", "[shortest, longest]", "[5"),
        ("v: {date: {from: 2015-02-30, to: 2016-01-01}}", "expected a date", "2015-02-30"),
        ("v: {date: {from: 2016-01-01, to: 2015-01-01}}", "from must be before to", "to:"),
        ("v: {date: {from: 2015-01-01, to: 2016-01-01, format: '%q'}}", '"%q" is not a date format', "'%q'"),
        ("v: {field: {corpus: trip, field: a}}", "unknown corpus 'trip'", "trip,"),
        ("v: {derived: '${numbre}'}", "unknown parameter or variable 'numbre'", "'${numbre}'"),
        ("v: {linear: {of: numbre}}", "unknown variable 'numbre'", "numbre"),
        ("v: {linear: {of: word}}", "'word' is not a number", "word}}"),
        ("v: {hash: {of: share}}", "'share' is not a whole number", "share}}"),
        ("v: {derived: '${w}'}\nw: {derived: '${x}'}\nx: {linear: {of: y}}\ny: {linear: {of: x}}", "x -> y -> x", "x:"),
        ("v: {derived: '${v}'}", "v -> v", "v:"),
        (
            "v: {derived: '${number}', per: user}",
            "a derived variable inherits per from the variables it refers to",
            "per:",
        ),
        ("v: {uniform: [1, 2], per: session}", "not valid here", "session"),
        ("v: {per: user}", "a variable needs exactly one kind; got 0", "{per"),
    ],
)
def test_impossible_draws_are_refused_with_their_place(refused, text, what, place):
    error = refused(with_variables(text))
    assert what in f"{error.what}"
    assert pointed_at(with_variables(text), error).startswith(place)
