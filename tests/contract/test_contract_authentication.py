"""Passwords of clusters that Loadframe starts: required, kept private, and out of the servers' own reach."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from held import Held
from recorded import Loaded

from commands import loadframe
from loadframe.base.errors import LoadframeError
from loadframe.host.files import SERVER_USER
from loadframe.host.local import LocalHost
from loadframe.load import check_operations
from loadframe.store import find
from loadframe.store.access import Access, Auth

pytestmark = pytest.mark.store

#: A user of this machine who is neither root nor any server's.
ANOTHER = 12345
#: Each store's console program, and arguments that make it print 42.
CONSOLES = {
    "postgresql": ("psql", "-c 'SELECT 41 + 1'"),
    "redis": ("redis-cli", "ECHO 42"),
    "mongodb": ("mongosh", "--eval 41+1"),
    "cassandra": ("cqlsh", "-e 'SELECT 42'"),
}
READ = {"read": {"collection": "things", "id": "ann"}}


@pytest.fixture
def secret(store: Held) -> str:
    """The password of the store's cluster; skips stores that do not authenticate."""
    if not store.cluster.store.administrator:
        pytest.skip(f"{store.kind} does not authenticate its clients here; its page in docs/reference/stores says so")
    return (_folder(store) / "password").read_text()


def _folder(store: Held) -> Path:
    folder = store.cluster.nodes[0].folder
    assert folder
    return folder.parent


def _as_user(user: int, function: Callable[[], str]) -> str:
    """Run a function in a child process of that user, and return its text."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            os.write(writing, function().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def _refused(store: Held, access: Access) -> str:
    """Return the message with which the store's client is refused."""
    try:
        client = find(store.kind).with_access(access)
        return f"let in: {client.health(store.cluster.addresses)}"
    except LoadframeError as error:
        return f"{type(error).__name__}: {error.what}"


def _processes(store: Held) -> list[psutil.Process]:
    """Return the processes of all nodes and their descendants."""
    nodes = [psutil.Process(node.pid) for node in store.cluster.nodes if node.pid]
    return [process for node in nodes for process in (node, *node.children(recursive=True))]


def test_a_client_without_the_password_is_refused_while_load_runs(store, secret, tmp_path):
    Loaded(store, tmp_path).fill()
    wrong = Access(auth=Auth("basic", "wrong", user=store.cluster.store.administrator))
    answers: list[str] = []
    drivers: list[object] = []

    def knock() -> None:
        answers.append(_refused(store, Access()))
        answers.append(_refused(store, wrong))
        answers.append(_as_user(ANOTHER, lambda: _refused(store, Access())))
        for auth in ({}, wrong.plan()):
            plan = store.plan({"read": READ})
            plan["target"] = {key: value for key, value in plan["target"].items() if key != "auth"} | auth
            try:
                drivers.append(check_operations(plan)[0]["error"])
            except LoadframeError as error:
                drivers.append(str(error))

    run = Loaded(store, tmp_path).record(knock)
    assert len(answers) == 3
    assert all(answer.startswith("BadInput: ") for answer in answers), answers
    assert len(drivers) == 2
    assert all(drivers), "the driver was let in"
    look = run.raw_summary["phases"][0]["operations"]["look"]
    assert not any(look["errors"].values()), look["errors"]
    for process in _processes(store):
        assert not [one.laddr for one in process.net_connections("unix") if one.laddr], process.cmdline()
    store.drop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's servers run as another user")
def test_servers_run_as_the_dedicated_server_user(store, secret):
    user = LocalHost().server_user(named=store.cluster.store.needs_account)
    if user != SERVER_USER:
        pytest.skip("this machine permits no user namespaces: `doctor` lists the consequences")
    for process in _processes(store):
        assert set(process.uids()) == set(process.gids()) == {SERVER_USER}, process.cmdline()


def test_the_password_is_in_private_files_alone(store, secret, tmp_path):
    folder = _folder(store)
    assert (folder / "password").stat().st_mode & 0o777 == 0o600
    assert (folder / "password").stat().st_uid == os.geteuid()
    ran = loadframe("bench", "ycsb/a", "--cluster", folder.name, "--set", "duration=1s", "--output", tmp_path / "run")
    assert (tmp_path / "run" / "manifest.json").exists(), ran.stderr
    store.drop("usertable")
    assert secret not in ran.stdout + ran.stderr
    assert secret not in loadframe("cluster", "status", folder.name).stdout
    for process in _processes(store):
        assert secret not in " ".join(process.cmdline())
    holders = [
        file
        for top in (folder, tmp_path)
        for file in top.rglob("*")
        if file.is_file() and secret.encode() in file.read_bytes()
    ]
    assert folder / "password" in holders
    for holder in holders:
        # Only the server's user can read a node's copy of the secret.
        assert holder.parent.name == "config" or holder == folder / "password", holder
        assert holder.stat().st_mode & 0o007 == 0
        # A server may run as `nobody`; other accounts share its group.
        assert holder.stat().st_gid not in {account.pw_gid for account in pwd.getpwall()} - {os.getegid()}, holder
        assert holder.parent.stat().st_mode & 0o007 == 0 or holder == folder / "password"


@pytest.mark.skipif(os.geteuid() != 0, reason="without root, servers run as the user who runs loadframe")
def test_a_server_cannot_change_its_configuration(store, secret):
    for node in store.cluster.nodes:
        user = psutil.Process(node.pid).uids().real
        assert user != 0, f"{node.name} runs as root"
        files = [file for file in (node.folder / "config").rglob("*") if file.is_file()]
        assert files

        def attempt(folder: Path = node.folder, files: list[Path] = files) -> str:
            done = []
            for file in files:
                for change in (
                    lambda file=file: file.open("a").close(),
                    lambda file=file: file.unlink(),
                    lambda file=file: file.chmod(0o666),
                ):
                    try:
                        change()
                        done.append(str(file))
                    except PermissionError:
                        pass
            try:
                (folder / "config").rename(folder / "other")
                done.append("config")
            except PermissionError:
                pass
            return " ".join(done) or "nothing"

        assert _as_user(user, attempt) == "nothing"


def test_the_command_that_is_shown_connects(store, secret):
    console = store.cluster.console()
    assert secret not in console
    assert str(_folder(store) / "password") in console
    program, question = CONSOLES[store.kind]
    if shutil.which(program) is None:
        pytest.skip(f"this machine lacks {program}")
    ran = subprocess.run(f"{console} {question}", shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert "42" in ran.stdout, ran.stderr
