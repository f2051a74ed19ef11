"""Managed services: AWS signatures, keys and tokens that change, refusals, and login pages."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from aws_signature import AwsKey, signature, verifier
from commands import Running, loadframe
from loadframe.record import Run
from loopback_server import Handler, LoopbackServer
from serverless_search import ServerlessSearch

KEY = AwsKey("AKIAFIRST", "secret-4711-first", "token-4711-first")
SECOND = AwsKey("AKIASECOND", "secret-4712-second", "token-4712-second")
REGION = "eu-central-1"
AWS = ["--aws-service", "aoss", "--aws-region", REGION]
WORKLOAD = """\
workload: trips
collections: {trips: {elasticsearch: {mappings: {properties: {a: {type: long}}}}}}
corpora: {trips: {generate: nyc_taxi_trip, documents: 500}}
operations:
  load: {bulk: {collection: trips, corpus: trips, size: 100}}
  refresh: {refresh: {collection: trips}}
  all: {search: {collection: trips, size: 10, parameters: {request_cache: "false", filter_path: "took,hits.*"}}}
phases:
  - {name: load, prepares: true, operation: load, clients: 2, until: exhausted}
  - {name: refresh, prepares: true, operation: refresh, clients: 1, requests: 1}
  - {name: all, operation: all, clients: 2, duration: 1s}
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with the workload and a credentials file of two profiles."""
    (tmp_path / "trips.yaml").write_text(WORKLOAD)
    write_key(tmp_path / "credentials", KEY)
    return tmp_path


def write_key(file: Path, key: AwsKey) -> None:
    lines = ["[default]", "aws_access_key_id = AKIANOBODY", "aws_secret_access_key = wrong", "[load]"]
    lines += [f"aws_access_key_id = {key.id}", f"aws_secret_access_key = {key.secret}"]
    lines += [f"aws_session_token = {key.token}"] if key.token else []
    replace(file, "\n".join(lines) + "\n")


def replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(text)
    new.rename(file)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """An environment without AWS keys, configuration and metadata, except for the folder's credentials file."""
    nothing = {"HOME": str(folder), "AWS_CONFIG_FILE": str(folder / "none"), "AWS_EC2_METADATA_DISABLED": "true"}
    return {"AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"), **nothing, **more}


def key_in_environment(key: AwsKey) -> dict[str, str]:
    variables = {"AWS_ACCESS_KEY_ID": key.id, "AWS_SECRET_ACCESS_KEY": key.secret}
    return {**variables, "AWS_SESSION_TOKEN": key.token} if key.token else variables


def secrets_in(folder: Path, *texts: str) -> list[str]:
    """Return the secrets that occur in the folder's files or in the texts."""
    contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()] + [text.encode() for text in texts]
    secrets = [secret for key in (KEY, SECOND) for secret in (key.secret, key.token or "")]
    return [secret for secret in secrets if any(secret.encode() in content for content in contents)]


