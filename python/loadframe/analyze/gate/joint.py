"""Whether measures of one kind got worse together: the mean of their logarithms, in each run or block; pure.

A common change adds up in that mean while the noise of operations that is not common averages out, so that the joint
check sees what no single one does. It is the ratio of geometric means over all operations and treatments, estimated
like any other ratio, and exact where theirs are: no weights are taken from the data.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean

from loadframe.analyze.comparison import Contrast, Group
from loadframe.analyze.comparison.estimate_ratio import Observation, RatioEstimate, estimate_ratio
from loadframe.analyze.figures import Stretch
from loadframe.analyze.sessions import block_of, sessions_of

_Unit = tuple[int, Hashable, Hashable]


def joint_estimate(
    contrasts: Sequence[Contrast], baseline: Group, new: Group, session_spread: float
) -> RatioEstimate | None:
    """Return the ratio of the geometric mean over all these measures; None where a side has nothing.

    Runs of different treatments count together where they are of the same block, or else are the first, the second and
    so on of their treatment in the same session.
    """
    sides = {0: baseline, 1: new}
    everything = [(side, run) for side, group in sides.items() for run in group.usable]
    numbers = sessions_of([run for _, run in everything], [side for side, _ in everything])
    sessions: Mapping[int, int | None] = {id(run): number for (_, run), number in zip(everything, numbers, strict=True)}
    logs: dict[_Unit, list[float]] = defaultdict(list)
    blocks: dict[_Unit, Hashable] = {}
    for contrast in contrasts:
        rows: list[tuple[_Unit, float]] = []
        for side, group in sides.items():
            here = runs_at(group, contrast).usable
            counts: dict[Hashable, int] = defaultdict(int)
            for run in here:
                session, block = sessions[id(run)], block_of(run)
                value = contrast.measure.of(run)
                place: Hashable = ("block", block) if block is not None else counts[session]
                counts[session] += 1
                if value is not None and value > 0:
                    unit: _Unit = (side, session, place)
                    blocks[unit] = block
                    rows.append((unit, math.log(value)))
        # Measures lie at different levels: what counts of each is by how much it is above or below its own.
        level = fmean(value for _, value in rows)
        for unit, value in rows:
            logs[unit].append(value - level)
    observations = [
        Observation(math.exp(fmean(values)), unit[0], blocks[unit], unit[1]) for unit, values in logs.items()
    ]
    if {observation.group for observation in observations} != {0, 1}:
        return None
    # The mean over measures is within the bounds of the measure that is bounded least well.
    bounds = [
        contrast.measure.stretch(runs_at(new, contrast).usable).ratio(
            contrast.measure.stretch(runs_at(baseline, contrast).usable)
        )
        for contrast in contrasts
    ]
    stretch = Stretch(min(it.low for it in bounds), max(it.high for it in bounds))
    joint = estimate_ratio(observations, 0, 1, session_spread=session_spread, robust=baseline.robust)
    return joint.widened(stretch)


def families(contrasts: Sequence[Contrast]) -> dict[str, list[int]]:
    """Return the places of the contrasts of each kind of measure, in the order of the kinds."""
    members: dict[str, list[int]] = defaultdict(list)
    for place, contrast in enumerate(contrasts):
        members[contrast.measure.kind].append(place)
    return dict(members)


def runs_at(group: Group, contrast: Contrast) -> Group:
    """Return the group's runs that a contrast is about: all where there is one treatment, whatever it is."""
    return group.at(contrast.treatment) if len(group.treatments) > 1 else group
