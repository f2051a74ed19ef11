"""Strong and weak scaling curves of one store: speed-ups over the same nodes, and the law of each.

The serial shares of the two laws are different quantities. Amdahl's sigma is a share of the one-node run, Gustafson's s
a share of the N-node run. The same speed-up S(N) has s = (N - S)/(N - 1) = sigma N / (1 + sigma (N - 1)) (Shi,
"Reevaluating Amdahl's Law and Gustafson's Law", Temple University 1996). The comparison therefore uses the speed-up at
one N, and translates sigma into a share of the N-node run.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loadframe.analyze.compare.groups import Difference, differences
from loadframe.analyze.estimate import Estimate
from loadframe.analyze.exclusion import excluded_document
from loadframe.analyze.scalability import ModelFit, ModelName, Scaling
from loadframe.analyze.scale.sweep import PhaseCurves, Sweep, read_sweep
from loadframe.base.errors import BadInput
from loadframe.base.units import format_nodes

_SCALINGS: tuple[Scaling, Scaling] = ("strong", "weak")


@dataclass(frozen=True, eq=False)
class Law:
    """Law fitted to a curve over nodes; `possible` says whether the data agree with it within the noise.

    `share` is its serial share: sigma of Amdahl's law or of the USL (of the one-node run), s of Gustafson's law.
    """

    name: ModelName
    share: Estimate
    possible: bool
    model: ModelFit

    def speedup(self, nodes: float, fewest: float = 1.0) -> Estimate:
        """Return the law's ratio of throughput on `nodes` nodes to that on the fewest.

        The interval follows from the intervals of the parameters; it is 0 to infinity if the serial share is unbounded.
        """
        value = self._ratio(self.model.point.theta, nodes, fewest)
        if len(self.model.parameters) > 2:
            low, high = self.model.ratio(nodes, fewest)
            return Estimate(value, min(low, value), max(high, value))
        if not self.share.is_finite:
            return Estimate(value, 0.0, math.inf)
        ends = []
        for share in (self.share.low, self.share.high):
            theta = self.model.point.theta.copy()
            theta[1] = share
            ends.append(self._ratio(theta, nodes, fewest))
        return Estimate(value, min(value, *ends), max(value, *ends))

    def share_of(self, nodes: int) -> Estimate:
        """Return (N - S) / (N - 1) for the law's speed-up S over one node on N = `nodes` nodes (above 1).

        It is 0 for linear speed-up, and negative above that.
        """
        by_law = self.speedup(nodes)
        value, low, high = ((nodes - number) / (nodes - 1) for number in (by_law.value, by_law.high, by_law.low))
        return Estimate(value, low, high)

    def _ratio(self, theta: Any, nodes: float, fewest: float) -> float:
        """Return the throughput on `nodes` nodes divided by that on `fewest`, for these parameters of the law."""
        above, below = self.model.point.model.curve(theta, np.array([nodes, fewest], dtype=float)).tolist()
        # The throughput of a superlinear law is infinite beyond its pole.
        return math.inf if math.isnan(above) else above / below

    def as_dict(self, nodes: int | None) -> dict[str, Any]:
        """Return the law for JSON, with the lost share of the run on `nodes` nodes (null if `nodes` is None)."""
        return {
            "name": self.name,
            "possible": self.possible,
            "share": self.share.as_dict(),
            "share_of_largest": nodes and {"nodes": nodes, **self.share_of(nodes).as_dict()},
        }


@dataclass(frozen=True)
class Row:
    """Speed-ups at one number of nodes, measured and by the laws; None if a curve lacks this number."""

    nodes: int
    measured: Mapping[Scaling, Estimate | None]
    by_law: Mapping[Scaling, Estimate | None]
    #: Numbers of nodes whose failures leave an end of a measured speed-up open.
    failed: Mapping[Scaling, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class CurvePair:
    """The strong and the weak curve of one phase at one level of the further factors.

    `refusal` gives the reason if they cannot be compared. `largest` is the largest number of nodes in both, and `ratio`
    the weak speed-up divided by the strong one there; None if they share only the fewest nodes.
    """

    curves: Mapping[Scaling, PhaseCurves]
    laws: Mapping[Scaling, Law | None]
    rows: tuple[Row, ...]
    largest: int | None
    ratio: Estimate | None
    refusal: str | None

    @property
    def is_open(self) -> bool:
        """Whether failures of the store leave an end of the ratio open."""
        return any(any(row.failed.values()) for row in self.rows if row.nodes == self.largest)

    def as_dict(self) -> dict[str, Any]:
        """Return phase, levels, speed-ups, laws and the ratio of speed-ups for JSON; missing figures are null."""
        strong = self.curves["strong"]
        return {
            "phase": strong.phase,
            "operation": strong.operation,
            "levels": dict(strong.others),
            "refusal": self.refusal,
            "speedups": [
                {
                    "nodes": row.nodes,
                    "measured": {
                        scaling: estimate and estimate.as_dict(is_open=bool(row.failed[scaling]))
                        for scaling, estimate in row.measured.items()
                    },
                    "by_law": {scaling: estimate and estimate.as_dict() for scaling, estimate in row.by_law.items()},
                }
                for row in self.rows
            ],
            "laws": {scaling: law and law.as_dict(self.largest) for scaling, law in self.laws.items()},
            "weak_by_strong": self.ratio and {"nodes": self.largest, **self.ratio.as_dict(is_open=self.is_open)},
        }


@dataclass(frozen=True, eq=False)
class StrongAndWeak:
    """Two scale experiments of one store and workload, and the differences of their runs on the fewest nodes."""

    sweeps: Mapping[Scaling, Sweep]
    pairs: tuple[CurvePair, ...]
    differing: tuple[Difference, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the names of both experiments, their curves, differences and excluded runs for JSON."""
        documents = {scaling: excluded_document(sweep.folder) for scaling, sweep in self.sweeps.items()}
        keys = dict.fromkeys(key for document in documents.values() for key in document)
        return {
            **{scaling: sweep.folder.description["experiment"] for scaling, sweep in self.sweeps.items()},
            "curves": [pair.as_dict() for pair in self.pairs],
            "differing": [str(difference) for difference in self.differing],
            **{key: {scaling: document.get(key) for scaling, document in documents.items()} for key in keys},
        }