def test_the_verifier_agrees_with_a_published_signature():
    # `get-vanilla-with-session-token` of AWS's test suite.
    key = AwsKey("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    token = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
    headers = {"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z", "x-amz-security-token": token}
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    signed = signature(
        key, ("20150830", "us-east-1", "service"), ("GET", "/"), headers, "host;x-amz-date;x-amz-security-token", empty
    )
    assert signed == "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"


@pytest.mark.slow
@pytest.mark.parametrize("compress", [[], ["--compress"]], ids=["plain", "compressed"])
def test_a_serverless_collection_is_measured_with_signed_requests(folder, compress):
    run = folder / "results" / "run"
    with ServerlessSearch(404, verifier(lambda: {KEY.id: KEY}, "aoss", REGION), amazon=True) as service:
        words = ["bench", folder / "trips.yaml", "--hosts", service.address, *AWS, *compress, "--output", run]
        with Running(*words, "--aws-profile", "load", folder=folder, environment=environment(folder)) as running:
            seen = running.watch()
        assert running.process.returncode == 0, running.stderr
        assert not service.refused
        assert service.requests["health"], service.requests
    (operation,) = [phase.operations["all"] for phase in Run(run).summary.phases if phase.name == "all"]
    assert operation.successes == operation.requests > 0
    manifest = Run(run).raw_manifest
    assert manifest["store"]["access"]["scheme"] == "aws"
    assert manifest["store"]["version"] == "serverless"
    hidden, effect, *_ = Run(run).summary.verdict.not_judged
    assert hidden == "health and node statistics: the service does not show them"
    assert effect.startswith("effect of refresh: the service refused it: HTTP 404")
    output = (folder / "stdout.txt").read_text()
    assert secrets_in(folder / "results", output, running.stderr, *seen) == []
    assert any("--aws-profile load" in line for line in seen), "the command itself was among the processes"


@pytest.mark.slow
def test_a_renewed_key_in_the_profile_replaces_the_expired_one(folder):
    used: Counter[str] = Counter()
    valid = {KEY.id: KEY, SECOND.id: SECOND}
    check = verifier(lambda: valid, "aoss", REGION)

    def refusal(request, body):
        refused = check(request, body)
        if refused is None and request.path.startswith("/trips/_search"):
            for key in (KEY, SECOND):
                used[key.id] += key.id in request.headers["authorization"]
            if used[KEY.id] == 50:
                write_key(folder / "credentials", SECOND)
            if used[SECOND.id] == 50:
                # The first key expires when the generator has switched.
                valid.pop(KEY.id, None)
        return refused

    with ServerlessSearch(404, refusal, amazon=True) as service:
        words = ["bench", folder / "trips.yaml", "--hosts", service.address, *AWS, "--aws-profile", "load"]
        words += ["--duration", "6s", "--output", folder / "run"]
        done = loadframe(*words, env=environment(folder))
    assert done.returncode == 0, done.stderr
    assert min(used[KEY.id], used[SECOND.id]) >= 50
    assert KEY.id not in valid
    (operation,) = [phase.operations["all"] for phase in Run(folder / "run").summary.phases if phase.name == "all"]
    assert operation.successes == operation.requests
    assert secrets_in(folder / "run", done.stdout, done.stderr) == []


@pytest.mark.parametrize(
    ("key", "words", "late", "cause", "remedy"),
    [
        (None, [], 0, "User: anonymous is not authorized", "use an account"),
        (AwsKey(KEY.id, "other", KEY.token), AWS, 0, "request signature we calculated", "check the secret access key"),
        (
            AwsKey("AKIAOTHER", KEY.secret),
            AWS,
            0,
            "token included in the request is invalid",
            "check the access key ID",
        ),
        (AwsKey(KEY.id, KEY.secret, "old"), AWS, 0, "token included in the request is expired", "renew the AWS key"),
        (KEY, AWS, 3600, "Signature expired", "set this machine's clock"),
        (
            KEY,
            ["--aws-service", "es", "--aws-region", REGION],
            0,
            "Credential should be scoped",
            "correct --aws-service",
        ),
    ],
    ids=["unsigned", "wrong secret", "unknown key", "expired token", "clock", "wrong service"],
)
@pytest.mark.parametrize("command", ["bench", "status"])
def test_a_refused_signature_is_one_message_with_its_remedy(folder, command, key, words, late, cause, remedy):
    keys = {KEY.id: KEY}
    check = verifier(lambda: keys, "aoss", REGION, lambda: time.time() + late)
    with ServerlessSearch(404, check, amazon=True) as service:
        bench = ["bench", folder / "trips.yaml", "--output", folder / "run"]
        start = ["cluster", "status"] if command == "status" else bench
        variables = environment(folder, **(key_in_environment(key) if key else {}))
        done = loadframe(*start, "--hosts", service.address, *words, env=variables)
    assert done.returncode == 2
    assert f"{service.address}: the cluster denies access: 403, " in done.stderr
    assert cause in done.stderr
    assert remedy in done.stderr
    assert done.stderr.count("\n") == 2, "one message and its remedy"
    assert "Traceback" not in done.stderr
    assert not (folder / "run").exists()
    assert secrets_in(folder / "run", done.stdout, done.stderr) == []


@pytest.mark.parametrize(
    ("words", "variables", "cause", "remedy"),
    [
        (["--aws-service", "es"], {"AWS_ACCESS_KEY_ID": "A"}, "without a region", "give --aws-region"),
        (["--aws-region", "r"], {}, "without the service's name", "give --aws-service"),
        (AWS, {"AWS_ACCESS_KEY_ID": "A"}, "without AWS_SECRET_ACCESS_KEY", "set both"),
        ([*AWS, "--aws-profile", "absent"], {}, "unknown AWS profile absent", "choose one of: default, load, sso;"),
        ([*AWS, "--aws-profile", "absent"], {}, "/credentials: unknown", "choose one of"),
        (["--aws-profile", "absent"], {}, "unknown AWS profile absent", "choose one of: default, load, sso;"),
        (AWS, {"AWS_PROFILE": "absent"}, "unknown AWS profile absent", "choose one of: default, load, sso;"),
        (AWS, {"AWS_SHARED_CREDENTIALS_FILE": "/none"}, "profile default does not exist", "give --aws-profile"),
        ([*AWS, "--aws-profile", "sso"], {}, "is issued by another service", "aws configure export-credentials"),
        ([*AWS, "--user", "ann"], {}, "--user and --aws-service exclude each other", "give one of them"),
        (["--aws-service", "e s", "--aws-region", "r"], {}, "--aws-service must consist of", "for example es"),
    ],
)
def test_incomplete_options_are_refused_before_a_request(folder, words, variables, cause, remedy):
    (folder / "config").write_text("[profile sso]\nsso_session = corp\n")
    done = loadframe(
        *["cluster", "status", "--hosts", "127.0.0.1:9", *words],
        env=environment(folder) | {"AWS_CONFIG_FILE": str(folder / "config"), **variables},
    )
    assert done.returncode == 2
    assert cause in done.stderr
    assert remedy in done.stderr


@pytest.mark.parametrize(
    ("host", "service", "region"),
    [
        ("search-a.us-east-2.es.amazonaws.com:443", "es", "us-east-2"),
        ("vpc-a.cn-north-1.es.amazonaws.com.cn:443", "es", "cn-north-1"),
        ("abc.eu-west-1.aoss.amazonaws.com:443", "aoss", "eu-west-1"),
        ("search-a.aos.us-west-2.on.aws:443", "es", "us-west-2"),
    ],
)
def test_service_and_region_come_from_the_host(host, service, region):
    from loadframe.cluster.aws import AwsOptions, sign

    variables = key_in_environment(KEY) | {"AWS_REGION": "other", "AWS_CONFIG_FILE": "/none"}
    auth = sign(AwsOptions(service, None, None, [host]), lambda _file: None, variables)
    assert auth.aws
    assert (auth.aws.service, auth.aws.region) == (service, region)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["--api-key-file", "secret"], "refused the given credentials: check the API key in "),
        (["--token-file", "secret"], "refused the given credentials: check the token in "),
        (["--user", "ann", "--password-file", "secret"], "refused the given credentials: check --user ann"),
        ([], "give credentials: --user, --api-key-file"),
    ],
)
def test_refused_credentials_are_distinguished_from_missing_ones(folder, words, remedy):
    replace(folder / "secret", "hush-5511\n")
    with ServerlessSearch(404, lambda _request, _body: (401, {"error": {"reason": "who are you"}})) as service:
        command = ["cluster", "status", "--store", "elasticsearch", "--hosts", service.address, *words]
        done = loadframe(*command, cwd=folder)
    assert done.returncode == 2
    assert "the cluster denies access: 401, who are you" in done.stderr
    assert remedy in " ".join(done.stderr.split())
    assert "hush" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "form"), [("--token-file", "Bearer {}"), ("--api-key-file", "ApiKey {}")], ids=["token", "API key"]
)
def test_a_renewed_token_in_its_file_is_used_by_load_and_administration(folder, option, form):
    file, valid, used = folder / "secret", ["first-5511", "second-5512"], Counter()
    replace(file, "first-5511\n")

    def refusal(request, _body):
        secret = next((one for one in valid if request.headers["Authorization"] == form.format(one)), None)
        if secret is None:
            return 401, {"error": {"type": "security_exception", "reason": "the token is expired"}, "status": 401}
        if request.path.startswith("/trips/_search"):
            used[secret] += 1
            if used["first-5511"] == 50:
                replace(file, "second-5512\n")
            if used["second-5512"] == 50 and "first-5511" in valid:
                valid.remove("first-5511")
        return None

    with ServerlessSearch(404, refusal) as service:
        words = ["bench", folder / "trips.yaml", "--store", "elasticsearch", "--hosts", service.address]
        done = loadframe(*words, option, file, "--duration", "6s", "--output", folder / "run")
        assert done.returncode == 0, done.stderr
        assert valid == ["second-5512"]
        (operation,) = [phase.operations["all"] for phase in Run(folder / "run").summary.phases if phase.name == "all"]
        assert operation.successes == operation.requests
        replace(file, "third-5513\n")
        refused = loadframe("cluster", "status", "--store", "elasticsearch", "--hosts", service.address, option, file)
    assert refused.returncode == 2
    assert "401, the token is expired" in refused.stderr
    assert "renew the key or token" in refused.stderr
    texts = [path.read_bytes().decode(errors="replace") for path in (folder / "run").rglob("*") if path.is_file()]
    for text in (*texts, done.stdout, done.stderr, refused.stderr):
        assert not any(secret in text for secret in ("first-5511", "second-5512", "third-5513"))


