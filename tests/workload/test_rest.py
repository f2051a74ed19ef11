"""REST requests in workload files: the resulting plans, and refusals."""

import re
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.workload import load_workload
from loadframe.workload.forms.rest import Http

TEXT = """\
workload: app
parameters: {users: 2}
variables:
  steps: {uniform: [1, 9]}
operations:
  login:
    http:
      method: POST
      path: /login
      body: {user: ann}
      capture: {token: {json: /session/token}}
  write:
    http:
      method: POST
      path: /items
      headers: {Authorization: "Bearer ${token}"}
      body: {steps: "${steps}"}
      capture: {item: {header: X-Id}}
      expect: {status: [201], json: {/ok: true}}
    timeout: 2s
  read: {http: {method: GET, path: "/items/${item}", parameters: {as: "${token}"}, expect: {contains: ann}}}
phases:
  - {name: day, journey: [login, write], clients: "${users}", duration: 1s}
"""


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "stores" / "http.md").read_text()


@pytest.fixture
def load(tmp_path):
    def load(text=TEXT):
        path = tmp_path / "app.yaml"
        path.write_text(text)
        return load_workload(str(path))

    return load


def refused(load, old, new):
    assert old in TEXT
    with pytest.raises(BadInput) as caught:
        load(TEXT.replace(old, new, 1)).for_family("http", nodes=1)
    return str(caught.value)


def test_the_documentation_shows_a_workload_and_every_key(load):
    example, timed = re.findall(r"```yaml[^\n]*\n(.*?)```", PAGE, re.DOTALL)
    assert load(example).for_family("http", nodes=1).phase("day").variables["token"] == {"captured": {}}
    told = load(timed).for_family("http", nodes=1).phase("ask").operations["totals"]["http"]
    assert (told["timing"], told["expect"]) == (["store"], {"headers": {"X-Request-ID": "${id}"}})
    for key in Http.model_fields:
        assert re.search(rf"^\|.*`{key}`.*\|", PAGE, re.MULTILINE), key


def test_a_request_is_handed_on_as_it_was_written(load):
    phase = load().for_family("http", nodes=1).phase("day")
    assert phase.operations["write"] == {
        "http": {
            "method": "POST",
            "path": "/items",
            "headers": {"Authorization": "Bearer ${token}"},
            "body": {"steps": "${steps}"},
            "capture": {"item": {"header": "X-Id"}},
            "expect": {"status": [201], "json": {"/ok": True}},
        },
        "timeout": 2.0,
    }


def test_captured_values_are_variables_of_the_phase(load):
    phase = load().for_family("http", nodes=1).phase("day")
    assert phase.variables == {"steps": {"uniform": [1, 9]}, "token": {"captured": {}}, "item": {"captured": {}}}


def test_an_operation_may_have_a_form_for_a_store_and_one_for_its_application(load):
    forms = "  login:\n    elasticsearch: {request: {method: GET, path: /users/ann}}\n    http:\n     http:\n"
    workload = load(TEXT.replace("  login:\n    http:\n", forms).replace("journey: [login, write]", "operation: login"))
    assert workload.for_family("http", nodes=1).phase("day").operations["login"]["http"]["path"] == "/login"
    assert "request" in workload.for_family("elasticsearch", nodes=1).phase("day").operations["login"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("path: /login", "path: login", ":9:13: a path must start with /\n  write /login"),
        ("method: POST", "method: PSOT", ':8:15: "PSOT" is not valid here'),
        ("body: {user: ann}", "boody: {user: ann}", "unknown key 'boody'\n  did you mean 'body'?"),
        ("body: {user: ann}", "body: {}\n      text: x", "body and text exclude each other"),
        ("{json: /session/token}", "{json: session.token}", "is not a JSON pointer\n  write /session/token"),
        ("{json: /session/token}", "{cookie: a}", "unknown key 'cookie'"),
        ("{json: /session/token}", "{json: /a, header: b}", "use json: /pointer or header: Name"),
        ("{token: {json:", "{to-ken: {json:", "is not a name\n  use letters, digits and _"),
        ("{token: {json:", "{steps: {json:", "'steps' is also a variable"),
        ("{token: {json:", "{users: {json:", "'users' is also a parameter"),
        ("Bearer ${token}", "Bearer ${tokne}", "unknown parameter or variable 'tokne'\n  did you mean 'token'?"),
        (
            "{Authorization:",
            "{Content-Length: 5, Authorization:",
            "the load generator sets the header Content-Length",
        ),
        ("{Authorization:", "{a b: 5, Authorization:", '"a b" is not a valid header name'),
        ("status: [201]", "status: [99]", ":19:"),
        (
            "journey: [login, write]",
            "operation: write",
            "the operation 'write' uses 'token', which no earlier operation of its stream captures",
        ),
        (
            'journey: [login, write], clients: "${users}"',
            "mix: {login: 1, write: 1}, order: together, rate: 5",
            "the operation 'write' uses 'token', which no earlier operation of its stream captures",
        ),
    ],
)
def test_mistakes_are_reported_with_their_place(load, old, new, message):
    assert message in refused(load, old, new)


def test_an_operation_of_stores_is_none_of_a_rest_interface(load):
    old = "  login:\n    http:\n      method: POST\n      path: /login\n      body: {user: ann}\n"
    text = TEXT.replace(old, "  other: {refresh: {collection: x}}\n" + old).replace(
        "journey: [login, write]", "operation: other"
    )
    text = text.replace("operations:\n", "collections: {x: {}}\noperations:\n")
    with pytest.raises(
        BadInput, match="the operation 'other' does not support stores of the family 'http'; it has only refresh"
    ):
        load(text).for_family("http", nodes=1)
