"""Sources of events: their plans and manifest entries, and refused contradictions."""

import hashlib
import json

import pytest
from workload_texts import pointed_at

from loadframe.base.errors import BadInput

WORKLOAD = """\
workload: w
parameters: {{speed: 2, log: events.ndjson, place: event}}
sources:
  ads:
    {source}
    events: {{type: type, kinds: {{bid: {{id: id, time: time}}, click: {{id: bid.id, time: bid.time}}}}}}
corpora: {{trips: {{generate: nyc_taxi_trip, documents: 10}}}}
collections: {{docs: {{}}}}
operations:
  take_in: {{take_in: {{collection: ads, daily: "${{place}}"}}}}
  fill: {{bulk: {{collection: docs, corpus: trips, size: 5}}}}
  look: {{read: {{collection: docs, id: a}}}}
phases:
  - {phase}
"""
LISTEN = "listen: 127.0.0.1:0"
PHASE = "{name: ingest, operation: take_in, source: ads, duration: 60s}"


def written(source=LISTEN, phase=PHASE):
    return WORKLOAD.format(source=source, phase=phase)


def plan(load, source=LISTEN, phase=PHASE, **parameters):
    resolved = load(written(source, phase), **parameters).for_family("elasticsearch", 1)
    return resolved.phases[0].plan(seed=1, hosts=["a:1"], driver="search")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "events.ndjson"
    path.write_text('{"type": "bid", "id": "a", "time": 1}\n')
    return path


def test_a_plan_has_the_source_with_fields_as_pointers(load):
    made = plan(load)
    assert made["sources"] == {
        "ads": {
            "listen": {"address": "127.0.0.1:0"},
            "events": {
                "type": "/type",
                "kinds": {"bid": {"id": "/id", "time": "/time"}, "click": {"id": "/bid/id", "time": "/bid/time"}},
            },
            "batch": 4096,
            "flush": 0.5,
            "buffer": 67_108_864,
            "longest_line": 1_048_576,
            "spill": 1 << 30,
        }
    }
    (stream,) = made["streams"]
    assert stream["pacing"] == {"source": {"source": "ads", "workers": 4}}
    assert (stream["mix"], stream["stop"]) == ([["take_in", 1.0]], {"duration": 60.0})
    assert made["operations"] == {"take_in": {"take_in": {"collection": "ads", "daily": "event"}}}
    json.dumps(made)


def test_batch_and_worker_settings_are_in_the_plan(load):
    phase = "{name: ingest, operation: take_in, source: ads, workers: 9, until: exhausted, retries: 3}"
    source = f"{LISTEN}\n    batch: 100\n    flush: 250ms\n    buffer: 8m\n    longest_line: 64k\n    idle: 5s"
    made = plan(load, source, phase)
    said = {key: made["sources"]["ads"][key] for key in ("batch", "flush", "buffer", "longest_line", "idle")}
    assert said == {"batch": 100, "flush": 0.25, "buffer": 8 << 20, "longest_line": 64 << 10, "idle": 5.0}
    (stream,) = made["streams"]
    assert (stream["pacing"]["source"]["workers"], stream["stop"], stream["retries"]) == (9, "exhausted", 3)


def test_senders_to_a_port_get_acknowledgements_on_request(load):
    assert plan(load, f"{LISTEN}\n    acknowledge: true")["sources"]["ads"]["acknowledge"] is True
    assert "acknowledge" not in plan(load, f"{LISTEN}\n    acknowledge: false")["sources"]["ads"]


def test_files_and_certificates_lie_beside_the_workload(load, log, tmp_path):
    replayed = plan(load, 'files: ["${log}"]\n    replay: {time: bid.time, speed: "${speed}"}')
    assert replayed["sources"]["ads"]["files"] == [str(log)]
    assert replayed["sources"]["ads"]["replay"] == {"time": "/bid/time", "speed": 2.0}
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("PEM")
    secured = plan(load, 'listen: {address: "0.0.0.0:5000", certificate: c.pem, key: k.pem}')
    assert secured["sources"]["ads"]["listen"] == {
        "address": "0.0.0.0:5000",
        "certificate": str(tmp_path / "c.pem"),
        "key": str(tmp_path / "k.pem"),
    }


