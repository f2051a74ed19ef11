"""The hidden folder in which a run grows until it is whole, and the removal of those whose process has died.

Its name carries who writes it: `.RUN.partial-HOST-PID-START`, START being the process's start in clock ticks since
the machine booted. A process number that was given out anew has another start, and a folder of another machine (the
results may lie on a shared file system) is never judged from here.
"""

import os
import re
import shutil
from pathlib import Path

_NAME = re.compile(r"\.(?P<run>.+)\.partial-(?P<host>.+)-(?P<pid>\d+)-(?P<start>\d+)")


def partial_name(run: str) -> str:
    """Return the name of the folder in which this process writes `run`."""
    pid = os.getpid()
    return f".{run}.partial-{os.uname().nodename}-{pid}-{_start_of(pid)}"


def remove_run(path: Path) -> None:
    """Remove a run's folder, which is gone at once: cut off at any instant, this leaves the whole run or none.

    What is left of it then is a partial folder, which the next run removes.
    """
    hidden = path.with_name(partial_name(path.name))
    path.rename(hidden)
    shutil.rmtree(hidden)


def remove_stale(parent: Path) -> list[Path]:
    """Remove the partial folders in `parent` whose process on this machine has ended; return them."""
    removed = [path for path, _ in stale(parent)]
    for path in removed:
        shutil.rmtree(path, ignore_errors=True)
    return removed


def stale(parent: Path) -> list[tuple[Path, str]]:
    """Return the partial folders in `parent` whose process on this machine has ended, with the names of their runs."""
    matches = [(path, _NAME.fullmatch(path.name)) for path in sorted(parent.glob(".*.partial-*"))]
    return [(path, match["run"]) for path, match in matches if match and _is_stale(match)]


def _is_stale(match: "re.Match[str]") -> bool:
    if match["host"] != os.uname().nodename:
        return False
    return _start_of(int(match["pid"])) != int(match["start"])


def _start_of(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot: field 22 of proc(5)'s stat; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command's name in parentheses, which may itself hold blanks and parentheses.
    return int(stat.rpartition(")")[2].split()[19])
