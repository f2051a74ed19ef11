"""`bench` and `check` on an application with a REST interface: users log in, write, and read their items."""

import contextlib
import json

import pytest
import trustme

from commands import loadframe
from loadframe.library.run import histograms_table, operations_table
from loadframe.record import Run
from loadframe.report.formats.tables import json_lines
from rest_service import RestService
from serverless_search import ServerlessSearch
from tls_front import Front

WORKLOAD = """\
workload: app
variables:
  user: {choice: [ann, bob, cec]}
  steps: {uniform: [1, 9]}
operations:
  login:
    http:
      method: POST
      path: /login
      body: {user: "${user}"}
      capture: {token: {json: /session/token}}
  write:
    http:
      method: POST
      path: /items
      headers: {Authorization: "Bearer ${token}"}
      body: {steps: "${steps}"}
      capture: {item: {header: Location}}
      expect: {status: [201]}
  read:
    http:
      method: GET
      path: /items/1
      headers: {Authorization: "Bearer ${token}"}
      expect: {json: {/item/steps: 5}}
phases:
  - {name: day, journey: [login, write], clients: 3, duration: 1s}
  - {name: visits, journey: [login, write], rate: 20/s, arrivals: constant, duration: 1s}
"""


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "app.yaml"
    path.write_text(WORKLOAD)
    return path


def test_users_log_in_and_write_their_own_items(workload, tmp_path):
    with RestService() as service:
        words = ["bench", workload, "--hosts", service.address, "--store", "http", "--output", tmp_path / "run"]
        done = loadframe(*words)
    assert done.returncode == 0, done.stderr
    run = Run(tmp_path / "run")
    assert run.raw_manifest["store"]["kind"] == "http"
    assert run.raw_manifest["store"]["version"] == "rest-service/1.0"
    for phase in run.raw_summary["phases"]:
        for operation in phase["operations"].values():
            assert operation["requests"] == operation["successes"] >= 20, operation
    assert len(service.items) >= 20
    assert {user for user, _ in service.items.values()} == set(service.logins) == {"ann", "bob", "cec"}


def test_a_check_shows_each_request_once_and_judges_it(workload):
    workload.write_text(WORKLOAD.replace("[login, write], rate", "[login, write, read], rate"))
    with RestService() as service:
        done = loadframe("check", workload, "--hosts", service.address, "--store", "http", "--json")
    assert done.returncode == 1
    answers = json.loads(done.stdout)
    assert [answer["operation"] for answer in answers] == ["login", "write", "login", "write", "read"]
    assert [answer["error"] for answer in answers[:4]] == [None] * 4
    assert answers[0]["request"].startswith('POST /login HTTP/1.1\n\n{\n  "user": ')
    assert answers[4]["message"].startswith("HTTP 403: ")
    assert not any(answer["empty"] for answer in answers)


def test_a_service_is_not_started(workload):
    done = loadframe("bench", workload, "--store", "http")
    assert done.returncode == 2
    assert "name it with --hosts" in done.stderr


