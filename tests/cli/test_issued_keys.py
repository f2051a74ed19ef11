"""AWS keys that metadata services and programs issue: fetched, renewed during a run, refused and unreachable."""

import json
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from test_managed_service import AWS, KEY, REGION, SECOND, WORKLOAD, environment, key_in_environment, secrets_in

from aws_signature import AwsKey, verifier
from commands import loadframe
from loadframe.record import Run
from loopback_server import Handler, LoopbackServer
from serverless_search import ServerlessSearch

#: Life of the first key, s. It is renewed after half of it.
LIFE = 10
ROLE = "/latest/meta-data/iam/security-credentials/"


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "trips.yaml").write_text(WORKLOAD)
    return tmp_path


def document(key: AwsKey, life: float, token: str = "Token") -> dict[str, str]:
    expires = (datetime.now(UTC) + timedelta(seconds=life)).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {"AccessKeyId": key.id, "SecretAccessKey": key.secret, token: key.token or "", "Expiration": expires}


class Metadata(Handler):
    """The metadata of an instance (IMDSv2) and of a container. The first key expires soon, the second after an hour."""

    asked: Counter[str]
    refuses = False

    def do_PUT(self) -> None:
        good = self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self.answer(200 if good and not self.refuses else 403, b"session-1")

    def do_GET(self) -> None:
        if self.path == "/container":
            allowed = self.headers.get("Authorization") == "container-token"
        else:
            allowed = self.headers.get("X-aws-ec2-metadata-token") == "session-1"
        if not allowed or self.refuses:
            self.answer(401, b"hush-9")
        elif self.path == ROLE:
            self.answer(200, b"load-role")
        else:
            self.asked[self.path] += 1
            key, life = (KEY, LIFE) if self.asked[self.path] == 1 else (SECOND, 3600)
            self.answer(200, json.dumps({"Code": "Success", **document(key, life)}).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def metadata(**keys) -> LoopbackServer:
    return LoopbackServer(type("Answers", (Metadata,), {"asked": Counter(), **keys}))


def variables(kind: str, address: str, folder: Path) -> dict[str, str]:
    """Return the environment on an instance, or in a container, with its metadata at the address."""
    if kind == "instance":
        endpoint = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{address}"}
        return environment(folder, AWS_EC2_METADATA_DISABLED="false", **endpoint)
    (folder / "token").write_text("container-token\n")
    return environment(
        folder,
        AWS_CONTAINER_CREDENTIALS_FULL_URI=f"http://{address}/container",
        AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(folder / "token"),
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["instance", "container"])
def test_an_issued_key_is_renewed_during_the_run(folder, kind):
    used: Counter[str] = Counter()
    valid = {KEY.id: KEY, SECOND.id: SECOND}
    check = verifier(lambda: valid, "aoss", REGION)

    def refusal(request, body):
        refused = check(request, body)
        if refused is None:
            for key in (KEY, SECOND):
                used[key.id] += key.id in request.headers["authorization"]
            if request.path.startswith("/trips/_search") and used[SECOND.id] >= 50:
                # The first key expires when the generator has switched.
                valid.pop(KEY.id, None)
        return refused

    with metadata() as issuer, ServerlessSearch(404, refusal, amazon=True) as service:
        words = ["bench", folder / "trips.yaml", "--hosts", service.address, *AWS, "--duration", f"{LIFE}s"]
        state = folder / "state"
        done = loadframe(
            *words,
            "--output",
            folder / "run",
            env=variables(kind, issuer.address, folder) | {"LOADFRAME_STATE": str(state)},
        )
    assert done.returncode == 0, done.stderr
    assert used[KEY.id] and used[SECOND.id] >= 50
    assert KEY.id not in valid
    (operation,) = [phase.operations["all"] for phase in Run(folder / "run").summary.phases if phase.name == "all"]
    assert operation.successes == operation.requests
    assert secrets_in(folder / "run", done.stdout, done.stderr) == []
    assert not list((state / "aws").iterdir()), "the file with the key ends with the command"


@pytest.mark.slow
def test_a_program_issues_the_key_of_a_profile(folder):
    program = folder / "issue.py"
    program.write_text(f"print({json.dumps(json.dumps({'Version': 1, **document(KEY, 3600, 'SessionToken')}))})\n")
    (folder / "config").write_text(f"[profile load]\ncredential_process = {sys.executable} {program}\n")
    known = environment(folder) | {"AWS_CONFIG_FILE": str(folder / "config")}
    with ServerlessSearch(404, verifier(lambda: {KEY.id: KEY}, "aoss", REGION), amazon=True) as service:
        words = ["cluster", "status", "--hosts", service.address, *AWS, "--aws-profile", "load"]
        done = loadframe(*words, env=known)
        assert done.returncode == 0, done.stderr
        for text, cause in (
            ("raise SystemExit(3)", "credential_process failed with exit status 3"),
            ("print('hush-7')", "credential_process holds no AWS key"),
        ):
            program.write_text(text)
            refused = loadframe(*words, env=known)
            assert refused.returncode == 2
            assert f"{folder / 'config'}: {cause}" in refused.stderr
            assert "hush-7" not in refused.stderr


@pytest.mark.parametrize("kind", ["instance", "container"])
def test_a_refused_request_for_a_key_names_its_place(folder, kind):
    with metadata(refuses=True) as issuer:
        done = loadframe(
            "cluster", "status", "--hosts", "127.0.0.1:9", *AWS, env=variables(kind, issuer.address, folder)
        )
    assert done.returncode == 2
    assert f"http://{issuer.address}/" in done.stderr
    assert "the request for an AWS key was refused: status 40" in done.stderr
    assert "attach a role that this machine may use" in done.stderr
    assert "hush-9" not in done.stderr
    assert done.stderr.count("\n") == 2


@pytest.mark.parametrize(
    ("kind", "cause"), [("instance", "there is no EC2 instance metadata at http"), ("container", "do not answer")]
)
def test_metadata_that_does_not_answer_is_one_message(folder, kind, cause):
    done = loadframe("cluster", "status", "--hosts", "127.0.0.1:9", *AWS, env=variables(kind, "127.0.0.1:9", folder))
    assert done.returncode == 2
    assert cause in done.stderr
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in done.stderr
    assert done.stderr.count("\n") == 2


@pytest.mark.parametrize("host", ["keys.example", "127.0.0.1.keys.example"])
def test_a_token_is_not_sent_unencrypted_to_another_machine(folder, host):
    known = environment(folder, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"http://{host}/container")
    done = loadframe("cluster", "status", "--hosts", "127.0.0.1:9", *AWS, env=known)
    assert done.returncode == 2
    assert "would send the container's token unencrypted" in done.stderr


def test_a_key_in_the_environment_comes_first(folder):
    with (
        metadata(refuses=True) as issuer,
        ServerlessSearch(404, verifier(lambda: {KEY.id: KEY}, "aoss", REGION), amazon=True) as service,
    ):
        known = variables("instance", issuer.address, folder) | key_in_environment(KEY)
        done = loadframe("cluster", "status", "--hosts", service.address, *AWS, env=known)
    assert done.returncode == 0, done.stderr
