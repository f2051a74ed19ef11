"""Services that pages of the documentation need: `<!-- needs: NAME -->` starts one, and exports its variables."""

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from console_page import Missing, Start

import slurm_daemons
from aws_signature import AwsKey, verifier
from commands import open_folder, uv
from couchbase_home import install
from couchbase_service import CouchbaseService
from loadframe.host.netns import NetnsHost
from machines import Machines, machines, obstacle
from measured import receiver
from own_servers import POSTGRES, REDIS, Postgres, free_port
from rest_service import RestService
from serverless_search import ServerlessSearch
from tls_front import Front

Variables = dict[str, str]
_PASSWORD = "page-service-6120"


def start(request: pytest.FixtureRequest) -> Start:
    """Return a function that starts a service by its name, with the fixtures of a test."""
    return lambda name: SERVICES[name](request)


@contextmanager
def opensearch(request: pytest.FixtureRequest) -> Iterator[Variables]:
    """The node that tests share, without collections."""
    yield {"OPENSEARCH": request.getfixturevalue("node").addresses[0]}


@contextmanager
def secured_opensearch(request: pytest.FixtureRequest) -> Iterator[Variables]:
    """The same node behind TLS and the password of the user ann."""
    authority = trustme.CA()
    basic = "Basic " + base64.b64encode(f"ann:{_PASSWORD}".encode()).decode()
    node = request.getfixturevalue("node")
    with open_folder("authority") as folder:
        authority.cert_pem.write_to_path(folder / "ca.pem")
        with Front(node.addresses[0], authority.issue_cert("127.0.0.1"), authorization=basic) as front:
            yield {
                "SECURED": f"https://127.0.0.1:{front.port}",
                "SECURED_CA": str(folder / "ca.pem"),
                "SECURED_PASSWORD": _PASSWORD,
            }