def test_requests_may_go_to_the_nodes_in_turn(tmp_path):
    path = tmp_path / "app.yaml"
    path.write_text(
        "workload: app\n"
        "operations: {ask: {http: {method: GET, path: /, expect: {status: 404}}}}\n"
        "phases: [{name: ask, operation: ask, clients: 1, requests: 100}]\n"
    )
    with RestService() as first, RestService() as second:
        hosts = f"{first.address},{second.address}"
        words = ["bench", path, "--hosts", hosts, "--store", "http", "--spread", "round_robin", "--connections", 2]
        done = loadframe(*words, "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    run = Run(tmp_path / "run")
    assert run.raw_manifest["generator"]["spread"] == "round_robin"
    assert run.raw_manifest["generator"]["connections"] == 2
    served = dict.fromkeys((f"target:{address}" for address in hosts.split(",")), 0.0)
    for row in run.telemetry.to_pylist():
        if row["source"] in served:
            served[row["source"]] += row["value"]
    assert list(served.values()) == [50.0, 50.0]


def test_connections_that_are_too_few_are_refused_before_anything_is_asked(workload):
    with RestService() as service:
        words = ["bench", workload, "--hosts", service.address, "--store", "http", "--threads", 4, "--connections", 3]
        done = loadframe(*words)
    assert done.returncode == 2
    assert "3 connections for 4 worker threads: give each at least one" in done.stderr


def test_the_last_answer_to_an_operation_that_is_drawn_is_in_the_run_folder(tmp_path):
    path = tmp_path / "app.yaml"
    path.write_text(
        "workload: app\n"
        "operations:\n"
        "  login:\n"
        "    http: {method: POST, path: /login, body: {user: ann}}\n"
        "    chart: {kind: figures, figures: {steps: /session/token}}\n"
        "phases:\n"
        "  - {name: drawn, operation: login, clients: 1, requests: 5}\n"
    )
    with RestService() as service:
        words = ["bench", path, "--hosts", service.address, "--store", "http", "--output", tmp_path / "run"]
        done = loadframe(*words)
    assert done.returncode == 0, done.stderr
    answers = json.loads((tmp_path / "run" / "answers-drawn.json").read_text())
    assert answers["login"]["session"]["token"]


def served_by(run, hosts):
    """Return the requests that each host served."""
    served = dict.fromkeys((f"target:{host}" for host in hosts), 0)
    for row in run.telemetry.to_pylist():
        if row["source"] in served:
            served[row["source"]] += round(row["value"])
    return list(served.values())


@pytest.mark.parametrize("threads", [1, 2])
def test_an_open_load_goes_to_each_of_five_hosts_equally_often(tmp_path, threads):
    path = tmp_path / "app.yaml"
    path.write_text(
        "workload: app\n"
        "operations: {ask: {http: {method: GET, path: /, expect: {status: 404}}}}\n"
        "phases: [{name: ask, operation: ask, rate: 200/s, arrivals: constant, requests: 300}]\n"
    )
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(RestService()).address for _ in range(5)]
        words = ["bench", path, "--hosts", ",".join(hosts), "--store", "http", "--threads", threads]
        done = loadframe(*words, "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    served = served_by(Run(tmp_path / "run"), hosts)
    assert sum(served) == 300
    assert all(abs(count - 60) <= threads for count in served), served


def test_failures_are_shown_with_status_message_and_number(tmp_path):
    path = tmp_path / "app.yaml"
    path.write_text(
        "workload: app\n"
        "operations: {read: {http: {method: GET, path: /items/1}}}\n"
        "phases: [{name: read, operation: read, clients: 2, requests: 40}]\n"
    )
    with RestService() as service:
        words = ["bench", path, "--hosts", service.address, "--store", "http", "--output", tmp_path / "run"]
        done = loadframe(*words)
    assert "40 of read failed with 403 (client): HTTP 403" in " ".join(done.stdout.split())
    (phase,) = Run(tmp_path / "run").summary.phases
    (message,) = phase.operations["read"].messages
    assert (message.error, message.status, message.count) == ("client", 403, 40)
    assert "not yours" in message.message


def test_a_failed_request_of_a_phase_that_prepares_ends_the_run(tmp_path):
    path = tmp_path / "app.yaml"
    path.write_text(
        "workload: app\n"
        "operations:\n"
        "  read: {http: {method: GET, path: /items/1}}\n"
        "  login: {http: {method: POST, path: /login, body: {user: ann}}}\n"
        "phases:\n"
        "  - {name: load, prepares: true, operation: read, clients: 1, requests: 3}\n"
        "  - {name: ask, operation: login, clients: 1, requests: 3}\n"
    )
    with RestService() as service:
        words = ["bench", path, "--hosts", service.address, "--store", "http", "--output", tmp_path / "run"]
        done = loadframe(*words)
    assert done.returncode == 1
    assert "3 requests of read failed: HTTP 403" in done.stderr
    assert "the data is incomplete, so nothing was measured" in done.stderr
    assert service.logins == []
    summary = Run(tmp_path / "run").summary
    assert summary.status == "failed"
    assert [phase.name for phase in summary.phases] == ["load"]


def test_connections_that_the_server_closes_are_opened_again_and_counted(tmp_path):
    path = tmp_path / "app.yaml"
    path.write_text(
        "workload: app\n"
        "operations: {ask: {http: {method: GET, path: /, expect: {status: 404}}}}\n"
        "phases: [{name: ask, operation: ask, clients: 2, requests: 200}]\n"
    )
    with RestService(answers=10) as service:
        words = ["bench", path, "--hosts", service.address, "--store", "http", "--output", tmp_path / "run"]
        done = loadframe(*words)
    run = Run(tmp_path / "run")
    (phase,) = run.summary.phases
    operation = phase.operations["ask"]
    # Each connection serves ten requests. A request that meets a closing connection fails.
    assert operation.requests == 200
    assert 15 <= operation.reconnects <= 40
    assert f"{operation.reconnects} reconnects" in done.stdout
    assert sum(run.series["reconnects"].to_pylist()) == operation.reconnects
    # The connections that replaced others, and the first one of each client.
    assert phase.setup.count == operation.reconnects + 2
    assert 0 < phase.setup.p50 <= phase.setup.max
    assert f"setup of {phase.setup.count} connections: p50 " in done.stdout


@pytest.mark.parametrize("tls", [False, True])
def test_the_overhead_of_the_generator_is_shown_by_kernel_timestamps(tmp_path, tls):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    path = tmp_path / "app.yaml"
    path.write_text(
        "workload: app\n"
        "operations: {ask: {http: {method: GET, path: /, expect: {status: 404}}}}\n"
        "phases: [{name: ask, operation: ask, clients: 2, requests: 200}]\n"
    )
    with RestService() as service, Front(service.address, authority.issue_cert("127.0.0.1")) as front:
        address = [f"https://127.0.0.1:{front.port}", "--ca", tmp_path / "ca.pem"] if tls else [service.address]
        words = ["bench", path, "--hosts", *address, "--store", "http", "--output", tmp_path / "run"]
        done = loadframe(*words, "--kernel-timestamps")
        shown = loadframe("report", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    run = Run(tmp_path / "run")
    assert run.manifest.generator.kernel_timestamps is True
    operation = run.summary.phases[0].operations["ask"]
    times, service = operation.kernel_times, operation.service
    assert (times.overhead.count, times.corrected.count, times.without) == (200, 200, 0)
    assert 0 < times.overhead.mean < service.mean
    assert times.overhead.mean + times.corrected.mean == pytest.approx(service.mean, rel=0.01)
    assert "kernel timestamps of ask: service time mean " in done.stdout
    recorded = json.loads(shown.stdout)["phases"][0]["operations"]["ask"]["kernel_times"]
    assert recorded["corrected"]["p99"] == times.corrected.p99
    # Tables of runs and experiments have the times of each run.
    (row,) = operations_table(run).to_pylist()
    assert (row["corrected_p99"], row["overhead_mean"]) == (times.corrected.p99, times.overhead.mean)
    counts = histograms_table(run).group_by("kind").aggregate([("count", "sum")]).to_pylist()
    assert {kind["kind"]: kind["count_sum"] for kind in counts}.items() >= {"corrected": 200, "overhead": 200}.items()
    assert json.loads(json_lines([run]))["kernel_times"]["overhead"]["p50"] == times.overhead.p50
    # The verdict's bound of the service time is the time without the overhead.
    (figure,) = (it for it in run.summary.verdict.figures if it.figure == "service")
    if times.corrected.p99 < 0.95 * service.p99:
        assert figure.state == "bounded"
        assert figure.low["p99"] >= times.corrected.p99 * 0.999
        assert "generator_overhead" in {reason.code for reason in run.summary.verdict.reasons}


@pytest.mark.slow
@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_search_service_that_hides_its_cluster_is_measured(tmp_path, status):
    with ServerlessSearch(status) as service:
        words = ["bench", "nyc_taxis/range_100", "--store", "elasticsearch", "--hosts", service.address]
        done = loadframe(*words, "--set", "documents=1000", "--duration", "3s", "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    run = Run(tmp_path / "run")
    assert run.summary.phases[-1].operations["range_100"].successes
    (words,) = (words for words in run.summary.verdict.not_judged if "force_merge" in words)
    assert f"the service refused it: HTTP {status}" in words
    unknown = "health and node statistics: the service does not show them"
    assert unknown in run.summary.verdict.not_judged
    assert unknown in done.stdout
    assert "other programs on the nodes' machines: Loadframe did not start the nodes" in run.summary.verdict.not_judged