def test_a_path_that_is_set_begins_at_the_current_folder(load, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other.ndjson").write_text("{}\n")
    monkeypatch.chdir(elsewhere)
    made = plan(load, 'files: ["${log}"]', log="other.ndjson")
    assert made["sources"]["ads"]["files"] == [str(elsewhere / "other.ndjson")]


def test_events_may_be_read_from_standard_input_or_made(load):
    assert plan(load, "stdin: true")["sources"]["ads"]["stdin"] is True
    made = plan(load, "generate: {generator: adbids, rate: 600/min, documents: 50, start: 2017-03-01T12:00:00Z}")
    assert made["sources"]["ads"]["generate"] == {
        "generator": "adbids",
        "rate": 10.0,
        "documents": 50,
        "paced": True,
        "start": "2017-03-01T12:00:00Z",
    }


def test_a_phase_has_only_the_sources_that_it_takes_from(load):
    assert "sources" not in plan(load, phase="{name: look, operation: look, clients: 1, requests: 1}")


def test_the_manifest_has_the_files_of_a_source_by_hash(load, log):
    described = load(written("files: [events.ndjson]")).for_family("elasticsearch", 1).describe()
    (file,) = described["sources"]["ads"]["files"]
    digest = hashlib.sha256(log.read_bytes()).hexdigest()
    assert file == {"path": str(log), "bytes": log.stat().st_size, "sha256": digest}
    (stream,) = load(written()).for_family("elasticsearch", 1).phases[0].describe()["streams"]
    assert stream["pacing"] == {"source": {"source": "ads", "workers": 4}}


def test_a_duration_that_is_set_replaces_the_end_of_the_source(load):
    phase = "{name: ingest, operation: take_in, source: ads, until: exhausted}"
    resolved = load(written("stdin: true", phase)).for_family("elasticsearch", 1).phases[0].override(duration=5.0)
    assert resolved.plan(seed=1, hosts=["a:1"], driver="search")["streams"][0]["stop"] == {"duration": 5.0}


@pytest.mark.parametrize("levels", [{"clients": 3}, {"rate": 5.0}, {"users": 3}])
def test_no_level_takes_the_place_of_a_source(load, levels):
    phase = load(written()).for_family("elasticsearch", 1).phases[0]
    with pytest.raises(BadInput):
        phase.override(**levels)


@pytest.mark.parametrize("family", ["redis", "couchbase", "postgresql", "http"])
def test_stores_that_cannot_take_events_in_say_so(load, family):
    with pytest.raises(BadInput, match="does not support stores of the family"):
        load(written()).for_family(family, 1)


@pytest.mark.parametrize("family", ["elasticsearch", "mongodb", "cassandra"])
def test_the_others_are_given_the_same_operation(load, family):
    operations = load(written()).for_family(family, 1).phases[0].operations
    assert operations["take_in"] == {"take_in": {"collection": "ads", "daily": "event"}}


def test_the_operation_may_have_the_options_of_a_family(load):
    text = written().replace(
        'take_in: {take_in: {collection: ads, daily: "${place}"}}',
        "take_in: {cassandra: {take_in: {collection: ads, daily: event}, consistency: quorum}}",
    )
    assert load(text).for_family("cassandra", 1).phases[0].operations["take_in"]["consistency"] == "quorum"


def test_a_collection_that_is_not_of_a_day_has_to_be_there(load, refused):
    error = refused(written().replace('ads, daily: "${place}"', "adds"))
    assert error.what == "unknown collection 'adds'"
    text = written().replace('ads, daily: "${place}"', "docs")
    assert load(text).for_family("mongodb", 1).phases[0].operations["take_in"] == {"take_in": {"collection": "docs"}}


@pytest.mark.parametrize(
    ("source", "where", "what"),
    [
        ("batch: 5", "batch: 5", "the source lacks an origin of events"),
        (f"{LISTEN}\n    stdin: true", "stdin:", "listen and stdin exclude each other"),
        ("listen: 127.0.0.1", "127.0.0.1", "is not an address to listen on"),
        ("listen: 127.0.0.1:70000", "127.0.0.1:70000", "is not an address to listen on"),
        ("listen: {address: '[::1]:5000', key: k.pem}", "key:", "key requires certificate"),
        ("listen: {address: 'a:1', certificate: c.pem}", "certificate:", "certificate requires key"),
        (f"{LISTEN}\n    replay: {{time: time}}", "replay:", "replay requires files"),
        ("files: []", "[]", "at least one"),
        ("files: [events.ndjson]\n    idle: 5s", "idle:", "idle requires listen or stdin; got files"),
        ("files: [events.ndjson]\n    replay: {time: time, speed: 0}", "0}", "above 0"),
        ("generate: {generator: adbid, rate: 5/s}", "adbid,", "not valid here"),
        ("generate: {generator: adbids}", "{generator: adbids}", "'rate' is missing"),
        ("generate: {generator: adbids, rate: 5/s, start: noon}", "noon}", "not an instant"),
        (f"{LISTEN}\n    batch: 0", "0", "at least 1"),
        (f"{LISTEN}\n    flush: 0s", "0s", "above 0"),
        (f"{LISTEN}\n    buffer: 1k", "buffer", "longest_line (1048576 bytes) exceeds buffer (1024 bytes)"),
        ("stdin: true\n    acknowledge: true", "acknowledge:", "acknowledge requires listen"),
        (f"{LISTEN}\n    buffers: 1m", "buffers:", "unknown key"),
    ],
)
def test_errors_in_a_source_are_refused_with_their_place(refused, source, where, what):
    text = written(source)
    error = refused(text)
    assert what in error.what
    assert pointed_at(text, error).startswith(where)


@pytest.mark.parametrize("field", ["/id", "a..b", ".a", "a/b"])
def test_a_field_is_named_with_dots(refused, field):
    text = written().replace("{id: id,", f"{{id: {field},")
    assert "is not a field of an event" in refused(text).what


@pytest.mark.parametrize(
    ("phase", "where", "what"),
    [
        ("{name: p, operation: take_in, source: add, duration: 1s}", "add", "unknown source 'add'"),
        ("{name: p, operation: take_in, clients: 2, duration: 1s}", "take_in", "the stream lacks a source"),
        ("{name: p, operation: look, source: ads, duration: 1s}", "look", "requires a take_in operation"),
        ("{name: p, operation: fill, source: ads, duration: 1s}", "fill", "requires a take_in operation"),
        ("{name: p, mix: {take_in: 1}, source: ads, duration: 1s}", "mix", "a source requires operation or route"),
        ("{name: p, operation: take_in, source: ads, rate: 5, duration: 1s}", "rate", "has no effect with a source"),
        ("{name: p, operation: take_in, source: ads, clients: 5, duration: 1s}", "clients", "has no effect"),
        ("{name: p, operation: look, clients: 1, workers: 5, duration: 1s}", "workers", "workers requires source"),
        ("{name: p, operation: take_in, source: ads, workers: 0, duration: 1s}", "0", "at least 1"),
        ("{name: p, operation: take_in, source: ads, requests: 5}", "requests", "a fixed number of requests"),
        ("{name: p, operation: take_in, source: ads, until: exhausted}", "exhausted", "never ends"),
        ("{name: p, duration: 1s, streams: [{operation: take_in, source: ads},"
         " {name: b, operation: take_in, source: ads}]}", "ads}]}", "another stream"),
    ],
)  # fmt: skip
def test_contradictions_of_a_phase_and_its_source_are_refused_with_their_place(refused, phase, where, what):
    text = written(phase=phase)
    error = refused(text)
    assert what in error.what
    assert pointed_at(text, error).startswith(where)


@pytest.mark.parametrize(
    ("source", "ends"),
    [(LISTEN, False), (f"{LISTEN}\n    idle: 5s", True), ("stdin: true", True), ("files: [a]", True),
     ("generate: {generator: adbids, rate: 5}", False), ("generate: {generator: adbids, rate: 5, documents: 9}", True)],
)  # fmt: skip
def test_only_a_source_that_ends_can_be_exhausted(load, source, ends):
    text = written(source, "{name: p, operation: take_in, source: ads, until: exhausted}")
    if ends:
        assert load(text).file.sources["ads"].ends
    else:
        with pytest.raises(BadInput, match="never ends"):
            load(text)


@pytest.mark.parametrize(("content", "what"), [(None, "does not exist"), (b"", "is empty")])
def test_a_file_that_cannot_be_read_is_refused(load, tmp_path, content, what):
    if content is not None:
        (tmp_path / "events.ndjson").write_bytes(content)
    loaded = load(written('files: ["${log}"]'))
    with pytest.raises(BadInput, match=what) as caught:
        loaded.for_family("elasticsearch", 1)
    assert "w.yaml:5" in str(caught.value.where)
    assert "--set log=PATH" in str(caught.value.remedy)


def test_files_of_a_source_that_no_phase_uses_need_not_be_there(load):
    phase = "{name: look, operation: look, clients: 1, requests: 1}"
    assert load(written("files: [gone]", phase)).for_family("elasticsearch", 1).sources == {}


BOTH = 'listen: "{address}"\n    wait: 10m\n    idle: 5s\n    generate: {{generator: adbids, rate: 100, documents: 10}}'


def test_an_address_that_is_not_empty_takes_the_place_of_events_that_are_made(load):
    phase = PHASE.replace("duration: 60s", "until: exhausted")
    listening = plan(load, BOTH.format(address="127.0.0.1:5000"), phase)["sources"]["ads"]
    assert (listening["listen"], listening["wait"], listening["idle"]) == ({"address": "127.0.0.1:5000"}, 600.0, 5.0)
    assert "generate" not in listening
    making = plan(load, BOTH.format(address=""), phase)["sources"]["ads"]
    assert making["generate"]["documents"] == 10
    assert not {"listen", "wait", "idle"} & making.keys()


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("stdin: true\n    wait: 5s", "wait requires listen"),
        (
            "listen: 127.0.0.1:0\n    wait: 5s",
            "wait requires a fixed port: port 0 is assigned only when the load starts",
        ),
    ],
)
def test_only_sources_with_external_senders_wait_for_a_first_line(load, source, what):
    with pytest.raises(BadInput, match=what):
        load(written(source))


