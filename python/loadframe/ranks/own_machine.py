"""What a rank sees of its machine during a phase: how much of it the hypervisor and quotas took, how fast it was."""

import time
from collections.abc import Sequence
from pathlib import Path

from loadframe.quota import own_groups, throttling
from loadframe.ranks.messages import Header
from loadframe.yardstick import yardstick

_STAT = Path("/proc/stat")


class OwnMachine:
    """Looks at this machine now, and once more when it is asked for the figures. It takes some 25 ms of CPU."""

    def __init__(self) -> None:
        self._pace = yardstick()
        self._before = _times()
        self._groups = own_groups()
        self._throttled, self._began = _throttled(self._groups), time.monotonic()

    def figures(self) -> Header:
        """Return `stolen`, the share of all processors' time that the hypervisor took, `throttled`, for how much of the
        time this process's own control groups were (each None: not counted), and the `yardstick` before and after, s.
        """
        (total, stolen), (total_before, stolen_before) = _times(), self._before
        elapsed = total - total_before
        return {
            "stolen": (stolen - stolen_before) / elapsed if elapsed > 0 else None,
            "throttled": self._throttled_share(),
            "yardstick": [self._pace, yardstick()],
        }

    def _throttled_share(self) -> float | None:
        now = _throttled(self._groups)
        if now is None or self._throttled is None:
            return None
        return max(now - self._throttled, 0.0) / max(time.monotonic() - self._began, 1e-9)


def _throttled(groups: Sequence[Path]) -> float | None:
    """Return for how many s groups were throttled since they were made, all together; None where none tells."""
    try:
        totals = [seen["cgroup.throttled_time"] for seen in map(throttling, groups) if seen]
    except OSError:
        return None
    return sum(totals) if totals else None


def _times() -> tuple[int, int]:
    """Return the time of all processors since the boot and what the hypervisor took of it, in the kernel's ticks."""
    try:
        # user, nice, system, idle, iowait, irq, softirq, steal; guests' time is in user's (see proc(5)).
        ticks = [int(word) for word in _STAT.read_text().partition("\n")[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return sum(ticks), ticks[7] if len(ticks) > 7 else 0
