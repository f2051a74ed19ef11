"""The script that runs the contract on a server of the user prints one table, and fails if a test does."""

import subprocess
import sys
from pathlib import Path

import pytest

from own_servers import REDIS, Redis, free_port

SCRIPT = Path(__file__).parent / "contract_on_server.py"
TESTS = "written_documents_are_read_back or missing_and_existing or comes_and_goes"

pytestmark = [pytest.mark.store, pytest.mark.skipif(not REDIS, reason="redis-server is not installed")]


def on_server(address: str) -> tuple[int, dict[str, list[str]]]:
    """Return the exit code, and the columns of the table by test."""
    words = [sys.executable, SCRIPT, "redis", "--hosts", address, "-k", TESTS]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    lines = done.stdout.splitlines()
    start = next((number for number, line in enumerate(lines) if line.split()[:2] == ["test", "outcome"]), len(lines))
    columns = (lines[start].index(" outcome "), lines[start].index(" seconds ")) if start < len(lines) else (0, 0)
    return done.returncode, {
        line[: columns[0]].strip(): [line[columns[0] : columns[1]].strip(), line[columns[1] :].strip()]
        for line in lines[start + 1 :]
    }


def test_the_table_has_the_outcome_of_each_test(tmp_path):
    with Redis(tmp_path) as server:
        status, rows = on_server(server.address)
    assert status == 0, rows
    assert rows["written documents are read back"][0] == "passed"
    assert rows["missing and existing documents are reported"][0] == "passed"
    (outcome, reason) = rows["a node comes and goes under load and nothing is lost"]
    assert outcome == "skipped" and "needs a cluster that Loadframe started" in reason


def test_without_a_server_the_tests_fail():
    status, rows = on_server(f"127.0.0.1:{free_port()}")
    assert status == 1
    assert rows["written documents are read back"][0] == "failed"