def test_only_a_port_spills_to_disk_if_it_is_not_said_and_that_can_be_changed(load):
    assert "spill" not in plan(load, f"{LISTEN}\n    spill: 0")["sources"]["ads"]
    assert plan(load, f"{LISTEN}\n    spill: 2m")["sources"]["ads"]["spill"] == 2 << 20
    assert "spill" not in plan(load, "stdin: true")["sources"]["ads"]
    assert plan(load, "stdin: true\n    spill: 1k")["sources"]["ads"]["spill"] == 1024


def test_spilling_is_refused_for_generated_events(load):
    with pytest.raises(BadInput, match="spill requires listen or stdin; got generate") as caught:
        plan(load, "generate: {generator: adbids, rate: 5}\n    spill: 1m")
    assert caught.value.remedy == "remove spill"


def test_events_are_looked_for_in_a_sample_of_them_that_can_be_left_out(load):
    def looked_for(sample):
        text = written().replace(
            'daily: "${place}"}', f'daily: "${{place}}"}}, visible: {{sample: {sample}, every: 1s}}'
        )
        resolved = load(text).for_family("elasticsearch", 1)
        return resolved.phases[0].plan(seed=1, hosts=["a:1"], driver="search").get("visible")

    assert looked_for("2s") == {"take_in": {"every": 1.0, "within": 120.0, "sample": 2.0}}
    assert looked_for("0s") is None


