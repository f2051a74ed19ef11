"""Runs all or some suites: `python -m trials [SUITE...]`. Prints one table; status 1 after a failure."""

import argparse
import sys

from rich.console import Console
from rich.table import Table

from trials import coverage, files, hostile, kills
from trials.trial import Result, attempts

SUITES = {"hostile": hostile.trials, "kills": kills.trials, "files": files.trials, "coverage": coverage.trials}


def main() -> int:
    """Run the suites and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m trials", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all by default")
    parser.add_argument("--seed", type=int, default=1, help="of random instants and damages")
    given = parser.parse_args()
    if unknown := [name for name in given.suites if name not in SUITES]:
        parser.error(f"unknown suite {unknown[0]!r}; choose from {', '.join(SUITES)}")
    results: list[Result] = []
    for name in given.suites or SUITES:
        for result in attempts(name, SUITES[name](given.seed)):
            print(f"{name}: {result.name}: {'passed' if result.passed else 'FAILED'}", file=sys.stderr, flush=True)
            results.append(result)
    Console(width=160).print(_table(results))
    failed = sum(not result.passed for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _table(results: list[Result]) -> Table:
    table = Table("suite", "trial", "", "seen", "seconds")
    for result in results:
        outcome = "passed" if result.passed else "[red]FAILED[/red]"
        table.add_row(result.suite, result.name, outcome, result.seen, f"{result.seconds:.1f}")
    return table


if __name__ == "__main__":
    sys.exit(main())