def read_strong_and_weak(first: Path, second: Path) -> StrongAndWeak:
    """Return the analysis of two experiments; BadInput if they are not a strong and a weak curve of one store.

    The result covers the phases and factor levels that both experiments measured.
    """
    sweeps: dict[Scaling, Sweep] = {}
    for path in (first, second):
        sweep, scaling = _read_sweep(path)
        if scaling in sweeps:
            other = _SCALINGS[scaling == "strong"]
            raise BadInput(
                f"both experiments are of {scaling} scaling, so their curves cannot be paired",
                where=f"{first} and {second}",
                remedy=f"name one of {scaling} and one of {other} scaling, or use `loadframe compare` for two alike",
            )
        sweeps[scaling] = sweep
    sweeps = {scaling: sweeps[scaling] for scaling in _SCALINGS}
    _check_alike(sweeps["strong"], sweeps["weak"])
    pairs = [
        pair({"strong": strong, "weak": weak})
        for strong in sweeps["strong"].curves
        for weak in sweeps["weak"].curves
        if (strong.phase, strong.others) == (weak.phase, weak.others)
    ]
    if not pairs:
        raise BadInput(
            "the experiments lack a common measured phase at equal factor levels",
            where=f"{first} and {second}",
            remedy="measure the same phase in both, with the same levels of all factors but nodes and clients",
        )
    return StrongAndWeak(sweeps, tuple(pairs), _at_the_fewest(pairs, sweeps))


def pair(curves: Mapping[Scaling, PhaseCurves]) -> CurvePair:
    """Return the strong and the weak curve of one phase with their laws and their speed-ups by number of nodes.

    The result also has the ratio of both speed-ups, weak by strong, at the largest common number of nodes; None if that
    is the fewest. If the curves cannot be compared, it has the reason instead of speed-ups.
    """
    laws = {scaling: _law(curve, scaling) for scaling, curve in curves.items()}
    speedups = {scaling: {row.treatment.nodes or 0: row for row in curve.speedups} for scaling, curve in curves.items()}
    measured = {scaling: {nodes: row.speedup for nodes, row in rows.items()} for scaling, rows in speedups.items()}
    fewest = {min(at_nodes) for at_nodes in measured.values() if at_nodes}
    refusal = None
    if any(curve.any_offered for curve in curves.values()):
        refusal = "the load is open, so its throughput is the offered rate"
    elif not all(measured.values()):
        without = " and ".join(f"the {scaling} curve" for scaling, at_nodes in measured.items() if not at_nodes)
        refusal = f"fewer than two numbers of nodes have usable runs in {without}"
    elif len(fewest) > 1:
        refusal = (
            f"the strong curve starts at {format_nodes(min(measured['strong']))} and the weak one at"
            f" {format_nodes(min(measured['weak']))}, so their speed-ups lack a common base"
        )
    if refusal:
        return CurvePair(curves, laws, (), None, None, refusal)
    base = min(fewest)
    rows = tuple(
        Row(
            nodes,
            {scaling: measured[scaling].get(nodes) for scaling in _SCALINGS},
            {
                scaling: law.speedup(nodes, base) if law and nodes <= max(measured[scaling]) else None
                for scaling, law in laws.items()
            },
            {scaling: rows[nodes].failed if nodes in rows else () for scaling, rows in speedups.items()},
        )
        for nodes in sorted({*measured["strong"], *measured["weak"]})
    )
    shared = max(measured["strong"].keys() & measured["weak"].keys())
    largest = None if shared == base else shared
    ratio = None if largest is None else independent_ratio(measured["weak"][largest], measured["strong"][largest])
    return CurvePair(curves, laws, rows, largest, ratio, None)