@pytest.mark.parametrize("status", [200, 302])
def test_a_login_page_is_named(folder, status):
    page = b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>"

    class Login(Handler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "https://login.example/?state=hush-1")
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

    with LoopbackServer(Login) as server:
        done = loadframe("bench", folder / "trips.yaml", "--hosts", server.address, "--output", folder / "run")
    assert done.returncode == 2
    assert f"{server.address}: not a cluster of Elasticsearch or OpenSearch: " in done.stderr
    assert "this may be a login page" in done.stderr
    assert "hush-1" not in done.stderr
    assert not (folder / "run").exists()


def test_another_server_that_lacks_the_first_page_is_not_a_cluster(folder):
    with ServerlessSearch(404, lambda *_: (404, {"error": "not found"})) as server:
        done = loadframe("cluster", "status", "--hosts", server.address)
    assert done.returncode == 2
    assert "not a cluster of opensearch: GET / failed with status 404" in done.stderr


@pytest.mark.slow
def test_any_http_service_gets_signed_requests(folder):
    (folder / "rest.yaml").write_text(
        "workload: rest\n"
        "operations:\n"
        "  read: {http: {method: GET, path: '/items/a%20b?tag=b&limit=5&tag=a'}}\n"
        "  write: {http: {method: POST, path: /items, body: {name: x}, headers: {x-amz-meta: '1'}}}\n"
        "phases:\n"
        "  - {name: all, mix: {read: 1, write: 1}, clients: 2, duration: 1s}\n"
    )
    check = verifier(lambda: {KEY.id: KEY}, "execute-api", REGION)
    answered: Counter[int] = Counter()

    class Service(Handler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content = check(self, body) or (200, {"ok": True})
            answered[status] += 1
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET

    with LoopbackServer(Service) as server:
        words = ["bench", folder / "rest.yaml", "--store", "http", "--hosts", server.address]
        words += ["--aws-service", "execute-api", "--aws-region", REGION, "--output", folder / "run"]
        done = loadframe(*words, env=environment(folder, **key_in_environment(KEY)))
    assert done.returncode == 0, done.stderr
    assert set(answered) == {200}


class Echo(Handler):
    """Answers with the request's headers, as text and as the message of an error."""

    def do_GET(self) -> None:
        sent = "; ".join(f"{name} is {value}" for name, value in self.headers.items())
        text = json.dumps({"message": f"the canonical request was {sent}"}).encode()
        self.send_response(200 if self.path == "/good" else 403)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["aws", "token", "API key", "password"])
