"""Nodes in containers: the command lines of each runtime, refusals, and a real server in a container."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from commands import open_folder
from loadframe.base.errors import BadInput
from loadframe.cluster import Cluster, ClusterSpec, Limits
from loadframe.host import Command, choice
from loadframe.host.container import RUNTIMES, ContainerHost, EngineLimiter, choose

BY_NAME = {runtime.name: runtime for runtime in RUNTIMES}
CHARLIECLOUD = BY_NAME["charliecloud"].obstacle()
SERVER = shutil.which("redis-server")


def in_charliecloud(test):
    """Mark a test of real nodes in real containers."""
    marks = (
        pytest.mark.store,
        pytest.mark.skipif(CHARLIECLOUD is not None, reason=f"no Charliecloud here: {CHARLIECLOUD}"),
        pytest.mark.skipif(SERVER is None, reason="redis-server is not installed"),
    )
    for mark in marks:
        test = mark(test)
    return test


COMMAND = Command(
    name="loadframe-1-node-0",
    argv=("/software/bin/server", "--port", "1"),
    environment={"LANG": "C.UTF-8"},
    folder=Path("/clusters/x/node-0"),
    log=Path("/clusters/x/node-0/node.log"),
    user=60960,
    software=(Path("/software"), Path("/java")),
)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Put fake runtimes on the PATH; the tests look only at their command lines."""
    for name in ("ch-run", "apptainer", "podman", "docker"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def wrapped(name: str, image: str, limits: Limits = Limits()) -> Command:  # noqa: B008 - a constant
    return BY_NAME[name].wrapped(COMMAND, image, limits)


def test_charliecloud_binds_the_folder_and_the_software_at_places_that_are_made(installed, tmp_path):
    image = tmp_path / "image"
    image.mkdir()
    made = wrapped("charliecloud", str(image))
    assert made.argv == (
        str(installed / "ch-run"),
        "--bind=/clusters/x/node-0:/clusters/x/node-0",
        "--bind=/software:/software",
        "--bind=/java:/java",
        "--cd=/clusters/x/node-0",
        str(image),
        "--",
        *COMMAND.argv,
    )
    assert (image / "clusters/x/node-0").is_dir() and (image / "software").is_dir() and (image / "java").is_dir()
    assert (made.environment["LANG"], made.environment["USER"], made.user) == ("C.UTF-8", "root", 60960)


def test_apptainer_runs_the_command_in_its_folder(installed):
    argv = wrapped("apptainer", "/images/debian.sif").argv
    assert argv[:3] == (str(installed / "apptainer"), "exec", "--no-home")
    assert argv[-4:] == ("/images/debian.sif", *COMMAND.argv)
    assert {"--bind=/software", "--bind=/clusters/x/node-0", "--pwd=/clusters/x/node-0"} <= set(argv)


@pytest.mark.parametrize("name", ["podman", "docker"])
def test_an_engine_gets_user_limits_environment_and_container_removal(installed, name):
    made = wrapped(name, "debian:12", Limits(memory=2**30, cores=(0, 2)))
    assert made.argv[:3] == (str(installed / name), "run", "--rm")
    assert {
        "--name=loadframe-1-node-0", "--network=host", "--user=60960:60960", "--env=LANG=C.UTF-8",
        "--volume=/software:/software:ro", "--memory=1073741824", "--cpuset-cpus=0,2",
        "--entrypoint=/software/bin/server",
    } <= set(made.argv)  # fmt: skip
    assert made.argv[-3:] == ("debian:12", "--port", "1")
    assert made.user is None, "the client is to reach its engine"
    assert made.undo == ((str(installed / name), "rm", "--force", "loadframe-1-node-0"),)


def test_podman_takes_a_folder_for_an_image(installed, tmp_path):
    argv = wrapped("podman", str(tmp_path)).argv
    assert argv[argv.index("--rootfs") + 1] == str(tmp_path)


def test_an_engine_limits_its_containers(installed):
    group = EngineLimiter(BY_NAME["docker"]).group("loadframe-1-node-0", Limits(cpus=0.5), Path("/"))
    (installed / "docker").write_text(f'#!/bin/sh\necho "$@" > {installed}/asked\n')
    group.throttle(Limits(cpus=0.5))
    asked = (installed / "asked").read_text()
    assert asked == "update --cpu-period=100000 --cpu-quota=50000 loadframe-1-node-0\n"
    group.throttle(Limits())
    assert "--cpu-quota=-1" in (installed / "asked").read_text()


def test_without_any_runtime_each_is_named_with_its_missing_parts(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match=r"charliecloud: ch-run is not installed; apptainer: .*; podman: .*; docker: "):
        choose(None)
    with pytest.raises(BadInput, match=r"no container runtime works here \(podman: podman is not installed\)"):
        choose("podman")


def test_an_engine_that_does_not_answer_is_quoted(tmp_path, monkeypatch):
    (tmp_path / "docker").write_text("#!/bin/sh\necho Cannot connect to the daemon >&2\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert BY_NAME["docker"].obstacle() == "Cannot connect to the daemon"


def test_host_options_must_be_consistent(installed):
    with pytest.raises(BadInput, match="require an image"):
        ContainerHost(runtime="charliecloud").require()
    with pytest.raises(BadInput, match="the image does not exist"):
        ContainerHost("/nowhere", "apptainer").require()
    with pytest.raises(BadInput, match=r"unknown container runtime 'rkt'"):
        ContainerHost("/", "rkt").require()
    with pytest.raises(BadInput, match="require nodes in containers"):
        choice.find("local", image="/srv")
    with pytest.raises(BadInput, match=r"unknown host 'container_'[\s\S]*did you mean container"):
        choice.find("container_")


def libraries(program: str) -> set[Path]:
    told = subprocess.check_output(["ldd", program], text=True)
    return {Path(path) for path in re.findall(r"(/\S+)", told)}


@pytest.fixture(scope="module")
def image():
    """A root file system with only a Redis server and the libraries that it is linked with."""
    with open_folder("image") as folder:
        for place in ("dev", "proc", "sys", "tmp", "etc"):
            (folder / place).mkdir()
        for name in ("passwd", "group", "hosts", "resolv.conf"):
            (folder / "etc" / name).touch()
        for path in {Path(SERVER), *libraries(SERVER)}:
            target = folder / str(path).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        yield folder


@pytest.fixture(scope="module")
def state():
    with open_folder("state") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADFRAME_STATE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def cluster(image, state):
    """A cluster of nodes in containers of that image."""
    spec = ClusterSpec(
        store="redis", nodes=2, host="container", image=str(image), runtime="charliecloud", limits=Limits(cpus=0.9)
    )
    with Cluster.start(spec) as started:
        yield started


@in_charliecloud
def test_a_cluster_forms_of_nodes_that_see_the_image_as_their_system(cluster, image):
    assert cluster.health().ready
    assert (cluster.describe()["host"], cluster.describe()["image"]) == ("container", str(image))
    for node in cluster.nodes:
        root = Path(f"/proc/{node.pid}/root")
        assert sorted(file.name for file in (root / "etc").iterdir()) == ["group", "hosts", "passwd", "resolv.conf"]
        assert not (root / "usr/bin/python3").exists()
        assert (root / str(node.folder).lstrip("/") / "config/redis.conf").exists()


@in_charliecloud
def test_a_node_in_a_container_is_limited_killed_and_started_again_like_any_other(cluster):
    last = cluster.nodes[-1]
    if cluster.describe()["limits"]["enforced_by"] == "cgroup v1":
        assert (last.control_groups["cpu"] / "cpu.cfs_quota_us").read_text() == "90000\n"
    cluster.pause(last.name)
    assert last.paused
    cluster.resume(last.name)
    cluster.kill(last.name)
    cluster.mend()
    assert cluster.nodes[-1].pid != last.pid
    assert cluster.deviations() == []