ROUTED = """\
workload: w
sources: {{ads: {{stdin: true, events: {{kinds: {{bid: {{id: id, time: t}}, click: {{id: id, time: t}}}}}}}}}}
collections: {{bids: {{}}, clicks: {{}}}}
operations:
  bids: {{take_in: {{collection: bids}}, {probes}}}
  clicks: {{take_in: {{collection: clicks}}}}
phases:
  - {{name: ingest, {route}, until: exhausted}}
"""


def routed(route="source: ads, route: {bid: bids, click: clicks}", probes="new_documents: 1"):
    return ROUTED.format(route=route, probes=probes)


def test_each_kind_of_event_can_have_its_own_operation(load):
    phase = load(routed()).for_family("elasticsearch", 1).phases[0]
    (stream,) = phase.plan(seed=1, hosts=["a:1"], driver="search")["streams"]
    assert stream["pacing"]["source"]["routes"] == {"bid": "bids", "click": "clicks"}
    assert stream["mix"] == [["bids", 1.0], ["clicks", 1.0]]
    assert stream["name"] == "ads"


@pytest.mark.parametrize(
    ("route", "what", "place"),
    [
        ("source: ads, route: {bid: bids}", "route does not name the kind of event 'click'", "route:"),
        ("source: ads, route: {bid: bids, clik: clicks}", "unknown kind of event 'clik'", "clik: "),
        ("source: ads, route: {bid: bids, click: clics}", "unknown operation 'clics'", "clics"),
        ("source: ads, operation: bids, route: {bid: bids, click: clicks}", "operation and route exclude", ""),
        ("clients: 1, route: {bid: bids, click: clicks}", "route requires source", "route"),
        ("source: ads", "operation, mix or journey is missing", ""),
    ],
)
def test_bad_routes_are_refused_at_their_place(load, route, what, place):
    text = routed(route)
    with pytest.raises(BadInput, match=what) as caught:
        load(text)
    assert pointed_at(text, caught.value).startswith(place)


def test_operations_of_a_route_must_have_the_same_probes(load):
    with pytest.raises(BadInput, match="must have the same visible"):
        load(routed(probes="visible: {sample: 1s}"))


def test_a_kind_of_event_without_an_id_is_refused_with_ways_to_make_one(load):
    with pytest.raises(BadInput, match="the key 'id' is missing") as caught:
        load(written().replace("{id: id,", "{"))
    assert "join fields" in caught.value.remedy
    assert "id: message" in caught.value.remedy
    with pytest.raises(BadInput, match="unknown key 'ids'"):
        load(written().replace("{id: id,", "{ids: id,"))
