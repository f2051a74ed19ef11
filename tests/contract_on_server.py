"""The contract of the stores on a server that you name, as one table.

python tests/contract_on_server.py couchbase --hosts 10.0.0.1:8091 --user Administrator --password-file password
python tests/contract_on_server.py couchbase --home /opt/couchbase      # also starts, grows and shrinks clusters

It creates and drops collections (buckets) named `things` and those of the built-in workloads: use an empty server.
Exit code 1 if a test fails.
"""

import argparse
import os
from pathlib import Path

import pytest
from rich.console import Console
from rich.markup import escape
from rich.table import Table

CONTRACT = Path(__file__).parent / "contract"
#: Longest reason in the table.
_SHOWN = 100
#: Width of a table that is never cut, in characters.
_WIDEST = 400


class Collector:
    """Outcome and reason of each test, in the order of the tests."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, float, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of a test's stages."""
        name = report.nodeid.rpartition("::")[2].removeprefix("test_").partition("[")[0].replace("_", " ")
        if report.when == "call" or report.outcome != "passed":
            self.rows[name] = (report.outcome, report.duration, _reason(report))


def _reason(report: pytest.TestReport) -> str:
    """Return why a test failed or was skipped, in one line; empty if it passed."""
    if isinstance(report.longrepr, tuple):
        text = report.longrepr[2].removeprefix("Skipped: ")
    elif report.longrepr is not None:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash else str(report.longrepr)
    else:
        return ""
    line = text.strip().splitlines()[0]
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."


def main(arguments: list[str] | None = None) -> int:
    """Run the tests of one store, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="kind of store, such as couchbase")
    server = parser.add_mutually_exclusive_group(required=True)
    server.add_argument("--hosts", help="addresses of an existing cluster, comma-separated")
    server.add_argument("--home", help="folder of an installation, of which Loadframe starts clusters")
    parser.add_argument("--user", help="user of the existing cluster; requires --password-file")
    parser.add_argument("--password-file", help="file with the user's password")
    parser.add_argument("-k", dest="only", help="run only tests whose name contains this text")
    given = parser.parse_args(arguments)
    if bool(given.user) != bool(given.password_file):
        parser.error("--user and --password-file require each other")
    for key in ("hosts", "home", "user", "password_file"):
        if (value := getattr(given, key)) is not None:
            os.environ[f"CONTRACT_{key.upper()}_{given.store.upper()}"] = str(value)
    collector = Collector()
    words = f"{given.store} and ({given.only})" if given.only else given.store
    # Tests of one store expect the layout of the cluster that Loadframe starts.
    files = sorted(CONTRACT.glob("test_contract_*.py" if given.hosts else "test_*.py"))
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "--no-header", "--no-summary"]
    status = pytest.main([*options, "--tb=no", "-k", words, *map(str, files)], plugins=[collector])
    table = Table("test", "outcome", "seconds", "reason", box=None)
    for name, (outcome, seconds, reason) in collector.rows.items():
        table.add_row(name, outcome, f"{seconds:.1f}", escape(reason))
    console = Console()
    table.width = console.measure(table, options=console.options.update(width=_WIDEST)).maximum
    console.print(table, crop=False)
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