@contextmanager
def rest(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """An application behind a REST interface, also behind TLS."""
    authority = trustme.CA()
    with RestService() as service, open_folder("authority") as folder:
        authority.cert_pem.write_to_path(folder / "ca.pem")
        with Front(service.address, authority.issue_cert("127.0.0.1")) as front:
            yield {
                "REST": service.address,
                "REST_TLS": f"https://127.0.0.1:{front.port}",
                "REST_CA": str(folder / "ca.pem"),
            }
        assert front.admitted, "nothing came through TLS"


@contextmanager
def aoss(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """OpenSearch Serverless, which verifies signatures by the key of the profile `load`."""
    key = AwsKey("AKIAPAGE", "secret-6121", "token-6121")
    lines = ["[load]", f"aws_access_key_id = {key.id}", f"aws_secret_access_key = {key.secret}"]
    check = verifier(lambda: {key.id: key}, "aoss", "eu-central-1")
    with open_folder("aws") as folder, ServerlessSearch(404, check, amazon=True) as service:
        (folder / "credentials").touch(mode=0o600)
        (folder / "credentials").write_text("\n".join([*lines, f"aws_session_token = {key.token}\n"]))
        yield {
            "AOSS": service.address,
            "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
            "AWS_CONFIG_FILE": str(folder / "none"),
            "AWS_EC2_METADATA_DISABLED": "true",
        }


@contextmanager
def otlp(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """An OpenTelemetry receiver, which must get metrics and spans."""
    with receiver() as (url, pushes):
        yield {"OTLP": url}
        assert {path for path, _, pushed in pushes if pushed} == {"/v1/metrics", "/v1/traces"}


@contextmanager
def slurm(request: pytest.FixtureRequest) -> Iterator[Variables]:
    """Slurm with four machines."""
    if reason := slurm_daemons.missing():
        raise Missing(reason)
    environment = request.getfixturevalue("slurm").environment
    yield {name: environment[name] for name in ("SLURM_CONF", "OMPI_MCA_btl_tcp_if_include")}


def _allowed(there: Machines) -> Variables:
    """Return variables with which Loadframe and mpirun reach machines."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {"LOADFRAME_SSH": there.ssh, "OMPI_MCA_btl_tcp_if_exclude": "lo", **root}


@contextmanager
def ssh(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """Machines m1 to m4, which share no files."""
    if reason := obstacle():
        raise Missing(reason)
    with machines(4) as there:
        yield _allowed(there)


@contextmanager
def generators(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """Machines m1 and m2 with Loadframe, and the address of a Redis that they reach."""
    if reason := obstacle() or (None if REDIS else "redis-server is not installed"):
        raise Missing(reason)
    if shutil.which("mpirun", path=str(Path(sys.executable).parent)) is None:
        raise Missing("Open MPI is not installed beside this Python")
    with machines(2, loading=2) as there:
        here, port = f"{there.addresses['m1'].rpartition('.')[0]}.1", free_port()
        command = ["redis-server", "--bind", here, "--port", str(port), "--save", "", "--protected-mode", "no"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            try:
                yield {"REDIS": f"{here}:{port}", **_allowed(there)}
            finally:
                server.kill()


@contextmanager
def netns(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """The right to create network namespaces."""
    if reason := NetnsHost().obstacle:
        raise Missing(reason)
    yield {}


@contextmanager
def root(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """The rights of root, and the programs of Slurm."""
    if reason := slurm_daemons.missing() or (None if slurm_daemons.named() else "requires root"):
        raise Missing(reason)
    yield {}


@contextmanager
def redis_tls(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """A redis-server that was built with TLS."""
    words = ["redis-server", "--port", "0", "--tls-port", str(free_port())]
    said = "" if REDIS is None else subprocess.run(words, capture_output=True, text=True, check=False).stdout
    # Without a certificate, it ends in any case. Without TLS, it does not know the option.
    if "Failed to configure TLS" not in said:
        raise Missing("redis-server is not installed, or was built without TLS")
    yield {}


@contextmanager
def couchbase(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """An installation whose nodes behave as Couchbase documents."""
    with CouchbaseService() as service, open_folder("couchbase") as folder:
        yield {"COUCHBASE_HOME": str(install(folder / "couchbase", service.relay))}


@contextmanager
def postgresql(_: pytest.FixtureRequest) -> Iterator[Variables]:
    """A server with a superuser ann, and a user app who owns the table orders of the database shop."""
    if not POSTGRES:
        raise Missing("PostgreSQL is not installed")
    with open_folder("postgresql") as folder, Postgres(folder) as server:
        for user in ("ann", "app"):
            server.ask(f"CREATE ROLE {user} SUPERUSER LOGIN PASSWORD '{_PASSWORD}'")
        server.ask("CREATE DATABASE shop OWNER app")
        server.ask(
            "CREATE TABLE orders AS SELECT n AS id, 'red' AS color, n % 50 AS price FROM generate_series(1, 300) n",
            "shop",
        )
        yield {"POSTGRESQL": server.address, "LOADFRAME_PASSWORD": _PASSWORD}


@contextmanager
def wheel(request: pytest.FixtureRequest) -> Iterator[Variables]:
    """A wheel of this tree, and a new environment on the PATH with only uv."""
    built = request.getfixturevalue("wheel")
    with open_folder("wheel") as folder:
        subprocess.run([uv(), "venv", "--quiet", "--python", sys.executable, str(folder / "new")], check=True)
        yield {
            "WHEEL": str(built),
            "VIRTUAL_ENV": str(folder / "new"),
            "UV_CONSTRAINT": str(request.getfixturevalue("constraints")),
            "PATH": f"{folder / 'new' / 'bin'}:{Path(sys.executable).parent}:{Path(uv()).parent}:{os.environ['PATH']}",
        }


_ALL = (
    opensearch, secured_opensearch, rest, aoss, otlp, slurm, ssh, generators, netns, root, redis_tls, couchbase,
    postgresql, wheel,
)  # fmt: skip
SERVICES = {service.__name__: service for service in _ALL}
