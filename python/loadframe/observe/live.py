"""One look after another at a cluster that is up, for people who watch it: the samplers' figures, node by node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loadframe.observe.sampler import Gap, Rates, Sampler


@dataclass(frozen=True)
class Look:
    """What was seen at one instant."""

    figures: Mapping[str, Mapping[str, float]]  #: source, such as `node:node-0` or `host` -> metric -> value
    gaps: Mapping[str, str]  #: source -> why it could not be seen


@dataclass
class Live:
    """Looks by all samplers in turn. Of the metrics named in `totals` the growth per second is given as well.

    That stands under the metric's name with `/s` behind it.
    """

    samplers: Sequence[Sampler]
    totals: Sequence[str] = ()
    _rates: Rates = field(default_factory=Rates)

    def look(self, now: float) -> Look:
        """Look at `now`, s on a clock of the caller's."""
        figures: dict[str, dict[str, float]] = {}
        gaps = {}
        for sampler in self.samplers:
            for seen in sampler.sample(now):
                if isinstance(seen, Gap):
                    gaps[seen.source] = seen.cause
                else:
                    figures.setdefault(seen.source, {})[seen.metric] = seen.value
        for source, metrics in figures.items():
            totals = {metric: metrics[metric] for metric in self.totals if metric in metrics}
            for rate in list(self._rates.of(source, now, totals)):
                metrics[f"{rate.metric}/s"] = rate.value
        return Look(figures, gaps)