def independent_ratio(above: Estimate, below: Estimate) -> Estimate:
    """Return the ratio of two independent positive estimates, `above` divided by `below`, with its interval.

    An end is 0 or infinite if it depends on an end that is unbounded or 0. Method of variance estimates recovery, on
    logarithms: Zou and Donner, "Construction of confidence limits about effect measures: a general approach",
    Statistics in Medicine 27, 2008.
    """
    value = above.value / below.value
    low, high = 0.0, math.inf
    if above.low > 0 and math.isfinite(below.high):
        low = value * math.exp(-math.hypot(math.log(above.value / above.low), math.log(below.high / below.value)))
    if below.low > 0 and math.isfinite(above.high):
        high = value * math.exp(math.hypot(math.log(above.high / above.value), math.log(below.value / below.low)))
    return Estimate(value, low, high)


def _law(curves: PhaseCurves, scaling: Scaling) -> Law | None:
    """Return the law of a curve: Gustafson (weak), Amdahl (strong), or the USL if the data reject only Amdahl.

    The data may reject the returned law; see `Law.possible`. None if the curve over nodes has no fit.
    """
    fit = curves.over_nodes.fit if curves.over_nodes else None
    if fit is None:
        return None
    bends = "amdahl" not in fit.possible and "usl" in fit.possible
    name: ModelName = "gustafson" if scaling == "weak" else "usl" if bends else "amdahl"
    model = fit.models[name]
    share = model.parameters["serial" if name == "gustafson" else "sigma"]
    return Law(name, share, name in fit.possible, model)


def _read_sweep(path: Path) -> tuple[Sweep, Scaling]:
    """Return a scale experiment over nodes, and whether it is strong or weak; BadInput for any other experiment."""
    sweep = read_sweep(path)
    description = sweep.folder.description
    if description["kind"] != "scale" or "nodes" not in description["factors"]:
        reason = f"of kind {description['kind']}" if description["kind"] != "scale" else "without nodes as a factor"
        raise BadInput(
            f"an experiment {reason} lacks a curve over nodes",
            where=str(path),
            remedy="name two experiments of kind scale over nodes, one strong and one weak",
        )
    return sweep, "weak" if description.get("scaling") == "weak" else "strong"


def _check_alike(strong: Sweep, weak: Sweep) -> None:
    """Raise BadInput for curves of different stores or workloads.

    Only the number of nodes and the value that grows with it may differ.
    """
    one, other = strong.folder.description, weak.folder.description
    values = _configuration(one, other.get("grows")), _configuration(other, other.get("grows"))
    for key in dict.fromkeys([*values[0], *values[1]]):
        first, second = (value.get(key) for value in values)
        # Older folders do not record the workload file.
        unknown = key == "workload_sha256" and None in (first, second)
        if first != second and not unknown:
            what = "stores" if key.startswith("store") else "workloads"
            raise BadInput(
                f"the experiments are of different {what}: {key} is {_level_text(first)} and {_level_text(second)}",
                where=f"{strong.folder.path} and {weak.folder.path}",
                remedy="name a strong and a weak experiment of one store and one workload",
            )


def _configuration(description: Mapping[str, Any], grows: str | None) -> dict[str, Any]:
    """Return the entries that must be equal: `store.KEY` but nodes, `with.NAME` but `grows`, workload and its hash.

    `description` is the content of experiment.json.
    """
    store = {f"store.{key}": value for key, value in (description.get("store") or {}).items() if key != "nodes"}
    parameters = {f"with.{key}": value for key, value in (description.get("with") or {}).items() if key != grows}
    return {
        **store,
        "workload": description.get("workload"),
        "workload_sha256": description.get("workload_sha256"),
        **parameters,
    }


def _level_text(value: Any) -> str:
    """Return a value as text; `not set` for None."""
    return "not set" if value is None else str(value)


def _at_the_fewest(pairs: list[CurvePair], sweeps: Mapping[Scaling, Sweep]) -> tuple[Difference, ...]:
    """Return the differences between the manifests of the strong and the weak runs on the fewest nodes.

    These runs are the common base of both curves. Empty if one side lacks such runs.
    """
    groups = []
    for scaling in _SCALINGS:
        used = {point.run for pair in pairs if pair.rows for point in pair.curves[scaling].sized[0].points}
        groups.append([run for run in sweeps[scaling].folder.runs if run.id in used])
    return differences(*groups) if all(groups) else ()
