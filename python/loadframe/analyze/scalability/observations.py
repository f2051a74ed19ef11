"""Repeated runs grouped by size, the data of the fits; and their CSV tables.

A weighted least-squares fit to repeated runs equals the fit to their means plus a constant (the pure error), since runs
of one size share prediction and weight. So solvers see one row per distinct size. Block effects are removed first.

An experiment runs each size once per block, and a common factor affects all runs of a block (the state of the machine).
This factor does not affect the curve's shape, so it is removed before the fit (a two-way additive model of log
throughput; Montgomery, "Design and Analysis of Experiments", 8th ed. 2013, section 4.1). It limits the precision of the
level (lambda, a ceiling, throughput at the peak) by the number of blocks instead of the number of runs.

CSV tables: the delimiter is the comma, semicolon or tab in the header; decimals use a point. A byte-order mark and any
line ends are accepted; empty lines are skipped.
"""

import csv
import io
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from loadframe.analyze.estimate import additive_effects
from loadframe.analyze.scalability.models import Array
from loadframe.base.errors import BadInput
from loadframe.base.units import counted

#: Largest error of a level's logarithm.
_MOST = 200.0


@dataclass(frozen=True, eq=False)
class BlockEffects:
    """Effects of the blocks on log throughput, which sum to 0, and the number of runs per block."""

    effects: Array
    runs: Array

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.effects)

    @property
    def freedom(self) -> int:
        """Degrees of freedom that the effects take from the noise."""
        return self.count - 1

    def level_errors(self, variance: float, scales: Array, random: np.random.Generator) -> Array:
        """Draw errors of the level's logarithm beyond the noise within blocks, one for each of `scales`.

        `variance` is the noise variance within blocks; `scales` are its factors in the draws. There must be at least
        two blocks. The variance of block means is drawn from its sampling distribution, less the part that the noise
        explains. This is a generalised pivotal quantity (Weerahandi, "Generalized Confidence Intervals", Journal of the
        American Statistical Association 88, 1993), as usual for variance components.
        """
        between = float((self.effects**2).sum()) / random.chisquare(self.freedom, size=len(scales))
        explained = variance * scales * float((1 / self.runs).mean())
        errors: Array = np.sqrt(np.maximum(between - explained, 0.0) / self.count)
        # With two blocks the drawn variance may be huge, so the errors are limited to the range of a float.
        return np.clip(errors * random.standard_normal(len(scales)), -_MOST, _MOST)


def block_effects(sizes: Array, throughputs: Array, blocks: Sequence[object]) -> tuple[BlockEffects, Array] | None:
    """Return the block effects, and for each run the factor of its block; None if they cannot be estimated.

    Throughputs divided by these factors are free of the effects. `sizes`, `throughputs` and `blocks` have one entry per
    run. Not estimable: a run without a block, a single block, blocks that share too few sizes, or no degree of freedom
    left.
    """
    if any(block is None for block in blocks):
        return None
    _, size = np.unique(sizes, return_inverse=True)
    names = list(dict.fromkeys(blocks))
    block = np.array([names.index(label) for label in blocks])
    if len(names) < 2:
        return None
    fitted = additive_effects(size, block, np.log(throughputs))
    if fitted.rank < fitted.columns or len(block) <= fitted.rank:
        return None
    return BlockEffects(fitted.effects, np.bincount(block).astype(float)), np.exp(fitted.effects)[block]


Residuals = Literal["relative", "absolute"]

#: Default relative resolution of throughputs: keeps the variance of exact data above 0.
RESOLUTION = 1e-6

#: Smallest number, and inverse of the largest, with an exact square in a float.
_LEAST = 1e-100
_MOST_SIZES = 500


