"""What a rank sees of its machine during a phase: how much of it the hypervisor took, and how fast it was."""

from pathlib import Path

from loadframe.ranks.messages import Header
from loadframe.yardstick import yardstick

_STAT = Path("/proc/stat")


class OwnMachine:
    """Looks at this machine now, and once more when it is asked for the figures. It takes some 25 ms of CPU."""

    def __init__(self) -> None:
        self._pace = yardstick()
        self._before = _times()

    def figures(self) -> Header:
        """Return `stolen`, the share of all processors' time that the hypervisor took (None: not counted), and the
        `yardstick` before and after, s."""
        (total, stolen), (total_before, stolen_before) = _times(), self._before
        elapsed = total - total_before
        return {
            "stolen": (stolen - stolen_before) / elapsed if elapsed > 0 else None,
            "yardstick": [self._pace, yardstick()],
        }


def _times() -> tuple[int, int]:
    """Return the time of all processors since the boot and what the hypervisor took of it, in the kernel's ticks."""
    try:
        # user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in user's (see proc(5)).
        ticks = [int(word) for word in _STAT.read_text().partition("\n")[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return sum(ticks), ticks[7] if len(ticks) > 7 else 0
