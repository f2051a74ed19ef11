"""Parameters: their use, their values, and the errors of invalid ones."""

import pytest

from loadframe.base.errors import BadInput

WITH_PARAMETERS = """\
workload: w
parameters:
  whole: 3
  real: 0.5
  flag: false
  word: some
  any:
  nested: a-${word}-${whole}
  shards: ${nodes}
collections:
  c:
    elasticsearch:
      settings: {whole: "${whole}", real: "${real}", flag: "${flag}", word: "${word}", any: "${any}", "${word}": 1}
      mappings: {nested: "${nested}", shards: "${shards}", text: "${flag} $${word} ${real}"}
operations: {o: {get: {collection: c, id: "1"}}}
phases: [{name: p, operation: o, clients: "${whole}", requests: 1}]
"""


def settings(workload, nodes=1):
    return workload.for_family("elasticsearch", nodes).collections["c"]["settings"]


def mappings(workload, nodes=1):
    return workload.for_family("elasticsearch", nodes).collections["c"]["mappings"]


def test_a_text_that_is_one_hole_takes_the_type_of_the_value(load):
    assert settings(load(WITH_PARAMETERS)) == {
        "whole": 3, "real": 0.5, "flag": False, "word": "some", "any": None, "some": 1
    }  # fmt: skip


def test_within_a_longer_text_values_are_written_out(load):
    assert mappings(load(WITH_PARAMETERS))["text"] == "false ${word} 0.5"


def test_parameters_may_refer_to_parameters(load):
    assert mappings(load(WITH_PARAMETERS))["nested"] == "a-some-3"
    assert mappings(load(WITH_PARAMETERS, word="other"))["nested"] == "a-other-3"


def test_the_number_of_nodes_is_a_parameter_that_is_always_there(load):
    assert mappings(load(WITH_PARAMETERS), nodes=4)["shards"] == 4


@pytest.mark.parametrize(
    ("name", "given", "taken"),
    [
        ("whole", "12", 12), ("whole", "1e6", 1_000_000), ("whole", 7, 7), ("real", "2", 2), ("real", "1e-3", 0.001),
        ("flag", "true", True), ("word", "12", "12"), ("word", "", ""), ("any", "12", 12), ("any", "text", "text"),
    ],
)  # fmt: skip
def test_values_are_parsed_in_the_type_of_the_default(load, name, given, taken):
    value = settings(load(WITH_PARAMETERS, **{name: given}))[name]
    assert value == taken
    assert type(value) is type(taken)


@pytest.mark.parametrize(
    ("name", "given"),
    [("whole", "1.5"), ("whole", "many"), ("whole", "true"), ("whole", ""), ("whole", "9" * 30), ("real", "half"),
     ("real", ".inf"), ("flag", "yes"), ("flag", "1"), ("shards", "two")],
)  # fmt: skip
def test_values_of_another_type_are_refused_with_their_origin(refused, name, given):
    error = refused(WITH_PARAMETERS, **{name: given})
    assert error.where == f"--set {name}"


def test_unknown_parameters_get_a_suggestion(refused):
    error = refused(WITH_PARAMETERS, hole="1")
    assert error.what == "unknown parameter 'hole' of the workload"
    assert error.remedy == "did you mean 'whole'?"


def test_the_number_of_nodes_cannot_be_set_as_a_parameter(refused):
    assert "'nodes' cannot be set: it is the number of cluster nodes" in refused(WITH_PARAMETERS, nodes="3").what


def test_a_value_that_the_workload_cannot_take_is_refused_once_and_where_it_was_set(refused):
    error = refused(WITH_PARAMETERS, whole="0")
    assert error.where == "--set whole"
    assert "expected a number of at least 1, not 0" in error.what
    assert "w.yaml:16:43" in error.what


def test_a_default_that_the_workload_cannot_take_is_refused_at_the_default(refused):
    assert refused(WITH_PARAMETERS.replace("whole: 3", "whole: 0")).where == "w.yaml:3:10"


