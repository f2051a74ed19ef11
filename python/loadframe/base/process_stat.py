"""State of processes from /proc/PID/stat (proc(5))."""

from pathlib import Path


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the third on, the state; OSError if the process does not run.

    Zombies count as ended.
    """
    # The second field, the command name, may contain spaces and parentheses.
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    if fields[0] in ("Z", "X"):
        raise ProcessLookupError(pid)
    return fields


def is_running(pid: int) -> bool:
    """Whether a process runs. Zombies count as ended."""
    try:
        stat_fields(pid)
    except OSError:
        return False
    return True
