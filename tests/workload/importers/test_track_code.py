"""The code of a track runs only with permission; its results are stored in the workload as data."""

import json
from textwrap import dedent

import pytest

from loadframe.base.errors import BadInput
from loadframe.workload.importers.rally import import_rally, isolated
from loadframe.workload.importers.rally.code import DrawRequest

CODE = """\
import random
from esrally import exceptions
from esrally.driver import runner
from esrally.track.params import ParamSource
from shop.prices import PRICES


class Prices(ParamSource):
    def __init__(self, track, params, **kwargs):
        super().__init__(track, params, **kwargs)
        self.index = track.indices[0].name
        print("read", kwargs["operation_name"])

    def params(self):
        low = random.choice(PRICES)
        within = {"gte": low, "lt": low + self._params["width"]}
        return {"index": self.index, "cache": None, "body": {"query": {"range": {"price": within}}}}


class Pages:
    def __init__(self, track, params, **kwargs):
        self.numbers = iter(range(3))

    def partition(self, index, total):
        part = Pages(None, None)
        part.numbers = iter([index * 10, index * 10 + 1])
        return part

    def params(self):
        return {"body": {"from": next(self.numbers), "query": {"match_all": {}}}}


async def same(track, params, **kwargs):
    return {"body": {"query": {"term": {"kind": "${not_ours}"}}}, "request-params": {"routing": "a"}}


class Restart(runner.Runner):
    async def __call__(self, es, params):
        raise exceptions.RallyAssertionError("never called")


def register(registry):
    registry.register_param_source("prices", Prices)
    registry.register_param_source("pages", Pages)
    registry.register_param_source("same", same)
    registry.register_runner("restart-node", Restart(), async_runner=True)
    registry.register_scheduler("like-people", object)
"""


def sourced(name, source, **more):
    return {"operation": {"name": name, "operation-type": "search", "param-source": source, "width": 5}, **more}


TRACK = {
    "indices": [{"name": "orders"}],
    "schedule": [
        sourced("cheap", "prices", clients=2, iterations=10),
        sourced("pages", "pages", clients=2),
        sourced("same", "same"),
        {"operation": {"operation-type": "restart-node"}},
    ],
}


@pytest.fixture
def folder(written):
    written("shop/prices.py", "PRICES = [10, 20, 30]")
    written("shop/track.py", CODE)
    return written("shop/track.json", TRACK).parent


@pytest.fixture
def file(folder, loaded):
    return loaded(import_rally(folder, None, {}, allow_code=True)).file


def test_values_that_differ_from_request_to_request_are_listed_in_their_order(file):
    within = file.operations["cheap"].search.body["query"]["range"]["price"]
    low, high = (file.variables[within[key][2:-1]].choice for key in ("gte", "lt"))
    assert low.order == high.order == "sequential"
    assert set(low.values) == {10, 20, 30}
    assert [number + 5 for number in low.values] == high.values
    assert file.operations["cheap"].search.collection == "orders"


@pytest.mark.slow
def test_nothing_is_drawn_for_operations_of_an_unknown_type_which_are_left_out_by_name(written, loaded):
    code = """\
    def broken(track, params, **kwargs):
        raise RuntimeError("this was drawn")
    def register(registry):
        registry.register_param_source("broken", broken)
    """
    written("t/track.py", dedent(code))
    unknown = {"name": "odd", "operation-type": "of-a-plugin", "param-source": "broken"}
    known = {"name": "all", "operation-type": "search", "body": {"query": {"match_all": {}}}}
    track = {"indices": [{"name": "orders"}], "schedule": [{"operation": unknown}, {"operation": known}]}
    path = written("t/track.json", track)
    for allowed in (True, False):
        imported = import_rally(path, None, {}, allow_code=allowed)
        assert list(loaded(imported).file.operations) == ["all"]
        assert any("odd: unsupported type of-a-plugin" in left for left in imported.left_out)
        assert "this was drawn" not in imported.text()


@pytest.mark.slow
def test_a_source_that_draws_draws_the_same_again(folder):
    assert len({import_rally(folder, None, {}, allow_code=True).text() for _ in range(2)}) == 1


def test_a_source_that_ends_ends_its_task_and_gives_each_client_its_part(file):
    (pages,) = (phase for phase in file.phases if phase.name == "pages")
    hole = file.operations["pages"].search.body["from"]
    assert file.variables[hole[2:-1]].choice.values == [0, 10, 1, 11]
    assert pages.requests == 4


def test_what_is_always_the_same_stands_in_the_operation_and_is_no_hole(file):
    assert file.operations["same"].search.body == {"query": {"term": {"kind": "$${not_ours}"}}}
    assert file.operations["same"].search.parameters == {"routing": "a"}


@pytest.mark.slow
def test_registered_code_without_an_equivalent_is_named(folder):
    allowed = import_rally(folder, None, {}, allow_code=True)
    assert "The import ran code of the track: track.py." in allowed.text()
    refused = import_rally(folder, None, {}).left_out if _removes_sources(folder) else ()
    for left_out in (allowed.left_out, refused):
        assert "operations of the runner restart-node of track.py" in left_out
        assert "the schedule like-people of track.py" in left_out


