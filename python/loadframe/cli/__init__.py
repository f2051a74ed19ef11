"""The command line: one module per command, found by being here; errors leave as one message and a status."""

import importlib
import os
import pkgutil
import sys

from loadframe.cli.app import app
from loadframe.errors import LoadframeError


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 a run failed, 2 bad input, 130 interrupted; `gate` has its own."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    try:
        app(args=arguments, standalone_mode=True)
    except LoadframeError as error:
        print(f"loadframe: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except MemoryError as error:
        # Whatever held so much has been let go of by now.
        asked = f": {error}" if str(error) else ""
        print(f"loadframe: memory has run out{asked}", file=sys.stderr)
        print("  free some, give the process more, or ask for less: fewer runs, clients or documents", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("loadframe: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output left (`| head`): nothing is wrong, and nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