def test_settings_of_one_workload_leave_the_other_as_it_was(load):
    first = load(WITH_PARAMETERS)
    second = first.with_parameters({"whole": 5}).with_parameters({"word": "other"})
    assert settings(first)["whole"] == 3
    assert (settings(second)["whole"], settings(second)["word"]) == (5, "other")


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("whole: 3", "whole: [3]", "3:10", "expected a scalar, not a list or a mapping"),
        ("whole: 3", "whole: {a: 3}", "3:10", "expected a scalar, not a list or a mapping"),
        ("whole: 3", "nodes: 3", "3:3", "'nodes' is reserved for the number of cluster nodes"),
        ("whole: 3", "whole: ${whole}", "3:10", "refers to itself: whole -> whole"),
        ("word: some", "word: ${nested}", "6:9", "refers to itself: word -> nested -> word"),
        ("whole: 3", "two words: 3", "3:3", "is not a name"),
        ("${word}-", "${wrod}-", "8:11", "unknown parameter 'wrod'"),
        ('"${any}"', '"${ayn}"', "13:93", "unknown parameter 'ayn'"),
        ('"${any}"', '"${any"', "13:93", "${ lacks its closing }"),
        ('"${any}"', '"${}"', "13:93", "unknown parameter ''"),
        ("requests: 1", 'requests: "${whole} x"', "16:60", "expected a whole number"),
    ],
)  # fmt: skip
def test_parameters_that_are_wrong_in_the_file_are_refused_at_their_place(refused, old, new, where, what):
    assert old in WITH_PARAMETERS
    error = refused(WITH_PARAMETERS.replace(old, new, 1))
    assert what in error.what
    assert error.where == f"w.yaml:{where}" or "used at" in error.what


@pytest.mark.parametrize("parameters", ["3", "[a]", "text", "~"])
def test_parameters_without_a_mapping_are_refused(refused, parameters):
    text = f"workload: w\nparameters: {parameters}\noperations: {{}}\nphases: []\n"
    assert "expected a mapping" in refused(text).what


WITH_VARIABLES = """\
workload: w
parameters: {top: 9, sly: "a ${nodes} $${low}"}
variables:
  low: {uniform: [1, "${top}"]}
  high: {constant: 10}
collections: {c: {}}
operations:
  o: {search: {collection: c, body: {gte: "${low}", lt: "${top}", text: "${low} to ${top} $${low}", sly: "${sly}"}}}
phases: [{name: p, operation: o, clients: 1, requests: 1}]
"""


def test_variables_stay_for_the_engine_and_only_those_in_use_are_in_the_plan(load):
    phase = load(WITH_VARIABLES).for_family("elasticsearch", 1).phase("p")
    assert phase.variables == {"low": {"uniform": [1, 9]}}
    body = phase.operations["o"]["search"]["body"]
    assert (body["gte"], body["lt"]) == ("${low}", 9)
    assert body["text"] == "${low} to 9 $${low}"


def test_a_parameters_text_is_not_read_as_a_hole_by_the_engine(load):
    body = load(WITH_VARIABLES).for_family("elasticsearch", 1).phase("p").operations["o"]["search"]["body"]
    assert body["sly"] == "a 1 $${low}"


@pytest.mark.parametrize(
    ("old", "new", "what", "remedy"),
    [
        ('"${low}",', '"${lwo}",', "unknown parameter or variable 'lwo'", "did you mean 'low'?"),
        ("clients: 1", 'clients: "${low}"', "the variable 'low' is only available in operations", "parameter"),
        ("{top: 9,", "{low: 3, top: 9,", "'low' is also a variable", "rename"),
        ("high:", "nodes:", "'nodes' is reserved for the number of cluster nodes", "another name"),
        ("high:", "hi-gh:", "is not a name", "letters"),
        ("variables:\n", "variables: 3\n#", "expected a mapping", None),
    ],
)
def test_variables_out_of_place_are_refused(refused, old, new, what, remedy):
    assert old in WITH_VARIABLES
    text = WITH_VARIABLES.replace(old, new, 1)
    if remedy is None:
        text = "workload: w\nvariables: 3\noperations: {}\nphases: []\n"
    error = refused(text)
    assert what in error.what
    assert (remedy or "") in str(error.remedy)