def _removes_sources(folder):
    """Keep a search that needs no code, so that the track can be imported without code."""
    plain = '{"indices": [{"name": "orders"}], "schedule": [{"operation": {"operation-type": "search", "body": {}}}]}'
    return (folder / "track.json").write_text(plain)


def test_without_permission_no_code_is_run_also_none_of_the_current_folder(folder, monkeypatch):
    _removes_sources(folder)
    (folder / "track.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    (folder / "jinja2.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    monkeypatch.chdir(folder)
    left_out = import_rally(folder, None, {}).left_out
    assert "track.py: its code did not run; allow it with --allow-code" in left_out
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("code", "what", "line"),
    [
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "code of a track must not use the network", 2),
        ("import subprocess\nsubprocess.run(['true'])", "code of a track must not start processes", 2),
        ("open('left-behind', 'w')", "code of a track must not write files", 1),
        ("x = 1\nraise ValueError('no')", "the track's code raised ValueError: no", 2),
        ("import no_such_module_at_all", "ModuleNotFoundError", 1),
        ("raise SystemExit(0)", "SystemExit", 1),
        ("def register(registry):\n    registry.unknown()", "AttributeError", 2),
        ("x = 1", "KeyError: 'register'", None),
        ("def register(registry:\n", "SyntaxError", None),
    ],
)
def test_code_that_fails_or_asks_for_what_it_does_not_get_is_refused_with_its_line(folder, code, what, line):
    (folder / "track.py").write_text(code)
    with pytest.raises(BadInput) as caught:
        import_rally(folder, None, {}, allow_code=True)
    assert what in caught.value.what
    assert str(caught.value.where).endswith(f"track.py:{line}" if line else "track.py")
    assert "--allow-code" in str(caught.value.remedy)


@pytest.mark.slow
def test_code_without_end_is_ended(folder):
    (folder / "track.py").write_text("while True: pass")
    with pytest.raises(BadInput, match="the code needs more than 1 s of CPU time"):
        isolated.run(folder / "track.py", {}, [], isolated.Limits(cpu=1))
    (folder / "track.py").write_text("x = 'a' * 10**11")
    with pytest.raises(BadInput, match="the code needs more than 1024 MiB of memory") as caught:
        isolated.run(folder / "track.py", {}, [])
    assert "--memory-limit" in caught.value.remedy


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("raise LookupError('no such term')", "the track's code raised LookupError: no such term"),
        ("return {'body': {1, 2}}", "the track's code raised TypeError"),
        ("return [1]", "params() must return a dictionary; got list"),
        ("return {'body': {str(next(COUNT)): 1}}", "bodies with different keys"),
        ("return {'body': {}, 'results-per-page': next(COUNT)}", "changes results-per-page between requests"),
    ],
)
def test_an_operation_whose_source_gives_nothing_that_can_be_listed_is_left_out_by_name(folder, body, reason):
    code = f"""\
    from itertools import count
    COUNT = count()
    def bad(track, params, **kwargs):
        {body}
    def good(track, params, **kwargs):
        return {{"body": {{"size": 1}}}}
    def register(registry):
        registry.register_param_source("prices", bad)
        registry.register_param_source("same", good)
    """
    (folder / "track.py").write_text(dedent(code))
    imported = import_rally(folder, None, {}, allow_code=True)
    (entry,) = (entry for entry in imported.left_out if entry.startswith("operation cheap: "))
    assert reason in entry
    (other,) = (entry for entry in imported.left_out if entry.startswith("operation pages: "))
    assert "does not register this name" in other
    assert list(imported.data["operations"]) == ["same"]


def test_templates_that_code_makes_are_made_by_requests(written, loaded):
    code = """\
    from esrally.track.params import CreateComponentTemplateParamSource
    class Ours(CreateComponentTemplateParamSource):
        def __init__(self, track, params, **kwargs):
            super().__init__(track, params, **kwargs)
            self.template_definitions = [(name, {**body, "version": 3}) for name, body in self.template_definitions]
    def register(registry):
        registry.register_param_source("ours", Ours)
    """
    written("t/track.py", dedent(code))
    written("t/c.json", {"template": {"settings": {}}})
    operation = {"name": "make", "operation-type": "create-component-template", "param-source": "ours"}
    track = {"component-templates": [{"name": "c", "template": "c.json"}], "schedule": [{"operation": operation}]}
    path = written("t/track.json", track)
    form = loaded(import_rally(path, None, {}, allow_code=True)).file.operations["make"].request
    assert (form.method, form.path) == ("PUT", "/_component_template/c")
    assert form.body == {"template": {"settings": {}}, "version": 3}


