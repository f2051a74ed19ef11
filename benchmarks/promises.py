"""Targets of a simulation: shares in its tables that must be met, within the error of the number of trials."""

import sys
from collections.abc import Callable

from scipy import stats

#: Significance level at which a share misses its target.
_CHANCE = 0.001


class Promises:
    """The targets of one simulation, with the missed ones."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def at_least(self, what: str, share: float, trials: int, promised: float) -> None:
        """Check a share (0..1) of trials; record it if it is significantly below the target."""
        self._note(what, share, "at least", promised, float(stats.binom.cdf(round(share * trials), trials, promised)))

    def at_most(self, what: str, share: float, trials: int, promised: float) -> None:
        """Check a share (0..1) of trials; record it if it is significantly above the target."""
        self._note(what, share, "at most", promised, float(stats.binom.sf(round(share * trials) - 1, trials, promised)))

    def settle(self) -> None:
        """Raise AssertionError with the missed targets, if any."""
        assert not self.missed, "; ".join(self.missed)

    def _note(self, what: str, share: float, side: str, promised: float, chance: float) -> None:
        if chance < _CHANCE:
            self.missed.append(f"{what}: {100 * share:.1f} %, promised {side} {100 * promised:g} %")


def start(main: Callable[..., None]) -> None:
    """Run a simulation from the command line: `python -m benchmarks.simulate_NAME [TRIALS [TABLE...]]`."""
    words = sys.argv[1:]
    if not all(word.isdecimal() for word in words[:1]):
        sys.exit(
            f"usage: python -m benchmarks.simulate_NAME [TRIALS [TABLE...]]; TRIALS must be a number, got {words[0]}"
        )
    main(*map(int, words[:1]), *words[1:])
