"""Watches the control groups that the generator itself is in: whether a CPU quota makes it stand still."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from loadframe.observe.sampler import Gap, Rates, Sample
from loadframe.quota import own_groups, throttling

_SOURCE = "generator"


class OwnGroupSampler:
    """Looks at the groups of this process, from its own up to the top that it can see: any of them may have a quota.

    Groups do not change while it looks. Where this process sees no group with a CPU controller it yields nothing.
    """

    name = "own group"
    waits = False

    def __init__(self, folders: Sequence[Path] | None = None):
        self._folders = own_groups() if folders is None else folders
        self._rates = Rates()

    def sample(self, now: float) -> Iterator[Sample | Gap]:
        """Yield throttled periods and time of all groups together; a gap if this process was moved out of them."""
        sums: dict[str, float] = {}
        for folder in self._folders:
            try:
                totals = throttling(folder)
            except OSError as error:
                yield Gap(_SOURCE, f"the control group cannot be read: {error.strerror} ({error.filename})")
                return
            for metric, total in totals.items():
                sums[metric] = sums.get(metric, 0) + total
        yield from self._rates.of(_SOURCE, now, sums)