def test_the_whole_code_interface_of_opensearch_benchmark_is_there(written, loaded):
    written(
        "w/workload.py",
        """
import random

def values():
    return {"gte": 1, "lte": 2}

def drawn(workload, params, **kwargs):
    return {"index": "a", "body": {"query": {"range": {"fare": {"gte": random.randrange(9)}}}}}

def register(registry):
    registry.register_standard_value_source("look", "fare", values)
    registry.register_query_randomization_info("look", "range", [["gte", "gt"], ["lte", "lt"]], [])
    registry.register_param_source("drawn", drawn)
    registry.register_future_thing("name", values)
""",
    )
    look = {"name": "look", "operation-type": "search", "body": {"query": {"range": {"fare": {"gte": 1, "lte": 2}}}}}
    anew = {"name": "anew", "operation-type": "search", "param-source": "drawn"}
    procedures = [{"name": "p", "default": True, "schedule": [{"operation": look}, {"operation": anew}]}]
    track = written("w/workload.json", {"indices": [{"name": "a", "body": ""}], "test_procedures": procedures})
    imported = import_rally(track, None, {}, allow_code=True)
    assert list(loaded(imported).file.operations) == ["look", "anew"]
    assert imported.left_out == ("the registration register_future_thing name of workload.py",)
    assert any("look (fare)" in remark and "--randomization-enabled" in remark for remark in imported.remarks)


def drawn(written, code, *operations, limits=isolated.DEFAULT):
    """Return the draws of isolated code for sources `s0`, `s1`, ...; `operations` gives the request count of each."""
    file = written("drawn/track.py", dedent(code))
    wanted = [DrawRequest(f"s{number}", f"o{number}", {}, 1, most) for number, most in enumerate(operations)]
    return isolated.run(file, {}, wanted, limits).draws


def test_requests_are_what_the_source_gave_whatever_they_share(written):
    code = """\
        GIVEN = [
            {"body": {"a": [1, {"b": "x"}, []], "c": {}}, "index": "i"},
            {"body": {"a": [1, {"b": "y"}, []], "c": {}}, "index": "i"},
            {"body": {"a": [True, {"b": "x"}, [None]], "c": {}}, "index": "j"},
            {"body": {"a": [1.0, {"b": "x"}], "c": {"d": 1}}, "index": None},
            {"body": {"a": [1, {"b": "x"}, []], "c": {}}, "index": "i"},
            {"index": "i"},
        ]
        class Source:
            def __init__(self, *_, **__):
                self.given = iter(GIVEN)
            def params(self):
                return next(self.given)
        def register(registry):
            registry.register_param_source("s0", Source)
    """
    (draws,) = drawn(written, code, 10)
    space: dict = {}
    exec(dedent(code), space)
    assert [json.dumps(one) for one in draws.values] == [json.dumps(one) for one in space["GIVEN"]]
    assert draws.ended


REPEATING = """\
    import itertools
    TERMS = [f"term {number}" for number in range(3000)]
    class Source:
        def __init__(self, *_, **__):
            self.number = itertools.count()
        def params(self):
            return {"body": {"query": {"terms": {"name": [*TERMS, str(next(self.number))]}}}}
    def register(registry):
        for number in range(4):
            registry.register_param_source(f"s{number}", Source)
"""


@pytest.mark.slow
def test_repeated_parts_of_requests_take_little_memory(written):
    of_sources = drawn(written, REPEATING, 300, 300, 300, 300, limits=isolated.Limits(memory=2**28))
    assert [len(draws.values) for draws in of_sources] == [300] * 4
    assert [draws.values[-1]["body"]["query"]["terms"]["name"][-2:] for draws in of_sources] == [
        ["term 2999", "299"]
    ] * 4


@pytest.mark.slow
def test_a_slow_source_is_asked_for_fewer_requests(written):
    code = """\
        import time
        def slow(track, params, **kwargs):
            time.sleep(0.01)
            return {"body": {"size": 1}}
        def register(registry):
            registry.register_param_source("s0", slow)
            registry.register_param_source("s1", slow)
    """
    of_sources = drawn(written, code, 10_000, 10_000, limits=isolated.Limits(cpu=5))
    assert [draws.slow for draws in of_sources] == [True, True]
    assert all(200 <= len(draws.values) < 10_000 for draws in of_sources)


def test_unimportable_operations_are_not_drawn_further(written, loaded):
    code = """\
        class Source:
            def __init__(self, track, params, **_):
                self.left = params["lasts"]
                self.given = params["gives"]
            def params(self):
                self.left -= 1
                if self.left < 0:
                    raise RuntimeError("it was asked for more")
                return {"bulk-size": 5, self.given: "text" if self.given == "body" else self.left}
        def register(registry):
            registry.register_param_source("source", Source)
    """
    written("track.py", dedent(code))
    bulk = {"operation-type": "bulk", "param-source": "source"}
    operations = [
        {"name": "made", **bulk, "gives": "body", "lasts": 1},
        {"name": "varies", **bulk, "gives": "batch-size", "lasts": 2},
        {"name": "look", "operation-type": "search", "body": {}},
    ]
    track = {"indices": [{"name": "a"}], "schedule": [{"operation": operation} for operation in operations]}
    imported = import_rally(written("track.json", track), None, {}, allow_code=True)
    assert list(loaded(imported).file.operations) == ["look"]
    assert "operation made: code generates its documents" in imported.left_out
    assert "operation varies: its parameter source changes batch-size between requests" in imported.left_out