@dataclass(frozen=True, eq=False)
class Observations:
    """Runs by size: `sizes` ascending and distinct, `runs[i]` the throughputs at `sizes[i]`.

    `places[i]` are their indices among the input pairs. With `blocks`, throughputs are without block effects.
    `resolution` is the relative standard deviation of an error that all runs of a size share, such as that of a search
    on a grid of rates; repeated runs do not show it. `failed` are the sizes at which the store failed: the runs that
    survive are too much alike, so they do not show the noise.
    """

    sizes: Array
    runs: tuple[Array, ...]
    places: tuple[tuple[int, ...], ...]
    residuals: Residuals
    blocks: BlockEffects | None = None
    resolution: float = RESOLUTION
    failed: frozenset[float] = frozenset()

    @property
    def means(self) -> Array:
        """Mean throughput at each size."""
        return np.array([run.mean() for run in self.runs])

    @property
    def counts(self) -> Array:
        """Number of runs at each size."""
        return np.array([float(run.size) for run in self.runs])

    @property
    def total(self) -> int:
        """Number of runs."""
        return sum(run.size for run in self.runs)

    @property
    def freedom(self) -> int:
        """Number of runs, one at each failed size, minus the degrees of freedom of the block effects."""
        runs = sum(1 if size in self.failed else run.size for size, run in self._by_size())
        return runs - (self.blocks.freedom if self.blocks else 0)

    @property
    def is_replicated(self) -> bool:
        """Whether each size has at least two runs, so that noise can be separated from misfit."""
        return all(run.size > 1 for run in self.runs)

    def weights(self, means: Array) -> Array:
        """Return the weight of each size's mean: sqrt(runs), divided by the mean for relative residuals."""
        roots = np.sqrt(self.counts)
        return roots / means if self.residuals == "relative" else np.broadcast_to(roots, means.shape)

    @property
    def scale(self) -> Array:
        """Divisor of a run's deviation: the mean at its size (relative), or 1 (absolute)."""
        return self.means if self.residuals == "relative" else np.ones_like(self.means)

    @property
    def pure_error(self) -> float:
        """Sum over runs of ((run - mean of its size) / scale)^2, without failed sizes.

        It is in squared throughput if `scale` is 1.
        """
        sizes = zip(self._by_size(), self.scale, strict=True)
        return float(sum(np.sum(((run - run.mean()) / s) ** 2) for (size, run), s in sizes if size not in self.failed))

    @property
    def least_sum(self) -> float:
        """The weighted sum of squares that the resolution alone explains; smaller sums are rounding."""
        typical = 1.0 if self.residuals == "relative" else float(self.means.mean())
        return self.total * (self.resolution * typical) ** 2

    def _by_size(self) -> list[tuple[float, Array]]:
        """Return pairs of each size and its runs."""
        return list(zip(self.sizes.tolist(), self.runs, strict=True))

    def without_largest(self) -> "Observations":
        """Return the same observations without the largest size."""
        return self._of(range(len(self.runs) - 1))

    def without_failed(self) -> "Observations":
        """Return the same observations without the sizes at which the store failed; perhaps none."""
        return self._of([index for index, (size, _) in enumerate(self._by_size()) if size not in self.failed])

    def _of(self, kept: Sequence[int]) -> "Observations":
        """Return the observations of the sizes with these indices."""
        return replace(
            self,
            sizes=self.sizes[list(kept)],
            runs=tuple(self.runs[index] for index in kept),
            places=tuple(self.places[index] for index in kept),
        )

    def without_run(self, size: int, run: int) -> "Observations":
        """Return the observations without `runs[size][run]`, and without its size if no other run is left."""
        runs, places = list(self.runs), list(self.places)
        runs[size] = np.delete(runs[size], run)
        places[size] = places[size][:run] + places[size][run + 1 :]
        kept = [index for index, left in enumerate(runs) if left.size]
        return replace(self, runs=tuple(runs), places=tuple(places))._of(kept)


def gather(
    pairs: Sequence[tuple[float, float]],
    residuals: Residuals,
    resolution: float = RESOLUTION,
    blocks: Sequence[object] | None = None,
    without: Collection[int] = (),
    over: str = "n",
    failed: Collection[float] = (),
) -> Observations:
    """Group (n, throughput) pairs by n, ascending; with `blocks`, remove the blocks' effects if these can be estimated.

    `blocks` names the block of each pair; `without` holds the indices of pairs to omit. `over` says what n counts, for
    messages. `failed` are the n at which the store failed. BadInput for numbers that are not positive and finite, for
    fewer than 3 or more than 500 sizes, and if no size is above 1.
    """
    for position, (n, throughput) in enumerate(pairs, start=1):
        _check(n, throughput, f"observation {position}")
    kept = [position for position in range(len(pairs)) if position not in without]
    count = len({float(pairs[position][0]) for position in kept})
    if count < 3:
        sizes_text = "no size" if not count else f"only {counted(count, 'distinct size')}"
        raise BadInput(
            f"{sizes_text} ({over}): a scalability model needs at least 3", remedy="measure at more sizes; 6 is better"
        )
    _check_range([pairs[position][0] for position in kept], count, over)
    n, throughputs = np.array([pairs[position] for position in kept], dtype=float).T
    blocked = block_effects(n, throughputs, [blocks[position] for position in kept]) if blocks else None
    effects, factors = blocked or (None, np.ones_like(n))
    sizes = np.unique(n)
    return Observations(
        sizes,
        tuple((throughputs / factors)[n == size] for size in sizes),
        tuple(tuple(kept[index] for index in np.flatnonzero(n == size)) for size in sizes),
        residuals,
        effects,
        resolution,
        frozenset(map(float, failed)),
    )


def _check(n: float, throughput: float, where: str) -> None:
    """Raise BadInput for a size or throughput that is not positive and finite (1e-100 to 1e100); `where` names it."""
    for what, number in (("size", n), ("throughput", throughput)):
        if not _LEAST < number < 1 / _LEAST:
            raise BadInput(
                f"the {what} {number:g} is not positive and finite",
                where=where,
                remedy="a fit needs sizes and throughputs above 0; remove failed runs",
            )