def test_the_parameters_that_shape_the_stores_content_are_known(load):
    text = """\
    workload: w
    parameters: {shards: 1, documents: 10, size: 5, low: 1, speed: "${pace}", pace: 2, hits: 3}
    variables: {v: {uniform: [0, "${low}"]}}
    collections: {c: {elasticsearch: {settings: {shards: "${shards}"}}}}
    corpora: {c: {generate: nyc_taxi_trip, documents: "${documents}"}}
    operations:
      fill: {bulk: {collection: c, corpus: c, size: "${size}"}}
      touch: {index: {collection: c, document: {v: "${v}"}}}
      look: {search: {collection: c, size: "${hits}"}}
    phases:
      - {name: fill, operation: fill, clients: "${speed}", until: exhausted, prepares: true}
      - {name: touch, operation: touch, clients: 1, requests: 1}
      - {name: look, operation: look, clients: 1, requests: 1}
    """
    workload = load(text)
    assert workload.shaping(["fill"]) == {"shards", "documents", "size", "speed", "pace"}
    assert workload.shaping(["touch"]) == {"shards", "documents", "low"}
    assert workload.shaping([]) == {"shards", "documents"}


PRODUCT = """\
workload: w
parameters:
  scale: 2
  rows: {product: ["${scale}", 100000]}
operations: {o: {get: {collection: c, id: "1"}}}
collections: {c: {elasticsearch: {settings: {rows: "${rows}"}}}}
phases: [{name: p, operation: o, clients: 1, requests: 1}]
"""


def test_a_parameter_may_be_numbers_multiplied(load):
    assert settings(load(PRODUCT)) == {"rows": 200_000}
    assert settings(load(PRODUCT, scale="7")) == {"rows": 700_000}
    assert settings(load(PRODUCT, rows="5")) == {"rows": 5}


@pytest.mark.parametrize(
    ("product", "what"),
    [
        ('["${scale}", many]', 'expected a number to multiply, not "many"'),
        ("[]", "expected a scalar, not a list or a mapping"),
        ("7", "expected a scalar, not a list or a mapping"),
    ],
)
def test_invalid_products_are_refused(load, product, what):
    with pytest.raises(BadInput, match=what):
        load(PRODUCT.replace('["${scale}", 100000]', product))


CASES = """\
workload: w
parameters:
  layout: one
  users: 8
  pairs: {by: "${layout}", one: 1, user: "${users}"}
  split: {by: "${apart}", true: 2, false: 1}
  apart: false
require:
  - {value: "${pairs}", at_most: 10, family: elasticsearch, where: {layout: user}, because: too many pairs}
operations: {o: {read: {collection: c, id: "1"}}}
collections: {c: {elasticsearch: {settings: {pairs: "${pairs}", split: "${split}"}}}}
phases: [{name: p, operation: o, clients: 1, requests: 1}]
"""


def test_a_parameter_may_go_by_another(load):
    assert settings(load(CASES)) == {"pairs": 1, "split": 1}
    assert settings(load(CASES, layout="user", apart="true")) == {"pairs": 8, "split": 2}
    assert settings(load(CASES, layout="user", pairs="5")) == {"pairs": 5, "split": 1}
    with pytest.raises(BadInput, match="'pairs' lacks a case for \"usr\"; it has one, user") as raised:
        load(CASES, layout="usr")
    assert str(raised.value.where) == "--set layout"
    assert "did you mean 'user'" in str(raised.value.remedy)
    with pytest.raises(BadInput, match="expected a scalar for each case, not a list or a mapping"):
        load(CASES.replace("one: 1,", "one: [1],"))


def test_violated_conditions_between_parameters_are_refused(load):
    many = load(CASES, layout="user", users="11")
    with pytest.raises(BadInput, match="too many pairs: 11 exceeds 10") as raised:
        many.for_family("elasticsearch", 1)
    assert ":9:" in str(raised.value.where)
    assert many.for_family("mongodb", 1).phases
    assert load(CASES, users="11").for_family("elasticsearch", 1).phases
