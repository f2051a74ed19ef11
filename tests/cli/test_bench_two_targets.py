"""`bench` of a journey over two targets: an application with a REST interface, and a store that the tool starts."""

import json
import shutil

import pytest

from commands import loadframe
from loadframe.base.errors import BadInput
from loadframe.record import Run
from loadframe.workload import load_workload
from rest_service import RestService

WORKLOAD = """\
workload: both
parameters: {app: "127.0.0.1:1"}
targets: {app: {family: http, hosts: ["${app}"]}}
collections: {notes: {redis: {}}}
variables:
  user: {choice: [ann, bob, cec], per: user}
  who: {sequential: {from: 1}, per: user}
operations:
  login:
    target: app
    http: {method: POST, path: /login, body: {user: "${user}"}, capture: {token: {json: /session/token}}}
  write:
    target: app
    http:
      method: POST
      path: /items
      headers: {Authorization: "Bearer ${token}"}
      body: {steps: 5}
      capture: {number: {json: /id}}
    chart: {kind: figures, figures: {number: /id}}
  keep: {upsert: {collection: notes, id: "${who}", document: {number: "${number}"}}}
  look: {read: {collection: notes, id: "${who}"}, capture: {kept: {field: number}}}
  read:
    target: app
    http:
      method: GET
      path: /items/${kept}
      headers: {Authorization: "Bearer ${token}"}
      expect: {json: {/owner: "${user}"}}
phases:
  - {name: day, users: 6, clients: 3, journey: [login, write, keep, look, read], journeys: 2}
"""


@pytest.mark.skipif(
    not (shutil.which("redis-server") or shutil.which("valkey-server")),
    reason="neither redis-server nor valkey-server is installed",
)
def test_one_targets_answers_are_used_in_requests_to_the_other(tmp_path, state):
    (tmp_path / "both.yaml").write_text(WORKLOAD)
    with RestService() as service:
        words = ["--store", "redis", "--set", f"app={service.address}", "--output", tmp_path / "run"]
        done = loadframe("bench", tmp_path / "both.yaml", *words)
        assert done.returncode == 0, done.stderr
        assert len(service.items) == 12
    run = Run(tmp_path / "run")
    (phase,) = run.raw_summary["phases"]
    counts = {name: (figures["requests"], figures["successes"]) for name, figures in phase["operations"].items()}
    assert counts == dict.fromkeys(("login", "write", "keep", "look", "read"), (12, 12))
    # The telemetry has the requests that each host served, with its address.
    served = {row["source"]: 0.0 for row in run.telemetry.to_pylist() if row["source"].startswith("target:")}
    for row in run.telemetry.to_pylist():
        if row["source"] in served and row["metric"] == "requests":
            served[row["source"]] += row["value"]
    assert served[f"target:{service.address}"] == 36
    assert sorted(served.values()) == [24, 36]
    # The record has an answer of the queried target, for its charts.
    assert json.loads((tmp_path / "run" / "answers-day.json").read_text())["write"]["id"]


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("login:\n    target: app", "login:\n    target: ap", "unknown target 'ap'"),
        (
            "{family: http, hosts",
            "{family: mongodb, hosts",
            "mongodb, the family of the target 'app', does not support this http",
        ),
        (
            "targets: {app:",
            "targets: {store: {family: http, hosts: ['a:1']}, app:",
            "reserved for the store under test",
        ),
        ('hosts: ["${app}"]', "hosts: [localhost]", "'localhost' is not an address"),
        (
            "keep: {upsert",
            "keep: {redis: {target: app, upsert",
            "an operation for a target must not have forms per family",
        ),
    ],
)
def test_a_target_that_cannot_be_asked_so_is_refused(tmp_path, old, new, cause):
    assert old in WORKLOAD
    text = WORKLOAD.replace(old, new)
    if "redis: {target" in new:
        text = text.replace('document: {number: "${number}"}}}', 'document: {number: "${number}"}}}}')
    (tmp_path / "both.yaml").write_text(text)
    with pytest.raises(BadInput, match=cause):
        load_workload(str(tmp_path / "both.yaml"))