def _check_range(sizes: Sequence[float], count: int, over: str) -> None:
    """Raise one BadInput for sizes that are all at most 1, and for more distinct sizes (`count`) than a fit takes.

    `over` says what they count. Some sizes may be below 1, such as average numbers of active sessions: the models hold
    for real N.
    """
    what, remedies = [], []
    if (largest := max(sizes)) <= 1:
        factor = 10 ** math.ceil(math.log10(10 / largest))
        what.append(
            f"the largest size ({over}), {largest:g}, is not above 1, but the models refer to the throughput at 1"
        )
        remedies.append(f"multiply all sizes by {factor:,}, so that n counts a smaller unit")
    if count > _MOST_SIZES:
        what.append(f"{count} distinct sizes ({over}) exceed the limit of {_MOST_SIZES} for a fit")
        remedies.append("round sizes to two significant digits, so that equal ones count as repetitions")
    if what:
        raise BadInput("; ".join(what), remedy="; then ".join(remedies))


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SHAPE = (
    "write a header line and then two columns, such as `nodes,throughput` and `4,3076.9`; add a third column, `block`,"
    " for runs in blocks"
)
_BLOCK = "block"
#: Usual names of a throughput.
_RATE = re.compile(
    r"(throughput(_\w+)?|rate|ops|[tqr]ps|\w+/(s|sec|min)|\w+[ _]per[ _](second|minute))([ _]?[\[(].*[\])])?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Table:
    """Observations of a file, the header's names for n and throughput, and the block of each (None without blocks)."""

    over: str
    measure: str
    pairs: tuple[tuple[float, float], ...]
    blocks: tuple[str, ...] | None = None


def parse_table(content: bytes, name: str) -> Table:
    """Return the table in a file's content; BadInput with `name` and the line if it is malformed.

    It is UTF-8 text with a header and two columns, size and throughput, and perhaps a third, `block`. The delimiter is
    the first of comma, semicolon and tab that the first line has. Empty lines are skipped.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadInput("this is not UTF-8 text", where=f"{name}:{line}", remedy=_SHAPE) from error
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = next((mark for mark in ",;\t" if mark in first), ",")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    header: list[str] | None = None
    pairs, blocks = [], []
    try:
        for cells in rows:
            row, where = [cell.strip() for cell in cells], f"{name}:{rows.line_num}"
            if not any(row):
                continue
            if header is None:
                header = _header(row, where)
            else:
                pairs.append(_pair(row, header, where))
                blocks += row[2:]
    except csv.Error as error:
        raise BadInput(f"not CSV: {error}", where=f"{name}:{rows.line_num}", remedy=_SHAPE) from error
    if header is None:
        raise BadInput("the file is empty", where=name, remedy=_SHAPE)
    if not pairs:
        raise BadInput("the file has a header but no measurement", where=name, remedy=_SHAPE)
    return Table(header[0], header[1], tuple(pairs), tuple(blocks) or None)


def _header(row: list[str], where: str) -> list[str]:
    """Return the header; BadInput unless it has two names, or a third that is `block`, and no numbers.

    BadInput, too, if only the first column has the name of a throughput: sizes come first.
    """
    if len(row) != 2 and [cell.lower() for cell in row[2:]] != [_BLOCK]:
        third = f", and the third is {row[2]!r}, not {_BLOCK}" if len(row) == 3 else ""
        raise BadInput(f"the header has {_columns(len(row))}, not 2{third}", where=where, remedy=_SHAPE)
    if any(_NUMBER.fullmatch(cell) for cell in row):
        raise BadInput("the first line has numbers instead of a header", where=where, remedy=_SHAPE)
    if not all(row):
        raise BadInput("a column name is empty", where=where, remedy=_SHAPE)
    if _RATE.fullmatch(row[0]) and not _RATE.fullmatch(row[1]):
        raise BadInput(f"the first column is {row[0]!r}, and the sizes come first", where=where, remedy=_SHAPE)
    return row


def _pair(row: list[str], header: list[str], where: str) -> tuple[float, float]:
    """Return size and throughput of a line; BadInput for a wrong number of columns, an empty block or a bad number."""
    if len(row) != len(header):
        what = f"the line has {_columns(len(row))}, the header has {len(header)}"
        raise BadInput(what, where=where, remedy=_SHAPE)
    if not all(row[2:]):
        raise BadInput("the block of the run is empty", where=where, remedy="name the block, such as 1 or monday")
    n, throughput = (_number(cell, column, where) for cell, column in zip(row[:2], header[:2], strict=True))
    return n, throughput


def _number(cell: str, column: str, where: str) -> float:
    """Return the number in a cell; BadInput, which names `column` and `where`, unless it is above 0 and finite."""
    if not _NUMBER.fullmatch(cell):
        raise BadInput(
            f"{column} is {cell!r}, which is not a finite number",
            where=where,
            remedy="write digits with a point for decimals; remove failed runs",
        )
    value = float(cell)
    if not 0 < value < float("inf"):
        raise BadInput(f"{column} must be above 0 and finite; got {cell}", where=where, remedy="remove failed runs")
    return value


def _columns(count: int) -> str:
    """Return a number of columns in words, such as `2 columns`."""
    return counted(count, "column")