def test_the_credentials_that_an_answer_repeats_are_masked(folder, scheme):
    (folder / "rest.yaml").write_text(
        "workload: rest\noperations:\n"
        "  good: {http: {method: GET, path: /good}}\n  bad: {http: {method: GET, path: /bad}}\n"
        "phases:\n  - {name: all, mix: {good: 1, bad: 1}, order: permuted, clients: 1, requests: 2}\n"
    )
    replace(folder / "secret", "hidden-4711-secret\n")
    options, shown, hidden = {
        "aws": (["--aws-service", "execute-api", "--aws-region", REGION], "X-Amz-Security-Token is ***", KEY.token),
        "token": (["--token-file", folder / "secret"], "Bearer ***", "hidden-4711-secret"),
        "API key": (["--api-key-file", folder / "secret"], "ApiKey ***", "hidden-4711-secret"),
        # The password is sent as Base64 of `ann:hidden-4711-secret`.
        "password": (
            ["--user", "ann", "--password-file", folder / "secret"],
            "Basic ***",
            "YW5uOmhpZGRlbi00NzExLXNlY3JldA==",
        ),
    }[scheme]
    variables = environment(folder, **(key_in_environment(KEY) if scheme == "aws" else {}))
    with LoopbackServer(Echo) as server:
        words = ["check", folder / "rest.yaml", "--store", "http", "--hosts", server.address, *options]
        texts = [loadframe(*words, *more, env=variables) for more in ([], ["--json"])]
        words[0] = "bench"
        bench = loadframe(*words, "--output", folder / "run", env=variables)
    recorded = b"".join(path.read_bytes() for path in (folder / "run").rglob("*") if path.is_file()).decode("latin-1")
    assert "the canonical request was" in recorded
    assert hidden[:10] not in recorded + bench.stdout + bench.stderr
    for done in texts:
        assert done.returncode == 1, done.stderr
        output = "".join((done.stdout + done.stderr).split())
        assert output.lower().count("".join(shown.split()).lower()) >= 2, "in each answer"
        # Also not its start: the message is cut.
        assert hidden[:10] not in output


def test_stores_without_http_refuse_signatures():
    done = loadframe(
        "cluster", "status", "--store", "redis", "--hosts", "127.0.0.1:9", "--aws-service", "es", env={"AWS_REGION": ""}
    )
    assert done.returncode == 2
    assert "redis does not support AWS signatures, which sign HTTP requests" in done.stderr
    assert "leave --aws-service, --aws-region and --aws-profile out" in done.stderr


@pytest.mark.parametrize(
    ("kind", "words", "cause"),
    [
        ("redis", ["--api-key-file", "none"], "redis does not support API keys or tokens"),
        ("cassandra", ["--token-file", "none"], "cassandra does not support API keys or tokens"),
        ("postgresql", ["--user", "ann", "--compress"], "does not compress requests to postgresql"),
        ("mongodb", ["--aws-service", "es"], "mongodb does not support AWS signatures"),
    ],
)
def test_options_that_a_store_does_not_support_are_refused_before_secrets_are_read(kind, words, cause):
    """The files of the secrets are missing, and standard input is not a terminal for a password."""
    done = loadframe("cluster", "status", "--store", kind, "--hosts", "127.0.0.1:9", *words)
    assert done.returncode == 2
    assert cause in done.stderr
