"""User installations of stores: contents of a folder, and refusal of folders without an installation."""

import os
import shutil
from pathlib import Path

import pytest

from loadframe.base.errors import BadInput
from loadframe.store import Installation, NodeSpec, find

NODE = NodeSpec(
    cluster="test",
    name="node-0",
    address="127.0.0.1",
    port=9200,
    peer_port=9300,
    folder=Path("/clusters/test/node-0"),
    peers=("127.0.0.1:9300",),
    founders=("node-0",),
)


def laid_out(home: Path, *paths: str) -> Path:
    """Return an installation that has these files, and folders where a path ends so."""
    for path in paths:
        target = home / path
        (target if path.endswith("/") else target.parent).mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            target.touch(0o755)
    return home


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("kind", "jar", "version", "java", "java_most"),
    [
        ("opensearch", "opensearch-2.19.1.jar", "2.19.1", 11, 23),
        ("opensearch", "opensearch-3.3.0.jar", "3.3.0", 21, None),
        ("elasticsearch", "elasticsearch-6.8.23.jar", "6.8.23", 11, 17),
        ("elasticsearch", "elasticsearch-7.17.28.jar", "7.17.28", 11, 17),
        ("elasticsearch", "elasticsearch-8.19.0.jar", "8.19.0", 17, None),
        ("elasticsearch", "elasticsearch-9.1.0-SNAPSHOT.jar", "9.1.0-SNAPSHOT", 21, None),
        ("cassandra", "apache-cassandra-5.0.4.jar", "5.0.4", 17, 23),
        ("cassandra", "cassandra-all-5.0.9.jar", "5.0.9", 17, 23),
    ],
)
def test_the_version_is_that_of_the_servers_own_jar(tmp_path, kind, jar, version, java, java_most):
    software = find(kind).installation(
        laid_out(tmp_path, "bin/", "lib/a-1.0.jar", f"lib/{kind}-cli-1.0.jar", f"lib/{jar}")
    )
    assert (software.version, software.home, software.java, software.java_most) == (version, tmp_path, java, java_most)


@pytest.mark.parametrize(
    ("kind", "jar"),
    [
        ("elasticsearch", "elasticsearch-6.2.4.jar"),
        ("elasticsearch", "elasticsearch-10.0.0.jar"),
        ("cassandra", "apache-cassandra-4.1.7.jar"),
    ],
)
def test_unsupported_versions_are_reported_with_a_remedy(tmp_path, kind, jar):
    with pytest.raises(BadInput, match="Loadframe cannot start") as caught:
        find(kind).installation(laid_out(tmp_path, f"lib/{jar}"))
    assert "--hosts" in str(caught.value.remedy)


@pytest.mark.parametrize("kind", ["opensearch", "elasticsearch", "cassandra"])
def test_folders_without_an_installation_are_reported_with_the_missing_parts(tmp_path, kind):
    for home in (tmp_path / "nowhere", laid_out(tmp_path, "lib/x-1.0.jar")):
        with pytest.raises(BadInput, match=rf"not an installation of {kind}: lib/.*VERSION.jar is missing") as caught:
            find(kind).installation(home)
        assert caught.value.where == str(home)


def test_a_runtime_that_came_along_is_taken_whatever_its_version(tmp_path):
    home = laid_out(tmp_path, "lib/elasticsearch-7.17.28.jar", "jdk/bin/java")
    software = find("elasticsearch").installation(home)
    assert (software.jdk, software.java_most) == (tmp_path / "jdk", None)


@pytest.mark.parametrize("place", ["", "bin", "src"])
@pytest.mark.parametrize(("name", "version"), [("redis-server", "7.4.1"), ("valkey-server", "valkey 8.0.1")])
def test_a_program_tells_its_version_wherever_it_is_in_the_folder(tmp_path, place, name, version):
    there = script(tmp_path / place / name, f"echo 'Server v={version.split()[-1]} sha=0:0 bits=64'")
    software = find("redis").installation(tmp_path)
    assert (software.version, software.home, software.java) == (version, there, None)


def test_a_program_that_does_not_run_here_is_quoted(tmp_path):
    script(tmp_path / "redis-server", "echo 'libssl.so.1: cannot open shared object file' >&2; exit 127")
    with pytest.raises(BadInput, match=r'does not print its version: "libssl\.so\.1: cannot open'):
        find("redis").installation(tmp_path)
    (tmp_path / "redis-server").write_bytes(b"\x7fELF of another machine")
    with pytest.raises(BadInput, match="cannot run it"):
        find("redis").installation(tmp_path)


def test_stores_that_are_fetched_look_at_no_path():
    assert {find(kind).installation(None) for kind in ("opensearch", "elasticsearch", "cassandra")} == {None}


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_the_systems_own_is_on_the_path():
    assert os.access(find("redis").installation(None).home, os.X_OK)


def configured(kind: str, home: Path, version: str) -> str:
    plan = find(kind).plan(NODE, Installation(home, Path("/java"), version))
    return plan.files[f"config/{kind}.yml"]


def test_the_vendors_security_is_off_where_it_is_installed(tmp_path):
    assert "security" not in configured("opensearch", tmp_path, "3.3.0")
    laid_out(tmp_path, "plugins/opensearch-security/")
    assert "plugins.security.disabled: true\n" in configured("opensearch", tmp_path, "3.3.0")


def test_elasticsearch_7_and_later_is_started_by_its_script_with_its_own_settings(tmp_path):
    laid_out(tmp_path, "modules/x-pack-security/", "modules/ingest-geoip/")
    for version in ("7.17.28", "8.19.0", "9.1.0"):
        plan = find("elasticsearch").plan(NODE, Installation(tmp_path, Path("/java"), version))
        text = plan.files["config/elasticsearch.yml"]
        assert plan.argv == (str(tmp_path / "bin" / "elasticsearch"),)
        assert plan.environment["ES_JAVA_HOME"] == "/java"
        assert "-Xms536870912\n" in plan.files["config/jvm.options"]
        assert 'discovery.seed_providers: "file"\ncluster.initial_master_nodes: ["node-0"]\n' in text
        assert plan.files["config/unicast_hosts.txt"] == "127.0.0.1:9300\n"
        assert "transport.port: 9300\n" in text
        assert "xpack.security.enabled: false\ningest.geoip.downloader.enabled: false\n" in text
        assert "zen" not in text and "monitoring" not in text and "watcher" not in text
    early = configured("elasticsearch", tmp_path, "7.0.1")
    assert "transport.tcp.port: 9300\n" in early and "geoip" not in early
