"""What a simulation promises: shares that its tables must keep to, but for what few trials leave to chance."""

from scipy import stats

#: A share misses its promise where one that keeps it would look so bad less often than this.
_CHANCE = 0.001


class Promises:
    """The promises of one simulation, and those that it missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def at_least(self, what: str, share: float, trials: int, promised: float) -> None:
        """Note a share (0..1) of a number of trials that is significantly below the promised one."""
        self._note(what, share, "at least", promised, float(stats.binom.cdf(round(share * trials), trials, promised)))

    def at_most(self, what: str, share: float, trials: int, promised: float) -> None:
        """Note a share (0..1) of a number of trials that is significantly above the promised one."""
        self._note(what, share, "at most", promised, float(stats.binom.sf(round(share * trials) - 1, trials, promised)))

    def settle(self) -> None:
        """Raise AssertionError that names the promises that were missed, if any was."""
        assert not self.missed, "; ".join(self.missed)

    def _note(self, what: str, share: float, side: str, promised: float, chance: float) -> None:
        if chance < _CHANCE:
            self.missed.append(f"{what}: {100 * share:.1f} %, promised {side} {100 * promised:g} %")
