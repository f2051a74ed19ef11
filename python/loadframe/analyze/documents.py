"""How many documents there were in each second of a phase, and how response times grew with them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadframe.analyze.growth import growth
from loadframe.record.schema.summary import GrowthFigures, whole_seconds

if TYPE_CHECKING:
    from loadframe.record import HistogramLog

Array = npt.NDArray[np.float64]


def documents_by_second(outcome: Mapping[str, Any], rows: pa.Table) -> Array | None:
    """Return the documents at the middle of each whole second of the measured window; None where none were written.

    `rows` are the phase's, of its warm-up, too. Documents count when they are acknowledged, and of several generators
    those of all. Those from before the phase count as far as they are known.
    """
    gains: Mapping[str, Mapping[str, Any]] = outcome.get("gains") or {}
    seconds = whole_seconds(outcome["warmup"], outcome["measured"])
    first, last = seconds.start, seconds.stop
    if not gains or last <= first:
        return None
    added = np.zeros(last)
    for name, gain in gains.items():
        of_operation = rows.filter(pc.equal(rows["operation"], name))
        second = of_operation["second"].to_numpy()
        within = second < last
        np.add.at(added, second[within], gain["amount"] * of_operation[gain["by"]].to_numpy()[within])
    held: Array = (outcome.get("held") or 0) + np.cumsum(added) - added / 2
    return held[first:]


def growth_figures(
    operation: str, outcome: Mapping[str, Any], histograms: "HistogramLog", documents: Array | None
) -> GrowthFigures | None:
    """Return how an operation's response times grew with the documents; None where too little is known to say it."""
    if documents is None or np.ptp(documents) <= 0:
        return None
    first = whole_seconds(outcome["warmup"], outcome["measured"]).start
    sums, counts = np.zeros(len(documents)), np.zeros(len(documents))
    tag = f"{outcome['phase']}/{operation}/response"
    if tag not in histograms.tags():
        return None
    for start, histogram in histograms.seconds(tag):
        place = round(start - outcome["offset"]) - first
        if histogram.count and 0 <= place < len(documents):
            sums[place] += histogram.count * (histogram.mean or 0.0)
            counts[place] += histogram.count
    means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    grown = growth(means, counts, documents)
    if grown is None:
        return None
    sure = all(gain["sure"] for gain in outcome["gains"].values())
    return GrowthFigures(
        slope=grown.slope,
        low=grown.low,
        high=grown.high,
        begin=grown.begin,
        end=grown.end,
        held=sure,
        all=outcome.get("held") is not None,
        apart=grown.apart,
    )
