"""Ledgers of existing clusters: one command at a time, and none that is lost."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from loadframe.base.errors import BadInput
from loadframe.experiment.runner.ledger import Changes, claim

COMMANDS = 8


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The folder of the ledgers."""
    monkeypatch.setenv("LOADFRAME_STATE", str(tmp_path))
    (tmp_path / "existing").mkdir(mode=0o700)
    return tmp_path / "existing"


def changes(address: str) -> Changes:
    """Return no changes yet to a cluster."""
    return Changes("redis", [address], None, "results/e")


def test_of_commands_that_start_at_once_one_gets_the_cluster():
    for turn in range(20):
        barrier = Barrier(COMMANDS)

        def attempt(number, turn=turn, barrier=barrier):
            barrier.wait()
            try:
                return claim(f"lf_{turn}_{number}", changes("127.0.0.1:6379"))[0]
            except BadInput as error:
                assert "another experiment is using this cluster" in error.what
                return None

        with ThreadPoolExecutor(COMMANDS) as pool:
            (winner,) = filter(None, pool.map(attempt, range(COMMANDS)))
        winner.delete()


def test_another_name_of_the_host_is_the_same_cluster():
    ledger, _ = claim("lf_1", changes("localhost:6379"))
    with pytest.raises(BadInput, match="another experiment is using this cluster"):
        claim("lf_2", changes("127.0.0.1:6379"))
    other, earlier = claim("lf_3", changes("127.0.0.1:6380"))
    assert not earlier
    other.delete()
    ledger.release()
    ledger, (leftover,) = claim("lf_4", changes("127.0.0.1:6379"))
    assert leftover.changes.hosts == ["localhost:6379"]
    ledger.delete()
    leftover.delete()


def test_a_full_disk_is_one_message_and_leaves_no_ledger(folder):
    (folder / "lf_1.part").symlink_to("/dev/full")
    with pytest.raises(BadInput, match="not enough disk space for the list of changes"):
        claim("lf_1", changes("127.0.0.1:6379"))
    assert [path.name for path in folder.iterdir()] == ["claims.lock"]
