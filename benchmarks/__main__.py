"""Runs all or some measurements of this folder: `python -m benchmarks [NAME...]`.

A measurement is a module `measure_NAME.py` with a `main` that prints figures as ratios. If one cannot run here, it
prints the missing requirement and the others continue. The exit status is that of the first failure.
"""

import difflib
import importlib
import sys
from pathlib import Path

from loadframe.base.errors import BadInput, LoadframeError

NAMES = sorted(path.stem.removeprefix("measure_") for path in Path(__file__).parent.glob("measure_*.py"))


def main(names: list[str]) -> int:
    """Run the measurements and return the exit status."""
    for name in names:
        if name not in NAMES:
            nearest = difflib.get_close_matches(name, NAMES, n=1)
            remedy = f"did you mean {nearest[0]}?" if nearest else f"there are {', '.join(NAMES)}"
            raise BadInput(f"unknown measurement {name!r}", remedy=remedy)
    status = 0
    for name in names or NAMES:
        print(f"{name.replace('_', ' ')}", flush=True)
        try:
            importlib.import_module(f"benchmarks.measure_{name}").main()
        except LoadframeError as error:
            print(f"benchmark: {error}", file=sys.stderr)
            status = status or error.exit_status
        print(flush=True)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BadInput as error:
        print(f"benchmark: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
